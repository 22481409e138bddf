//! All security associations as workers find them: outbound ones by the interface of their tunnel, inbound ones by
//! their SPI. The control thread changes them one by one.
//!
//! A tunnel has one outbound association, in the place of its interface. A new one replaces it by one store, so there
//! is always one, and a packet for a tunnel never gets that of another tunnel, whatever changes on its way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use stoa_engine::counters::OutOfMemory;
use stoa_engine::quiescence::{Graveyard, Quiescence, Reader, Slots};
use stoa_engine::vector::Column;
use stoa_engine::{INTERFACES, VECTOR};
use stoa_tables::spi_table::{SpiError, SpiTable};

use super::association::{Inbound, Outbound};

/// Inbound associations.
pub const CAPACITY: u32 = 65_536;

/// The associations.
pub struct Ipsec {
    /// By interface.
    outbound: Slots<Outbound>,
    /// How many interfaces have one.
    tunnels: AtomicU32,
    /// How many inbound associations there are.
    inbound_count: AtomicU32,
    inbound: Slots<Inbound>,
    spis: SpiTable,
}

impl Ipsec {
    /// No associations, with room for one outbound association of each interface and [`CAPACITY`] inbound ones.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(quiescence: &Arc<Quiescence>) -> Result<Self, OutOfMemory> {
        let spis = SpiTable::new(CAPACITY).ok_or(OutOfMemory { bytes: CAPACITY as usize * 64 })?;
        Ok(Self {
            outbound: Slots::new(INTERFACES, quiescence),
            tunnels: AtomicU32::new(0),
            inbound_count: AtomicU32::new(0),
            inbound: Slots::new(CAPACITY as usize, quiescence),
            spis,
        })
    }

    /// Whether there is no inbound association.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.inbound_count.load(Ordering::Relaxed) == 0
    }

    /// Whether an interface has an outbound association.
    #[inline(always)]
    pub fn has_tunnels(&self) -> bool {
        self.tunnels.load(Ordering::Relaxed) > 0
    }

    /// Finds the lanes whose interfaces have outbound associations; returns how many there are. Where it is all or
    /// none of them, `is_esp` may be left as it was.
    #[inline]
    pub fn find(
        &self,
        interfaces: &Column<u32>,
        lanes: usize,
        is_esp: &mut [bool; VECTOR],
    ) -> usize {
        if let Some(interface) = interfaces.uniform(lanes) {
            return if self.outbound.has(interface) { lanes } else { 0 };
        }
        let mut found = 0;
        for (is, interface) in is_esp.iter_mut().zip(interfaces.iter()).take(lanes) {
            *is = self.outbound.has(*interface);
            found += usize::from(*is);
        }
        found
    }

    /// The row of the inbound association with an SPI.
    #[inline]
    pub fn row(&self, spi: u32) -> Option<u32> {
        self.spis.get(spi)
    }

    /// The outbound association of an interface.
    #[inline(always)]
    pub fn outbound<'r>(&'r self, interface: u32, reader: &'r Reader) -> Option<&'r Outbound> {
        self.outbound.get(interface, reader)
    }

    /// An inbound association.
    #[inline(always)]
    pub fn inbound<'r>(&'r self, row: u32, reader: &'r Reader) -> Option<&'r Inbound> {
        self.inbound.get(row, reader)
    }

    /// Sends the packets of an interface by an association, in place of the one before; `None`: by none.
    pub fn set_outbound(
        &self,
        interface: u32,
        association: Option<Arc<Outbound>>,
        graveyard: &mut Graveyard,
    ) {
        let (had, has) = (self.outbound.has(interface), association.is_some());
        if self.outbound.set(interface, association, graveyard) {
            match (had, has) {
                (false, true) => self.tunnels.fetch_add(1, Ordering::Relaxed),
                (true, false) => self.tunnels.fetch_sub(1, Ordering::Relaxed),
                _ => 0,
            };
        }
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
