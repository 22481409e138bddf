//! Instances that translate between IPv4 and IPv6 without state (SIIT: RFC 7915, RFC 7757): their prefix and mappings.

mod checks;
mod state;

pub(super) use checks::check;
pub(super) use state::{instances, metrics};

use std::collections::HashMap;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use stoa_api::nat::SIIT_KEPT;
use stoa_api::v1;
use stoa_wire::siit::{self, Prefix, faults};
use stoa_yang::error::ValidationErrors;

use super::nat64;
use super::paths::{instance_path, policy_path};
use super::policies::external_interface;
use super::values::without_module;
use crate::config::model::{ExplicitMapping, Interface, NatInstance, NatPolicy, PortControl};
use crate::prefix::prefix_to_proto;

/// The types of such an instance.
const TYPES: [&str; 2] = ["siit", "eam"];

/// A mapping without errors, and where it is configured.
pub(super) struct Mapping {
    path: String,
    ip4: Ipv4Net,
    /// With `is_embedded` the whole prefix in which addresses are.
    ip6: Ipv6Net,
    is_embedded: bool,
}

impl Mapping {
    fn plain(&self) -> Option<siit::Mapping> {
        let (ip4, network) = ((self.ip4.network(), self.ip4.prefix_len()), self.ip6.network());
        match self.is_embedded {
            true => siit::Mapping::embedded(ip4, Prefix::new(network, self.ip6.prefix_len())?),
            false => siit::Mapping::explicit(ip4, (network, self.ip6.prefix_len())),
        }
    }
}

/// A policy without errors.
pub(super) struct Policy<'a> {
    instance: u32,
    id: u32,
    vrf: &'a str,
    prefix: Ipv6Net,
    mappings: Vec<Mapping>,
    kept: Vec<Ipv4Net>,
    /// The external interface; "": none.
    interface: &'a str,
}

/// Whether an instance is of this type. Mappings in another one are an error.
pub(super) fn is_of_type(instance: &NatInstance, errors: &mut ValidationErrors) -> bool {
    let is_it = instance.kind.as_deref().is_some_and(|it| TYPES.contains(&without_module(it)));
    let with_mappings = instance.policy.iter().find(|it| !it.eam.is_empty());
    if let Some(policy) = with_mappings.filter(|_| !is_it) {
        errors.add(
            format!("{}/eam", policy_path(instance.id, policy.id)),
            "only instances of the types siit and eam have explicit address mappings",
            "Set the type of the instance to ietf-nat:eam.",
        );
    }
    is_it
}

/// The policies of an instance. `kept`: destinations of its nat-pass-through.
pub(super) fn policies<'a>(
    instance: &'a NatInstance,
    (interfaces, kept): (&HashMap<&str, &'a Interface>, &[Ipv4Net]),
    errors: &mut ValidationErrors,
) -> Vec<Policy<'a>> {
    foreign(instance, errors);
    if kept.len() > SIIT_KEPT {
        errors.add(
            format!("{}/nat-pass-through", instance_path(instance.id)),
            format!("{} destinations are more than {SIIT_KEPT}", kept.len()),
            "Use fewer, or shorter prefixes.",
        );
    }
    let of = |given: &'a NatPolicy| policy(instance.id, given, (interfaces, kept), errors);
    instance.policy.iter().filter_map(of).collect()
}

/// What such an instance does not have.
fn foreign(instance: &NatInstance, errors: &mut ValidationErrors) {
    let cause = "an instance without state translates addresses by its prefix and mappings alone";
    if !instance.mapping_table.mapping_entry.is_empty() {
        errors.add(
            format!("{}/mapping-table", instance_path(instance.id)),
            cause,
            "Remove the mappings; write them as eam of a policy.",
        );
    }
    for policy in &instance.policy {
        let is_set = [
            ("subscriber-match", !policy.subscriber_match.is_empty()),
            ("external-ip-address-pool", !policy.external_ip_address_pool.is_empty()),
            ("port-set-restrict", policy.port_set_restrict != Default::default()),
            ("port-set", policy.port_set.is_some()),
            ("port-quota", !policy.port_quota.is_empty()),
            ("mapping-type", policy.mapping_type.is_some()),
            ("filtering-type", policy.filtering_type.is_some()),
            ("address-allocation-type", policy.address_allocation_type.is_some()),
            ("port-allocation-type", policy.port_allocation_type.is_some()),
            ("algs", !policy.algs.is_empty()),
            ("stoa-nat:refusal", policy.refusal.is_some()),
            ("stoa-nat:subscriber-mask-v4", policy.subscriber_mask.is_some()),
            ("stoa-nat:port-control", policy.port_control != PortControl::default()),
        ];
        for (leaf, _) in is_set.into_iter().filter(|it| it.1) {
            let path = format!("{}/{leaf}", policy_path(instance.id, policy.id));
            errors.add(path, cause, "Remove it, or use an instance of the type nat64 with it.");
        }
    }
}

fn policy<'a>(
    instance: u32,
    given: &'a NatPolicy,
    (interfaces, kept): (&HashMap<&str, &'a Interface>, &[Ipv4Net]),
    errors: &mut ValidationErrors,
) -> Option<Policy<'a>> {
    let path = policy_path(instance, given.id);
    let external = match given.external_realm.external_interface {
        Some(_) => Some(external_interface(given, &path, interfaces, errors)?),
        None => None,
    };
    let (interface, vrf) = external.map_or(("", ""), |(name, of)| (name, of.vrf.as_str()));
    let (prefix, mut mappings) = prefixes(given, &path, errors);
    mappings.extend(given.eam.iter().filter_map(|it| explicit(it, &path, errors)));
    if mappings.is_empty() && given.eam.is_empty() && prefix.is_some() {
        errors.add(
            format!("{path}/eam"),
            "no host has an IPv4 address: the policy has no mapping",
            "Add one, for example eam 192.0.2.1/32 ipv6-prefix 2001:db8:1::1/128, or give a prefix destinations.",
        );
    }
    refuse_faults(prefix?, &mappings, errors);
    let (id, kept) = (given.id, kept.to_vec());
    Some(Policy { instance, id, vrf, prefix: prefix?, mappings, kept, interface })
}

