//! Arrays that the next process reads: for state that is too large, and changes too often, for the entries of a
//! [`Region`](crate::Region).
//!
//! A process has its arrays in sealed memory in place of its heap, and writes to them as before. The next process has
//! arrays of its own; it reads those of the former one, takes over what it believes, and lets go of them then. Nothing
//! says which store was the last one: whoever uses arrays can tell from their content what is complete.
//!
//! ```text
//!  0           2 MiB                      multiples of 2 MiB
//!  head        first array        ...     last array
//! ```

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::unistd::{Whence, ftruncate, lseek};
use zerocopy::IntoBytes;

use crate::header::Unusable;
use crate::holder::Holder;
use crate::mapping::{map_in_place, sealed, sealed_bytes};

/// Bytes of the head, and the multiple at which arrays begin.
pub const ARRAY_ALIGN: u64 = 2 << 20;

/// Where arrays of so many words begin, and where the last one ends, in bytes.
fn offsets(words: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut all = vec![ARRAY_ALIGN];
    for words in words {
        let end = all.last().copied().unwrap_or(0).saturating_add(words.saturating_mul(4));
        all.push(end.checked_next_multiple_of(ARRAY_ALIGN).unwrap_or(u64::MAX));
    }
    all
}

/// What is held of the arrays of a name.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The last serial number.
    pub(crate) serial: u64,
    /// The newest arrays that are complete.
    pub(crate) newest: Option<(u64, Arc<File>)>,
}

/// The arrays of this process.
#[derive(Debug)]
pub struct Arrays {
    name: &'static str,
    serial: u64,
    file: Arc<File>,
    holder: Arc<Holder>,
    kept: Arc<Mutex<Kept>>,
}

/// The arrays of a former process.
#[derive(Clone, Debug)]
pub struct FormerArrays {
    file: Arc<File>,
    bytes: u64,
}

impl Arrays {
    /// Has `cells` lie in new memory. They are all zero, begin and end at a multiple of [`ARRAY_ALIGN`], and their
    /// addresses are used for nothing else as long as this process runs.
    pub(crate) fn new(
        name: &'static str,
        cells: &[&[AtomicU32]],
        (holder, kept): (Arc<Holder>, Arc<Mutex<Kept>>),
    ) -> nix::Result<Self> {
        let offsets = offsets(cells.iter().map(|it| it.len() as u64));
        let bytes = offsets.last().copied().unwrap_or(ARRAY_ALIGN);
        // Memory is there once it is used.
        let file = sealed(name, bytes, |file| ftruncate(file, bytes as i64))?;
        for (cells, offset) in cells.iter().zip(offsets) {
            map_in_place(cells, &file, offset)?;
        }
        let serial = {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.serial += 1;
            kept.serial
        };
        Ok(Self { name, serial, file: Arc::new(file.into()), holder, kept })
    }

    /// Writes to the head, from a byte on.
    ///
    /// # Errors
    /// It is too long, or the system has no memory.
    pub fn write_head(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        if offset.saturating_add(bytes.len() as u64) > ARRAY_ALIGN {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        self.file.write_all_at(bytes, offset)
    }

    /// From now on, the next process finds these arrays and not the former ones. Whenever this process is killed, it
    /// finds either.
    pub fn hold(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |serial| format!("{}.{serial}", self.name);
        if let Err(error) = self.holder.store(&full(self.serial), self.file.as_fd()) {
            tracing::warn!("the state of {} does not survive a restart: {error}", self.name);
            return;
        }
        let former = kept.newest.replace((self.serial, Arc::clone(&self.file)));
        if let Some((serial, _)) = former.filter(|(serial, _)| *serial != self.serial) {
            // Whoever held it is gone otherwise.
            let _ = self.holder.remove(&full(serial));
        }
    }
}

impl FormerArrays {
    /// Arrays in the memory of a former process, if it is such memory.
    pub(crate) fn of(file: Arc<File>) -> Result<Self, Unusable> {
        let bytes = sealed_bytes(&*file)?;
        if bytes < ARRAY_ALIGN {
            return Err(Unusable::NoRegion);
        }
        Ok(Self { file, bytes })
    }

    /// Reads from the head, from a byte on.
    ///
    /// # Errors
    /// There are not so many bytes.
    pub fn read_head(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    /// The arrays, if they have so many words each; whoever has written the head knows.
    #[must_use]
    pub fn with_words(self, words: impl IntoIterator<Item = u64>) -> Option<FormerWords> {
        let offsets = offsets(words);
        (offsets.last() == Some(&self.bytes)).then_some(FormerWords { file: self.file, offsets })
    }
}

/// The words of the arrays of a former process.
#[derive(Clone, Debug)]
pub struct FormerWords {
    file: Arc<File>,
    offsets: Vec<u64>,
}

impl FormerWords {
    /// Reads words of an array, from one on; `false`: there are not so many.
    #[must_use]
    pub fn read(&self, array: usize, first: u64, into: &mut [u32]) -> bool {
        let (Some(start), Some(end)) = (self.offsets.get(array), self.offsets.get(array + 1))
        else {
            return false;
        };
        let at = start.saturating_add(first.saturating_mul(4));
        let is_within = at.saturating_add(size_of_val(into) as u64) <= *end;
        is_within && self.file.read_exact_at(into.as_mut_bytes(), at).is_ok()
    }

    /// The first words of an array, from one on, that a process may have written, as a range; what is between was never
    /// touched. `None`: there are none.
    #[must_use]
    pub fn written(&self, array: usize, first: u64) -> Option<std::ops::Range<u64>> {
        let (start, end) = (*self.offsets.get(array)?, *self.offsets.get(array + 1)?);
        let at = start.checked_add(first.checked_mul(4)?).filter(|at| *at < end)?;
        let seek = |from: u64, whence| match lseek(&*self.file, i64::try_from(from).ok()?, whence) {
            Ok(found) => u64::try_from(found).ok(),
            // There is no more of it.
            Err(Errno::ENXIO) => None,
            // A system that does not tell: all may be written.
            Err(_) => Some(if matches!(whence, Whence::SeekData) { from } else { end }),
        };
        let data = seek(at, Whence::SeekData).filter(|data| *data < end)?;
        let hole = seek(data, Whence::SeekHole).unwrap_or(end).min(end);
        Some((data.max(at) - start) / 4..(hole - start).div_ceil(4))
    }
}

/// Keeps what is to be read of the newest of some memory; the serial numbers of the rest, which nobody needs.
pub(crate) fn newest(found: Vec<(u64, OwnedFd)>) -> (Kept, Vec<u64>) {
    let mut found: Vec<_> =
        found.into_iter().map(|(serial, file)| (serial, Arc::new(File::from(file)))).collect();
    found.sort_unstable_by_key(|(serial, _)| *serial);
    let newest = found.pop();
    let serial = newest.as_ref().map_or(0, |(serial, _)| *serial);
    (Kept { serial, newest }, found.into_iter().map(|(serial, _)| serial).collect())
}

#[cfg(test)]
mod tests;
