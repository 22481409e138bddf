//! Listings of routes. There may be millions: the control thread looks at some of them at a time,
//! and at neighbours and everything else in between.

use std::ops::Bound;

use stoa_api::v1;

use super::facts::octets;
use super::plane::Plane;
use super::vrfs::{Slot, VrfState};
use super::wanted::{Action, Prefix, address, bits, network};
use crate::shared::Verdict;

/// What asks for the routes of all VRFs.
const ALL_VRFS: &str = "all";

/// A listing of routes: what is asked for, and how far it is. Routes that come or go while it is
/// under way are in it or not; all others are in it once.
#[derive(Clone)]
pub struct Listing {
    request: v1::ListRoutesRequest,
    /// The VRF that is next, and the last prefix of it that was looked at.
    next: Option<(Slot, Option<Prefix>)>,
}

impl Listing {
    /// A listing of routes of a family (4, 6, or 0 for both), or of the one that covers an
    /// address; of one VRF, or of all of them.
    pub fn new(request: v1::ListRoutesRequest) -> Self {
        Self { request, next: Some((0, None)) }
    }

    /// Whether all of it was told.
    pub fn is_done(&self) -> bool {
        self.next.is_none()
    }

    fn asks_for(&self, vrf: &VrfState) -> bool {
        self.request.vrf == ALL_VRFS || self.request.vrf == vrf.name
    }

    fn asks_for_family(&self, prefix: &Prefix) -> bool {
        match self.request.family {
            4 => prefix.0.is_ipv4(),
            6 => prefix.0.is_ipv6(),
            _ => true,
        }
    }
}

impl Plane {
    /// All routes that are asked for, at once.
    pub fn list_routes(&self, request: &v1::ListRoutesRequest) -> Vec<v1::RouteState> {
        self.list_more_routes(&mut Listing::new(request.clone()), usize::MAX)
    }

    /// The next routes of a listing: looks at no more than `at_most` of them.
    pub fn list_more_routes(&self, listing: &mut Listing, at_most: usize) -> Vec<v1::RouteState> {
        let mut routes = Vec::new();
        let mut left = at_most;
        while let Some((from, after)) = listing.next.filter(|_| left > 0) {
            let Some((slot, state)) =
                self.vrfs.iter().find(|(slot, state)| *slot >= from && listing.asks_for(state))
            else {
                listing.next = None;
                break;
            };
            if let Some(wanted) = &listing.request.longest_match {
                let covering = address(&wanted.address).and_then(|to| covering(state, to));
                routes.extend(covering.and_then(|prefix| self.route(slot, &prefix)));
                listing.next = Some((slot + 1, None));
                left -= 1;
                continue;
            }
            let after = after.filter(|_| slot == from).map_or(Bound::Unbounded, Bound::Excluded);
            let mut last = None;
            for prefix in state.routes.range((after, Bound::Unbounded)).take(left).map(|it| it.0) {
                last = Some(*prefix);
                left -= 1;
                if listing.asks_for_family(prefix) {
                    routes.extend(self.route(slot, prefix));
                }
            }
            listing.next = Some(if left > 0 { (slot + 1, None) } else { (slot, last) });
        }
        routes
    }

    fn route(&self, slot: Slot, prefix: &Prefix) -> Option<v1::RouteState> {
        let state = self.vrfs.get(slot)?;
        let installed = state.routes.get(prefix)?;
        let action = match &installed.route.action {
            // A network's broadcast addresses come with it and are not listed.
            Action::Verdict(Verdict::Broadcast) => return None,
            Action::Verdict(verdict) => v1::route::Action::Special(match verdict {
                Verdict::Local => v1::Special::Local,
                Verdict::Unreachable => v1::Special::Unreachable,
                Verdict::Prohibited => v1::Special::Prohibit,
                _ => v1::Special::Blackhole,
            } as i32),
            Action::Paths(paths) => v1::route::Action::Paths(v1::Paths {
                paths: paths
                    .iter()
                    .map(|path| v1::Path {
                        interface: path.interface.clone(),
                        next_hop: path.next_hop.map(octets).unwrap_or_default(),
                        weight: path.weight.into(),
                    })
                    .collect(),
            }),
        };
        let route = v1::Route {
            prefix: Some(v1::Prefix { address: octets(prefix.0), length: prefix.1.into() }),
            protocol: installed.route.protocol,
            action: Some(action),
            vrf: state.name.clone(),
        };
        let (mut state, packets, bytes) = self.route_state(installed.set.as_deref());
        if self.is_given_up(slot, &installed.route.action, prefix) {
            state = "duplicate";
        }
        let state = state.to_owned();
        Some(v1::RouteState { route: Some(route), state, packets, bytes, ..Default::default() })
    }

    /// Whether this is the host route of an own address that is not used, for somebody else has it.
    fn is_given_up(&self, slot: Slot, action: &Action, prefix: &Prefix) -> bool {
        matches!(action, Action::Verdict(Verdict::Local))
            && self.duplicates().any(|(interface, address)| {
                address == prefix.0 && self.interface(interface).is_some_and(|it| it.vrf == slot)
            })
    }

    /// How the paths of a set do, and what went over them. Prefixes that share a set
    /// share its figures.
    fn route_state(&self, set: Option<&[super::fib::PathKey]>) -> (&'static str, u64, u64) {
        let Some(keys) = set else { return ("active", 0, 0) };
        let (mut up, mut resolved, mut packets, mut bytes) = (0, 0, 0, 0);
        for key in keys {
            up += usize::from(self.interface(key.interface).is_some_and(|state| state.is_up));
            let Some(next_hop) = key.next_hop else {
                resolved += 1;
                continue;
            };
            let Some(entry) = self.cache.get(&(key.interface, next_hop)) else { continue };
            resolved += usize::from(entry.state.is_resolved());
            let sent = entry.sent(self.sent_over(entry.adjacency));
            packets += sent.0;
            bytes += sent.1;
        }
        let state = match (up, resolved) {
            (0, _) => "link down",
            (_, 0) => "next hop unresolved",
            _ if up < keys.len() || resolved < keys.len() => "partly active",
            _ => "active",
        };
        (state, packets, bytes)
    }
}

/// The longest prefix of a VRF that covers an address.
fn covering(state: &VrfState, to: std::net::IpAddr) -> Option<Prefix> {
    let prefixes = (0..=bits(to)).rev().map(|length| (network(to, length), length));
    prefixes.into_iter().find(|prefix| state.routes.contains_key(prefix))
}
