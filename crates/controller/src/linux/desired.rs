//! The state that Linux must have, derived from the desired state: plain values, no netlink.

use std::collections::{BTreeMap, HashMap};

use ipnet::IpNet;

use super::host_paths::{NextHop, host_paths, hosts};
use crate::configuration::Configuration;
use crate::prefix::net_from_proto;

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

/// The desired state of each namespace; "" is the controller's own.
pub fn namespaces(configuration: &Configuration) -> BTreeMap<String, Namespace> {
    let mut namespaces: BTreeMap<String, Namespace> = BTreeMap::new();
    let hosts = hosts(&configuration.interfaces);
    for (interface, host) in hosts.values() {
        let families = [&interface.ip4, &interface.ip6].into_iter().flatten();
        let given = families.filter(|family| family.enabled).flat_map(|family| &family.addresses);
        let device = Device {
            addresses: given.filter_map(net_from_proto).collect(),
            link_local: interface.ip6.as_ref().is_some_and(|family| family.enabled),
        };
        let namespace = namespaces.entry(host.netns.clone()).or_default();
        namespace.devices.insert(host.device.clone(), device);
    }
    if hosts.is_empty() {
        return namespaces;
    }
    // Namespaces have one table each. If several VRFs have a route to a prefix, it gets that of the first VRF:
    // next hops of two customers are never balanced.
    let mut vrfs: HashMap<(&str, IpNet), &str> = HashMap::new();
    for path in host_paths(&hosts, &configuration.routes) {
        let vrf = *vrfs.entry((path.netns, path.prefix)).or_insert(path.vrf);
        if vrf == path.vrf {
            let namespace = namespaces.entry(path.netns.to_owned()).or_default();
            namespace.routes.entry(path.prefix).or_default().push(path.next_hop);
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

    #[test]
    fn a_prefix_of_two_vrfs_has_the_next_hops_of_one() {
        let interface = |name: &str, vrf: &str, address: &str| {
            let mut interface = serde_json::json!({
                "name": name, "type": "iana-if-type:ethernetCsmacd",
                "stoa-interfaces:port": {"null": {}},
                "stoa-host-interface:host-interface": {"netns": "local"},
                "ietf-ip:ipv4": {"address": [{"ip": address, "prefix-length": 24}]}});
            if !vrf.is_empty() {
                interface["stoa-vrf:vrf"] = vrf.into();
            }
            interface
        };
        let protocol = |name: &str, gateway: &str| {
            serde_json::json!({"type": "ietf-routing:static", "name": name, "stoa-vrf:vrf": name,
                "static-routes": {"ietf-ipv4-unicast-routing:ipv4": {"route": [
                    {"destination-prefix": "0.0.0.0/0", "next-hop": {"next-hop-address": gateway}}]}}})
        };
        let text = serde_json::json!({
            "stoa-vrf:vrfs": {"vrf": [{"name": "red"}, {"name": "blue"}]},
            "ietf-interfaces:interfaces": {"interface": [
                interface("r", "red", "10.1.0.1"), interface("b", "blue", "10.2.0.1")]},
            "ietf-routing:routing": {"control-plane-protocols": {"control-plane-protocol": [
                protocol("red", "10.1.0.9"), protocol("blue", "10.2.0.9")]}}});
        let path = std::path::Path::new("test");
        let configuration = Configuration::parse(path, text.to_string()).unwrap();
        let routes = &namespaces(&configuration)["local"].routes;
        let first = vec![("b".to_owned(), "10.2.0.9".parse().ok(), 1)];
        assert_eq!(routes, &BTreeMap::from([("0.0.0.0/0".parse().unwrap(), first)]));
        let warnings = configuration.warnings();
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(
            warning.text.starts_with("route 0.0.0.0/0 of VRF red is not in namespace local"),
            "{warning}"
        );
    }
}
