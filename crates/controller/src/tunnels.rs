//! Tunnels, as configured: two ends of one family, and nothing on them that needs Ethernet.

use std::collections::HashMap;
use std::net::IpAddr;

use stoa_api::text::ip_bytes;
use stoa_api::v1;

use crate::error::ValidationErrors;
use crate::interfaces::place;
use crate::model::{Encapsulation, Interface, Tunnel};

/// The desired tunnel of a port whose place in the configuration is `place`; `None` when its ends
/// are no addresses.
pub fn desired(given: &Tunnel, place: &str, errors: &mut ValidationErrors) -> Option<v1::Tunnel> {
    // libyang has checked both; a zone is not allowed by their type.
    let (local, remote) = (given.local.parse().ok()?, given.remote.parse().ok()?);
    let mut wrong = |leaf: &str, reason: String, fix: &str| {
        errors.add(format!("{place}/tunnel/{leaf}"), reason, fix);
    };
    for (leaf, end) in [("local", local), ("remote", remote)] {
        if IpAddr::is_multicast(&end) || end.is_unspecified() {
            wrong(leaf, format!("{end} is not the address of a router"), "Give a unicast address.");
        }
    }
    if local.is_ipv4() != remote.is_ipv4() {
        let reason = format!("{local} and {remote} are of different families");
        wrong(
            "remote",
            reason,
            "Give both as IPv4 or both as IPv6; what is inside may be of either.",
        );
    } else if local == remote {
        let reason = format!("{remote} is the tunnel's own end");
        wrong("remote", reason, "Give the address of the router at the other end.");
    }
    let encapsulation = match given.encapsulation {
        Encapsulation::Ip => v1::Encapsulation::IpInIp,
        Encapsulation::Gre => v1::Encapsulation::Gre,
    };
    Some(v1::Tunnel {
        local: ip_bytes(local),
        remote: ip_bytes(remote),
        encapsulation: encapsulation.into(),
        hop_limit: given.hop_limit,
    })
}

fn tunnel(interface: &Interface) -> Option<&Tunnel> {
    interface.port.as_ref()?.tunnel.as_ref()
}

/// No two tunnels of a VRF have the same ends, and only plain interfaces stand on tunnels.
pub fn check(interfaces: &[Interface], errors: &mut ValidationErrors) {
    let mut taken = HashMap::new();
    for interface in interfaces {
        let here = place(&interface.name);
        if let Some(sub) = &interface.sub_interface
            && interfaces.iter().any(|other| other.name == sub.parent && tunnel(other).is_some())
        {
            errors.add(
                format!("{here}/stoa-interfaces:sub-interface/parent"),
                format!("\"{}\" is a tunnel, which carries no VLAN tags", sub.parent),
                "Make another tunnel, or name the interface of another port.",
            );
        }
        let Some(given) = tunnel(interface) else { continue };
        if interface.host_interface.is_some() {
            errors.add(
                format!("{here}/stoa-host-interface:host-interface"),
                "the interface is a tunnel, which has no host interface",
                "Leave the host interface out: programs in Linux reach the tunnel by the host interfaces of \
                 other interfaces.",
            );
        }
        for (family, name) in [(&interface.ip4, "ipv4"), (&interface.ip6, "ipv6")] {
            if family.as_ref().is_some_and(|family| !family.neighbor.is_empty()) {
                errors.add(
                    format!("{here}/ietf-ip:{name}/neighbor"),
                    "the interface is a tunnel, which has no neighbours",
                    "Leave them out: everything goes to the other end.",
                );
            }
        }
        let own = interfaces.iter().filter(|other| other.vrf == interface.vrf);
        let mut own = own.flat_map(|other| [&other.ip4, &other.ip6]).flatten();
        if !own.any(|family| family.address.iter().any(|address| address.ip == given.local)) {
            errors.add(
                format!("{here}/stoa-interfaces:port/tunnel/local"),
                format!("no interface of the same VRF has the address {}", given.local),
                "Give local an address of this router, or an interface that address.",
            );
        }
        let ends = (&interface.vrf, &given.local, &given.remote, given.encapsulation);
        if let Some(other) = taken.insert(ends, &interface.name) {
            errors.add(
                format!("{here}/stoa-interfaces:port/tunnel"),
                format!("\"{other}\" has the same ends and encapsulation"),
                "Give one of them another address, VRF or encapsulation.",
            );
        }
    }
}
