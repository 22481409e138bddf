//! Number of routes by VRF, family and protocol: maintained incrementally, so that reading it is free.

use stoa_api::v1;

use super::desired::{Action, Prefix};
use super::forwarder_state::{ForwarderState, Installed};
use super::vrfs::{Slot, VrfState};
use crate::shared::SpecialNextHop;

/// The listed routes of one VRF; a short list. Well-known protocols are listed even without routes.
#[derive(Clone, Debug)]
pub(super) struct RouteCounts(Vec<Count>);

impl Default for RouteCounts {
    fn default() -> Self {
        let kinds = [v1::Protocol::Direct, v1::Protocol::Static].into_iter().flat_map(|protocol| {
            let protocol = protocol.into();
            [true, false].map(|is_ip4| Count { is_ip4, protocol, routes: 0 })
        });
        Self(kinds.collect())
    }
}

#[derive(Clone, Copy, Debug)]
struct Count {
    is_ip4: bool,
    protocol: i32,
    routes: u64,
}

impl RouteCounts {
    fn count_mut(&mut self, is_ip4: bool, protocol: i32) -> &mut u64 {
        let found = self.0.iter().position(|it| it.is_ip4 == is_ip4 && it.protocol == protocol);
        let at = found.unwrap_or_else(|| {
            self.0.push(Count { is_ip4, protocol, routes: 0 });
            self.0.len() - 1
        });
        &mut self.0[at].routes
    }
}

/// Number of prefixes by family and length: a search for the longest match skips lengths without any.
#[derive(Clone, Debug)]
pub(super) struct Lengths([[u32; 129]; 2]);

impl Default for Lengths {
    fn default() -> Self {
        Self([[0; 129]; 2])
    }
}

impl Lengths {
    /// Whether there are prefixes of this length.
    pub(super) fn has(&self, is_ip4: bool, length: u8) -> bool {
        self.0[usize::from(is_ip4)].get(usize::from(length)).is_some_and(|count| *count > 0)
    }

    fn count_mut(&mut self, prefix: &Prefix) -> &mut u32 {
        &mut self.0[usize::from(prefix.0.is_ipv4())][usize::from(prefix.1.min(128))]
    }
}

/// Broadcast addresses belong to their network and are neither listed nor counted.
fn is_listed(installed: &Installed) -> bool {
    !matches!(installed.route.action, Action::Special(SpecialNextHop::Broadcast))
}

impl VrfState {
    /// Inserts a route; returns the previous one.
    pub(super) fn insert(&mut self, prefix: Prefix, installed: Installed) -> Option<Installed> {
        if is_listed(&installed) {
            *self.counts.count_mut(prefix.0.is_ipv4(), installed.route.protocol) += 1;
        }
        *self.lengths.count_mut(&prefix) += 1;
        let old = self.routes.insert(prefix, installed);
        self.uncount(&prefix, old)
    }

    /// Removes a route.
    pub(super) fn remove(&mut self, prefix: &Prefix) -> Option<Installed> {
        let old = self.routes.remove(prefix);
        self.uncount(prefix, old)
    }

    fn uncount(&mut self, prefix: &Prefix, old: Option<Installed>) -> Option<Installed> {
        *self.lengths.count_mut(prefix) -= u32::from(old.is_some());
        if let Some(old) = old.as_ref().filter(|old| is_listed(old)) {
            *self.counts.count_mut(prefix.0.is_ipv4(), old.route.protocol) -= 1;
        }
        old
    }
}

impl ForwarderState {
    /// Number of listed routes, by VRF, family and protocol.
    pub fn count_routes(&self) -> Vec<v1::RouteCount> {
        let learned = self.count_learned();
        let of_vrf = |(slot, state): (Slot, &VrfState)| {
            let name = state.name.clone();
            let mut counts = state.counts.clone();
            for ((_, is_ip4, protocol), more) in learned.iter().filter(|((at, ..), _)| *at == slot)
            {
                *counts.count_mut(*is_ip4, *protocol) += more;
            }
            let kinds = counts.0.into_iter();
            kinds.map(move |kind| v1::RouteCount {
                vrf: name.clone(),
                family: if kind.is_ip4 { 4 } else { 6 },
                protocol: kind.protocol,
                routes: kind.routes,
            })
        };
        self.vrfs.iter().flat_map(of_vrf).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::super::desired::Route;
    use super::*;

    fn installed(protocol: i32, special: SpecialNextHop) -> Installed {
        Installed { route: Route { protocol, action: Action::Special(special) }, set: None }
    }

    proptest! {
        /// The counts equal those of the listing after any changes.
        #[test]
        fn counts_equal_the_listing(
            changes in prop::collection::vec((any::<bool>(), 0..4_u8, 0..3_i32, 0..3_u8), 0..200)
        ) {
            let mut state = VrfState::new("", 0);
            for (is_ip4, octet, protocol, what) in changes {
                let address = match is_ip4 {
                    true => IpAddr::V4(Ipv4Addr::new(10, octet, 0, 0)),
                    false => IpAddr::V6(Ipv6Addr::new(0xfd00, octet.into(), 0, 0, 0, 0, 0, 0)),
                };
                match what {
                    0 => drop(state.remove(&(address, 16))),
                    1 => drop(state.insert((address, 16), installed(protocol, SpecialNextHop::Local))),
                    _ => drop(state.insert((address, 16), installed(protocol, SpecialNextHop::Broadcast))),
                }
            }
            let mut naive: BTreeMap<(bool, i32), u64> = BTreeMap::new();
            for (prefix, one) in state.routes.iter().filter(|(_, one)| is_listed(one)) {
                *naive.entry((prefix.0.is_ipv4(), one.route.protocol)).or_default() += 1;
            }
            let counted = state.counts.0.iter().filter(|kind| kind.routes > 0);
            let counted = counted.map(|kind| ((kind.is_ip4, kind.protocol), kind.routes));
            prop_assert_eq!(counted.collect::<BTreeMap<_, _>>(), naive);
            for is_ip4 in [true, false] {
                let has = state.routes.keys().any(|prefix| prefix.0.is_ipv4() == is_ip4);
                prop_assert_eq!(state.lengths.has(is_ip4, 16), has);
            }
        }
    }
}
