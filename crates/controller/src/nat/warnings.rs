//! What a commit warns about: policies that do nothing, and external addresses that others have.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use stoa_api::acl::protocol_name;
use stoa_api::v1;
use stoa_wire::siit::Prefix;

use super::own_sockets::shared_ports;
use super::paths::{mapping_path, policy_path};
use super::services::{own_addresses, taken_from};
use crate::config::Interfaces;
use crate::config::addresses::Addressing;
use crate::config::management::Management;
use crate::config::model::Login;
use crate::config::route_sources::RouteSourceConfig;
use crate::prefix::prefix_from_proto;
use crate::warning::Warning;

/// Warnings of a kind that are listed.
pub(super) const LISTED: usize = 20;

/// What policies and mappings are compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a> {
    /// All interfaces.
    pub(crate) interfaces: &'a Interfaces,
    /// Their addresses and subnets.
    pub(crate) addressing: &'a Addressing,
    /// The route sources, whose daemons may have sessions.
    pub(crate) sources: &'a [RouteSourceConfig],
    /// The servers of the management.
    pub(crate) management: &'a Management,
    /// The portal where hosts log in.
    pub(crate) login: &'a Login,
}

/// Addresses that external prefixes are compared with, at most: some hundredths of a second.
const STEPS: usize = 2_000_000;

impl Around<'_> {
    /// How many external prefixes are compared with all addresses of the router and its static neighbors.
    fn prefixes_to_look_at(self) -> usize {
        let addresses: usize = self.addressing.tables().map(|(_, it)| it.own.iter().count()).sum();
        STEPS / (addresses + self.addressing.neighbors.len()).max(1)
    }
}

/// The warnings about policies and mappings.
pub(crate) fn warnings(desired: &v1::Desired, around: Around<'_>) -> Vec<Warning> {
    let Some(v1::Nat { policies, mappings }) = &desired.nat else { return Vec::new() };
    let mut warnings: Vec<Warning> = hidden(policies).take(LISTED).collect();
    warnings.extend(policies.iter().filter_map(|it| without_address(it, around)).take(LISTED));
    warnings.extend(policies.iter().filter_map(|it| out_of_reach(it, around)).take(LISTED));
    let of_sockets = |it: &v1::NatPolicy| {
        let own = own_addresses(it, around).into_iter();
        shared_ports(it, own.filter_map(|(at, name)| Some((at, around.interfaces.named(name)?))))
    };
    warnings.extend(policies.iter().filter_map(of_sockets).take(LISTED));
    warnings.extend(policies.iter().filter_map(idle_quota).take(LISTED));
    warnings.extend(policies.iter().filter_map(small_quota).take(LISTED));
    let looked_at = around.prefixes_to_look_at();
    let of_pools = policies.iter().take(looked_at).filter_map(|it| pool_of_others(it, around));
    warnings.extend(of_pools.take(LISTED));
    warnings.extend(mappings.iter().flat_map(|it| taken_from(it, around)).take(LISTED));
    let of_others = mappings.iter().take(looked_at);
    let of_others = of_others.filter_map(|it| address_of_others(it, policies, around));
    warnings.extend(of_others.take(LISTED));
    warnings
}

/// The prefixes of a message.
fn nets(prefixes: &[v1::Prefix]) -> impl Iterator<Item = IpNet> {
    prefixes.iter().filter_map(prefix_from_proto)
}

/// Policies behind one that has all their sources.
fn hidden(policies: &[v1::NatPolicy]) -> impl Iterator<Item = Warning> {
    let mut before: HashMap<&str, Vec<&v1::NatPolicy>> = HashMap::new();
    policies.iter().filter_map(move |it| {
        let former = before.entry(&it.interface).or_default();
        let hiding = former.iter().copied().find(|former| covers(former, it));
        former.push(it);
        let hiding = hiding?;
        let (instance, policy) = (it.instance, it.policy);
        Some(Warning {
            text: format!(
                "NAT policy {policy} of instance {instance} translates nothing: policy {} of instance {} comes first \
                 at interface {} and has all its sources; give it a subscriber-match, or a lower number to this one",
                hiding.policy, hiding.instance, it.interface
            ),
            nodes: vec![
                policy_path(instance, policy),
                policy_path(hiding.instance, hiding.policy),
            ],
        })
    })
}

