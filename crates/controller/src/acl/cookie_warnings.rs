//! What a commit warns about: zones whose SYN cookies cannot protect anything.

use std::collections::BTreeSet;

use stoa_api::v1;
use stoa_wire::protocol::TCP;

use super::paths::zone_path;
use crate::config::Interfaces;
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

/// The warnings about zones with SYN cookies.
pub(crate) fn cookie_warnings(
    rules: &[v1::AclRule],
    (interfaces, pairs): (&Interfaces, &[v1::ZonePair]),
) -> Vec<Warning> {
    let with_cookies = interfaces.iter().filter(|it| it.zone_syn_cookies.is_some());
    let zones: BTreeSet<&str> = with_cookies.map(|it| it.zone.as_str()).collect();
    let mut stateful: BTreeSet<&str> = BTreeSet::new();
    if !zones.is_empty() {
        let of_connections = rules.iter().filter(|rule| begins_connections(rule));
        stateful.extend(of_connections.map(|rule| rule.acl.as_str()));
    }
    let is_idle = |zone: &&str| lists_to(zone, interfaces, pairs).is_disjoint(&stateful);
    let warning = |zone: &str| Warning {
        text: format!(
            "zone {zone}: its syn-cookies have no effect: no stateful entry admits TCP connections to it, and only \
             those have flows; make an entry of a pair to this zone stateful, or remove syn-cookies"
        ),
        nodes: vec![format!("{}/syn-cookies", zone_path(zone))],
    };
    zones.into_iter().filter(is_idle).map(warning).collect()
}
