//! Merging a kernel configuration.

use std::path::Path;

use super::*;
use crate::configuration::Configuration;

fn desired() -> v1::Desired {
    let text = r#"{
      "ietf-interfaces:interfaces": {"interface": [
        {"name": "a", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}},
         "stoa-host-interface:host-interface": {},
         "ietf-ip:ipv4": {"forwarding": true, "address": [{"ip": "10.0.0.1", "prefix-length": 24}],
           "neighbor": [{"ip": "10.0.0.9", "link-layer-address": "02:00:00:00:00:09"}]}},
        {"name": "b", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}},
         "stoa-host-interface:host-interface": {}, "ietf-ip:ipv6": {"enabled": false},
         "ietf-ip:ipv4": {"address": [{"ip": "10.0.1.1", "prefix-length": 24}]}}]},
      "ietf-routing:routing": {"control-plane-protocols": {"control-plane-protocol": [
        {"type": "ietf-routing:static", "name": "s", "static-routes": {
          "ietf-ipv4-unicast-routing:ipv4": {"route": [
            {"destination-prefix": "10.7.0.0/24", "next-hop": {"next-hop-address": "10.0.0.9"}}]}}}]}}
    }"#;
    Configuration::parse(Path::new("test"), text.to_owned()).unwrap().whole_desired()
}

fn merge(orders: &KernelConfiguration, merged: &mut v1::Desired) -> Vec<Refused> {
    let mut routes = Routes::from(std::mem::take(&mut merged.routes));
    let mut interfaces = Interfaces::from(std::mem::take(&mut merged.interfaces));
    let refused = orders.merge(merged, &mut interfaces, &mut routes);
    (merged.interfaces, merged.routes) = (interfaces.to_vec(), routes.to_vec());
    refused
}

fn kernel_configuration(
    interface: &str,
    addresses: &[&str],
    neighbors: &[&str],
) -> KernelConfiguration {
    let orders = InterfaceSettings {
        addresses: addresses.iter().map(|net| net.parse().unwrap()).collect(),
        neighbors: neighbors.iter().map(|ip| (ip.parse().unwrap(), [2, 0, 0, 0, 0, 7])).collect(),
        is_down: false,
    };
    KernelConfiguration {
        interfaces: BTreeMap::from([(interface.to_owned(), orders)]),
        rules: Vec::new(),
    }
}

fn routes(desired: &v1::Desired) -> Vec<String> {
    let one = |it: &v1::Route| format!("{} {}", it.prefix.as_ref().unwrap(), it.protocol());
    desired.routes.iter().map(one).collect()
}

#[test]
fn addresses_have_their_routes() {
    let mut merged = desired();
    let orders = kernel_configuration("a", &["10.7.0.1/24", "2001:db8::1/64", "192.0.2.1/32"], &[]);
    assert_eq!(merge(&orders, &mut merged), []);
    assert_eq!(
        routes(&merged),
        [
            "10.0.0.0/24 direct",
            "10.0.0.1/32 direct",
            "10.0.1.0/24 direct",
            "10.0.1.1/32 direct",
            // A static route to the same prefix is replaced.
            "10.7.0.0/24 direct",
            "10.7.0.1/32 direct",
            "192.0.2.1/32 direct",
            "2001:db8::/64 direct",
            "2001:db8::1/128 direct",
        ]
    );
    let a = &merged.interfaces[0];
    assert_eq!(a.ip4.as_ref().unwrap().addresses.len(), 3);
    let six = a.ip6.as_ref().unwrap();
    assert!(six.enabled && !six.forwarding, "the defaults of the configuration");
}

#[test]
fn conflicting_settings_are_rejected_and_the_rest_is_applied() {
    let mut merged = desired();
    let orders = kernel_configuration(
        "b",
        &["10.0.0.1/32", "10.0.0.7/24", "10.0.1.0/24", "fd00::1/64", "127.0.0.2/8", "10.3.0.1/24"],
        &["10.3.0.9", "10.4.0.9"],
    );
    let refused = merge(&orders, &mut merged);
    let whys: Vec<&str> = refused.iter().map(|it| it.reason.as_str()).collect();
    assert_eq!(
        whys,
        [
            "interface a already has the address 10.0.0.1",
            "the subnet 10.0.0.0/24 is already on interface a",
            "10.0.1.0 is the address of the network 10.0.1.0/24 itself",
            "127.0.0.2 is a loopback address",
            "fd00::1/64: the configuration disables IPv6 there",
            "the neighbour 10.4.0.9 is in no subnet of the interface",
        ]
    );
    assert!(routes(&merged).contains(&"10.3.0.0/24 direct".to_owned()));
    assert_eq!(merged.neighbors.len(), 2);
}

#[test]
fn the_configuration_takes_precedence() {
    let mut merged = desired();
    let mut orders = kernel_configuration("a", &["10.0.0.1/24"], &["10.0.0.9"]);
    assert_eq!(merge(&orders, &mut merged), []);
    assert_eq!(merged, desired(), "nothing changes");
    let a = orders.interfaces.get_mut("a").unwrap();
    a.is_down = true;
    assert!(!orders.is_empty());
    assert_eq!(merge(&orders, &mut merged), []);
    assert_eq!(merged.interfaces.iter().map(|it| it.enabled).collect::<Vec<_>>(), [false, true]);
    // An interface that no longer exists has no settings.
    let mut merged = desired();
    assert_eq!(merge(&kernel_configuration("gone", &["10.9.0.1/24"], &[]), &mut merged), []);
    assert_eq!(merged, desired());
}

#[test]
fn rules_follow_those_of_the_configuration() {
    let action = |vrf: &str| {
        let table = v1::RuleTable { vrf: vrf.to_owned(), suppress_default: false };
        Some(v1::rule::Action::Table(table))
    };
    let rule = |priority, vrf: &str| v1::Rule {
        family: 4,
        priority,
        action: action(vrf),
        protocol: v1::Protocol::Kernel.into(),
        ..v1::Rule::default()
    };
    let rules = vec![
        rule(7, ""),
        rule(7, ""),
        rule(8, "gone"),
        v1::Rule { interface: "gone".to_owned(), ..rule(9, "") },
        v1::Rule { interface: "a".to_owned(), ..rule(10, "") },
    ];
    let mut merged = desired();
    merged.rules.push(rule(100, ""));
    let orders = KernelConfiguration { rules, ..KernelConfiguration::default() };
    assert!(!orders.is_empty());
    assert_eq!(merge(&orders, &mut merged), []);
    let order: Vec<u32> = merged.rules.iter().map(|rule| rule.priority).collect();
    assert_eq!(order, [100, 7, 10]);
    // Rules beyond the limit are rejected, the others remain.
    let rules = (1..=1_030).map(|priority| rule(priority, "")).collect();
    let mut merged = desired();
    let orders = KernelConfiguration { rules, ..KernelConfiguration::default() };
    let refused = merge(&orders, &mut merged);
    assert_eq!(merged.rules.len(), 1_024);
    assert_eq!(refused[0].reason, "6 rules exceed the limit of 1024 per VRF and family");
}
