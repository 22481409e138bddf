//! Tunnels: their endpoints among those of others, and no settings that need Ethernet. Their port is one of the drivers
//! (`config::ports`).

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use stoa_api::text::{ip, ip_text};
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use crate::capability::{
    Capability, InterfaceChange, Others, Settings, Translated, interface_path,
};
use crate::config::model::Interface;
use crate::config::others::{WithPort, families, tunnel_of};

/// The capability.
pub(crate) struct Tunnels;

impl Capability for Tunnels {
    /// The others have the local endpoint, or are compared with those of the part by `is_independent`.
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        _: &mut Translated,
        errors: &mut ValidationErrors,
    ) {
        let interfaces = &settings.model.interfaces.interface;
        let with_tunnels = interfaces.iter().filter(|it| it.is_tunnel());
        let tunnels: HashSet<&str> = with_tunnels.map(|it| it.name.as_str()).collect();
        if !tunnels.is_empty() {
            check(interfaces, &tunnels, settings.others, errors);
        }
    }

    /// A local endpoint stays an address of this router, and no two tunnels have the same endpoints.
    fn is_independent(&self, others: &Others<'_>, change: &InterfaceChange<'_>) -> bool {
        let is_kept = |own: &(&str, &[u8])| change.addresses_after().any(|now| now == *own);
        let mut gone = change.addresses_before().filter(|own| !is_kept(own));
        let needs = |(vrf, address): (&str, &[u8])| have(others, vrf, |it| it.local == address);
        if gone.any(needs) {
            return false;
        }
        let ends = |(interface, port): WithPort<'_>| {
            (interface.vrf.clone(), port.and_then(tunnel_of).cloned())
        };
        let Some((interface, Some(port))) = change.new.filter(|_| !change.keeps(ends)) else {
            return true;
        };
        let Some(new) = tunnel_of(port) else { return true };
        !have(others, &interface.vrf, |it| {
            (&it.local, &it.remote, it.encapsulation)
                == (&new.local, &new.remote, new.encapsulation)
        })
    }
}

/// Whether one of the others has a tunnel for which this holds, in this VRF.
fn have(others: &Others<'_>, vrf: &str, is_it: impl Fn(&v1::Tunnel) -> bool) -> bool {
    let mut ports = others.ports().filter(|port| tunnel_of(port).is_some_and(&is_it));
    ports.any(|port| others.named(&port.interface).is_some_and(|it| it.vrf == vrf))
}

/// Whether one of the others in a VRF has an address, be the family enabled or not.
fn have_address(others: &Others<'_>, vrf: &str, address: &[u8]) -> bool {
    let has = |family: &v1::Family| family.addresses.iter().any(|own| own.address == address);
    others.find(|it| it.vrf == vrf && families(it).any(has)).is_some()
}

/// The VRFs and addresses of all interfaces.
fn own_addresses(interfaces: &[Interface]) -> HashSet<(&str, IpAddr)> {
    let of_interface = interfaces.iter().flat_map(|interface| {
        let addresses = interface.families().flat_map(|(family, ..)| &family.address);
        let parsed = addresses.filter_map(|address| address.ip.parse().ok());
        parsed.map(|address| (interface.vrf.as_str(), address))
    });
    of_interface.collect()
}

/// Checks that tunnels of a VRF have different endpoints, and that no interface of a tunnel needs Ethernet.
fn check(
    interfaces: &[Interface],
    tunnels: &HashSet<&str>,
    others: &Others<'_>,
    errors: &mut ValidationErrors,
) {
    let own = own_addresses(interfaces);
    let mut taken = HashMap::new();
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
        let Some(given) = interface.port.as_ref().and_then(|port| port.tunnel.as_ref()) else {
            continue;
        };
        check_ethernet(interface, &here, errors);
        let vrf = interface.vrf.as_str();
        let is_own = |local| own.contains(&(vrf, local));
        if !ip(&given.local).is_some_and(is_own) && !have_address(others, vrf, &given.local) {
            errors.add_about(
                format!("{here}/stoa-interfaces:port/tunnel/local"),
                format!("no interface of the same VRF has the address {}", ip_text(&given.local)),
                "Set local to an address of this router, or add the address to an interface.",
                &[&ip_text(&given.local)],
            );
        }
        let ends = (vrf, &given.local, &given.remote, given.encapsulation);
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

/// Checks that the interface of a tunnel, whose data path is `here`, has no settings that need Ethernet.
fn check_ethernet(interface: &Interface, here: &str, errors: &mut ValidationErrors) {
    if interface.host_interface.is_some() {
        errors.add(
            format!("{here}/stoa-host-interface:host-interface"),
            "the interface is a tunnel, which has no host interface",
            "Remove the host interface: programs in Linux reach the tunnel by the host interfaces of \
             other interfaces.",
        );
    }
    for (_, name, _) in interface.families().filter(|(family, ..)| !family.neighbor.is_empty()) {
        errors.add(
            format!("{here}/ietf-ip:{name}/neighbor"),
            "the interface is a tunnel, which has no neighbours",
            "Remove them: all packets go to the remote endpoint.",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tunnel(name: &str, vrf: &str, remote: u8) -> (v1::Interface, v1::Port) {
        let tunnel = v1::Tunnel {
            local: vec![192, 0, 2, 1],
            remote: vec![192, 0, 2, remote],
            ..v1::Tunnel::default()
        };
        let driver = Some(v1::port::Driver::Tunnel(tunnel));
        let named = v1::Interface { name: name.into(), vrf: vrf.into(), ..Default::default() };
        (named, v1::Port { interface: name.into(), driver, ..Default::default() })
    }

    #[test]
    fn endpoints_depend_on_others_of_their_vrf() {
        let (other, port) = tunnel("other", "red", 9);
        let (interfaces, part) = (vec![other].into(), HashSet::new());
        let others = Others::of(&interfaces, std::slice::from_ref(&port), &part);
        let is_free = |vrf: &str, remote: u8| {
            let (new, port) = tunnel("new", vrf, remote);
            let change = InterfaceChange { old: None, new: Some((&new, Some(&port))) };
            Tunnels.is_independent(&others, &change)
        };
        assert!(!is_free("red", 9) && is_free("red", 8) && is_free("", 9));
        let keeps = |vrf: &str, last: u8| {
            let address = v1::Address { address: vec![192, 0, 2, last], ..Default::default() };
            let family = v1::Family { addresses: vec![address], ..Default::default() };
            let old = v1::Interface { vrf: vrf.into(), ip4: Some(family), ..Default::default() };
            let change = |new| InterfaceChange { old: Some((&old, None)), new };
            assert!(Tunnels.is_independent(&others, &change(Some((&old, None)))));
            Tunnels.is_independent(&others, &change(None))
        };
        assert!(!keeps("red", 1) && keeps("red", 2) && keeps("", 1));
    }
}