/// Refuses mappings that cannot be meant.
fn refuse_faults(prefix: Ipv6Net, mappings: &[Mapping], errors: &mut ValidationErrors) {
    let Some(prefix) = Prefix::new(prefix.network(), prefix.prefix_len()) else { return };
    let numbered = mappings.iter().enumerate();
    let mut numbered: Vec<_> = numbered.filter_map(|(at, it)| Some((at, it.plain()?))).collect();
    faults::check(prefix, &mut numbered, |number, fault| {
        let Mapping { path, is_embedded, .. } = &mappings[number];
        let leaf = if fault.is_of_ip6() && !is_embedded { "/ipv6-prefix" } else { "" };
        errors.add(format!("{path}{leaf}"), fault.to_string(), fault.fix());
    });
}

/// The prefix for all of IPv4, which is that without destinations, and mappings of destinations to others.
fn prefixes(
    given: &NatPolicy,
    policy: &str,
    errors: &mut ValidationErrors,
) -> (Option<Ipv6Net>, Vec<Mapping>) {
    let path = |it: &str| format!("{policy}/nat64-prefixes[nat64-prefix='{it}']");
    let (mut rest, mut mappings) = (Vec::new(), Vec::new());
    for one in &given.nat64_prefixes {
        let path = path(&one.nat64_prefix);
        let Some(net) = nat64::embedding(&one.nat64_prefix, path.clone(), errors) else {
            return (None, mappings);
        };
        if one.destination_ipv4_prefix.is_empty() || given.nat64_prefixes.len() == 1 {
            rest.push(net);
        }
        for destination in &one.destination_ipv4_prefix {
            let text = &destination.ipv4_prefix;
            let path = format!("{path}/destination-ipv4-prefix[ipv4-prefix='{text}']");
            let ip4 = prefix4(text, &path, errors);
            mappings.extend(ip4.map(|ip4| Mapping { path, ip4, ip6: net, is_embedded: true }));
        }
    }
    if rest.len() != 1 {
        errors.add(
            format!("{policy}/nat64-prefixes"),
            format!("{} prefixes stand for all of IPv4, and one is needed", rest.len()),
            "Give all prefixes but one a destination-ipv4-prefix; without any prefix, add 64:ff9b::/96, for example.",
        );
        return (None, mappings);
    }
    (rest.pop(), mappings)
}

/// An IPv4 prefix.
fn prefix4(text: &str, path: &str, errors: &mut ValidationErrors) -> Option<Ipv4Net> {
    let net = text.parse::<Ipv4Net>().ok()?;
    if net.addr() != net.network() {
        errors.add(path, format!("{net} has host bits"), format!("Use {}.", net.trunc()));
        return None;
    }
    Some(net)
}

/// An explicit mapping (RFC 7757 section 3.2).
fn explicit(
    given: &ExplicitMapping,
    policy: &str,
    errors: &mut ValidationErrors,
) -> Option<Mapping> {
    let path = format!("{policy}/eam[ipv4-prefix='{}']", given.ipv4_prefix);
    let ip4 = prefix4(&given.ipv4_prefix, &path, errors);
    let net = given.ipv6_prefix.parse::<Ipv6Net>().ok()?;
    let path6 = format!("{path}/ipv6-prefix");
    if net.addr() != net.network() {
        errors.add(path6, format!("{net} has host bits"), format!("Use {}.", net.trunc()));
        return None;
    }
    let ip4 = ip4?;
    let (suffix4, suffix6) = (32 - ip4.prefix_len(), 128 - net.prefix_len());
    if suffix4 > suffix6 {
        errors.add(
            path6,
            format!(
                "{net} has {suffix6} bits behind its prefix, and {ip4} has {suffix4} (RFC 7757)"
            ),
            format!("Use an IPv6 prefix of at most {} bits.", 128 - suffix4),
        );
        return None;
    }
    Some(Mapping { path, ip4, ip6: net, is_embedded: false })
}

/// As in the contract.
pub(super) fn desired(policies: &[Policy<'_>]) -> Option<v1::Siit> {
    let ip4 = |net: Ipv4Net| prefix_to_proto(&IpNet::V4(net));
    let ip6 = |net: Ipv6Net| prefix_to_proto(&IpNet::V6(net));
    let mapping = |it: &Mapping| v1::SiitMapping {
        ip4: Some(ip4(it.ip4)),
        ip6: Some(ip6(it.ip6)),
        embedded: it.is_embedded,
    };
    let policy = |it: &Policy<'_>| v1::SiitPolicy {
        instance: it.instance,
        policy: it.id,
        vrf: it.vrf.to_owned(),
        prefix: Some(ip6(it.prefix)),
        mappings: it.mappings.iter().map(mapping).collect(),
        kept: it.kept.iter().copied().map(ip4).collect(),
        error_interface: it.interface.to_owned(),
    };
    (!policies.is_empty()).then(|| v1::Siit { policies: policies.iter().map(policy).collect() })
}
