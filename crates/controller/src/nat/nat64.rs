//! Instances that let IPv6 hosts reach IPv4 servers (NAT64, RFC 6146): the prefix of their policies.

use std::collections::HashMap;
use std::net::Ipv6Addr;

use ipnet::Ipv6Net;
use stoa_wire::siit::Prefix;
use stoa_yang::error::ValidationErrors;

use super::paths::{instance_path, policy_path};
use super::values::without_module;
use crate::config::model::{Interface, Nat64Prefix, NatInstance, NatPolicy, PortControl};

/// A leaf that NAT64 has no use for: its name, why, what to do, and whether a policy has it.
type Leaf = (&'static str, &'static str, &'static str, fn(&NatPolicy) -> bool);

const FOREIGN: [Leaf; 5] = [
    (
        "subscriber-match",
        "all hosts that send to the prefix are translated",
        "Remove it; choose hosts by an access list.",
        |it| !it.subscriber_match.is_empty(),
    ),
    (
        "port-allocation-type",
        "port sets are for IPv4 subscribers",
        "Remove it; limit the ports of a host by port-quota.",
        |it| it.port_allocation_type.as_deref() == Some("port-range-allocation"),
    ),
    (
        "algs",
        "gateways do not translate addresses of the other family (RFC 6384)",
        "Remove them; passive FTP of IPv6 hosts (EPSV) needs no gateway.",
        |it| !it.algs.is_empty(),
    ),
    (
        "stoa-nat:subscriber-mask-v4",
        "subscribers are IPv6 hosts",
        "Remove it; a network of 64 bits is one subscriber.",
        |it| it.subscriber_mask.is_some(),
    ),
    (
        "stoa-nat:port-control",
        "PCP and NAT-PMP are for IPv4 hosts",
        "Remove it, or give it to a policy of NAT44.",
        |it| it.port_control != PortControl::default(),
    ),
];

/// The type of such an instance.
pub(super) const TYPE: &str = "nat64";

/// Whether an instance is of this type. Prefixes in another one are an error, and here what only NAT44 has.
pub(super) fn is_of_type(instance: &NatInstance, errors: &mut ValidationErrors) -> bool {
    let is_it = instance.kind.as_deref().is_some_and(|it| without_module(it) == TYPE);
    if is_it {
        foreign(instance, errors);
        return true;
    }
    let with_prefixes = instance.policy.iter().find(|it| !it.nat64_prefixes.is_empty());
    if let Some(policy) = with_prefixes {
        errors.add(
            format!("{}/nat64-prefixes", policy_path(instance.id, policy.id)),
            "only instances of the types nat64, siit and eam translate packets to such a prefix",
            "Set the type of the instance to ietf-nat:nat64, or to ietf-nat:siit without state.",
        );
    }
    false
}

/// What such an instance does not have.
fn foreign(instance: &NatInstance, errors: &mut ValidationErrors) {
    let path = instance_path(instance.id);
    if !instance.mapping_table.mapping_entry.is_empty() {
        errors.add(
            format!("{path}/mapping-table"),
            "an instance of the type nat64 has no static mappings: IPv4 hosts begin no connections",
            "Remove the mappings; IPv6 hosts that have an IPv4 address need none.",
        );
    }
    if !instance.nat_pass_through.is_empty() {
        errors.add(
            format!("{path}/nat-pass-through"),
            "IPv6 packets to the prefix of NAT64 reach nothing untranslated",
            "Remove it; drop packets by an access list.",
        );
    }
    for policy in &instance.policy {
        for (leaf, cause, fix, is_set) in FOREIGN {
            if is_set(policy) {
                errors.add(format!("{}/{leaf}", policy_path(instance.id, policy.id)), cause, fix);
            }
        }
    }
}

/// The prefix of a policy.
pub(super) fn prefix(
    (instance, policy): (&NatInstance, u32),
    errors: &mut ValidationErrors,
) -> Option<Ipv6Net> {
    let given = instance.policy.iter().find(|it| it.id == policy)?;
    let path = policy_path(instance.id, policy);
    let mut checked: Vec<Option<Ipv6Net>> =
        given.nat64_prefixes.iter().map(|it| checked(it, &path, errors)).collect();
    let fix = match checked.len() {
        1 => return checked.pop().flatten(),
        0 => "Add one, for example 64:ff9b::/96.",
        _ => "Delete all but one.",
    };
    errors.add(
        format!("{path}/nat64-prefixes"),
        format!("the policy has {} prefixes of NAT64, and needs one", checked.len()),
        fix,
    );
    None
}

/// A prefix of a policy, if it can be one.
fn checked(one: &Nat64Prefix, policy: &str, errors: &mut ValidationErrors) -> Option<Ipv6Net> {
    let path = format!("{policy}/nat64-prefixes[nat64-prefix='{}']", one.nat64_prefix);
    if one.stateless_enable {
        errors.add(
            format!("{path}/stateless-enable"),
            "an instance of the type nat64 translates with state",
            "Set it to false, or the type of the instance to ietf-nat:siit.",
        );
    }
    if !one.destination_ipv4_prefix.is_empty() {
        errors.add(
            format!("{path}/destination-ipv4-prefix"),
            "the prefix stands for all of IPv4",
            "Remove it; drop packets to other destinations by an access list.",
        );
    }
    embedding(&one.nat64_prefix, path, errors)
}

/// A prefix that can hold IPv4 addresses, and be routed.
pub(super) fn embedding(
    text: &str,
    path: String,
    errors: &mut ValidationErrors,
) -> Option<Ipv6Net> {
    let net = text.parse::<Ipv6Net>().ok()?;
    if Prefix::new(net.network(), net.prefix_len()).is_none() {
        errors.add(
            path,
            format!("{net} cannot hold IPv4 addresses (RFC 6052)"),
            "Use a prefix of 32, 40, 48, 56, 64 or 96 bits whose bits 64 to 71 are zero, such as 64:ff9b::/96.",
        );
        return None;
    }
    let first: Ipv6Addr = net.network();
    if first.is_multicast() || first.is_unicast_link_local() || first.is_unspecified() {
        errors.add(
            path,
            format!("{net} has addresses that are not routed"),
            "Use 64:ff9b::/96 or a prefix of your network.",
        );
        return None;
    }
    Some(net.trunc())
}

/// A policy with a prefix.
pub(super) struct Of<'a> {
    pub(super) vrf: &'a str,
    pub(super) instance: u32,
    pub(super) policy: u32,
    pub(super) prefix: Ipv6Net,
}

