//! Publishes tunnels to the workers: the ports that are tunnels, with their interfaces.

use std::collections::BTreeSet;
use std::net::IpAddr;

use stoa_api::audit::{self, Tally};
use stoa_api::v1;
use stoa_ports::{Encapsulation, PortConfig, TunnelConfig};

use super::capability::{Capability, Published, Start, Verbs};
use super::forwarder_state::ForwarderState;
use super::listing::octets;
use crate::tunnel::Tunnel;
use crate::tunnel::table::Tunnels;

/// Default TTL or hop limit of outer packets: IANA's recommended TTL.
const HOP_LIMIT: u8 = 64;

/// The tunnels as published.
#[derive(Default)]
pub(super) struct PublishedTunnels {
    published: Vec<Tunnel>,
    /// Their interfaces.
    interfaces: BTreeSet<u32>,
}

impl Capability for PublishedTunnels {
    const VERBS: Verbs = Verbs {
        publish: ForwarderState::publish_changed_tunnels,
        entries: ForwarderState::add_tunnel_entries,
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
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
        match &self.ports.get(name)?.config {
            PortConfig::Tunnel(config) => Some(config),
            _ => None,
        }
    }

    /// Forgets all tunnels, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(super) fn lose_tunnels(&mut self) {
        self.capabilities.tunnels.published.clear();
    }

    fn add_tunnel_entries(&self, tally: &mut Tally) {
        for tunnel in &self.capabilities.tunnels.published {
            let Some(interface) = self.interface(tunnel.interface) else { continue };
            let encapsulation = match tunnel.encapsulation {
                Encapsulation::Ip => v1::Encapsulation::IpInIp,
                Encapsulation::Gre => v1::Encapsulation::Gre,
            };
            let message = v1::Tunnel {
                local: octets(tunnel.local),
                remote: octets(tunnel.remote),
                encapsulation: encapsulation.into(),
                hop_limit: tunnel.hop_limit.into(),
            };
            audit::tunnel(tally, &interface.name, message);
        }
    }

    /// Publishes the tunnels if one of the changed interfaces is or was a tunnel.
    fn publish_changed_tunnels(&mut self, published: &Published) {
        let mut has_changed = false;
        for index in &published.changed {
            let was_tunnel = self.capabilities.tunnels.interfaces.contains(index);
            match self.is_tunnel(*index) {
                true => self.capabilities.tunnels.interfaces.insert(*index),
                false => self.capabilities.tunnels.interfaces.remove(index),
            };
            has_changed |= was_tunnel || self.capabilities.tunnels.interfaces.contains(index);
        }
        if has_changed {
            self.publish_tunnels();
        }
    }

    /// Publishes all tunnels if one of them has changed.
    fn publish_tunnels(&mut self) {
        let mut tunnels = Vec::new();
        for (index, state) in self.interfaces.iter().enumerate() {
            let Some(state) = state else { continue };
            let Some(config) = self.tunnel_of(&state.name) else { continue };
            tunnels.push(Tunnel {
                interface: index as u32,
                local: config.local,
                remote: config.remote,
                encapsulation: config.encapsulation,
                hop_limit: if config.hop_limit == 0 { HOP_LIMIT } else { config.hop_limit },
                vrf: self.vrf_id(state.vrf),
            });
        }
        if tunnels == self.capabilities.tunnels.published {
            return;
        }
        let shared = &self.shared;
        let identify = |tunnel: &Tunnel| match (tunnel.local, tunnel.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                shared.identifications.offset4(local, remote)
            }
            _ => 0,
        };
        let made = Tunnels::new(&tunnels, shared.kernel.lookup(), identify);
        self.capabilities.tunnels.published = tunnels;
        self.shared.tunnels.publish(made, &mut self.graveyard);
    }
}
