//! Security associations: publishes them to the workers, each by itself.

mod checks;
mod configured;
mod listing;
mod numbers;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use stoa_tables::replay_window::ReplayWindow;

use super::capability::{Capability, Published, Start, Verbs};
use super::forwarder_state::ForwarderState;
use crate::ipsec::association::{DontFragment, Inbound, Outbound, Settings};
use crate::ipsec::engines::engines;
use crate::ipsec::table::CAPACITY;
use crate::tunnel::Tunnel;
use crate::tunnel::line::TunnelLine;
pub use checks::AssociationError;
pub(in crate::control) use checks::{check_inbound, check_outbound};
use configured::Configured;
pub(super) use listing::check_forwarder;

/// The keys of an association.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    /// Encrypts, without the salt.
    pub encryption: &'a [u8],
    /// Authenticates, where the algorithm has a key for it.
    pub integrity: &'a [u8],
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

/// The associations of one tunnel.
struct OfTunnel {
    /// The local and the remote address for which they were set.
    ends: (IpAddr, IpAddr),
    outbound: Option<Arc<Outbound>>,
    /// The SPIs of inbound ones.
    inbound: Vec<u32>,
}

/// The associations.
#[derive(Default)]
pub(super) struct Associations {
    /// By interface.
    tunnels: BTreeMap<u32, OfTunnel>,
    /// By SPI.
    inbound: BTreeMap<u32, (u32, Arc<Inbound>)>,
    inbound_rows: Rows,
    configured: Configured,
}

impl Associations {
    /// Those of a tunnel.
    fn of(&mut self, tunnel: &Tunnel) -> &mut OfTunnel {
        let ends = (tunnel.local, tunnel.remote);
        let none = || OfTunnel { ends, outbound: None, inbound: Vec::new() };
        self.tunnels.entry(tunnel.interface).or_insert_with(none)
    }
}

