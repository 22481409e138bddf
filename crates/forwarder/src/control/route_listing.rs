//! Listings of routes. There may be millions: the control thread lists them in pages, between which other
//! work runs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_api::v1;

use super::desired::{Action, FIRST_PREFIX, Path, Prefix, Route, address, bits, network};
use super::forwarder_state::ForwarderState;
use super::listing::octets;
use super::vrfs::{Slot, VrfState};
use crate::shared::SpecialNextHop;

/// The name of a request for all VRFs.
const ALL_VRFS: &str = "all";

/// A listing of routes and its position. Routes that change during the listing may be missing; all others are
/// in it once.
#[derive(Clone)]
pub struct RouteListing {
    request: v1::ListRoutesRequest,
    /// The first and last prefix to list, in table order; `None`: nothing matches.
    window: Option<(Prefix, Prefix)>,
    /// The next VRF, and its last prefix that was visited.
    next: Option<(Slot, Option<Prefix>)>,
}

/// The state of a route whose gateways BFD has declared down.
const BFD_DOWN: &str = "gateway BFD-down";

/// The first and last position of a table, over prefixes of any length.
const WHOLE: (Prefix, Prefix) =
    (FIRST_PREFIX, (IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)), u8::MAX));

impl RouteListing {
    /// A listing by family (4, 6, or 0 for both), prefix or longest match of an address, of one VRF or all.
    /// Seeking its start and end is fast in a table of any size.
    pub fn new(request: v1::ListRoutesRequest) -> Self {
        let window = window(&request);
        Self { request, window, next: Some((0, None)) }
    }

    /// Whether the listing is complete.
    pub fn is_done(&self) -> bool {
        self.next.is_none()
    }

    fn asks_for(&self, vrf: &VrfState) -> bool {
        self.request.vrf == ALL_VRFS || self.request.vrf == vrf.name
    }

    /// Whether routes of this protocol are requested.
    fn asks_for_protocol(&self, protocol: i32) -> bool {
        self.request.protocol.is_none_or(|only| only == protocol)
    }

    /// The rest of a table after the last visited prefix.
    fn rest(&self, last: Option<Prefix>) -> Option<(Prefix, Prefix)> {
        let (first, end) = self.window?;
        // The next position: no prefix is longer than an address.
        let begin = last.map_or(first, |(address, length)| (address, length.saturating_add(1)));
        (begin <= end).then_some((begin, end))
    }
}

/// The range of a table that a request covers. An invalid prefix matches nothing.
fn window(request: &v1::ListRoutesRequest) -> Option<(Prefix, Prefix)> {
    let read = |prefix: &v1::Prefix| {
        let to = address(&prefix.address)?;
        let length = u8::try_from(prefix.length).ok().filter(|length| *length <= bits(to))?;
        Some((network(to, length), length))
    };
    let (mut first, mut last) = match request.family {
        4 => (WHOLE.0, (IpAddr::V4(Ipv4Addr::BROADCAST), u8::MAX)),
        6 => ((IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0), WHOLE.1),
        _ => WHOLE,
    };
    if let Some(within) = &request.within {
        let within = read(within)?;
        // Longer prefixes follow it, and shorter ones of the same address precede it.
        first = first.max(within);
        last = last.min((last_address(&within), u8::MAX));
    }
    if let Some(after) = &request.after {
        let after = read(after)?;
        // The next position: no prefix is longer than an address.
        first = first.max((after.0, after.1 + 1));
    }
    (first <= last).then_some((first, last))
}

/// The last address of a prefix.
fn last_address((address, length): &Prefix) -> IpAddr {
    let length = u32::from(*length);
    match address {
        IpAddr::V4(ip) => {
            (Ipv4Addr::from_bits(ip.to_bits() | u32::MAX.checked_shr(length).unwrap_or(0))).into()
        }
        IpAddr::V6(ip) => {
            (Ipv6Addr::from_bits(ip.to_bits() | u128::MAX.checked_shr(length).unwrap_or(0))).into()
        }
    }
}

