//! Static routes: next hops on a connected subnet get its interface; the others are recursive.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;
use stoa_api::text::ip_bytes;
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use crate::config::addresses::{Addressing, Table};
use crate::config::host_addresses;
use crate::config::model::{NextHop, Protocol, Route, Routing, Special};

/// Maximum next hops of a route.
pub const PATH_LIMIT: usize = 64;

/// Module of the protocol identities; libyang omits it within the same module.
const MODULE: &str = "ietf-routing:";

pub use crate::config::vrf_name::VrfName;

/// A VRF and a prefix.
pub type Key = (VrfName, IpNet);

/// A configured next hop.
#[derive(Clone, Debug, PartialEq)]
pub enum StaticNextHop {
    /// On a link.
    OnLink(v1::Path),
    /// On no link: resolved through another route.
    Recursive {
        /// The gateway.
        gateway: IpAddr,
        /// Weight for load balancing.
        weight: u32,
    },
}

/// The action of a static route.
#[derive(Clone, Debug, PartialEq)]
pub enum StaticRoute {
    /// Forwards to these next hops.
    NextHops(Vec<StaticNextHop>),
    /// A blackhole or similar.
    Special(v1::Special),
}

/// Static routes that win over all learned ones.
pub type StaticRoutes = BTreeMap<Key, StaticRoute>;

/// Floating static routes, which compete with learned ones and each other by preference: lower wins.
pub type FloatingStaticRoutes = BTreeMap<(Key, u8), StaticRoute>;

/// The static routes of every protocol instance.
pub fn desired(
    routing: &Routing,
    addressing: &Addressing,
    errors: &mut ValidationErrors,
) -> (StaticRoutes, FloatingStaticRoutes) {
    let (mut desired, mut floating) = (StaticRoutes::new(), FloatingStaticRoutes::new());
    let mut owners: BTreeMap<(Key, Option<u8>), &str> = BTreeMap::new();
    for protocol in &routing.control_plane_protocols.control_plane_protocol {
        if protocol.route_source_kind().is_some() {
            continue;
        }
        let place = place(protocol);
        if bare(&protocol.kind) != "static" {
            let fix = if protocol.kind.contains(':') && !protocol.kind.starts_with(MODULE) {
                "Stoa has no routing protocols of its own: run a routing daemon, and configure its route source \
                 (stoa-routing:fpm, stoa-routing:netlink or stoa-routing:bgp)."
                    .to_owned()
            } else {
                format!("Set type to {MODULE}static; connected routes come from the addresses.")
            };
            errors.add(
                format!("{place}/type"),
                format!("the protocol type {} is not supported", full(&protocol.kind)),
                fix,
            );
            continue;
        }
        let routes = &protocol.static_routes;
        for (family, route) in
            routes.ip4.route.iter().map(|route| ("ietf-ipv4-unicast-routing:ipv4", route)).chain(
                routes.ip6.route.iter().map(|route| ("ietf-ipv6-unicast-routing:ipv6", route)),
            )
        {
            let place = format!(
                "{place}/static-routes/{family}/route[destination-prefix='{}']",
                route.destination_prefix
            );
            let Ok(prefix) = route.destination_prefix.parse::<IpNet>() else { continue };
            let prefix = prefix.trunc();
            let key: Key = (protocol.vrf.as_str().into(), prefix);
            if let Some(other) = owners.insert((key.clone(), route.preference), &protocol.name) {
                errors.add_about(
                    &place,
                    format!("\"{other}\" already has a route to {prefix}"),
                    "Keep one; for several next hops use next-hop-list. For a floating static route, set a \
                     different stoa-routing:preference.",
                    &[&other, &prefix],
                );
            }
            let vrf = protocol.vrf.as_str();
            let mut at = At { place, vrf, prefix, addressing, errors };
            at.check_destination();
            match (at.action(route), route.preference) {
                (Some(action), None) => drop(desired.insert(key, action)),
                (Some(action), Some(preference)) => {
                    floating.insert((key, preference), action);
                }
                (None, _) => {}
            }
        }
    }
    (desired, floating)
}

fn bare(kind: &str) -> &str {
    kind.strip_prefix(MODULE).unwrap_or(kind)
}

/// An identity with its module.
fn full(kind: &str) -> Cow<'_, str> {
    if kind.contains(':') { Cow::Borrowed(kind) } else { Cow::Owned(format!("{MODULE}{kind}")) }
}

