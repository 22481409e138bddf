//! Which rule decides about a packet at an interface, and on its way from a zone to another.

use std::net::IpAddr;

use stoa_api::text::ip_bytes;
use stoa_api::v1;
use stoa_api::zones::ROUTER;

use super::interfaces::Way;
use super::walk::{Decision, Packet, walk};
use crate::config::has_address;
use crate::config::others::families;
use crate::configuration::Configuration;

/// What becomes of a packet at an interface, or on its way through the router: the lists of the receiving interface,
/// those between the zones and those of the sending interface decide one after the other.
///
/// # Errors
/// There is no such interface, direction or zone.
pub fn evaluate(configuration: &Configuration, packet: &Packet) -> Result<Decision, String> {
    let of = &packet.of;
    let (interface, output) =
        (interface(configuration, &of.interface)?, interface(configuration, &of.output)?);
    let is_input = match of.direction.as_str() {
        "in" => true,
        "out" => false,
        _ if interface.is_none() => true,
        other => return Err(format!("{other:?} is no direction: use in or out")),
    };
    if !is_input && output.is_some() {
        return Err("of two interfaces, the first one receives: use the direction in".to_owned());
    }
    let (receiver, sender) = if is_input { (interface, output) } else { (None, interface) };
    let zone = |given: &str, of: Option<&v1::Interface>| match given {
        "" => of.map(|it| it.zone.clone()).unwrap_or_default(),
        given => given.to_owned(),
    };
    let (from, mut to) = (zone(&of.from_zone, receiver), zone(&of.to_zone, sender));
    // Only what interfaces receive is for the router; a request that names where the packet goes knows better.
    let is_for_router = is_input
        && !from.is_empty()
        && from != ROUTER
        && of.to_zone.is_empty()
        && sender.is_none()
        && is_for_router(configuration, receiver, packet.destination);
    if is_for_router {
        ROUTER.clone_into(&mut to);
    }
    for zone in [&from, &to] {
        check_zone(configuration, zone)?;
    }
    let mut decisions = Vec::new();
    let at_input = |it| at_interface(configuration, (it, true), (packet, Way::received(it)));
    decisions.extend(receiver.map(at_input));
    let way = Way {
        ingress: receiver.filter(|_| from != ROUTER),
        egress: sender.filter(|_| to != ROUTER),
    };
    if is_for_router || !of.from_zone.is_empty() || !of.to_zone.is_empty() || output.is_some() {
        decisions.push(between_zones(configuration, (&from, &to), (packet, way)));
    }
    // Output lists see forwarded packets only.
    let sender = sender.filter(|_| from != ROUTER);
    let at_output = |it| at_interface(configuration, (it, false), (packet, way));
    decisions.extend(sender.map(at_output));
    let refusal = decisions.iter().position(|it| it.action != "accept");
    let by_rule = || decisions.iter().rposition(|it| !it.rule.is_empty());
    let decisive = refusal.or_else(by_rule).or_else(|| decisions.len().checked_sub(1));
    let nothing = || "name an interface, or a zone".to_owned();
    decisive.map(|at| decisions.swap_remove(at)).ok_or_else(nothing)
}

/// The interface of this name; "": none.
fn interface<'a>(
    configuration: &'a Configuration,
    name: &str,
) -> Result<Option<&'a v1::Interface>, String> {
    if name.is_empty() {
        return Ok(None);
    }
    let found = configuration.interfaces.named(name);
    found.map(Some).ok_or_else(|| format!("there is no interface {name:?}"))
}

fn check_zone(configuration: &Configuration, zone: &str) -> Result<(), String> {
    let mut pairs = configuration.desired.zone_pairs.iter();
    let is_known = zone.is_empty()
        || zone == ROUTER
        || pairs.any(|pair| pair.from == zone || pair.to == zone)
        || configuration.interfaces.iter().any(|interface| interface.zone == zone);
    let unknown = || format!("no interface is in a zone {zone:?}, and no pair names it");
    if is_known { Ok(()) } else { Err(unknown()) }
}

