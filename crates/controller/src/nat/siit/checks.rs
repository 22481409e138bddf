//! What policies without state must not have in common, with each other and with the rest of the configuration.

use std::collections::HashMap;

use ipnet::{Ipv4Net, Ipv6Net};
use stoa_api::nat::SIIT_MAPPINGS;
use stoa_yang::error::ValidationErrors;

use super::Policy;
use crate::config::model::Interface;
use crate::nat::nat64::{self, Of};
use crate::nat::paths::{INSTANCES, policy_path};
use crate::nat::policies;
use crate::nat::values::overlap;

/// Checks policies of all instances. `stateful`: those of NAT44 and NAT64.
pub(in crate::nat) fn check(
    all: &[Policy<'_>],
    (stateful, interfaces): (&[policies::Policy<'_>], &[Interface]),
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
        of_policy(it, errors);
        beside_others(it, stateful, errors);
        let of = Of { vrf: it.vrf, instance: it.instance, policy: it.id, prefix: it.prefix };
        let of_vrf = interfaces.iter().filter(|interface| interface.vrf == it.vrf);
        of_vrf.for_each(|interface| nat64::check_addresses(&of, interface, errors));
    }
}

/// Checks the mappings of a policy. Longer prefixes inside of shorter ones are as they should be.
fn of_policy(of: &Policy<'_>, errors: &mut ValidationErrors) {
    let (mut of4, mut of6): (HashMap<Ipv4Net, &str>, HashMap<Ipv6Net, Ipv4Net>) =
        Default::default();
    for it in &of.mappings {
        if let Some(other) = of4.insert(it.ip4, &it.path) {
            errors.add(
                &it.path,
                format!("{} has another mapping: {other}", it.ip4),
                "Remove one of them.",
            );
        }
        if it.is_embedded {
            continue;
        }
        if let Some(other) = of6.insert(it.ip6, it.ip4) {
            errors.add(
                format!("{}/ipv6-prefix", it.path),
                format!(
                    "{} is that of {other}, too: packets from it would have one of both",
                    it.ip6
                ),
                "Give each IPv4 prefix an IPv6 prefix of its own.",
            );
        }
        if it.ip6.contains(&of.prefix) {
            errors.add(
                format!("{}/ipv6-prefix", it.path),
                format!(
                    "{} has all of {}, which stands for hosts without a mapping",
                    it.ip6, of.prefix
                ),
                "Use another prefix for one of them.",
            );
        }
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
        // One that maps all of IPv4 has the pools of others, too: longer prefixes count.
        let explicit = of.mappings.iter().filter(|it| it.ip4.prefix_len() > 0);
        for mapping in explicit {
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
