//! Checks of tunnels: endpoints of one family, and no settings that need Ethernet.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use stoa_api::text::{ip, ip_text};
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use crate::config::data_path::interface_path;
use crate::config::model::Interface;
use crate::config::others::Others;

/// Checks the endpoints of the tunnel of a port whose data path is `path`.
pub fn check_ends(given: &v1::Tunnel, path: &str, errors: &mut ValidationErrors) {
    // libyang has checked that both are addresses.
    let (Some(local), Some(remote)) = (ip(&given.local), ip(&given.remote)) else { return };
    let mut wrong = |leaf: &str, cause: String, fix: &str| {
        errors.add(format!("{path}/tunnel/{leaf}"), cause, fix);
    };
    for (leaf, end) in [("local", local), ("remote", remote)] {
        if IpAddr::is_multicast(&end) || end.is_unspecified() {
            wrong(leaf, format!("{end} is not a unicast address"), "Use a unicast address.");
        }
    }
    if local.is_ipv4() != remote.is_ipv4() {
        let cause = format!("{local} and {remote} are of different families");
        wrong("remote", cause, "Use addresses of one family; inner packets may be of either.");
    } else if local == remote {
        let cause = format!("{remote} is the local endpoint");
        wrong("remote", cause, "Use the address of the remote router.");
    }
}

fn tunnel(interface: &Interface) -> Option<&v1::Tunnel> {
    interface.port.as_ref()?.tunnel.as_ref()
}

/// The VRFs and addresses of all interfaces.
fn own_addresses(interfaces: &[Interface]) -> HashSet<(&str, IpAddr)> {
    let of_interface = interfaces.iter().flat_map(|interface| {
        let families = [&interface.ip4, &interface.ip6].into_iter().flatten();
        let addresses = families.flat_map(|family| &family.address);
        let parsed = addresses.filter_map(|address| address.ip.parse().ok());
        parsed.map(|address| (interface.vrf.as_str(), address))
    });
    of_interface.collect()
}

/// Checks that tunnels of a VRF have different endpoints, and that no interface of a tunnel needs Ethernet.
pub fn check(interfaces: &[Interface], others: &Others<'_>, errors: &mut ValidationErrors) {
    let mut taken = HashMap::new();
    let all_tunnels = interfaces.iter().filter(|interface| tunnel(interface).is_some());
    let tunnels: HashSet<&str> = all_tunnels.map(|interface| interface.name.as_str()).collect();
    let own = if tunnels.is_empty() { HashSet::new() } else { own_addresses(interfaces) };
    for interface in interfaces {
        let here = interface_path(&interface.name);
        if let Some(sub) = &interface.sub_interface
            && tunnels.contains(sub.parent.as_str())
        {
            errors.add_about(
                format!("{here}/stoa-interfaces:sub-interface/parent"),
                format!("\"{}\" is a tunnel, which carries no VLAN tags", sub.parent),
                "Use another tunnel, or the interface of another port.",
                &[&sub.parent],
            );
        }
        let Some(given) = tunnel(interface) else { continue };
        if interface.host_interface.is_some() {
            errors.add(
                format!("{here}/stoa-host-interface:host-interface"),
                "the interface is a tunnel, which has no host interface",
                "Remove the host interface: programs in Linux reach the tunnel by the host interfaces of \
                 other interfaces.",
            );
        }
        for (family, name) in [(&interface.ip4, "ipv4"), (&interface.ip6, "ipv6")] {
            if family.as_ref().is_some_and(|family| !family.neighbor.is_empty()) {
                errors.add(
                    format!("{here}/ietf-ip:{name}/neighbor"),
                    "the interface is a tunnel, which has no neighbours",
                    "Remove them: all packets go to the remote endpoint.",
                );
            }
        }
        let vrf = interface.vrf.as_str();
        let is_own = |local| own.contains(&(vrf, local));
        if !ip(&given.local).is_some_and(is_own) && !others.has_address(vrf, &given.local) {
            errors.add_about(
                format!("{here}/stoa-interfaces:port/tunnel/local"),
                format!("no interface of the same VRF has the address {}", ip_text(&given.local)),
                "Set local to an address of this router, or add the address to an interface.",
                &[&ip_text(&given.local)],
            );
        }
        let ends = (&interface.vrf, &given.local, &given.remote, given.encapsulation);
        if let Some(other) = taken.insert(ends, &interface.name) {
            errors.add_about(
                format!("{here}/stoa-interfaces:port/tunnel"),
                format!("\"{other}\" has the same endpoints and encapsulation"),
                "Use another address, VRF or encapsulation for one of them.",
                &[other],
            );
        }
    }
}