impl Capability for Associations {
    const VERBS: Verbs = Verbs {
        publish: ForwarderState::remove_associations_of_others,
        remove_interface: ForwarderState::remove_associations,
        apply: ForwarderState::apply_ipsec,
        done: ForwarderState::publish_outbound,
        tick: |state| state.capabilities.ipsec.configured.numbers.collect(),
        entries: ForwarderState::add_association_entries,
        entries_of: ForwarderState::add_esp_tunnel_entry,
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl ForwarderState {
    /// Sends the packets of a tunnel by an association, from now on, in place of the one before. Packets get the
    /// numbers behind `last`.
    ///
    /// # Errors
    /// There is no such tunnel, or settings or keys do not fit.
    pub fn set_outbound_association(
        &mut self,
        tunnel: &str,
        (settings, keys): (&Settings, Keys<'_>),
        (dont_fragment, dscp): (DontFragment, Option<u8>),
        last: u64,
    ) -> Result<(), AssociationError> {
        let no_tunnel = || AssociationError::NoTunnel(tunnel.to_owned());
        let index = self.index_of(tunnel).ok_or_else(no_tunnel)?;
        let of = self.esp_tunnel_at(index).ok_or_else(no_tunnel)?;
        check_outbound(settings, dscp, last)?;
        let key = engines().key(settings.algorithm, keys.encryption, keys.integrity)?;
        let line = self.line_of(&of, settings).ok_or_else(no_tunnel)?;
        let outbound = Outbound::new(settings, key, line, (dont_fragment, dscp), last);
        self.set_outbound(&of, Arc::new(outbound));
        Ok(())
    }

    /// The outer header of packets of a tunnel.
    fn line_of(&self, tunnel: &Tunnel, settings: &Settings) -> Option<TunnelLine> {
        let identification = self.identify_tunnel(tunnel);
        TunnelLine::carrying(tunnel, identification, [settings.protocol(); 2])
    }

    /// Publishes an outbound association.
    fn set_outbound(&mut self, of: &Tunnel, outbound: Arc<Outbound>) {
        let place = (of.interface, Some(outbound.clone()));
        self.shared.ipsec.set_outbound(place.0, place.1, &mut self.graveyard);
        self.capabilities.ipsec.of(of).outbound = Some(outbound);
    }

    /// Withdraws the outbound association of a tunnel: its packets are dropped.
    fn unset_outbound(&mut self, index: u32) {
        self.shared.ipsec.set_outbound(index, None, &mut self.graveyard);
        if let Some(of) = self.capabilities.ipsec.tunnels.get_mut(&index) {
            of.outbound = None;
        }
    }

    /// Receives packets of a tunnel by one more association. `window` is the size of its anti-replay window; 0: none.
    ///
    /// # Errors
    /// There is no such tunnel, settings or keys do not fit, the SPI is in use, or there is no room.
    pub fn add_inbound_association(
        &mut self,
        tunnel: &str,
        with: (&Settings, Keys<'_>),
        window: u32,
    ) -> Result<(), AssociationError> {
        self.add_inbound(tunnel, with, (window, 0)).map(|_| ())
    }

    /// The same, with a window that refuses numbers up to `floor`.
    fn add_inbound(
        &mut self,
        tunnel: &str,
        (settings, keys): (&Settings, Keys<'_>),
        (window, floor): (u32, u64),
    ) -> Result<Arc<Inbound>, AssociationError> {
        let no_tunnel = || AssociationError::NoTunnel(tunnel.to_owned());
        let index = self.index_of(tunnel).ok_or_else(no_tunnel)?;
        let of = self.esp_tunnel_at(index).ok_or_else(no_tunnel)?;
        check_inbound(settings, window)?;
        let key = engines().key(settings.algorithm, keys.encryption, keys.integrity)?;
        let window = match window {
            0 => None,
            size => Some(ReplayWindow::new(size, floor).ok_or(AssociationError::NoMemory)?),
        };
        let inbound = Arc::new(Inbound::new(settings, key, index, window));
        let associations = &mut self.capabilities.ipsec;
        let row = associations.inbound_rows.take()?;
        let place = (settings.spi, row);
        let added = self.shared.ipsec.add_inbound(place, inbound.clone(), &mut self.graveyard);
        if let Err(error) = added {
            associations.inbound_rows.free.push(row);
            return Err(error.into());
        }
        associations.inbound.insert(settings.spi, (row, inbound.clone()));
        associations.of(&of).inbound.push(settings.spi);
        Ok(inbound)
    }

    /// Ends an inbound association. `false`: there is none with this SPI.
    pub fn remove_inbound_association(&mut self, spi: u32) -> bool {
        let associations = &mut self.capabilities.ipsec;
        let Some((row, inbound)) = associations.inbound.remove(&spi) else { return false };
        if let Some(of) = associations.tunnels.get_mut(&inbound.interface()) {
            of.inbound.retain(|it| *it != spi);
        }
        self.shared.ipsec.remove_inbound(spi, &mut self.graveyard);
        associations.inbound_rows.free.push(row);
        true
    }

    /// The outbound association of a tunnel.
    pub fn outbound_association(&self, tunnel: &str) -> Option<Arc<Outbound>> {
        let index = self.index_of(tunnel)?;
        self.capabilities.ipsec.tunnels.get(&index)?.outbound.clone()
    }

    /// The inbound association with an SPI.
    pub fn inbound_association(&self, spi: u32) -> Option<Arc<Inbound>> {
        self.capabilities.ipsec.inbound.get(&spi).map(|(_, inbound)| inbound.clone())
    }

    /// Ends the associations of an interface that is removed next.
    fn remove_associations(&mut self, index: u32) {
        let Some(of) = self.capabilities.ipsec.tunnels.remove(&index) else { return };
        if of.outbound.is_some() {
            self.shared.ipsec.set_outbound(index, None, &mut self.graveyard);
        }
        for spi in of.inbound {
            self.remove_inbound_association(spi);
        }
    }

    /// Ends the associations of tunnels with ESP that have other ends now, or are no such tunnels any more: their keys
    /// are those of the former other end.
    fn remove_associations_of_others(&mut self, published: &Published) {
        for index in &published.changed {
            let Some(of) = self.capabilities.ipsec.tunnels.get(index) else { continue };
            let now = self.esp_tunnel_at(*index).map(|it| (it.local, it.remote));
            if now != Some(of.ends) {
                self.remove_associations(*index);
            }
        }
    }
}
