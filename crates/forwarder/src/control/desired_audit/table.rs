//! The routes of the forwarding tables, each with its reason to be there: a desired route, one that follows from the
//! configuration, a neighbour, or a learned route. A prefix without a reason, and one that follows from the
//! configuration and is lost, is an entry of the audit, too, so that the two sides differ.

use std::borrow::Cow;
use std::collections::HashSet;

use stoa_api::{audit, v1};
use stoa_tables::next_hop::NextHop;

use super::Next;
use crate::control::apply_routes::desired_route;
use crate::control::desired::{Action, DesiredState, FIRST_PREFIX, Prefix, bits};
use crate::control::fib::host;
use crate::control::forwarder_state::{ForwarderState, Installed};
use crate::control::listing::octets;
use crate::control::route_listing::route_message;
use crate::control::vrfs::{DEFAULT, Slot, VrfState};
use crate::neighbor::entry::{Entry, Key};
use crate::shared::SpecialNextHop;

/// Work in a slice of an audit: about a millisecond.
const SLICE: usize = 16_384;
/// Work for a route that is not learned: it is looked up by prefix, and its message is digested.
const OTHER_ROUTE: usize = 16;

/// Why a table has an entry.
enum Reason {
    /// A desired route.
    Desired(v1::Route),
    /// It follows from the configuration or from a neighbour: broadcast addresses, addresses of virtual routers, host
    /// routes.
    Derived,
    /// There is none, or the entry leads elsewhere than it should.
    None,
}

impl ForwarderState {
    /// Adds the host routes of some neighbours that are lost, each as an entry that nothing wants.
    pub(super) fn add_lost_host_routes(
        &self,
        after: Option<Key>,
        tally: &mut audit::Tally,
    ) -> Next {
        let mut last = None;
        let cache = self.capabilities.neighbors.cache();
        for (key, entry) in cache.following(after).take(SLICE / OTHER_ROUTE) {
            last = Some(*key);
            for slot in self.lost_host_routes(*key, entry) {
                if let Some(vrf) = self.vrfs.get(slot) {
                    audit::static_route(tally, unexpected(&vrf.name, &host(key.1)));
                }
            }
        }
        match last {
            Some(key) => Next::Neighbor(Some(key)),
            None => Next::Route(DEFAULT, FIRST_PREFIX),
        }
    }

