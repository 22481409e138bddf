//! The kernel configuration: what operators set on host interfaces with Linux's tools (addresses, links,
//! neighbours, rules), merged into the desired state.
//!
//! It never becomes part of the configuration, and ends when it is undone in Linux ([decision
//! 34](../../../docs/decisions/0034-kernel-configuration.md)).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;
use stoa_api::text::ip_bytes;
use stoa_api::v1;
use stoa_api::v1::route::Action;

use crate::config::Interfaces;
use crate::config::blocks::Keyed;
use crate::config::host_addresses::{
    is_link_local, not_a_host, not_in_subnet, subnet_router_anycast,
};
use crate::prefix::{net_from_proto, prefix_to_proto};
use crate::rib::Routes;

/// Maximum rules of one VRF and family, a limit of the forwarder.
const RULES: usize = 1_024;

/// Settings of one host interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceSettings {
    /// Addresses that are not in the configuration.
    pub addresses: BTreeSet<IpNet>,
    /// `ip link set DEVICE down`.
    pub is_down: bool,
    /// Permanent neighbours.
    pub neighbors: BTreeMap<IpAddr, [u8; 6]>,
}

impl InterfaceSettings {
    /// Whether there are no settings.
    pub fn is_empty(&self) -> bool {
        *self == InterfaceSettings::default()
    }
}

/// The kernel configuration of all namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelConfiguration {
    /// Settings by interface.
    pub interfaces: BTreeMap<String, InterfaceSettings>,
    /// Policy rules.
    pub rules: Vec<v1::Rule>,
}

/// A setting that cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The interface.
    pub interface: String,
    /// The reason.
    pub reason: String,
    /// How to fix it.
    pub fix: &'static str,
}

/// The addresses in use in each VRF.
#[derive(Default)]
struct Taken {
    own: BTreeMap<(String, IpAddr), String>,
    subnets: BTreeMap<(String, IpNet), String>,
}

impl Taken {
    fn of(interfaces: &Interfaces) -> Taken {
        let mut taken = Taken::default();
        for interface in interfaces.iter() {
            for family in [&interface.ip4, &interface.ip6].into_iter().flatten() {
                let nets = family.enabled.then_some(&family.addresses).into_iter().flatten();
                for net in nets.filter_map(net_from_proto) {
                    taken.add(&interface.vrf, &interface.name, net);
                }
            }
        }
        taken
    }

    fn add(&mut self, vrf: &str, interface: &str, net: IpNet) {
        // The same link-local address may be on several links.
        if is_link_local(net.addr()) && net.addr().is_ipv6() {
            return;
        }
        self.own.insert((vrf.to_owned(), net.addr()), interface.to_owned());
        if net.prefix_len() < net.max_prefix_len() {
            self.subnets.insert((vrf.to_owned(), net.trunc()), interface.to_owned());
        }
    }
}

impl KernelConfiguration {
    /// Whether there are no settings.
    pub fn is_empty(&self) -> bool {
        self.interfaces.values().all(InterfaceSettings::is_empty) && self.rules.is_empty()
    }

    /// Merges the kernel configuration into the desired state, its interfaces and its routes. Returns the settings that
    /// cannot be applied.
    pub fn merge(
        &self,
        desired: &mut v1::Desired,
        interfaces: &mut Interfaces,
        routes: &mut Routes,
    ) -> Vec<Refused> {
        let mut refused = Vec::new();
        let mut taken = Taken::of(interfaces);
        let mut new = Vec::new();
        let named = self.interfaces.keys().filter_map(|name| interfaces.named(name));
        // Who is first gets an address that two want.
        let mut ordered: Vec<v1::Interface> = named.cloned().collect();
        ordered.sort_by(|one, other| one.key().cmp(&other.key()));
        for mut interface in ordered {
            let Some(orders) = self.interfaces.get(&interface.name) else { continue };
            interface.enabled &= !orders.is_down;
            for net in &orders.addresses {
                match address(&mut interface, *net, &mut taken) {
                    Ok(made) => new.extend(made),
                    Err((reason, fix)) => {
                        refused.push(Refused { interface: interface.name.clone(), reason, fix });
                    }
                }
            }
            for (ip, mac) in &orders.neighbors {
                if !is_near(&interface, *ip) {
                    refused.push(Refused {
                        interface: interface.name.clone(),
                        reason: format!("the neighbour {ip} is in no subnet of the interface"),
                        fix: "Remove it (ip neigh del), or add an address of its subnet to the interface.",
                    });
                    continue;
                }
                let is_it = |it: &v1::Neighbor| {
                    it.interface == interface.name && it.address == ip_bytes(*ip)
                };
                // Neighbours of the configuration take precedence.
                if !desired.neighbors.iter().any(is_it) {
                    desired.neighbors.push(v1::Neighbor {
                        interface: interface.name.clone(),
                        address: ip_bytes(*ip),
                        mac: mac.to_vec(),
                    });
                }
            }
            interfaces.set(interface);
        }
        // A direct route always wins.
        new.into_iter().for_each(|route| routes.set(route));
        refused.extend(self.merge_rules(desired, interfaces));
        refused
    }

