//! Security associations: publishes them to the workers, each by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use stoa_crypto::KeyError;
use stoa_tables::replay_window::ReplayWindow;
use stoa_tables::spi_table::SpiError;

use super::capability::{Capability, Start, Verbs};
use super::forwarder_state::ForwarderState;
use crate::ipsec::association::{DontFragment, Inbound, Outbound, Settings};
use crate::ipsec::engines::engines;
use crate::ipsec::table::CAPACITY;
use crate::tunnel::line::TunnelLine;

/// The keys of an association.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    /// Encrypts, without the salt.
    pub encryption: &'a [u8],
    /// Authenticates, where the algorithm has a key for it.
    pub integrity: &'a [u8],
}

/// Why an association is refused; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssociationError {
    /// The interface is no tunnel with ESP.
    #[error("{0:?} is no tunnel with ESP")]
    NoTunnel(String),
    /// The keys do not fit the algorithm.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The SPI is in use, or finds no place.
    #[error(transparent)]
    Spi(#[from] SpiError),
    /// There is no room.
    #[error("there are {CAPACITY} inbound security associations already")]
    Full,
}

/// Rows of inbound associations.
#[derive(Default)]
struct Rows {
    free: Vec<u32>,
    used: u32,
}

impl Rows {
    /// A row that is not in use.
    fn take(&mut self) -> Result<u32, AssociationError> {
        if let Some(row) = self.free.pop() {
            return Ok(row);
        }
        let row = self.used;
        if row == CAPACITY {
            return Err(AssociationError::Full);
        }
        self.used += 1;
        Ok(row)
    }
}

/// The associations.
#[derive(Default)]
pub(super) struct Associations {
    /// By the interface of their tunnel.
    outbound: BTreeMap<u32, Arc<Outbound>>,
    /// By SPI.
    inbound: BTreeMap<u32, (u32, Arc<Inbound>)>,
    inbound_rows: Rows,
}

impl Capability for Associations {
    const VERBS: Verbs =
        Verbs { remove_interface: ForwarderState::remove_associations, ..Verbs::NONE };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl ForwarderState {
    /// Sends the packets of a tunnel by an association, from now on, in place of the one before. Packets get the numbers
    /// behind `last`.
    ///
    /// # Errors
    /// There is no such tunnel, the keys do not fit, or there is no room.
    pub fn set_outbound_association(
        &mut self,
        tunnel: &str,
        (settings, keys): (&Settings, Keys<'_>),
        (dont_fragment, dscp): (DontFragment, Option<u8>),
        last: u64,
    ) -> Result<(), AssociationError> {
        let no_tunnel = || AssociationError::NoTunnel(tunnel.to_owned());
        let index = self.index_of(tunnel).ok_or_else(no_tunnel)?;
        let ends = self.esp_tunnel_at(index).ok_or_else(no_tunnel)?;
        let key = engines().key(settings.algorithm, keys.encryption, keys.integrity)?;
        let identification = self.identify_tunnel(&ends);
        let protocol = settings.protocol();
        let line =
            TunnelLine::carrying(&ends, identification, [protocol; 2]).ok_or_else(no_tunnel)?;
        let outbound = Outbound::new(settings, key, line, (dont_fragment, dscp), last);
        let outbound = Arc::new(outbound);
        self.shared.ipsec.set_outbound(index, Some(outbound.clone()), &mut self.graveyard);
        self.capabilities.ipsec.outbound.insert(index, outbound);
        Ok(())
    }

    /// Receives packets of a tunnel by one more association. `window` is the size of its anti-replay window; 0: none.
    ///
    /// # Errors
    /// There is no such tunnel, the keys do not fit, the SPI is in use, or there is no room.
    pub fn add_inbound_association(
        &mut self,
        tunnel: &str,
        (settings, keys): (&Settings, Keys<'_>),
        window: u32,
    ) -> Result<(), AssociationError> {
        let no_tunnel = || AssociationError::NoTunnel(tunnel.to_owned());
        let index = self.index_of(tunnel).ok_or_else(no_tunnel)?;
        let ends = self.esp_tunnel_at(index).ok_or_else(no_tunnel)?;
        let key = engines().key(settings.algorithm, keys.encryption, keys.integrity)?;
        let window = match window {
            0 => None,
            size => Some(ReplayWindow::new(size, 0).ok_or(AssociationError::Full)?),
        };
        let inbound = Arc::new(Inbound::new(settings, key, (index, ends.vrf), window));
        let associations = &mut self.capabilities.ipsec;
        let row = associations.inbound_rows.take()?;
        let place = (settings.spi, row);
        let added = self.shared.ipsec.add_inbound(place, inbound.clone(), &mut self.graveyard);
        if let Err(error) = added {
            associations.inbound_rows.free.push(row);
            return Err(error.into());
        }
        associations.inbound.insert(settings.spi, (row, inbound));
        Ok(())
    }

    /// Ends an inbound association. `false`: there is none with this SPI.
    pub fn remove_inbound_association(&mut self, spi: u32) -> bool {
        let associations = &mut self.capabilities.ipsec;
        let Some((row, _)) = associations.inbound.remove(&spi) else { return false };
        self.shared.ipsec.remove_inbound(spi, &mut self.graveyard);
        associations.inbound_rows.free.push(row);
        true
    }

    /// The outbound association of a tunnel.
    pub fn outbound_association(&self, tunnel: &str) -> Option<Arc<Outbound>> {
        let index = self.index_of(tunnel)?;
        self.capabilities.ipsec.outbound.get(&index).cloned()
    }

    /// The inbound association with an SPI.
    pub fn inbound_association(&self, spi: u32) -> Option<Arc<Inbound>> {
        self.capabilities.ipsec.inbound.get(&spi).map(|(_, inbound)| inbound.clone())
    }

    /// Ends the associations of an interface that is removed next.
    fn remove_associations(&mut self, index: u32) {
        let associations = &mut self.capabilities.ipsec;
        let of_interface =
            associations.inbound.iter().filter(|(_, (_, it))| it.interface() == index);
        let spis: Vec<u32> = of_interface.map(|(spi, _)| *spi).collect();
        if associations.outbound.remove(&index).is_some() {
            self.shared.ipsec.set_outbound(index, None, &mut self.graveyard);
        }
        for spi in spis {
            self.remove_inbound_association(spi);
        }
    }
}
