//! From the SPI of a received ESP packet to the row of its security association (RFC 4303 section 2.1), by one line of
//! the cache.
//!
//! A bucket is one line with eight entries, each a word with the SPI above the row. There are as many buckets as
//! associations, so a full bucket is rare: where SPIs are random and the table is full, one in 100,000 has eight
//! entries or more. Whoever chooses SPIs then takes another one.
//!
//! One writer changes entries by single stores; readers take no locks.

use crate::sync::{AtomicU64, Cells, zeroed};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Entries of a bucket.
const BUCKET: usize = 8;
/// An odd multiplier of the hash.
const MULTIPLIER: u32 = 0x9e37_79b1;

/// Why an SPI is refused; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpiError {
    /// It is in the table.
    #[error("SPI {0:#010x} is in use")]
    InUse(u32),
    /// Its bucket has no place.
    #[error("there is no place for SPI {0:#010x}; choose another one")]
    NoPlace(u32),
}

/// The table.
#[derive(Debug)]
pub struct SpiTable {
    /// Entries; 0: none.
    entries: Cells<AtomicU64>,
    /// Bits of a hash that are not part of the number of a bucket.
    shift: u32,
}

impl SpiTable {
    /// A table for so many associations, at least one and at most 2^24. `None`: there is no memory.
    #[must_use]
    pub fn new(capacity: u32) -> Option<Self> {
        let buckets = capacity.clamp(2, 1 << 24).next_power_of_two();
        let entries = Cells(zeroed::<AtomicU64>(buckets as usize * BUCKET)?);
        Some(Self { entries, shift: u32::BITS - buckets.trailing_zeros() })
    }

    /// The row of an SPI.
    #[inline]
    #[must_use]
    pub fn get(&self, spi: u32) -> Option<u32> {
        // The row that it names was written before.
        let entries = self.bucket(spi).iter().map(|it| it.load(Acquire));
        entries.fold(None, |found, entry| if is_of(entry, spi) { Some(row(entry)) } else { found })
    }

    /// Adds an SPI.
    ///
    /// # Errors
    /// It is there, or its bucket is full.
    pub fn insert(&self, spi: u32, row: u32) -> Result<(), SpiError> {
        if self.get(spi).is_some() {
            return Err(SpiError::InUse(spi));
        }
        let free = self.bucket(spi).iter().find(|it| it.load(Relaxed) == 0);
        let entry = u64::from(spi) << 32 | (u64::from(row) + 1);
        free.ok_or(SpiError::NoPlace(spi))?.store(entry, Release);
        Ok(())
    }

    /// Removes an SPI; returns its row.
    pub fn remove(&self, spi: u32) -> Option<u32> {
        let place = self.bucket(spi).iter().find(|it| is_of(it.load(Relaxed), spi))?;
        let entry = place.load(Relaxed);
        place.store(0, Relaxed);
        Some(row(entry))
    }

    #[inline]
    fn bucket(&self, spi: u32) -> &[AtomicU64] {
        let at = (spi.wrapping_mul(MULTIPLIER) >> self.shift) as usize * BUCKET;
        &self.entries[at..at + BUCKET]
    }
}

#[inline]
fn is_of(entry: u64, spi: u32) -> bool {
    entry != 0 && (entry >> 32) as u32 == spi
}

#[inline]
fn row(entry: u64) -> u32 {
    (entry as u32).wrapping_sub(1)
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;
    use loom::thread;

    #[test]
    fn who_finds_an_spi_sees_its_row() {
        loom::model(|| {
            let (table, cell) = (Arc::new(SpiTable::new(2).unwrap()), Arc::new(AtomicU32::new(0)));
            let (writer, written) = (table.clone(), cell.clone());
            let thread = thread::spawn(move || {
                written.store(7, Relaxed);
                writer.insert(0x1000, 0).unwrap();
            });
            if table.get(0x1000) == Some(0) {
                assert_eq!(cell.load(Relaxed), 7);
            }
            thread.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((256_u32..300, 0_u32..9, any::<bool>()), 1..200), capacity in 1_u32..70) {
            let (table, mut model) = (SpiTable::new(capacity).unwrap(), HashMap::new());
            for (spi, row, is_insert) in steps {
                if is_insert {
                    match table.insert(spi, row) {
                        Ok(()) => prop_assert_eq!(model.insert(spi, row), None),
                        Err(SpiError::InUse(_)) => prop_assert!(model.contains_key(&spi)),
                        Err(SpiError::NoPlace(_)) => prop_assert!(model.len() >= BUCKET),
                    }
                } else {
                    prop_assert_eq!(table.remove(spi), model.remove(&spi));
                }
                for spi in 250..300 {
                    prop_assert_eq!(table.get(spi), model.get(&spi).copied());
                }
            }
        }
    }

    #[test]
    fn random_spis_find_their_places() {
        let table = SpiTable::new(100_000).unwrap();
        let mut spi = 1_u32;
        let refused = (0..100_000).filter(|row| {
            spi = spi.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            matches!(table.insert(spi | 0x100, *row), Err(SpiError::NoPlace(_)))
        });
        assert_eq!(refused.count(), 0);
    }
}
