//! Warnings about host interfaces of several VRFs in one network namespace, which has one table and one set of
//! addresses.
//!
//! It is no error: the addresses may differ, each VRF may have a routing daemon with a table of its own there, and the
//! devices may belong to VRF devices of Linux.

use std::collections::{BTreeSet, HashMap};

use ipnet::IpNet;

use super::host_paths::{Hosts, host_paths, hosts};
use crate::config::Interfaces;
use crate::prefix::net_from_proto;
use crate::rib::Routes;
use crate::warning::{PROTOCOL, Warning, interface_node};

/// Warnings of each kind that are listed.
const LIMIT: usize = 20;

/// The part of an interface that names the namespace.
const HOST: &str = "stoa-host-interface:host-interface";

/// A subnet of a host interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Subnet<'a> {
    netns: &'a str,
    net: IpNet,
    vrf: &'a str,
    interface: &'a str,
}

/// What Linux cannot tell apart: subnets that overlap, and routes to one prefix.
pub(crate) fn warnings(interfaces: &Interfaces, routes: &Routes) -> Vec<Warning> {
    let hosts = hosts(interfaces);
    let mut vrfs: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    for (interface, host) in hosts.values() {
        vrfs.entry(&host.netns).or_default().insert(&interface.vrf);
    }
    vrfs.retain(|_, vrfs| vrfs.len() > 1);
    if vrfs.is_empty() {
        return Vec::new();
    }
    let is_shared = |netns: &str| vrfs.contains_key(netns);
    let mut warnings = overlaps(subnets(&hosts, is_shared));
    warnings.extend(hidden_routes(&hosts, routes, is_shared));
    warnings
}

/// The subnets of the host interfaces in these namespaces. Link-local addresses belong to a device.
fn subnets<'a>(hosts: &Hosts<'a>, is_shared: impl Fn(&str) -> bool) -> Vec<Subnet<'a>> {
    let mut all = Vec::new();
    for (interface, host) in hosts.values() {
        if !is_shared(&host.netns) {
            continue;
        }
        let families = [&interface.ip4, &interface.ip6].into_iter().flatten();
        let addresses = families.filter(|it| it.enabled).flat_map(|family| &family.addresses);
        let is_local = |net: &IpNet| match net {
            IpNet::V4(net) => net.addr().is_link_local(),
            IpNet::V6(net) => net.addr().is_unicast_link_local(),
        };
        let nets = addresses.filter_map(net_from_proto).filter(|net| !is_local(net));
        all.extend(nets.map(|net| Subnet {
            netns: &host.netns,
            net: net.trunc(),
            vrf: &interface.vrf,
            interface: &interface.name,
        }));
    }
    all
}

/// Subnets within those of another VRF in the same namespace.
fn overlaps(mut all: Vec<Subnet<'_>>) -> Vec<Warning> {
    // A subnet follows those that contain it.
    all.sort();
    let mut warnings = Vec::new();
    let mut around: Vec<Subnet<'_>> = Vec::new();
    for one in all {
        let contains = |it: &Subnet<'_>| it.netns == one.netns && it.net.contains(&one.net);
        while around.last().is_some_and(|last| !contains(last)) {
            around.pop();
        }
        if let Some(other) = around.iter().rev().find(|it| it.vrf != one.vrf) {
            warnings.push(overlap(&one, other));
            if warnings.len() == LIMIT {
                break;
            }
        }
        around.push(one);
    }
    warnings
}

fn overlap(one: &Subnet<'_>, other: &Subnet<'_>) -> Warning {
    let Subnet { netns, net, vrf, interface } = one;
    let text = format!(
        "interface {interface}: its subnet {net} of {} overlaps {} of interface {} of {}, and both have a host interface in \
         {}: programs there may answer to the wrong one; give each VRF a namespace (netns) of its own",
        named(vrf),
        other.net,
        other.interface,
        named(other.vrf),
        namespace(netns)
    );
    let family = if net.addr().is_ipv4() { "ietf-ip:ipv4" } else { "ietf-ip:ipv6" };
    let parts = [family, "stoa-vrf:vrf", HOST];
    let mut warning = Warning::of_interface(interface, &parts, text);
    warning.nodes.extend(parts.iter().map(|part| interface_node(other.interface, part)));
    warning
}