    /// The VRFs whose tables have no route to a neighbour, although it was set there. Where another route has taken its
    /// place, nothing is lost.
    pub(super) fn lost_host_routes<'a>(
        &'a self,
        key: Key,
        entry: &'a Entry,
    ) -> impl Iterator<Item = Slot> + use<'a> {
        let slots = entry.routed_in.iter().copied();
        slots.filter(move |slot| self.fib.get(*slot, host(key.1)).is_none())
    }

    /// Adds the routes of a VRF from a prefix on, or of the next VRF. Learned routes have an audit of their own.
    pub(super) fn add_route_entries(
        &self,
        desired: &DesiredState,
        (from_slot, from): (Slot, Prefix),
        tally: &mut audit::Tally,
    ) -> Next {
        let Some((slot, vrf)) = self.vrfs.iter().find(|(slot, _)| *slot >= from_slot) else {
            return Next::End;
        };
        let from = if slot == from_slot { from } else { FIRST_PREFIX };
        // The table may lack withdrawn and lost routes, which bound the slice as well.
        let most = SLICE / OTHER_ROUTE;
        let withdrawn = self.withdrawn_from(slot, from).nth(most).map(|(prefix, _)| *prefix);
        let running = vrf.routes.range(from..).nth(most).map(|(prefix, _)| *prefix);
        let until = withdrawn.into_iter().chain(running).min();
        let (mut left, mut next) = (SLICE, until);
        let mut virtual_routes = None;
        for (prefix, hop) in self.fib.routes_from(slot, from) {
            if until.is_some_and(|until| prefix >= until) {
                break;
            }
            if left == 0 {
                next = Some(prefix);
                break;
            }
            if self.capabilities.learned.has(hop) {
                left -= 1;
                continue;
            }
            left = left.saturating_sub(OTHER_ROUTE);
            let is_virtual = |prefix: &Prefix| {
                let all: &mut HashSet<Prefix> = virtual_routes
                    .get_or_insert_with(|| self.virtual_routes(slot).copied().collect());
                all.contains(prefix)
            };
            match self.reason(desired, (slot, vrf), (&prefix, hop), is_virtual) {
                Reason::Desired(route) => audit::static_route(tally, route),
                Reason::Derived => {}
                Reason::None => audit::static_route(tally, unexpected(&vrf.name, &prefix)),
            }
        }
        let is_within = |prefix: &Prefix| next.is_none_or(|next| *prefix < next);
        // In the same slice: a route that BFD withdraws or reinstalls is counted once.
        for (prefix, route) in self.withdrawn_from(slot, from).take_while(|it| is_within(it.0)) {
            if !vrf.routes.contains_key(prefix)
                && let Some(route) = route_message(&vrf.name, prefix, route)
            {
                audit::static_route(tally, route);
            }
        }
        // A desired route that the table lacks is missing as an entry. One that follows from the configuration is none.
        for (prefix, _) in vrf.routes.range(from..).take_while(|it| is_within(it.0)) {
            let hop = self.fib.get(slot, *prefix);
            let is_lost = hop.is_none_or(|hop| self.capabilities.learned.has(hop));
            let is_desired = |route| matches!(route, Some(Cow::Borrowed(_)));
            if is_lost && !is_desired(desired_route(desired, &vrf.name, prefix)) {
                audit::static_route(tally, unexpected(&vrf.name, prefix));
            }
        }
        next.map_or(Next::Route(slot + 1, FIRST_PREFIX), |prefix| Next::Route(slot, prefix))
    }

    /// Why the table has this entry, which is not of a learned route.
    fn reason(
        &self,
        desired: &DesiredState,
        (slot, vrf): (Slot, &VrfState),
        (prefix, hop): (&Prefix, u32),
        is_virtual: impl FnOnce(&Prefix) -> bool,
    ) -> Reason {
        let derived_if = |is_so| if is_so { Reason::Derived } else { Reason::None };
        let Some(installed) = vrf.routes.get(prefix) else {
            return derived_if(self.is_host_route(slot, prefix, hop));
        };
        if self.hop_of_installed(slot, prefix, installed) != Some(hop) {
            return Reason::None;
        }
        match desired_route(desired, &vrf.name, prefix) {
            Some(Cow::Borrowed(_)) => route_message(&vrf.name, prefix, &installed.route)
                .map_or(Reason::Derived, Reason::Desired),
            Some(Cow::Owned(route)) if route == installed.route => Reason::Derived,
            _ => derived_if(is_virtual(prefix)),
        }
    }

    /// The next hop that the table should have for a route.
    pub(super) fn hop_of_installed(
        &self,
        slot: Slot,
        prefix: &Prefix,
        installed: &Installed,
    ) -> Option<u32> {
        match (&installed.set, &installed.route.action) {
            (Some(keys), _) => self.fib.sets.get(keys).map(|set| set.hop),
            (None, action) if self.is_disabled_duplicate(slot, action, prefix) => {
                Some(self.fib.special(SpecialNextHop::Blackhole))
            }
            (None, Action::Special(special)) => Some(self.fib.special(*special)),
            (None, Action::Paths(_)) => None,
        }
    }

    /// Whether this entry of the table leads to a neighbour that has a host route in the VRF.
    pub(super) fn is_host_route(&self, slot: Slot, prefix: &Prefix, hop: u32) -> bool {
        if prefix.1 != bits(prefix.0) {
            return false;
        }
        let Some(NextHop::Adjacency(adjacency)) = self.fib.hop(hop) else { return false };
        let Some(adjacency) = self.fib.adjacency(adjacency) else { return false };
        let cache = self.capabilities.neighbors.cache();
        let entry = cache.get(&(adjacency.interface, prefix.0));
        entry.is_some_and(|entry| entry.next_hop == hop && entry.routed_in.contains(&slot))
    }
}

/// The entry of a prefix that nothing wants, that is lost, or that leads elsewhere than it should.
fn unexpected(vrf: &str, (address, length): &Prefix) -> v1::Route {
    let prefix = v1::Prefix { address: octets(*address), length: (*length).into() };
    v1::Route { prefix: Some(prefix), vrf: vrf.to_owned(), ..v1::Route::default() }
}