impl ForwarderState {
    /// All requested routes at once.
    pub fn list_routes(&self, request: &v1::ListRoutesRequest) -> Vec<v1::RouteState> {
        self.list_more_routes(&mut RouteListing::new(request.clone()), usize::MAX)
    }

    /// The next routes of a listing: visits at most `at_most` of them.
    pub fn list_more_routes(
        &self,
        listing: &mut RouteListing,
        at_most: usize,
    ) -> Vec<v1::RouteState> {
        let mut routes = Vec::new();
        let mut left = at_most;
        while let Some((from, after)) = listing.next.filter(|_| left > 0) {
            let Some((slot, _)) =
                self.vrfs.iter().find(|(slot, state)| *slot >= from && listing.asks_for(state))
            else {
                listing.next = None;
                break;
            };
            if listing.request.inactive {
                routes.extend(self.bfd_down_routes(slot, listing));
                listing.next = Some((slot + 1, None));
                left -= 1;
                continue;
            }
            if let Some(desired) = &listing.request.longest_match {
                let covering = address(&desired.address).and_then(|to| {
                    let max = u8::try_from(desired.length).unwrap_or(u8::MAX).min(bits(to));
                    self.covering(slot, to, if max == 0 { bits(to) } else { max })
                });
                routes.extend(covering.filter(|it| {
                    it.route.as_ref().is_some_and(|it| listing.asks_for_protocol(it.protocol))
                }));
                listing.next = Some((slot + 1, None));
                left -= 1;
                continue;
            }
            let mut last = after.filter(|_| slot == from);
            let rest = listing.rest(last).into_iter();
            let rest = rest.flat_map(|(begin, end)| {
                let all = self.fib.routes_from(slot, begin);
                all.take_while(move |(prefix, _)| *prefix <= end)
            });
            for (prefix, next_hop) in rest.take(left) {
                last = Some(prefix);
                left -= 1;
                if self.is_asked_for(listing, slot, &prefix, next_hop) {
                    routes.extend(self.route_at(slot, &prefix, next_hop));
                }
            }
            listing.next = Some(if left > 0 { (slot + 1, None) } else { (slot, last) });
        }
        routes
    }

    /// Whether the protocol of a route is requested: checked before the route is assembled.
    fn is_asked_for(
        &self,
        listing: &RouteListing,
        slot: Slot,
        prefix: &Prefix,
        next_hop: u32,
    ) -> bool {
        listing.request.protocol.is_none() || {
            let desired = || Some(self.vrfs.route(slot, prefix)?.route.protocol);
            let protocol = self.learned_protocol(next_hop).or_else(desired);
            protocol.is_some_and(|protocol| listing.asks_for_protocol(protocol))
        }
    }

    /// The route of the table to this prefix; `None` when it is not listed.
    fn route_at(&self, slot: Slot, prefix: &Prefix, next_hop: u32) -> Option<v1::RouteState> {
        let learned = self.learned_route(slot, prefix, next_hop);
        learned.or_else(|| self.route(slot, prefix))
    }

    /// The longest match of an address in a VRF, among prefixes of at most `max` bits.
    fn covering(&self, slot: Slot, to: IpAddr, max: u8) -> Option<v1::RouteState> {
        let prefix = |length| (network(to, length), length);
        (0..=max).rev().map(prefix).find_map(|prefix| {
            // Broadcast addresses are not listed, and cover nothing else.
            if self.vrfs.route(slot, &prefix).is_some() {
                return Some(self.route(slot, &prefix));
            }
            let next_hop = self.fib.get(slot, prefix)?;
            self.learned_route(slot, &prefix, next_hop).map(Some)
        })?
    }

