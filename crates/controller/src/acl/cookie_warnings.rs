//! What a commit warns about: zones whose SYN cookies cannot protect anything, or not what NAT translates.

use std::collections::BTreeSet;

use stoa_api::v1;
use stoa_wire::protocol::TCP;

use super::paths::zone_path;
use super::warnings::LISTED;
use crate::config::Interfaces;
use crate::nat::{mapping_path, policy_path};
use crate::warning::Warning;

/// Whether a rule begins flows of TCP connections.
fn begins_connections(rule: &v1::AclRule) -> bool {
    let is_tcp = rule.protocols.is_empty() || rule.protocols.contains(&TCP.into());
    rule.stateful && is_tcp && !rule.matches_nothing
}

/// The lists that decide about packets to a zone: of interfaces that may receive them, of pairs, and of its interfaces.
fn lists_to<'a>(
    zone: &str,
    interfaces: &'a Interfaces,
    pairs: &'a [v1::ZonePair],
) -> BTreeSet<&'a str> {
    let mut lists = BTreeSet::new();
    for interface in interfaces.iter() {
        let Some(acls) = &interface.acls else { continue };
        let of_both = match interface.zone == zone {
            true => [&acls.out4, &acls.out6],
            false => [&acls.in4, &acls.in6],
        };
        lists.extend(of_both.into_iter().flatten().map(String::as_str));
    }
    let to_zone = pairs.iter().filter(|pair| pair.to == zone);
    lists.extend(to_zone.flat_map(|pair| pair.acls4.iter().chain(&pair.acls6)).map(String::as_str));
    lists
}

/// A policy whose external interface is in a zone with SYN cookies: what it translates gets none.
fn of_policy(policy: &v1::NatPolicy, interfaces: &Interfaces) -> Option<Warning> {
    let interface = interfaces.named(&policy.interface)?;
    interface.zone_syn_cookies?;
    let (zone, v1::NatPolicy { instance, policy, .. }) = (&interface.zone, policy);
    Some(Warning {
        text: format!(
            "zone {zone}: its syn-cookies do not protect connections whose source NAT policy {policy} of instance \
             {instance} translates at interface {}: they hold an external port from their SYN on; limit half-open \
             connections of the zone that they come from by flow-limits, or remove syn-cookies",
            interface.name
        ),
        nodes: vec![format!("{}/syn-cookies", zone_path(zone)), policy_path(*instance, *policy)],
    })
}

/// Twice NAT of TCP: connections to it get no cookies, whatever zone their hosts are in.
fn of_mapping(mapping: &v1::NatMapping, zones: &BTreeSet<&str>) -> Option<Warning> {
    let is_tcp = [0, TCP.into()].contains(&mapping.protocol);
    mapping.internal_remote.as_ref().filter(|_| is_tcp)?;
    let v1::NatMapping { instance, index, .. } = mapping;
    let nodes = zones.iter().map(|zone| format!("{}/syn-cookies", zone_path(zone)));
    Some(Warning {
        text: format!(
            "NAT mapping {index} of instance {instance}: the syn-cookies of zones do not protect connections to it: it \
             translates their sources, too, so they hold a port from their SYN on; limit half-open connections of the \
             zone that they come from by flow-limits, or let its hosts see the sources"
        ),
        nodes: std::iter::once(mapping_path(*instance, *index)).chain(nodes).collect(),
    })
}

/// The warnings about connections to zones with SYN cookies that NAT takes from their protection.
fn beside_nat(zones: &BTreeSet<&str>, nat: &v1::Nat, interfaces: &Interfaces) -> Vec<Warning> {
    let policies = nat.policies.iter().filter_map(|it| of_policy(it, interfaces)).take(LISTED);
    let mappings = nat.mappings.iter().filter_map(|it| of_mapping(it, zones)).take(LISTED);
    policies.chain(mappings).collect()
}

/// The warnings about zones with SYN cookies.
pub(crate) fn cookie_warnings(desired: &v1::Desired, interfaces: &Interfaces) -> Vec<Warning> {
    let (rules, pairs) = (&desired.acl_rules, &desired.zone_pairs);
    let with_cookies = interfaces.iter().filter(|it| it.zone_syn_cookies.is_some());
    let zones: BTreeSet<&str> = with_cookies.map(|it| it.zone.as_str()).collect();
    if zones.is_empty() {
        return Vec::new();
    }
    let of_connections = rules.iter().filter(|rule| begins_connections(rule));
    let stateful: BTreeSet<&str> = of_connections.map(|rule| rule.acl.as_str()).collect();
    let is_idle = |zone: &&str| lists_to(zone, interfaces, pairs).is_disjoint(&stateful);
    let warning = |zone: &str| Warning {
        text: format!(
            "zone {zone}: its syn-cookies have no effect: no stateful entry admits TCP connections to it, and only \
             those have flows; make an entry of a pair to this zone stateful, or remove syn-cookies"
        ),
        nodes: vec![format!("{}/syn-cookies", zone_path(zone))],
    };
    let idle = zones.iter().copied().filter(is_idle).map(warning);
    let translated = desired.nat.iter().flat_map(|nat| beside_nat(&zones, nat, interfaces));
    idle.chain(translated).collect()
}
