//! Policies: which packets get another source, and which one.

use std::collections::HashMap;

use ipnet::{Ipv4Net, Ipv6Net};
use stoa_api::nat::{ADDRESSES, PORTS};
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use super::alg::algs;
use super::blocks::{Blocks, blocks, quotas};
use super::nat64;
use super::paths::{instance_path, policy_path, pool_path};
use super::port_control::port_control;
use super::values::{Ports, ip4, ports, unicast, without_module};
use crate::config::model::{
    ExternalPool, FilteringType, Interface, MappingType, NatInstance, NatPolicy,
};

/// A policy without errors.
#[derive(Clone, Debug)]
pub(super) struct Policy<'a> {
    pub(super) instance: u32,
    pub(super) id: u32,
    pub(super) interface: &'a str,
    pub(super) vrf: &'a str,
    /// Sources that it translates; none: all.
    pub(super) subscribers: Vec<Ipv4Net>,
    /// Pools with their numbers; none: the address of the interface.
    pub(super) pools: Vec<(u32, Ipv4Net)>,
    pub(super) ports: Ports,
    pub(super) mapping: MappingType,
    pub(super) filtering: FilteringType,
    /// Sources without a static mapping of their own are not translated.
    pub(super) is_static_only: bool,
    pub(super) blocks: Option<Blocks>,
    /// What a subscriber may have.
    pub(super) quotas: Vec<v1::NatPortQuota>,
    pub(super) is_silent: bool,
    pub(super) algs: Vec<v1::NatAlg>,
    pub(super) port_control: Option<v1::NatPortControl>,
    /// The prefix of NAT64, in an instance of this type.
    pub(super) nat64: Option<Ipv6Net>,
}

/// A leaf with a few values of which Stoa has some.
struct Choice<'a> {
    leaf: &'a str,
    value: Option<&'a str>,
    /// The value that Stoa has.
    supported: &'a str,
    /// What it does in place of the others.
    reason: &'a str,
}

/// The policies of an instance, by number: that of the first match.
pub(super) fn policies<'a>(
    instance: &'a NatInstance,
    interfaces: &HashMap<&str, &'a Interface>,
    errors: &mut ValidationErrors,
) -> Vec<Policy<'a>> {
    let is_static_only = is_static_only(instance, errors);
    let is_nat64 = nat64::is_of_type(instance, errors);
    let all = instance.policy.iter();
    let mut found: Vec<_> =
        all.filter_map(|it| policy((instance.id, it), interfaces, errors)).collect();
    for policy in &mut found {
        policy.is_static_only = is_static_only;
        if is_nat64 {
            policy.nat64 = nat64::prefix((instance, policy.id), errors);
        }
        if is_static_only && policy.blocks.is_some() {
            errors.add(
                format!("{}/port-allocation-type", policy_path(instance.id, policy.id)),
                "an instance of the type basic-nat44 gives no ports to anybody",
                "Remove it, or set the type of the instance to ietf-nat:napt44.",
            );
        }
        if is_static_only && policy.port_control.is_some() {
            errors.add(
                format!("{}/stoa-nat:port-control", policy_path(instance.id, policy.id)),
                "an instance of the type basic-nat44 has no mappings that hosts could ask for",
                "Remove it, or set the type of the instance to ietf-nat:napt44.",
            );
        }
        if let Some((pool, _)) = policy.pools.first().filter(|_| is_static_only) {
            errors.add(
                pool_path(instance.id, policy.id, *pool),
                "an instance of the type basic-nat44 translates by its static mappings alone",
                "Remove the pool, or set the type of the instance to ietf-nat:napt44.",
            );
        }
    }
    found.sort_by_key(|it| it.id);
    found
}

/// Those with a prefix of NAT64.
pub(super) fn of_nat64<'a>(policies: &'a [Policy<'_>]) -> impl Iterator<Item = nat64::Of<'a>> {
    policies.iter().filter_map(|it| {
        let (vrf, instance, policy) = (it.vrf, it.instance, it.id);
        Some(nat64::Of { vrf, instance, policy, prefix: it.nat64? })
    })
}

/// Whether an instance translates by its static mappings alone.
fn is_static_only(instance: &NatInstance, errors: &mut ValidationErrors) -> bool {
    let kind = instance.kind.as_deref().map_or("napt44", without_module);
    if !matches!(kind, "napt44" | "basic-nat44" | nat64::TYPE) {
        errors.add(
            format!("{}/type", instance_path(instance.id)),
            format!("Stoa does not translate as {kind} says"),
            "Set it to ietf-nat:napt44, ietf-nat:basic-nat44, ietf-nat:nat64, ietf-nat:siit, ietf-nat:eam or ietf-nat:nptv6.",
        );
    }
    kind == "basic-nat44"
}

/// The external interface of a policy, if it has one.
pub(super) fn external_interface<'a>(
    given: &'a NatPolicy,
    path: &str,
    interfaces: &HashMap<&str, &'a Interface>,
    errors: &mut ValidationErrors,
) -> Option<(&'a str, &'a Interface)> {
    let path = format!("{path}/external-realm/external-interface");
    let Some(name) = given.external_realm.external_interface.as_deref() else {
        errors.add(
            &path,
            "the policy has no external interface",
            "Set it to the interface that sends translated packets.",
        );
        return None;
    };
    // libyang has checked that the interface exists.
    let of = *interfaces.get(name)?;
    if !of.cross_connect.is_empty() {
        errors.add_about(
            &path,
            format!("\"{name}\" is cross-connected: its frames are not routed"),
            "Use another interface, or remove stoa-interfaces:cross-connect of this one.",
            &[&name],
        );
    }
    Some((name, of))
}