    /// The static routes of a VRF that are withdrawn because BFD has declared their gateways down. The
    /// configuration bounds their number, so they need no pages.
    fn bfd_down_routes(&self, slot: Slot, listing: &RouteListing) -> Vec<v1::RouteState> {
        let Some((state, (first, last))) = self.vrfs.get(slot).zip(listing.window) else {
            return Vec::new();
        };
        let to = listing.request.longest_match.as_ref().and_then(|it| address(&it.address));
        let is_asked = |(prefix, route): &(&Prefix, &Route)| {
            (first..=last).contains(*prefix)
                && to.is_none_or(|to| network(to, prefix.1) == prefix.0)
                && listing.asks_for_protocol(route.protocol)
        };
        let bfd_down = self.withdrawn_by_bfd(slot).filter(is_asked);
        let routes =
            bfd_down.filter_map(|(prefix, route)| route_message(&state.name, prefix, route));
        routes
            .map(|route| v1::RouteState {
                route: Some(route),
                state: BFD_DOWN.to_owned(),
                reason: vec!["BFD has declared its gateways down".to_owned()],
                ..Default::default()
            })
            .collect()
    }

    fn route(&self, slot: Slot, prefix: &Prefix) -> Option<v1::RouteState> {
        let state = self.vrfs.get(slot)?;
        let installed = state.routes.get(prefix)?;
        let route = route_message(&state.name, prefix, &installed.route)?;
        let (mut state, packets, bytes) = self.route_state(installed.set.as_deref());
        let direct = self.sent_to_subnet(installed.set.as_deref(), prefix);
        let (packets, bytes) = (packets + direct.0, bytes + direct.1);
        if self.is_disabled_duplicate(slot, &installed.route.action, prefix) {
            state = "duplicate";
        }
        let state = state.to_owned();
        Some(v1::RouteState { route: Some(route), state, packets, bytes, ..Default::default() })
    }

    /// Whether this is the host route of one of our addresses that is disabled as a duplicate.
    pub(super) fn is_disabled_duplicate(
        &self,
        slot: Slot,
        action: &Action,
        prefix: &Prefix,
    ) -> bool {
        matches!(action, Action::Special(SpecialNextHop::Local))
            && self
                .with_duplicate(prefix.0)
                .any(|interface| self.interface(interface).is_some_and(|it| it.vrf == slot))
    }

    /// Packets and bytes to the known neighbours within a prefix over paths without a gateway.
    fn sent_to_subnet(&self, set: Option<&[super::fib::PathKey]>, prefix: &Prefix) -> (u64, u64) {
        let (first, last) = (prefix.0, last_address(prefix));
        let direct = set.unwrap_or_default().iter().filter(|key| key.next_hop.is_none());
        let cache = self.capabilities.neighbors.cache();
        let entries = direct.flat_map(|key| cache.within(key.interface, first, last));
        entries.fold((0, 0), |total, entry| {
            let sent = entry.sent(self.sent_over(entry.adjacency));
            (total.0 + sent.0, total.1 + sent.1)
        })
    }

    /// State, packets and bytes of a set of paths. Prefixes that share a set share its counters.
    pub(super) fn route_state(
        &self,
        set: Option<&[super::fib::PathKey]>,
    ) -> (&'static str, u64, u64) {
        let Some(keys) = set else { return ("active", 0, 0) };
        let (mut up, mut bfd_down, mut resolved, mut packets, mut bytes) = (0, 0, 0, 0, 0);
        for key in keys {
            let is_up = self.interface(key.interface).is_some_and(|state| state.is_up);
            up += usize::from(is_up);
            let Some(next_hop) = key.next_hop else {
                resolved += 1;
                continue;
            };
            let is_bfd_down = self.capabilities.bfd.has_failed(&(key.interface, next_hop));
            bfd_down += usize::from(is_up && is_bfd_down);
            let Some(entry) = self.capabilities.neighbors.cache().get(&(key.interface, next_hop))
            else {
                continue;
            };
            resolved += usize::from(entry.state.is_resolved() && !is_bfd_down);
            let sent = entry.sent(self.sent_over(entry.adjacency));
            packets += sent.0;
            bytes += sent.1;
        }
        let state = match (up, resolved) {
            (0, _) => "link down",
            (up, _) if up == bfd_down => BFD_DOWN,
            (_, 0) => "next hop unresolved",
            _ if up < keys.len() || resolved < keys.len() => "partly active",
            _ => "active",
        };
        (state, packets, bytes)
    }
}