/// Whether a policy has all sources of another one. Its exempt destinations do not matter: no later policy is asked
/// about them.
fn covers(former: &v1::NatPolicy, later: &v1::NatPolicy) -> bool {
    if former.nat64_prefix.is_some() != later.nat64_prefix.is_some() {
        return false;
    }
    let is_inside = |net: IpNet| nets(&former.subscribers).any(|it| it.contains(&net));
    former.subscribers.is_empty()
        || !later.subscribers.is_empty() && nets(&later.subscribers).all(is_inside)
}

/// A policy without a pool at an interface without an address.
fn without_address(policy: &v1::NatPolicy, around: Around<'_>) -> Option<Warning> {
    let v1::NatPolicy { instance, policy: id, interface, pools, static_only, .. } = policy;
    let is_there = around.addressing.subnets(interface, false).is_some_and(|it| !it.is_empty());
    (pools.is_empty() && !static_only && !is_there).then(|| Warning {
        text: format!(
            "NAT policy {id} of instance {instance}: interface {interface} has no IPv4 address, so packets that the \
             policy matches are dropped; give the interface an address, or the policy a pool"
        ),
        nodes: vec![
            policy_path(*instance, *id),
            crate::warning::interface_node(interface, "ietf-ip:ipv4"),
        ],
    })
}

/// A policy of NAT64 with the well-known prefix, whose external interface has a subnet that is not global.
fn out_of_reach(policy: &v1::NatPolicy, around: Around<'_>) -> Option<Warning> {
    let v1::NatPolicy { instance, policy: id, interface, .. } = policy;
    let IpNet::V6(given) = prefix_from_proto(policy.nat64_prefix.as_ref()?)? else { return None };
    let prefix = Prefix::new(given.network(), given.prefix_len())?;
    let subnets = around.addressing.subnets(interface, false)?.iter();
    let subnet = subnets.map(IpNet::trunc).find(|it| match it.network() {
        IpAddr::V4(network) => !prefix.may_have(network),
        IpAddr::V6(_) => false,
    })?;
    Some(Warning {
        text: format!(
            "NAT policy {id} of instance {instance}: {given} stands for global addresses alone, so IPv6 hosts do not reach \
             {subnet} of interface {interface}; use a prefix of the network to reach it"
        ),
        nodes: vec![format!("{}/nat64-prefixes", policy_path(*instance, *id))],
    })
}

/// A quota of a protocol that is more than the port sets of a subscriber have.
fn idle_quota(policy: &v1::NatPolicy) -> Option<Warning> {
    let v1::NatPolicy { instance, policy: id, blocks, quotas, .. } = policy;
    let v1::NatPortBlocks { size, limit, .. } = (*blocks)?;
    let idle = quotas.iter().find(|it| it.protocol != 0 && it.ports > size * limit)?;
    Some(Warning {
        text: format!(
            "NAT policy {id} of instance {instance}: the port-quota of {} ports of {} never takes effect: {limit} port \
             sets of {size} ports have fewer; lower port-limit, or raise stoa-nat:max-port-sets",
            idle.ports,
            protocol_name(idle.protocol)
        ),
        nodes: vec![policy_path(*instance, *id)],
    })
}