/// Whether packets to an address that an interface receives go no further than to the router, which may have no use for
/// them: its own addresses, groups, all hosts, and link-local addresses.
fn is_for_router(
    configuration: &Configuration,
    receiver: Option<&v1::Interface>,
    destination: IpAddr,
) -> bool {
    let is_local = match destination {
        IpAddr::V4(four) => four.is_multicast() || four.is_broadcast(),
        IpAddr::V6(six) => six.is_multicast() || six.is_unicast_link_local(),
    };
    let bytes = ip_bytes(destination);
    let is_own = |interface: &v1::Interface| {
        let mut virtual_routers = families(interface).flat_map(|it| &it.virtual_routers);
        has_address(interface, destination)
            || virtual_routers.any(|it| it.addresses.contains(&bytes))
    };
    let is_in_vrf = |it: &v1::Interface| receiver.is_none_or(|receiver| receiver.vrf == it.vrf);
    is_local || configuration.interfaces.iter().any(|it| is_in_vrf(it) && is_own(it))
}

/// What the lists of an interface do.
fn at_interface(
    configuration: &Configuration,
    (interface, is_input): (&v1::Interface, bool),
    (packet, way): (&Packet, Way<'_>),
) -> Decision {
    let sets = interface.acls.clone().unwrap_or_default();
    let (family, lists) = match (is_input, packet.source.is_ipv4()) {
        (true, true) => (4, sets.in4),
        (true, false) => (6, sets.in6),
        (false, true) => (4, sets.out4),
        (false, false) => (6, sets.out6),
    };
    let name = &interface.name;
    let place = format!("{} of {name}", if is_input { "input" } else { "output" });
    if lists.is_empty() {
        let reason = format!("no list of IPv{family} is attached to {name} in this direction");
        return Decision { action: "accept".to_owned(), reason, place, ..Decision::default() };
    }
    Decision { place, ..of_lists(configuration, &lists, (packet, way)) }
}

/// What the pair of two zones does; "" is the zone of interfaces that are in none.
fn between_zones(
    configuration: &Configuration,
    (from, to): (&str, &str),
    (packet, way): (&Packet, Way<'_>),
) -> Decision {
    let name = |zone: &str| if zone.is_empty() { "none".to_owned() } else { zone.to_owned() };
    let place = format!("zones {} to {}", name(from), name(to));
    let accepted = |reason: &str| {
        let (action, reason) = ("accept".to_owned(), reason.to_owned());
        Decision { action, reason, place: place.clone(), ..Decision::default() }
    };
    // What the router forwards is not from its link: no hop limit makes it a message of the link.
    let mut packet = packet.clone();
    if ![from, to].contains(&ROUTER) {
        packet.of.hop_limit = 0;
    }
    let packet = &packet;
    if from == to {
        return accepted(match from {
            "" => "neither interface is in a zone",
            _ => "both interfaces are in one zone",
        });
    }
    let mut pairs = configuration.desired.zone_pairs.iter();
    let Some(pair) = pairs.find(|pair| pair.from == from && pair.to == to) else {
        if [from, to].contains(&ROUTER) {
            return accepted("no pair names the zone and the router");
        }
        let decision = of_lists(configuration, &[], (packet, way));
        return without_rule(decision, "there is no pair of these zones", place);
    };
    let lists = if packet.source.is_ipv4() { &pair.acls4 } else { &pair.acls6 };
    let mut decision = of_lists(configuration, lists, (packet, way));
    // Packets of the router have no flow.
    let is_of_router = [from, to].contains(&ROUTER);
    decision.stateful &= !is_of_router;
    decision.has_flows &= !is_of_router;
    without_rule(decision, "no rule of the pair matches", place)
}

/// A decision of a pair, with the reason why a packet without a rule is dropped.
fn without_rule(mut decision: Decision, reason: &str, place: String) -> Decision {
    if decision.rule.is_empty() && decision.action == "drop" {
        reason.clone_into(&mut decision.reason);
    }
    Decision { place, ..decision }
}

fn of_lists(
    configuration: &Configuration,
    lists: &[String],
    (packet, way): (&Packet, Way<'_>),
) -> Decision {
    let rules = |list: &String| {
        let list = list.clone();
        configuration.desired.acl_rules.iter().filter(move |rule| rule.acl == list)
    };
    let own = |end| configuration.interfaces.iter().any(|it| has_address(it, end));
    let is_own = own(packet.source) || own(packet.destination);
    let has_flows = configuration.desired.acl_rules.iter().any(|rule| rule.stateful);
    Decision { has_flows, ..walk(lists.iter().flat_map(rules), (packet, way), is_own) }
}
