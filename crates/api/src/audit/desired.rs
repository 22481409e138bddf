//! The entries that a desired state has.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Kind, Tally, entries, settings};
use crate::text::ip;
use crate::v1;
use crate::v1::port::Driver;

/// Counts the entries of a desired state, whose interfaces and routes lie apart, and lists those of some kinds.
/// `defaults` is what the forwarder has in force where the desired state has 0 or "".
pub fn desired<'a>(
    desired: &v1::Desired,
    (interfaces, routes): (
        impl IntoIterator<Item = &'a v1::Interface> + Clone,
        impl IntoIterator<Item = &'a v1::Route>,
    ),
    defaults: &v1::Desired,
    listed: &[Kind],
) -> Tally {
    let mut tally = Tally::listing(listed.iter().copied());
    settings::add(&mut tally, desired, defaults);
    let named: BTreeSet<&str> = interfaces.clone().into_iter().map(|it| it.name.as_str()).collect();
    let mut tunnels = BTreeSet::new();
    for port in &desired.ports {
        entries::port(&mut tally, &port.interface, driver(port));
        if let Some(Driver::Tunnel(tunnel)) = &port.driver {
            tunnels.insert(port.interface.as_str());
            // The forwarder makes a tunnel with its interface.
            if named.contains(port.interface.as_str()) {
                entries::tunnel(&mut tally, &port.interface, tunnel.clone());
            }
        }
    }
    desired.vrfs.iter().for_each(|vrf| entries::vrf(&mut tally, &vrf.name));
    for interface in interfaces {
        let is_tunnel = tunnels.contains(interface.name.as_str());
        add_interface(&mut tally, interface, is_tunnel);
    }
    for neighbor in &desired.neighbors {
        if let Some(address) = ip(&neighbor.address) {
            entries::neighbor(&mut tally, &neighbor.interface, address, &neighbor.mac);
        }
    }
    add_rules(&mut tally, &desired.rules);
    desired.acl_rules.iter().for_each(|rule| entries::acl_rule(&mut tally, rule.clone()));
    desired.zone_pairs.iter().for_each(|pair| entries::zone_pair(&mut tally, pair));
    let nat = desired.nat.iter();
    for (place, policy) in nat.clone().flat_map(|nat| &nat.policies).enumerate() {
        entries::nat_policy(&mut tally, place, policy.clone());
    }
    for mapping in nat.flat_map(|nat| &nat.mappings) {
        entries::nat_mapping(&mut tally, mapping.clone());
    }
    let prefixes = desired.nptv6.iter().flat_map(|it| &it.prefixes);
    prefixes.for_each(|it| entries::npt_prefix(&mut tally, it));
    let stateless = desired.siit.iter().flat_map(|it| &it.policies);
    stateless.for_each(|it| entries::siit_policy(&mut tally, it));
    desired.ipfix.iter().for_each(|it| entries::ipfix(&mut tally, it.clone()));
    desired.flow_sync.iter().for_each(|it| entries::flow_sync(&mut tally, it.clone()));
    let associations = desired.ipsec.iter().flat_map(|it| &it.associations);
    associations.for_each(|it| entries::security_association(&mut tally, it));
    entries::existing_flows(&mut tally, desired.existing_flows());
    desired.flow_limits.iter().for_each(|it| entries::flow_limits(&mut tally, it));
    add_punts(&mut tally, &desired.punts, &defaults.punts);
    for route in routes {
        entries::static_route(&mut tally, route.clone());
    }
    tally
}

/// The name of a port's driver, as the forwarder has it.
fn driver(port: &v1::Port) -> &'static str {
    match &port.driver {
        Some(Driver::AfPacket(_)) => "af-packet",
        Some(Driver::AfXdp(it)) if it.auto => "auto",
        Some(Driver::AfXdp(_)) => "af-xdp",
        Some(Driver::Tap(_)) => "tap",
        Some(Driver::Memif(_)) => "memif",
        Some(Driver::Dpdk(_)) => "dpdk",
        Some(Driver::Pcap(_)) => "pcap",
        Some(Driver::Generator(_)) => "generator",
        Some(Driver::Null(_)) => "null",
        Some(Driver::Tunnel(_)) => "tunnel",
        None => "",
    }
}

fn add_interface(tally: &mut Tally, interface: &v1::Interface, is_tunnel: bool) {
    let name = &interface.name;
    let families = [(&interface.ip4, true), (&interface.ip6, false)];
    let families =
        families.into_iter().filter_map(|(family, is_ip4)| Some((family.as_ref()?, is_ip4)));
    for (family, is_ip4) in families {
        let addresses = family.addresses.iter();
        let addresses = addresses.filter_map(|it| Some((ip(&it.address)?, it.prefix_length as u8)));
        for (place, address) in addresses.enumerate() {
            entries::address(tally, name, place, address);
        }
        // A tunnel has neither neighbours nor a link.
        if !family.enabled || is_tunnel {
            continue;
        }
        for router in &family.virtual_routers {
            entries::virtual_router(tally, name, is_ip4, router.clone());
        }
        if let Some(it) = family.advertising.as_ref().filter(|_| !is_ip4) {
            entries::router_advertisement(tally, name, it.clone());
        }
        if let Some(it) = family.discovery.as_ref().filter(|_| is_ip4) {
            entries::router_discovery(tally, name, *it);
        }
    }
    for session in &interface.bfd {
        entries::bfd_session(tally, name, session.clone());
    }
    for it in &interface.plugins {
        entries::plugin(tally, name, &it.plugin, &it.settings);
    }
    entries::interface(tally, interface.clone());
}

/// Rules of one VRF and family apply by priority, those of equal priority in their order.
fn add_rules(tally: &mut Tally, rules: &[v1::Rule]) {
    let mut lists: BTreeMap<(&str, u32), Vec<&v1::Rule>> = BTreeMap::new();
    for rule in rules {
        lists.entry((&rule.vrf, rule.family)).or_default().push(rule);
    }
    for list in lists.values_mut() {
        list.sort_by_key(|rule| rule.priority);
        for (place, rule) in list.iter().enumerate() {
            entries::rule(tally, place, (*rule).clone());
        }
    }
}

/// Limits that are 0 are those of the forwarder; the total is never less than the rate of one interface.
fn add_punts(tally: &mut Tally, punts: &[v1::PuntLimit], defaults: &[v1::PuntLimit]) {
    let defaults: HashMap<&str, &v1::PuntLimit> =
        defaults.iter().map(|it| (it.class.as_str(), it)).collect();
    for punt in punts {
        let Some(default) = defaults.get(punt.class.as_str()) else { continue };
        let or = |value: u32, default: u32| if value == 0 { default } else { value };
        let rate = or(punt.rate, default.rate);
        let limit = v1::PuntLimit {
            class: punt.class.clone(),
            rate,
            burst: or(punt.burst, default.burst),
            total: or(punt.total, default.total.max(rate)),
        };
        entries::punt(tally, &limit);
    }
}
