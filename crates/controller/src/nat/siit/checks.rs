//! What policies without state must not have in common, with each other and with the rest of the configuration.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

use ipnet::{Ipv4Net, Ipv6Net};
use stoa_api::nat::SIIT_MAPPINGS;
use stoa_yang::error::ValidationErrors;

use super::{Mapping, Policy};
use crate::config::model::{Family, Interface};
use crate::nat::mappings;
use crate::nat::nat64::{self, Of};
use crate::nat::paths::{INSTANCES, policy_path};
use crate::nat::policies;
use crate::nat::values::overlap;

/// Policies and static mappings of NAT44 and NAT64.
type Stateful<'a> = (&'a [policies::Policy<'a>], &'a [mappings::Mapping<'a>]);

/// Checks policies of all instances. `stateful`: those of NAT44 and NAT64, with static mappings.
pub(in crate::nat) fn check(
    all: &[Policy<'_>],
    (stateful, interfaces): (Stateful<'_>, &[Interface]),
    errors: &mut ValidationErrors,
) {
    let mappings: usize = all.iter().map(|it| it.mappings.len()).sum();
    if mappings > SIIT_MAPPINGS {
        let cause = format!("{mappings} mappings without state are more than {SIIT_MAPPINGS}");
        errors.add(INSTANCES, cause, "Use prefixes of several addresses.");
        return;
    }
    let mut known: HashMap<&str, &Policy<'_>> = HashMap::new();
    for it in all {
        if let Some(first) = known.insert(it.vrf, it) {
            errors.add(
                policy_path(it.instance, it.id),
                format!(
                    "policy {} of instance {} translates without state in the same VRF, too",
                    first.id, first.instance
                ),
                "Use one policy, and put all mappings into it.",
            );
        }
        beside_others(it, stateful.0, errors);
        beside_static(it, stateful.1, errors);
        beside_router(it, interfaces, errors);
        let of = Of { vrf: it.vrf, instance: it.instance, policy: it.id, prefix: it.prefix };
        let of_vrf = interfaces.iter().filter(|interface| interface.vrf == it.vrf);
        of_vrf.for_each(|interface| nat64::check_addresses(&of, interface, errors));
    }
}

/// Checks a policy against those with state in its VRF.
fn beside_others(
    of: &Policy<'_>,
    stateful: &[policies::Policy<'_>],
    errors: &mut ValidationErrors,
) {
    let path = policy_path(of.instance, of.id);
    for other in stateful.iter().filter(|it| it.vrf == of.vrf) {
        let meets = |it: Ipv6Net| it.contains(&of.prefix) || of.prefix.contains(&it);
        if let Some(prefix) = other.nat64.filter(|it| meets(*it)) {
            errors.add(
                format!("{path}/nat64-prefixes"),
                format!(
                    "{} has addresses of {prefix}, which policy {} of instance {} translates with state",
                    of.prefix, other.id, other.instance
                ),
                "Use different prefixes.",
            );
        }
        for mapping in of_some_hosts(of) {
            if let Some((_, pool)) = other.pools.iter().find(|it| overlap(it.1, mapping.ip4)) {
                errors.add(
                    &mapping.path,
                    format!(
                        "{} has external addresses of policy {} of instance {}: {pool}",
                        mapping.ip4, other.id, other.instance
                    ),
                    "Use addresses that no pool has.",
                );
            }
        }
    }
}

/// Mappings of a policy that name addresses. One that maps all of IPv4 has those of others, too, which keep their
/// meaning.
fn of_some_hosts<'a>(of: &'a Policy<'_>) -> impl Iterator<Item = &'a Mapping> {
    of.mappings.iter().filter(|it| it.ip4.prefix_len() > 0)
}

/// Checks a policy against static mappings of NAT44 in its VRF.
fn beside_static(of: &Policy<'_>, all: &[mappings::Mapping<'_>], errors: &mut ValidationErrors) {
    let of_vrf = all.iter().filter(|it| it.vrf == of.vrf);
    let externals: BTreeMap<(Ipv4Addr, u8), &mappings::Mapping<'_>> =
        of_vrf.map(|it| ((it.external.network(), it.external.prefix_len()), it)).collect();
    if externals.is_empty() {
        return;
    }
    for mapping in of_some_hosts(of) {
        let net = mapping.ip4;
        let inside = || externals.range((net.network(), 0)..=(net.broadcast(), 32)).next();
        let around = |length: u8| {
            let net = Ipv4Net::new(net.network(), length).ok()?.trunc();
            externals.get_key_value(&(net.network(), length))
        };
        let Some((_, other)) = inside().or_else(|| (0..net.prefix_len()).find_map(around)) else {
            continue;
        };
        errors.add_about(
            &mapping.path,
            format!(
                "{net} has external addresses of mapping {} of instance {}: {}",
                other.index, other.instance, other.external
            ),
            "Use addresses that no static mapping has.",
            &[&other.external],
        );
    }
}

/// Checks that no mapping is of an address of the router alone, which is not translated.
fn beside_router(of: &Policy<'_>, interfaces: &[Interface], errors: &mut ValidationErrors) {
    let of_vrf = interfaces.iter().filter(|it| it.vrf == of.vrf);
    let addresses = |family: &Family| -> Vec<Ipv4Addr> {
        let of_routers = family.vrrp.vrrp_instance.iter().flat_map(|it| &it.addresses4.list);
        let all = family.address.iter().map(|it| &it.ip).chain(of_routers.map(|it| &it.ip));
        all.filter_map(|it| it.parse().ok()).collect()
    };
    let own: HashMap<Ipv4Addr, &str> = of_vrf
        .filter_map(|it| Some((addresses(it.ip4.as_ref()?), it.name.as_str())))
        .flat_map(|(all, name)| all.into_iter().map(move |one| (one, name)))
        .collect();
    for mapping in of_some_hosts(of).filter(|it| it.ip4.prefix_len() == 32) {
        let Some(name) = own.get(&mapping.ip4.network()) else { continue };
        errors.add_about(
            &mapping.path,
            format!(
                "{} is an address of the router, of interface \"{name}\": packets to it are not translated",
                mapping.ip4.network()
            ),
            "Map another address, or remove this one from the interface.",
            &[name],
        );
    }
}
