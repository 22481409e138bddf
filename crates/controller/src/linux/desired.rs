//! The state that Linux must have, derived from the desired state: plain values, no netlink.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use stoa_api::v1;
use stoa_api::v1::route::Action;

use crate::configuration::Configuration;

/// One next hop of a route: device, gateway, weight.
pub type NextHop = (String, Option<IpAddr>, u8);

/// The desired state of one network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Devices of host interfaces with the addresses of their interfaces.
    pub devices: BTreeMap<String, Device>,
    /// Routes through them of the VRFs that they are in, other than those of their addresses.
    pub routes: BTreeMap<IpNet, Vec<NextHop>>,
}

/// The device (TAP) of a host interface in Linux.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Addresses with their prefix lengths.
    pub addresses: Vec<IpNet>,
    /// Whether it has the link-local address derived from its MAC address.
    pub link_local: bool,
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

fn network(bytes: &[u8], length: u32) -> Option<IpNet> {
    IpNet::new(address(bytes)?, u8::try_from(length).ok()?).ok()
}

/// The desired state of each namespace; "" is the controller's own.
pub fn namespaces(configuration: &Configuration) -> BTreeMap<String, Namespace> {
    let mut namespaces: BTreeMap<String, Namespace> = BTreeMap::new();
    // With the VRF of the interface.
    let mut host_interfaces: HashMap<&str, (&str, &v1::HostInterface)> = HashMap::new();
    for interface in configuration.interfaces.iter() {
        let Some(host_interface) = &interface.host_interface else { continue };
        host_interfaces.insert(&interface.name, (&interface.vrf, host_interface));
        let families = [&interface.ip4, &interface.ip6].into_iter().flatten();
        let given = families.filter(|family| family.enabled).flat_map(|family| &family.addresses);
        let device = Device {
            addresses: given.filter_map(|it| network(&it.address, it.prefix_length)).collect(),
            link_local: interface.ip6.as_ref().is_some_and(|family| family.enabled),
        };
        let namespace = namespaces.entry(host_interface.netns.clone()).or_default();
        namespace.devices.insert(host_interface.device.clone(), device);
    }
    if host_interfaces.is_empty() {
        return namespaces;
    }
    let learned =
        configuration.routes.iter().filter(|it| it.protocol != v1::Protocol::Direct as i32);
    for route in learned {
        let (Some(prefix), Some(Action::Paths(paths))) = (&route.prefix, &route.action) else {
            continue;
        };
        let Some(prefix) = network(&prefix.address, prefix.length) else { continue };
        for path in &paths.paths {
            let Some((vrf, host_interface)) = host_interfaces.get(path.interface.as_str()) else {
                continue;
            };
            // A route that leaks into this VRF is for packets of another one, not for programs on the router.
            if *vrf != route.vrf {
                continue;
            }
            let share = path.weight.clamp(1, 255) as u8;
            let next_hop = (host_interface.device.clone(), address(&path.next_hop), share);
            let namespace = namespaces.entry(host_interface.netns.clone()).or_default();
            namespace.routes.entry(prefix).or_default().push(next_hop);
        }
    }
    for namespace in namespaces.values_mut() {
        namespace.routes.values_mut().for_each(|next_hops| next_hops.sort());
    }
    namespaces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Configuration;

    #[test]
    fn host_interfaces_bring_their_addresses_and_routes() {
        let text = r#"{
          "ietf-interfaces:interfaces": {"interface": [
            {"name": "wan0", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}},
             "stoa-host-interface:host-interface": {"netns": "red", "device": "w"},
             "ietf-ip:ipv4": {"address": [{"ip": "10.0.0.1", "prefix-length": 24}]},
             "ietf-ip:ipv6": {"address": [{"ip": "fd00::1", "prefix-length": 64}]}},
            {"name": "lan0", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}},
             "ietf-ip:ipv4": {"address": [{"ip": "10.0.1.1", "prefix-length": 24}]}}
          ]},
          "ietf-routing:routing": {"control-plane-protocols": {"control-plane-protocol": [
            {"type": "ietf-routing:static", "name": "s", "static-routes": {
              "ietf-ipv4-unicast-routing:ipv4": {"route": [
                {"destination-prefix": "0.0.0.0/0", "next-hop": {"next-hop-address": "10.0.0.9"}},
                {"destination-prefix": "10.9.0.0/16", "next-hop": {"next-hop-address": "10.0.1.9"}}
              ]}}},
            {"type": "ietf-routing:static", "name": "t", "stoa-vrf:vrf": "blue", "static-routes": {
              "ietf-ipv4-unicast-routing:ipv4": {"route": [
                {"destination-prefix": "10.8.0.0/16", "next-hop": {"outgoing-interface": "wan0"}},
                {"destination-prefix": "0.0.0.0/0",
                 "next-hop": {"next-hop-address": "10.0.0.8", "outgoing-interface": "wan0"}}
              ]}}}
          ]}},
          "stoa-vrf:vrfs": {"vrf": [{"name": "blue"}]}
        }"#;
        let configuration =
            Configuration::parse(std::path::Path::new("test"), text.to_owned()).unwrap();
        let namespaces = namespaces(&configuration);
        assert_eq!(namespaces.len(), 1);
        let red = &namespaces["red"];
        let device = &red.devices["w"];
        assert!(device.link_local);
        let texts: Vec<String> = device.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["10.0.0.1/24", "fd00::1/64"]);
        // Routes through interfaces without a host interface, and those of other VRFs, are omitted.
        let gateway = "10.0.0.9".parse().ok();
        let desired =
            BTreeMap::from([("0.0.0.0/0".parse().unwrap(), vec![("w".into(), gateway, 1)])]);
        assert_eq!(red.routes, desired);
    }
}