    /// Appends the rules to those of the configuration.
    fn merge_rules(&self, desired: &mut v1::Desired, interfaces: &Interfaces) -> Option<Refused> {
        let mut counts: BTreeMap<(String, u32), usize> = BTreeMap::new();
        for rule in &desired.rules {
            *counts.entry((rule.vrf.clone(), rule.family)).or_default() += 1;
        }
        let vrfs: HashSet<&str> = desired.vrfs.iter().map(|vrf| vrf.name.as_str()).collect();
        let (mut not_imported, mut made, mut known) = (0, Vec::new(), HashSet::new());
        known.extend(&desired.rules);
        for rule in &self.rules {
            // The rules may belong to an earlier configuration.
            let is_vrf = |name: &str| name.is_empty() || vrfs.contains(name);
            let is_there = rule.interface.is_empty()
                || interfaces.named(&rule.interface).is_some_and(|it| it.vrf == rule.vrf);
            let has_table = match &rule.action {
                Some(v1::rule::Action::Table(table)) => is_vrf(&table.vrf),
                _ => true,
            };
            if !is_there || !is_vrf(&rule.vrf) || !has_table || !known.insert(rule) {
                continue;
            }
            let count = counts.entry((rule.vrf.clone(), rule.family)).or_default();
            if *count == RULES {
                not_imported += 1;
                continue;
            }
            *count += 1;
            made.push(rule.clone());
        }
        desired.rules.extend(made);
        let reason = format!("{not_imported} rules exceed the limit of {RULES} per VRF and family");
        let fix = "Remove some of them (ip rule del).";
        (not_imported > 0).then(|| Refused { interface: String::new(), reason, fix })
    }
}

/// Adds an address to an interface. Returns the resulting routes.
fn address(
    interface: &mut v1::Interface,
    net: IpNet,
    taken: &mut Taken,
) -> Result<Vec<v1::Route>, (String, &'static str)> {
    let ip = net.addr();
    let is_ip6 = ip.is_ipv6();
    let place = if is_ip6 { &mut interface.ip6 } else { &mut interface.ip4 };
    if place.as_ref().is_some_and(|family| !family.enabled) {
        let family = if is_ip6 { "IPv6" } else { "IPv4" };
        let reason = format!("{net}: the configuration disables {family} there");
        return Err((
            reason,
            "Remove it (ip addr del), or enable the family in the configuration.",
        ));
    }
    let remove = "Remove it (ip addr del), or use another address.";
    if let Some(reason) = not_a_host(ip) {
        return Err((format!("{ip} {reason}"), remove));
    }
    if let Some(reason) = not_in_subnet(ip, &net) {
        return Err((format!("{ip} {reason}"), remove));
    }
    let vrf = interface.vrf.clone();
    match taken.own.get(&(vrf.clone(), ip)) {
        // The address is in the configuration too, which takes precedence.
        Some(owner) if *owner == interface.name => return Ok(Vec::new()),
        Some(owner) => {
            return Err((format!("interface {owner} already has the address {ip}"), remove));
        }
        None => {}
    }
    if let Some(owner) = taken.subnets.get(&(vrf.clone(), net.trunc()))
        && *owner != interface.name
    {
        return Err((
            format!("the subnet {} is already on interface {owner}", net.trunc()),
            remove,
        ));
    }
    // The default of the configuration (RFC 8344): forwarding is disabled.
    let family = place.get_or_insert_with(|| v1::Family { enabled: true, ..v1::Family::default() });
    family.addresses.push(v1::Address {
        address: ip_bytes(ip),
        prefix_length: net.prefix_len().into(),
        ..v1::Address::default()
    });
    let is_router = family.forwarding;
    taken.add(&vrf, &interface.name, net);
    if is_ip6 && is_link_local(ip) {
        return Ok(Vec::new());
    }
    let route = |prefix: IpNet, action| v1::Route {
        prefix: Some(prefix_to_proto(&prefix)),
        protocol: v1::Protocol::Direct.into(),
        action: Some(action),
        vrf: vrf.clone(),
    };
    let local = |ip: IpAddr| route(IpNet::from(ip), Action::Special(v1::Special::Local.into()));
    let mut routes = vec![local(ip)];
    routes.extend(subnet_router_anycast(net).filter(|_| is_router).map(local));
    if net.prefix_len() < net.max_prefix_len() {
        let path = v1::Path { interface: interface.name.clone(), next_hop: vec![], weight: 1 };
        routes.push(route(net.trunc(), Action::Paths(v1::Paths { paths: vec![path] })));
    }
    Ok(routes)
}

/// Whether a neighbour may be on the link of an interface.
fn is_near(interface: &v1::Interface, ip: IpAddr) -> bool {
    let family = if ip.is_ipv6() { &interface.ip6 } else { &interface.ip4 };
    let Some(family) = family.as_ref().filter(|family| family.enabled) else { return false };
    let link_local = ip.is_ipv6() && is_link_local(ip);
    link_local || family.addresses.iter().filter_map(net_from_proto).any(|net| net.contains(&ip))
}

#[cfg(test)]
mod tests;