/// A desired route as a message of the contract; `None` when it is not listed.
pub(super) fn route_message(vrf: &str, prefix: &Prefix, route: &Route) -> Option<v1::Route> {
    let path = |path: &Path| v1::Path {
        interface: path.interface.clone(),
        next_hop: path.next_hop.map(octets).unwrap_or_default(),
        weight: path.weight.into(),
    };
    let action = match &route.action {
        // Broadcast addresses belong to their network and are not listed.
        Action::Special(SpecialNextHop::Broadcast) => return None,
        Action::Special(special) => v1::route::Action::Special(contract_special(*special).into()),
        Action::Paths(paths) => {
            v1::route::Action::Paths(v1::Paths { paths: paths.iter().map(path).collect() })
        }
    };
    Some(v1::Route {
        prefix: Some(v1::Prefix { address: octets(prefix.0), length: prefix.1.into() }),
        protocol: route.protocol,
        action: Some(action),
        vrf: vrf.to_owned(),
    })
}

/// A special next hop as an enumeration of the contract.
pub(super) fn contract_special(special: SpecialNextHop) -> v1::Special {
    match special {
        SpecialNextHop::Local => v1::Special::Local,
        SpecialNextHop::Unreachable => v1::Special::Unreachable,
        SpecialNextHop::Prohibited => v1::Special::Prohibit,
        _ => v1::Special::Blackhole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> v1::Prefix {
        let (address, length) = text.split_once('/').unwrap();
        let address: IpAddr = address.parse().unwrap();
        v1::Prefix { address: octets(address), length: length.parse().unwrap() }
    }

    /// The prefixes that a listing covers.
    fn listed(request: v1::ListRoutesRequest) -> Vec<&'static str> {
        let all = [
            "0.0.0.0/0",
            "10.0.0.0/7",
            "10.0.0.0/8",
            "10.0.0.0/24",
            "10.255.255.255/32",
            "11.0.0.0/8",
            "255.255.255.255/32",
            "::/0",
            "fd00::/8",
            "fd00::/64",
            "fe80::1/128",
        ];
        let listing = RouteListing::new(request);
        let is_asked = |text: &&str| {
            let prefix = prefix(text);
            let position = (address(&prefix.address).unwrap(), prefix.length as u8);
            let Some((first, last)) = listing.rest(None) else { return false };
            (first..=last).contains(&position)
        };
        all.into_iter().filter(is_asked).collect()
    }

    #[test]
    fn a_listing_selects_by_family_prefix_and_position() {
        let rest = v1::ListRoutesRequest::default;
        assert_eq!(listed(rest()).len(), 11);
        assert_eq!(listed(v1::ListRoutesRequest { family: 4, ..rest() }).len(), 7);
        let ip6 = v1::ListRoutesRequest { family: 6, ..rest() };
        assert_eq!(listed(ip6.clone()), ["::/0", "fd00::/8", "fd00::/64", "fe80::1/128"]);
        let within = v1::ListRoutesRequest { within: Some(prefix("10.0.0.0/8")), ..rest() };
        let below = ["10.0.0.0/8", "10.0.0.0/24", "10.255.255.255/32"];
        assert_eq!(listed(within.clone()), below);
        let after = v1::ListRoutesRequest { after: Some(prefix("10.0.0.0/8")), ..within.clone() };
        assert_eq!(listed(after), below[1..]);
        let past = v1::ListRoutesRequest { after: Some(prefix("11.0.0.0/8")), ..within.clone() };
        assert!(listed(past).is_empty());
        assert!(listed(v1::ListRoutesRequest { family: 6, ..within }).is_empty());
        let last = v1::ListRoutesRequest { after: Some(prefix("fe80::1/128")), ..ip6 };
        assert!(listed(last).is_empty());
        let wrong = v1::Prefix { address: vec![1, 2, 3], length: 8 };
        assert!(listed(v1::ListRoutesRequest { within: Some(wrong), ..rest() }).is_empty());
        let wrong = v1::Prefix { address: vec![10, 0, 0, 0], length: 33 };
        assert!(listed(v1::ListRoutesRequest { after: Some(wrong), ..rest() }).is_empty());
    }
}