/// Checks that a VRF has one prefix, and that no address of its interfaces is in it: packets to addresses in the
/// prefix go to IPv4.
pub(super) fn check<'a>(
    policies: impl Iterator<Item = Of<'a>>,
    interfaces: &[Interface],
    errors: &mut ValidationErrors,
) {
    let mut known: HashMap<&str, Of<'_>> = HashMap::new();
    for it in policies {
        let Some(first) = known.get(it.vrf) else {
            interfaces.iter().filter(|interface| interface.vrf == it.vrf).for_each(|interface| {
                check_addresses(&it, interface, errors);
            });
            known.insert(it.vrf, it);
            continue;
        };
        if it.prefix != first.prefix {
            errors.add(
                format!("{}/nat64-prefixes", policy_path(it.instance, it.policy)),
                format!(
                    "{} is not {}, which policy {} of instance {} has in the same VRF",
                    it.prefix, first.prefix, first.policy, first.instance
                ),
                "Use one prefix in a VRF.",
            );
        }
    }
}

pub(super) fn check_addresses(of: &Of<'_>, interface: &Interface, errors: &mut ValidationErrors) {
    let addresses = interface.ip6.iter().flat_map(|family| &family.address);
    for address in addresses {
        if address.ip.parse().is_ok_and(|ip: Ipv6Addr| of.prefix.contains(&ip)) {
            errors.add(
                format!("{}/nat64-prefixes", policy_path(of.instance, of.policy)),
                format!(
                    "{} has the address {} of the interface \"{}\": nobody could reach it",
                    of.prefix, address.ip, interface.name
                ),
                "Use a prefix that no interface has addresses of.",
            );
        }
    }
}
