//! Publishes tunnels to the workers: the ports that are tunnels, with their interfaces.

use std::net::IpAddr;

use stoa_api::audit::{self, TUNNEL_HOP_LIMIT, Tally};
use stoa_api::v1;
use stoa_ports::{Encapsulation, PortConfig, TunnelConfig};

use super::capability::{Capability, Published, Start, Verbs};
use super::forwarder_state::ForwarderState;
use super::listing::octets;
use crate::shared::Shared;
use crate::tunnel::Tunnel;
use crate::tunnel::writer::TunnelWriter;

/// Default TTL or hop limit of outer packets.
const HOP_LIMIT: u8 = TUNNEL_HOP_LIMIT as u8;

/// The tunnels as published.
pub(super) struct PublishedTunnels {
    writer: TunnelWriter,
}

impl Capability for PublishedTunnels {
    const VERBS: Verbs = Verbs {
        publish: ForwarderState::publish_changed_tunnels,
        entries: ForwarderState::add_tunnel_entries,
        ..Verbs::NONE
    };

    fn start(start: &Start<'_>) -> Self {
        Self { writer: TunnelWriter::new(start.workers.kernel.lookup()) }
    }
}

impl PublishedTunnels {
    /// Number of table entries that were written since the start.
    pub(super) fn writes(&self) -> u64 {
        self.writer.writes()
    }
}

impl ForwarderState {
    /// Whether the interface is a tunnel: everything sent to it goes to one endpoint, so it has no
    /// neighbours.
    pub(super) fn is_tunnel(&self, index: u32) -> bool {
        self.interface(index).is_some_and(|state| self.tunnel_of(&state.name).is_some())
    }

    /// The tunnel of the interface with that name.
    pub(super) fn tunnel_of(&self, name: &str) -> Option<&TunnelConfig> {
        match self.port_config(name)? {
            PortConfig::Tunnel(config) => Some(config),
            _ => None,
        }
    }

    /// Forgets all tunnels, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(super) fn lose_tunnels(&mut self) {
        let writer = &mut self.capabilities.tunnels.writer;
        let lost: Vec<_> = writer.all().map(|tunnel| (tunnel.interface, None)).collect();
        writer.change(lost, |_| 0);
    }

    fn add_tunnel_entries(&self, tally: &mut Tally) {
        for tunnel in self.capabilities.tunnels.writer.all() {
            let Some(interface) = self.interface(tunnel.interface) else { continue };
            audit::tunnel(tally, &interface.name, message(tunnel));
        }
    }

    /// Publishes the tunnels if one of the changed interfaces is or was a tunnel: only those are looked at.
    fn publish_changed_tunnels(&mut self, published: &Published) {
        let is_or_was = |index: &u32| {
            self.capabilities.tunnels.writer.get(*index).is_some() || self.is_tunnel(*index)
        };
        let changed = published.changed.iter().copied().filter(|index| is_or_was(index));
        let changes: Vec<_> = changed.map(|index| (index, self.tunnel_at(index))).collect();
        if changes.is_empty() {
            return;
        }
        let shared = &self.shared;
        let identify = |tunnel: &Tunnel| identification(shared, tunnel);
        let writer = &mut self.capabilities.tunnels.writer;
        if writer.change(changes, identify) {
            shared.tunnels.publish(writer.tunnels(), &mut self.graveyard);
        }
    }

    /// The secret part of the identifications of a tunnel's packets.
    pub(super) fn identify_tunnel(&self, tunnel: &Tunnel) -> u16 {
        identification(&self.shared, tunnel)
    }

    /// The tunnel of an interface; `None`: it is none of those that [`Tunnels`](crate::tunnel::table::Tunnels) have.
    fn tunnel_at(&self, index: u32) -> Option<Tunnel> {
        self.any_tunnel_at(index).filter(|it| it.encapsulation != Encapsulation::Esp)
    }

    /// The tunnel with ESP of an interface.
    pub(super) fn esp_tunnel_at(&self, index: u32) -> Option<Tunnel> {
        self.any_tunnel_at(index).filter(|it| it.encapsulation == Encapsulation::Esp)
    }

    fn any_tunnel_at(&self, index: u32) -> Option<Tunnel> {
        let state = self.interface(index)?;
        let config = self.tunnel_of(&state.name)?;
        Some(Tunnel {
            interface: index,
            local: config.local,
            remote: config.remote,
            encapsulation: config.encapsulation,
            hop_limit: if config.hop_limit == 0 { HOP_LIMIT } else { config.hop_limit },
            vrf: self.vrf_id(state.vrf),
        })
    }
}

/// As in the contract.
pub(super) fn message(tunnel: &Tunnel) -> v1::Tunnel {
    let encapsulation = match tunnel.encapsulation {
        Encapsulation::Ip => v1::Encapsulation::Ip,
        Encapsulation::Gre => v1::Encapsulation::Gre,
        Encapsulation::Esp => v1::Encapsulation::Esp,
    };
    v1::Tunnel {
        local: octets(tunnel.local),
        remote: octets(tunnel.remote),
        encapsulation: encapsulation.into(),
        hop_limit: tunnel.hop_limit.into(),
    }
}

/// The secret part of the identifications of a tunnel's packets.
fn identification(shared: &Shared, tunnel: &Tunnel) -> u16 {
    match (tunnel.local, tunnel.remote) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => shared.identifications.offset4(local, remote),
        _ => 0,
    }
}