fn place(protocol: &Protocol) -> String {
    format!(
        "/ietf-routing:routing/control-plane-protocols\
         /control-plane-protocol[type='{}'][name='{}']",
        full(&protocol.kind),
        protocol.name
    )
}

struct At<'a> {
    place: String,
    vrf: &'a str,
    prefix: IpNet,
    addressing: &'a Addressing,
    errors: &'a mut ValidationErrors,
}

impl At<'_> {
    fn find(&mut self, below: &str, reason: impl Into<String>, fix: impl Into<String>) {
        self.find_about(below, reason, fix, &[]);
    }

    /// An error that may also be due to nodes with these names.
    fn find_about(
        &mut self,
        below: &str,
        reason: impl Into<String>,
        fix: impl Into<String>,
        names: &[&dyn ToString],
    ) {
        self.errors.add_about(format!("{}{below}", self.place), reason, fix, names);
    }

    fn table(&self) -> &Table {
        self.addressing.table(self.vrf)
    }

    fn check_destination(&mut self) {
        let prefix = self.prefix;
        let address = prefix.addr();
        if prefix.prefix_len() > 0 && (address.is_multicast() || address.is_loopback())
            || host_addresses::is_link_local(address) && prefix.prefix_len() >= 10
        {
            self.find(
                "",
                format!("{prefix} is not routable"),
                "Use a unicast prefix that is neither link-local nor loopback.",
            );
        } else if let Some(interface) = self.table().connected.get(&prefix).cloned() {
            self.find_about(
                "",
                format!("{prefix} is connected on \"{interface}\", which always wins"),
                "Remove the route, or the address of that subnet.",
                &[&prefix, &interface],
            );
        } else if prefix.prefix_len() == prefix.max_prefix_len()
            && let Some(interface) = self.table().own.get(&address).cloned()
        {
            self.find_about(
                "",
                format!("{address} is a local address, on \"{interface}\""),
                "Remove the route.",
                &[&address, &interface],
            );
        }
    }

    fn action(&mut self, route: &Route) -> Option<StaticRoute> {
        let hop = &route.next_hop;
        if let Some(special) = hop.special_next_hop {
            return self.special(special);
        }
        if let Some(list) = &hop.next_hop_list {
            if list.next_hop.is_empty() || list.next_hop.len() > PATH_LIMIT {
                self.find(
                    "/next-hop/next-hop-list",
                    format!("{} next hops", list.next_hop.len()),
                    format!("Configure 1 to {PATH_LIMIT}."),
                );
                return None;
            }
            let mut seen = HashSet::new();
            let mut hops = Vec::new();
            for entry in &list.next_hop {
                let below = format!("/next-hop/next-hop-list/next-hop[index='{}']", entry.index);
                let interface = entry.outgoing_interface.as_deref();
                let address = entry.next_hop_address.as_deref();
                let Some(hop) = self.hop(&below, interface, address, entry.weight) else {
                    continue;
                };
                let name = match &hop {
                    StaticNextHop::OnLink(path) => path.to_string(),
                    StaticNextHop::Recursive { gateway, .. } => format!("via {gateway}"),
                };
                let weightless = match &hop {
                    StaticNextHop::OnLink(path) => (path.interface.clone(), path.next_hop.clone()),
                    StaticNextHop::Recursive { gateway, .. } => (String::new(), ip_bytes(*gateway)),
                };
                if seen.insert(weightless) {
                    hops.push(hop);
                } else {
                    self.find(
                        &below,
                        format!("the next hop \"{name}\" is in the list twice"),
                        "Remove one; for a greater share set its weight.",
                    );
                }
            }
            return Some(StaticRoute::NextHops(hops));
        }
        let NextHop { outgoing_interface, next_hop_address, .. } = hop;
        let interface = outgoing_interface.as_deref();
        let hop = self.hop("/next-hop", interface, next_hop_address.as_deref(), 1)?;
        Some(StaticRoute::NextHops(vec![hop]))
    }

    fn special(&mut self, special: Special) -> Option<StaticRoute> {
        Some(StaticRoute::Special(match special {
            Special::Blackhole => v1::Special::Blackhole,
            Special::Unreachable => v1::Special::Unreachable,
            Special::Prohibit => v1::Special::Prohibit,
            Special::Receive => {
                self.find(
                    "/next-hop/special-next-hop",
                    "a static route cannot add a local address",
                    "Add the address to an interface instead, with prefix length 32 or 128.",
                );
                return None;
            }
        }))
    }

    fn hop(
        &mut self,
        below: &str,
        interface: Option<&str>,
        address: Option<&str>,
        weight: u32,
    ) -> Option<StaticNextHop> {
        let six = self.prefix.addr().is_ipv6();
        if let Some(interface) = interface
            && self.addressing.subnets(interface, six).is_none()
        {
            let family = if six { "IPv6" } else { "IPv4" };
            self.find_about(
                &format!("{below}/outgoing-interface"),
                format!("{family} is disabled on \"{interface}\""),
                format!(
                    "Enable {family} there (ietf-ip:ipv{}), or use another interface.",
                    if six { 6 } else { 4 }
                ),
                &[&interface],
            );
            return None;
        }
        let Some(text) = address else {
            let Some(interface) = interface else {
                self.find(
                    below,
                    "the next hop has neither address nor interface",
                    "Set next-hop-address, outgoing-interface or both.",
                );
                return None;
            };
            let interface = interface.to_owned();
            return Some(StaticNextHop::OnLink(v1::Path { interface, next_hop: vec![], weight }));
        };
        let place = format!("{below}/next-hop-address");
        let Ok(address) = text.parse::<IpAddr>() else {
            self.find(
                &place,
                format!("{text} has a zone"),
                "Set the address without zone, and the interface as outgoing-interface.",
            );
            return None;
        };
        let interface = match self.link(&place, address, interface)? {
            Link::Of(interface) => interface,
            Link::None => return Some(StaticNextHop::Recursive { gateway: address, weight }),
        };
        Some(StaticNextHop::OnLink(v1::Path { interface, next_hop: ip_bytes(address), weight }))
    }

    /// The interface whose link has the gateway.
    fn link(&mut self, place: &str, address: IpAddr, interface: Option<&str>) -> Option<Link> {
        if let Some(reason) = host_addresses::not_a_host(address) {
            self.find(place, format!("{address} {reason}"), "Set the address of the gateway.");
            return None;
        }
        // The gateway is in the VRF of the outgoing interface, if there is one.
        let vrf = interface.map_or(self.vrf, |interface| self.addressing.vrf_of(interface));
        if let Some(owner) = self.addressing.table(vrf).own.get(&address).cloned() {
            self.find_about(
                place,
                format!("{address} is a local address, on \"{owner}\""),
                "Set the address of the gateway at the other end of the link.",
                &[&address, &owner],
            );
            return None;
        }
        let six = address.is_ipv6();
        if six && host_addresses::is_link_local(address) {
            if interface.is_none() {
                self.find(
                    place,
                    format!("{address} is a link-local address without an interface"),
                    "Set outgoing-interface.",
                );
            }
            return interface.map(|interface| Link::Of(interface.to_owned()));
        }
        let found = match interface {
            None => {
                let found = self.table().on_link(address);
                found.map(|(interface, net)| (interface.to_owned(), net))
            }
            Some(interface) => self
                .addressing
                .subnets(interface, six)
                .and_then(|nets| nets.iter().find(|net| net.contains(&address)))
                .map(|net| (interface.to_owned(), *net)),
        };
        let Some((interface, net)) = found else {
            let Some(interface) = interface else { return Some(Link::None) };
            let (subnets, listed) = self.addressing.table(vrf).some_subnets(six);
            let mut names: Vec<&dyn ToString> = vec![&address, &interface];
            let others = listed.iter().filter(|name| **name != interface);
            names.extend(others.map(|name| name as &dyn ToString));
            self.find_about(
                place,
                format!("{address} is in no subnet of \"{interface}\""),
                format!(
                    "Set a gateway on its link, or remove outgoing-interface. Connected: {subnets}."
                ),
                &names,
            );
            return None;
        };
        if let Some(reason) = host_addresses::not_in_subnet(address, &net) {
            let cause = format!("{address} {reason}");
            let fix = "Set the address of the gateway.";
            self.find_about(place, cause, fix, &[&address, &net, &interface]);
            return None;
        }
        Some(Link::Of(interface))
    }
}

/// The link of a gateway.
enum Link {
    /// That of this interface.
    Of(String),
    /// None.
    None,
}