/// A quota below one port set: the rest of each is used by nobody.
fn small_quota(policy: &v1::NatPolicy) -> Option<Warning> {
    let v1::NatPolicy { instance, policy: id, blocks, quotas, .. } = policy;
    let size = (*blocks)?.size;
    let of_all = quotas.iter().filter(|it| it.protocol == 0);
    // Of the protocols with a quota of their own, the largest says how much of a port set is used.
    let alone = quotas.iter().filter(|it| it.protocol != 0);
    let has_all = [1, 6, 17].iter().all(|it| quotas.iter().any(|quota| quota.protocol == *it));
    let most = alone.max_by_key(|it| it.ports).filter(|_| has_all);
    let small = of_all.chain(most).find(|it| it.ports < size)?;
    let of = match small.protocol {
        0 => "all protocols".to_owned(),
        protocol => protocol_name(protocol),
    };
    Some(Warning {
        text: format!(
            "NAT policy {id} of instance {instance}: the port-quota of {} ports of {of} is less than one port set of \
             {size} ports, so the rest of each is never used; raise port-limit, or lower port-set-size",
            small.ports
        ),
        nodes: vec![policy_path(*instance, *id)],
    })
}

/// What an external prefix has that is not for NAT alone.
fn conflict(net: IpNet, vrf: &str, external: &[&str], around: Around<'_>) -> Option<String> {
    let table = around.addressing.table(vrf);
    let own = table.own.iter().find(|(address, _)| net.contains(*address));
    if let Some((address, interface)) = own {
        return Some(format!("has {address}, the router's own address at interface {interface}"));
    }
    let neighbors = around.addressing.neighbors.iter();
    let address = |it: &v1::Neighbor| stoa_api::text::ip(&it.address);
    let neighbor = neighbors
        .filter(|it| around.addressing.vrf_of(&it.interface) == vrf)
        .find_map(|it| Some((address(it).filter(|ip| net.contains(ip))?, &it.interface)));
    if let Some((address, interface)) = neighbor {
        return Some(format!("has {address}, a host at interface {interface}"));
    }
    let (interface, subnet) = on_link(net, table)?;
    (!external.contains(&interface.as_str())).then(|| {
        format!("lies in the subnet {subnet} of interface {interface}, which is not external")
    })
}

/// A connected subnet that has a prefix.
fn on_link(net: IpNet, table: &crate::config::addresses::Table) -> Option<(String, IpNet)> {
    let (interface, subnet) = table.on_link(net.network())?;
    subnet.contains(&net).then(|| (interface.to_owned(), subnet))
}

/// A policy whose pool has an address of somebody else.
fn pool_of_others(policy: &v1::NatPolicy, around: Around<'_>) -> Option<Warning> {
    let v1::NatPolicy { instance, policy: id, interface, .. } = policy;
    let vrf = around.addressing.vrf_of(interface);
    let found =
        nets(&policy.pools).find_map(|net| Some((net, conflict(net, vrf, &[interface], around)?)));
    let (net, conflict) = found?;
    Some(Warning {
        text: format!(
            "NAT policy {id} of instance {instance}: its pool {net} {conflict}: packets from outside to it may be lost; \
             use external addresses that nobody else has"
        ),
        nodes: vec![policy_path(*instance, *id)],
    })
}

/// A mapping without ports whose external address somebody else has. Those of the router are in `services`.
fn address_of_others(
    mapping: &v1::NatMapping,
    policies: &[v1::NatPolicy],
    around: Around<'_>,
) -> Option<Warning> {
    let v1::NatMapping { instance, index, vrf, .. } = mapping;
    let net = prefix_from_proto(mapping.external.as_ref()?)?;
    let own = &around.addressing.table(vrf).own;
    if own.get(&net.network()).is_some_and(|_| net.prefix_len() == 32) {
        return None;
    }
    let of_instance = policies.iter().filter(|it| it.instance == *instance);
    let external: Vec<&str> = of_instance.map(|it| it.interface.as_str()).collect();
    let conflict = conflict(net, vrf, &external, around)?;
    Some(Warning {
        text: format!(
            "NAT mapping {index} of instance {instance}: its external address {net} {conflict}: packets from outside to \
             it may be lost; use external addresses that nobody else has"
        ),
        nodes: vec![mapping_path(*instance, *index)],
    })
}

/// The address of a prefix of one address.
pub(super) fn single(net: IpNet) -> Option<IpAddr> {
    (net.prefix_len() == net.max_prefix_len()).then(|| net.network())
}
