//! All security associations as workers find them: outbound ones by the interface of their tunnel, inbound ones by
//! their SPI. The control thread changes them one by one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use stoa_engine::INTERFACES;
use stoa_engine::counters::{OutOfMemory, zeroed};
use stoa_engine::quiescence::{Graveyard, Quiescence, Reader, Slots};
use stoa_engine::vector::Column;
use stoa_tables::spi_table::{SpiError, SpiTable};

use super::association::{Inbound, Outbound};

/// Associations of each direction.
pub const CAPACITY: u32 = 65_536;
/// No row.
pub const NONE: u32 = u32::MAX;

/// The associations.
pub struct Ipsec {
    /// The row of the outbound association of each interface, plus one; 0: it is no tunnel with ESP.
    by_interface: Box<[AtomicU32]>,
    /// How many interfaces have one.
    tunnels: AtomicU32,
    /// How many inbound associations there are.
    inbound_count: AtomicU32,
    outbound: Slots<Outbound>,
    inbound: Slots<Inbound>,
    spis: SpiTable,
}

impl Ipsec {
    /// No associations, with room for [`CAPACITY`] in each direction.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(quiescence: &Arc<Quiescence>) -> Result<Self, OutOfMemory> {
        let spis = SpiTable::new(CAPACITY).ok_or(OutOfMemory { bytes: CAPACITY as usize * 64 })?;
        Ok(Self {
            by_interface: zeroed(INTERFACES)?,
            tunnels: AtomicU32::new(0),
            inbound_count: AtomicU32::new(0),
            outbound: Slots::new(CAPACITY as usize, quiescence),
            inbound: Slots::new(CAPACITY as usize, quiescence),
            spis,
        })
    }

    /// Whether there is no inbound association.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.inbound_count.load(Ordering::Relaxed) == 0
    }

    /// Whether an interface is a tunnel with ESP.
    #[inline(always)]
    pub fn has_tunnels(&self) -> bool {
        self.tunnels.load(Ordering::Relaxed) > 0
    }

    /// The rows of the outbound associations of interfaces, each plus one; 0: of another interface. Returns how many
    /// there are.
    #[inline]
    pub fn find(&self, interfaces: &Column<u32>, lanes: usize, rows: &mut Column<u32>) -> usize {
        let mut found = 0;
        for (row, interface) in rows.iter_mut().zip(interfaces.iter()).take(lanes) {
            let place = self.by_interface.get(*interface as usize);
            *row = place.map_or(0, |place| place.load(Ordering::Relaxed));
            found += usize::from(*row != 0);
        }
        found
    }

    /// The row of the inbound association with an SPI.
    #[inline]
    pub fn row(&self, spi: u32) -> Option<u32> {
        self.spis.get(spi)
    }

    /// An outbound association.
    #[inline(always)]
    pub fn outbound<'r>(&'r self, row: u32, reader: &'r Reader) -> Option<&'r Outbound> {
        self.outbound.get(row, reader)
    }

    /// An inbound association.
    #[inline(always)]
    pub fn inbound<'r>(&'r self, row: u32, reader: &'r Reader) -> Option<&'r Inbound> {
        self.inbound.get(row, reader)
    }

    /// Publishes or withdraws an outbound association.
    pub fn set_outbound(
        &self,
        row: u32,
        association: Option<Arc<Outbound>>,
        graveyard: &mut Graveyard,
    ) {
        self.outbound.set(row, association, graveyard);
    }

    /// Sends the packets of an interface by the association of a row; `None`: it is no tunnel with ESP any more.
    pub fn send_by(&self, interface: u32, row: Option<u32>) {
        let Some(place) = self.by_interface.get(interface as usize) else { return };
        let old = place.swap(row.map_or(0, |row| row + 1), Ordering::Release);
        match (old != 0, row.is_some()) {
            (false, true) => self.tunnels.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.tunnels.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// Publishes an inbound association, whose row is free.
    ///
    /// # Errors
    /// Its SPI is in use, or finds no place.
    pub fn add_inbound(
        &self,
        (spi, row): (u32, u32),
        association: Arc<Inbound>,
        graveyard: &mut Graveyard,
    ) -> Result<(), SpiError> {
        self.inbound.set(row, Some(association), graveyard);
        if let Err(error) = self.spis.insert(spi, row) {
            self.inbound.set(row, None, graveyard);
            return Err(error);
        }
        self.inbound_count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Withdraws an inbound association.
    pub fn remove_inbound(&self, spi: u32, graveyard: &mut Graveyard) {
        if let Some(row) = self.spis.remove(spi) {
            self.inbound.set(row, None, graveyard);
            self.inbound_count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
