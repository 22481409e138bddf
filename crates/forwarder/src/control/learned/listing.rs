//! Learned routes in listings and counts.

use std::collections::BTreeMap;

use stoa_api::{rows, v1};

use super::VrfHop;
use crate::control::desired::{Action, Path, Prefix};
use crate::control::forwarder_state::ForwarderState;
use crate::control::listing::octets;
use crate::control::route_listing::contract_special;
use crate::control::vrfs::Slot;

impl ForwarderState {
    /// A learned route for listings; `None` when the next hop is not of one.
    pub(in crate::control) fn learned_route(
        &self,
        slot: Slot,
        prefix: &Prefix,
        next_hop: u32,
    ) -> Option<v1::RouteState> {
        let vrf_hop = self.capabilities.learned.vrf_hop(next_hop)?;
        let hop = self.capabilities.learned.hop_of(next_hop)?;
        let is_ip4 = prefix.0.is_ipv4();
        let fits = |path: &&Path| path.next_hop.is_none_or(|gateway| gateway.is_ipv4() == is_ip4);
        let action = match &hop.action {
            Action::Special(special) => {
                v1::route::Action::Special(contract_special(*special).into())
            }
            Action::Paths(paths) => {
                let used = if vrf_hop.is_on_backup { &hop.backup } else { paths };
                let shown = used.iter().filter(fits).map(|path| v1::Path {
                    interface: path.interface.clone(),
                    next_hop: path.next_hop.map(octets).unwrap_or_default(),
                    weight: path.weight.into(),
                });
                v1::route::Action::Paths(v1::Paths { paths: shown.collect() })
            }
        };
        let named = match &hop.action {
            Action::Special(_) => None,
            Action::Paths(paths) => Some(paths.iter().filter(fits).count()),
        };
        let (state, packets, bytes) = self.vrf_hop_state(vrf_hop, named);
        let route = v1::Route {
            prefix: Some(v1::Prefix { address: octets(prefix.0), length: prefix.1.into() }),
            protocol: hop.protocol,
            action: Some(action),
            vrf: self.vrfs.get(slot).map(|state| state.name.clone()).unwrap_or_default(),
        };
        Some(v1::RouteState {
            route: Some(route),
            state: state.to_owned(),
            packets,
            bytes,
            is_learned: true,
            is_backup: vrf_hop.is_on_backup,
            is_stale: self.capabilities.learned.is_stale(next_hop),
            ..Default::default()
        })
    }

    /// The protocol of the routes with this next hop; `None` when they are not learned.
    pub(in crate::control) fn learned_protocol(&self, next_hop: u32) -> Option<i32> {
        self.capabilities.learned.hop_of(next_hop).map(|hop| hop.protocol)
    }

    /// State, packets and bytes of the paths; `named` is the number of desired paths.
    fn vrf_hop_state(&self, vrf_hop: &VrfHop, named: Option<usize>) -> (&'static str, u64, u64) {
        let Some(named) = named else { return ("active", 0, 0) };
        let (state, packets, bytes) = self.route_state(Some(vrf_hop.used()));
        let state = match state {
            _ if vrf_hop.used().is_empty() => "link down",
            // Fewer paths than desired, or backup paths.
            "active" if vrf_hop.is_on_backup || vrf_hop.paths.len() < named => "partly active",
            state => state,
        };
        (state, packets, bytes)
    }

    /// Learned routes in the list of tables.
    pub(in crate::control) fn learned_state(&self) -> v1::TableState {
        let (mut rows, mut stale) = (0, 0);
        for next_hop in self.capabilities.learned.vrf_hops.keys() {
            let users = u64::from(self.capabilities.learned.hop_use(*next_hop).users);
            rows += users;
            stale += if self.capabilities.learned.is_stale(*next_hop) { users } else { 0 };
        }
        v1::TableState {
            name: rows::ROUTES.to_owned(),
            generation: self.capabilities.learned.generation,
            is_complete: self.capabilities.learned.is_complete,
            rows,
            stale,
            digest: None,
        }
    }

    /// Number of learned routes in the tables, by VRF, family and protocol.
    pub(in crate::control) fn count_learned(&self) -> BTreeMap<(Slot, bool, i32), u64> {
        let mut counts = BTreeMap::new();
        for (next_hop, vrf_hop) in &self.capabilities.learned.vrf_hops {
            let Some(hop) = self.capabilities.learned.hop_of(*next_hop) else { continue };
            let users = self.capabilities.learned.hop_use(*next_hop).users;
            *counts.entry((vrf_hop.slot, vrf_hop.is_ip4, hop.protocol)).or_default() +=
                u64::from(users);
        }
        for ((slot, prefix), next_hop) in &self.capabilities.learned.shadowed {
            let Some(hop) = self.capabilities.learned.hop_of(*next_hop) else { continue };
            if let Some(count) = counts.get_mut(&(*slot, prefix.0.is_ipv4(), hop.protocol)) {
                *count -= 1;
            }
        }
        counts
    }
}
