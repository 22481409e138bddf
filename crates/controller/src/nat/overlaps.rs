//! External addresses that several policies or mappings use.

use stoa_yang::error::ValidationErrors;

use super::mappings::Mapping;
use super::paths::{mapping_path, pool_path};
use super::policies::Policy;
use super::values::{meet, overlap, range};

/// Comparisons of mappings with each other, at most: some hundredths of a second. Sorted, only neighbours compare.
const STEPS: usize = 4_000_000;

/// Checks that no external address with a port belongs to two.
pub(super) fn check(
    policies: &[Policy<'_>],
    mappings: &[Mapping<'_>],
    errors: &mut ValidationErrors,
) {
    pools(policies, errors);
    externals(mappings, errors);
    internals(mappings, errors);
    pools_and_mappings(policies, mappings, errors);
}

/// Pools of one VRF: those of different policies are equal, or have no address in common.
fn pools(policies: &[Policy<'_>], errors: &mut ValidationErrors) {
    let of_policy = |policy| -> Vec<_> {
        let Policy { pools, .. }: &Policy<'_> = policy;
        pools.iter().map(|(id, net)| (policy, *id, *net)).collect()
    };
    let mut all: Vec<_> = policies.iter().flat_map(of_policy).collect();
    all.sort_by_key(|(policy, id, net)| (policy.vrf, *net, policy.instance, policy.id, *id));
    // Of two prefixes that overlap, one contains the other, and comes first.
    for (at, (policy, id, net)) in all.iter().enumerate() {
        let behind = all[at + 1..].iter();
        let inside =
            behind.take_while(|(other, _, it)| other.vrf == policy.vrf && overlap(*net, *it));
        for (other, other_id, it) in inside {
            let is_same = (other.instance, other.id) == (policy.instance, policy.id);
            if !is_same && it == net {
                continue;
            }
            let of = match is_same {
                true => format!("pool {id}"),
                false => {
                    format!("pool {id} of policy {} of instance {}", policy.id, policy.instance)
                }
            };
            let has_sets = policy.blocks.is_some() || other.blocks.is_some();
            let fix = match has_sets || is_same {
                true => "Use other addresses.",
                false => {
                    "Use other addresses, or the same prefix: policies may share a whole pool."
                }
            };
            let path = pool_path(other.instance, other.id, *other_id);
            errors.add_about(path, format!("{it} has addresses of {of}, {net}"), fix, &[net]);
        }
    }
}

/// External ends of mappings.
fn externals(mappings: &[Mapping<'_>], errors: &mut ValidationErrors) {
    let mut all: Vec<&Mapping<'_>> = mappings.iter().collect();
    all.sort_by_key(|it| (it.vrf, it.external, it.external_ports(), it.instance, it.index));
    let mut steps = STEPS;
    for (at, first) in all.iter().enumerate() {
        let behind = all[at + 1..].iter();
        for second in
            behind.take_while(|it| it.vrf == first.vrf && overlap(first.external, it.external))
        {
            let Some(left) = steps.checked_sub(1) else { return };
            steps = left;
            let ports = [first, second].map(|it| it.external_ports());
            if !first.shares_protocol(second) || !meet(ports[0], ports[1]) {
                continue;
            }
            let path = mapping_path(second.instance, second.index);
            errors.add_about(
                format!("{path}/external-src-address"),
                format!(
                    "{}{} belongs to mapping {} of instance {} as well",
                    second.external,
                    of_ports(second),
                    first.index,
                    first.instance
                ),
                "Use each external address and port once.",
                &[&first.external],
            );
        }
    }
}

/// Internal addresses of mappings without ports: each has one external address.
fn internals(mappings: &[Mapping<'_>], errors: &mut ValidationErrors) {
    let whole = mappings.iter().filter(|it| it.ports.is_none());
    let mut all: Vec<_> = whole.filter_map(|it| Some((it.internal?, it))).collect();
    all.sort_by_key(|(net, it)| (it.vrf, it.internal_vrf, *net, it.instance, it.index));
    for (at, (net, first)) in all.iter().enumerate() {
        let behind = all[at + 1..].iter();
        let vrfs = |it: &Mapping<'_>| (it.vrf == first.vrf, it.internal_vrf == first.internal_vrf);
        let inside =
            behind.take_while(|(other, it)| vrfs(it) == (true, true) && overlap(*net, *other));
        for (other, second) in inside.filter(|(_, it)| first.shares_protocol(it)) {
            let path = mapping_path(second.instance, second.index);
            errors.add_about(
                format!("{path}/internal-src-address"),
                format!(
                    "{other} has an external address by mapping {} of instance {} already",
                    first.index, first.instance
                ),
                "Give each internal address one external address, or map ports.",
                &[net],
            );
        }
    }
}

/// An address that stands for another one is not in a pool.
fn pools_and_mappings(
    policies: &[Policy<'_>],
    mappings: &[Mapping<'_>],
    errors: &mut ValidationErrors,
) {
    for mapping in mappings.iter().filter(|it| it.ports.is_none()) {
        for policy in policies.iter().filter(|it| it.vrf == mapping.vrf) {
            let Some((id, net)) =
                policy.pools.iter().find(|(_, it)| overlap(*it, mapping.external))
            else {
                continue;
            };
            let path = mapping_path(mapping.instance, mapping.index);
            errors.add_about(
                format!("{path}/external-src-address"),
                format!(
                    "{} has addresses of pool {id} of policy {} of instance {}, {net}",
                    mapping.external, policy.id, policy.instance
                ),
                "Use an address outside of all pools, or map ports of it.",
                &[net],
            );
        }
    }
}

/// " ports 80 to 90", or nothing.
fn of_ports(mapping: &Mapping<'_>) -> String {
    mapping.ports.map_or_else(String::new, |(_, ports)| format!(" port {}", range(ports)))
}