fn policy<'a>(
    (instance, given): (u32, &'a NatPolicy),
    interfaces: &HashMap<&str, &'a Interface>,
    errors: &mut ValidationErrors,
) -> Option<Policy<'a>> {
    let path = policy_path(instance, given.id);
    unsupported(given, &path, errors);
    let subscribers = given.subscriber_match.iter().filter_map(|it| {
        let leaf = format!("{path}/subscriber-match[match-id='{}']/subnet", it.match_id);
        ip4(&it.subnet, &leaf, errors)
    });
    let subscribers: Vec<_> = subscribers.collect();
    let of_pool = |ExternalPool { pool_id, external_ip_pool }: &ExternalPool| {
        let leaf = pool_path(instance, given.id, *pool_id);
        Some((*pool_id, unicast(external_ip_pool, &leaf, errors)?))
    };
    let pools: Vec<_> = given.external_ip_address_pool.iter().filter_map(of_pool).collect();
    pool_sizes(&pools, &path, errors);
    let range = ports(given.port_set_restrict, &format!("{path}/port-set-restrict"), errors);
    let (interface, of) = external_interface(given, &path, interfaces, errors)?;
    let ports = range.unwrap_or(PORTS);
    let blocks = blocks(&path, given, (&subscribers, &pools, ports), errors);
    let quotas = quotas(&path, given, errors);
    Some(Policy {
        instance,
        id: given.id,
        interface,
        vrf: &of.vrf,
        subscribers,
        pools,
        ports,
        mapping: given.mapping_type.unwrap_or(MappingType::Eim),
        filtering: given.filtering_type.unwrap_or(FilteringType::Edf),
        is_static_only: false,
        blocks,
        quotas,
        is_silent: given.refusal.as_deref() == Some("silent"),
        algs: algs(given, &path, errors),
        port_control: port_control(given, &path, errors),
        nat64: None,
    })
}

fn pool_sizes(pools: &[(u32, Ipv4Net)], path: &str, errors: &mut ValidationErrors) {
    let addresses: u64 = pools.iter().map(|(_, net)| 1_u64 << (32 - net.prefix_len())).sum();
    if addresses > ADDRESSES {
        errors.add(
            format!("{path}/external-ip-address-pool"),
            format!("{addresses} external addresses of a policy are more than {ADDRESSES}"),
            "Use smaller prefixes, or several policies for different sources.",
        );
    }
}

/// Values of the module that Stoa does not have.
fn unsupported(given: &NatPolicy, path: &str, errors: &mut ValidationErrors) {
    let choices = [
        Choice {
            leaf: "address-allocation-type",
            value: given.address_allocation_type.as_deref(),
            supported: "paired",
            reason: "a host keeps its external address (RFC 4787, REQ-2)",
        },
        Choice {
            leaf: "port-allocation-type",
            value: given.port_allocation_type.as_deref(),
            supported: "port-preservation or port-range-allocation",
            reason: "a packet keeps its port if it is free, and gets a random one otherwise",
        },
        Choice {
            leaf: "mapping-type",
            value: given.mapping_type.filter(|it| *it == MappingType::Adm).map(|_| "adm"),
            supported: "eim or edm",
            reason: "mappings depend on no end, or on address and port of the other end",
        },
        Choice {
            leaf: "fragment-behavior",
            value: given.fragment_behavior.as_deref(),
            supported: "in-order",
            reason: "fragments follow the first one of their packet, which has the ports",
        },
    ];
    for Choice { leaf, value, supported, reason } in choices {
        if let Some(value) = value.filter(|value| !supported.split(" or ").any(|it| it == *value)) {
            let cause = format!("Stoa does not have \"{value}\": {reason}");
            errors.add(
                format!("{path}/{leaf}"),
                cause,
                format!("Set it to {supported}, or remove it."),
            );
        }
    }
    let dependent = given.mapping_type == Some(MappingType::Edm);
    let of_many = given.filtering_type.filter(|it| dependent && *it != FilteringType::Edf);
    if of_many.is_some() {
        errors.add(
            format!("{path}/filtering-type"),
            "with mapping-type edm, an external port belongs to one connection: nobody else can use it",
            "Set it to edf, or remove it; or set mapping-type to eim.",
        );
    }
}