/// Routes whose prefix has a route of another VRF in the same namespace. That one is there.
fn hidden_routes(
    hosts: &Hosts<'_>,
    routes: &Routes,
    is_shared: impl Fn(&str) -> bool,
) -> Vec<Warning> {
    let mut first: HashMap<(&str, IpNet), &str> = HashMap::new();
    let mut hidden = BTreeSet::new();
    for path in host_paths(hosts, routes).filter(|path| is_shared(path.netns)) {
        let vrf = *first.entry((path.netns, path.prefix)).or_insert(path.vrf);
        if vrf != path.vrf && hidden.len() < LIMIT {
            hidden.insert((path.netns, path.prefix, path.vrf, vrf));
        }
    }
    let warning = |(netns, prefix, vrf, first)| {
        let text = format!(
            "route {prefix} of {} is not in {}, which has that of {}: give each VRF a namespace (netns) of its own",
            named(vrf),
            namespace(netns),
            named(first)
        );
        Warning { text, nodes: vec![PROTOCOL.to_owned()] }
    };
    hidden.into_iter().map(warning).collect()
}

fn named(vrf: &str) -> String {
    if vrf.is_empty() { "the default VRF".to_owned() } else { format!("VRF {vrf}") }
}

fn namespace(netns: &str) -> String {
    match netns {
        "" => "the namespace of the router".to_owned(),
        name => format!("namespace {name}"),
    }
}

#[cfg(test)]
mod tests {
    use stoa_api::text::ip_bytes;
    use stoa_api::v1;

    use super::*;

    fn interface(name: &str, vrf: &str, netns: &str, net: &str) -> v1::Interface {
        let net: IpNet = net.parse().unwrap();
        let address = v1::Address {
            address: ip_bytes(net.addr()),
            prefix_length: u32::from(net.prefix_len()),
            ..v1::Address::default()
        };
        let family =
            Some(v1::Family { enabled: true, addresses: vec![address], ..v1::Family::default() });
        let (ip4, ip6) = if net.addr().is_ipv4() { (family, None) } else { (None, family) };
        let host_interface = Some(v1::HostInterface { device: name.into(), netns: netns.into() });
        v1::Interface {
            name: name.into(),
            vrf: vrf.into(),
            ip4,
            ip6,
            host_interface,
            ..v1::Interface::default()
        }
    }

    fn of(all: Vec<v1::Interface>) -> Vec<Warning> {
        warnings(&all.into(), &Routes::from(Vec::new()))
    }

    #[test]
    fn overlapping_subnets_of_two_vrfs_in_one_namespace_are_warned_about() {
        for (one, other) in [
            ("10.0.1.1/24", "10.0.1.1/24"),
            ("10.0.0.1/16", "10.0.9.1/24"),
            ("fd00::1/64", "fd00::7/128"),
        ] {
            let all = vec![interface("a", "red", "x", one), interface("b", "", "x", other)];
            let found = of(all);
            let [warning] = &found[..] else { panic!("{one} {other}: {found:?}") };
            assert!(
                warning.text.contains("of VRF red") && warning.text.contains("the default VRF"),
                "{warning}"
            );
            assert!(warning.text.contains("in namespace x"), "{warning}");
            assert_eq!(warning.nodes.len(), 6, "whoever may not read one of them sees nothing");
        }
        // Between the two, there is a subnet of the same VRF.
        let all = vec![
            interface("a", "red", "", "10.0.0.1/8"),
            interface("b", "blue", "", "10.1.0.1/16"),
            interface("c", "blue", "", "10.1.1.1/24"),
        ];
        assert_eq!(of(all).len(), 2);
    }

    #[test]
    fn what_linux_can_tell_apart_is_no_reason_for_a_warning() {
        let one = || interface("a", "red", "x", "10.0.1.1/24");
        for other in [
            interface("b", "blue", "y", "10.0.1.1/24"),
            interface("b", "blue", "x", "10.0.2.1/24"),
            interface("b", "red", "x", "10.0.0.1/16"),
            v1::Interface { host_interface: None, ..interface("b", "blue", "x", "10.0.1.1/24") },
        ] {
            assert_eq!(of(vec![one(), other]), []);
        }
        let local = |name, vrf| interface(name, vrf, "x", "fe80::1/64");
        assert_eq!(of(vec![local("a", "red"), local("b", "blue")]), []);
    }
}
