//! Addresses of interfaces, the subnets that they connect, and static neighbours.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use stoa_api::text::ip_bytes;
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use crate::config::host_addresses::{
    is_link_local, not_a_host, not_in_subnet, subnet_router_anycast,
};
use crate::config::mac;
use crate::config::model::{Family, ReversePath};
use crate::config::shared_map::SharedMap;
use crate::prefix::net_from_proto;

/// Addresses and subnets of the interfaces of a VRF.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Local addresses with their interface, without link-local ones.
    pub own: SharedMap<IpAddr, String>,
    /// Subnet-router anycast addresses of interfaces that forward.
    pub anycast: SharedMap<IpAddr, ()>,
    /// Connected subnets with their interface.
    pub connected: SharedMap<IpNet, String>,
    /// How many prefixes in `connected` have a length: (is IPv6, length).
    lengths: BTreeMap<(bool, u8), usize>,
}

/// Addresses, subnets and neighbours of all interfaces. A copy shares what it has in common with the first one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Addressing {
    /// By VRF; "" is the default one.
    tables: BTreeMap<String, Table>,
    /// The default table, for VRFs without any address.
    empty: Table,
    /// The VRFs of the interfaces that are not in the default one.
    vrf_of: SharedMap<String, String>,
    /// Static neighbours.
    pub neighbors: Vec<v1::Neighbor>,
    /// Families that are on, IPv4 and IPv6, by interface, with their subnets.
    active: [SharedMap<String, Vec<IpNet>>; 2],
}

impl Addressing {
    /// All VRFs with addresses.
    pub fn tables(&self) -> impl Iterator<Item = (&str, &Table)> {
        self.tables.iter().map(|(vrf, table)| (vrf.as_str(), table))
    }

    /// The table of a VRF.
    pub fn table(&self, vrf: &str) -> &Table {
        self.tables.get(vrf).unwrap_or(&self.empty)
    }

    /// Assigns an interface to a VRF. Must precede its addresses.
    pub fn set_vrf(&mut self, interface: &str, vrf: &str) {
        self.vrf_of.insert(interface.to_owned(), vrf.to_owned());
    }

    /// The VRF of an interface.
    pub fn vrf_of(&self, interface: &str) -> &str {
        self.vrf_of.get(interface).map_or("", String::as_str)
    }

    /// Removes what an interface has added. `false`: what others have added besides is not known.
    pub fn remove(&mut self, interface: &v1::Interface) -> bool {
        let name = &interface.name;
        for (six, family) in [(false, &interface.ip4), (true, &interface.ip6)] {
            let subnets = self.active[usize::from(six)].remove(name).unwrap_or_default();
            let table = self.tables.get_mut(&interface.vrf);
            let enabled = family.as_ref().filter(|family| family.enabled);
            let (Some(family), Some(table)) = (enabled, table) else { continue };
            for net in family.addresses.iter().filter_map(net_from_proto) {
                let is_own = table.own.get(&net.addr()).is_some_and(|owner| owner == name);
                if is_own {
                    table.own.remove(&net.addr());
                }
                if let Some(anycast) = subnet_router_anycast(net).filter(|_| family.forwarding) {
                    if table.begin_with(anycast) > 1 {
                        return false;
                    }
                    table.anycast.remove(&anycast);
                }
            }
            subnets.iter().for_each(|net| table.disconnect(net, name));
        }
        if self.tables.get(&interface.vrf).is_some_and(Table::is_empty) {
            self.tables.remove(&interface.vrf);
        }
        self.vrf_of.remove(name);
        true
    }

    /// Subnets of `interface` in one family; `None` when the family is off there.
    pub fn subnets(&self, interface: &str, six: bool) -> Option<&[IpNet]> {
        self.active[usize::from(six)].get(interface).map(Vec::as_slice)
    }
}

impl Table {
    /// The interface and subnet that reach `address` without a gateway: the
    /// longest connected subnet.
    pub fn on_link(&self, address: IpAddr) -> Option<(&str, IpNet)> {
        let six = address.is_ipv6();
        let lengths = self.lengths.range((six, 0)..=(six, 128)).rev();
        let nets = lengths.filter_map(|((_, length), _)| IpNet::new(address, *length).ok());
        nets.map(|net| net.trunc())
            .find_map(|net| self.connected.get(&net).map(|interface| (interface.as_str(), net)))
    }

    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.anycast.is_empty() && self.connected.is_empty()
    }

    /// How many connected subnets begin with an address.
    fn begin_with(&self, address: IpAddr) -> usize {
        let lengths = self.lengths.range((address.is_ipv6(), 0)..=(address.is_ipv6(), 128));
        let nets = lengths.filter_map(|((_, length), _)| IpNet::new(address, *length).ok());
        nets.filter(|net| net.network() == address && self.connected.contains_key(net)).count()
    }

    /// Removes a subnet of an interface.
    fn disconnect(&mut self, net: &IpNet, interface: &str) {
        if self.connected.get(net).is_none_or(|owner| owner != interface) {
            return;
        }
        self.connected.remove(net);
        let length = (net.addr().is_ipv6(), net.prefix_len());
        if let Some(count) = self.lengths.get_mut(&length) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&length);
            }
        }
    }

    /// Connected subnets within a larger one of another interface: subnet, interface, larger subnet, its interface.
    pub fn overlaps(&self) -> impl Iterator<Item = (IpNet, &str, IpNet, &str)> {
        // Subnets of one length do not overlap, which spares a look at each of thousands.
        let has_several = |six| self.lengths.range((six, 0)..=(six, 128)).nth(1).is_some();
        let number = if has_several(false) || has_several(true) { usize::MAX } else { 0 };
        self.connected.iter().take(number).filter_map(|(net, interface)| {
            let six = net.addr().is_ipv6();
            let shorter = self.lengths.range((six, 0)..(six, net.prefix_len())).rev();
            let mut larger =
                shorter.filter_map(|((_, length), _)| IpNet::new(net.addr(), *length).ok());
            larger.find_map(|larger| {
                let larger = larger.trunc();
                let other = self.connected.get(&larger).filter(|other| *other != interface)?;
                Some((*net, interface.as_str(), larger, other.as_str()))
            })
        })
    }

    /// Some of the connected subnets of a family, for a hint, and the interfaces that it names.
    pub fn some_subnets(&self, six: bool) -> (String, Vec<&str>) {
        let nets = self.connected.iter().filter(|(net, _)| net.addr().is_ipv6() == six);
        let some: Vec<_> = nets.take(5).collect();
        let mut texts: Vec<String> =
            some.iter().map(|(net, interface)| format!("{net} ({interface})")).collect();
        if texts.is_empty() {
            texts.push("none is configured".to_owned());
        }
        (texts.join(", "), some.iter().map(|(_, interface)| interface.as_str()).collect())
    }
}

/// The desired family of `interface`; `path` is that of the family.
pub fn desired(
    interface: &str,
    path: &str,
    family: &Family,
    addressing: &mut Addressing,
    errors: &mut ValidationErrors,
) -> v1::Family {
    let six = path.ends_with("ipv6");
    let (mut addresses, mut subnets) = (Vec::new(), Vec::new());
    for given in &family.address {
        let path = format!("{path}/address[ip='{}']", given.ip);
        let Ok(ip) = given.ip.parse::<IpAddr>() else { continue };
        let Ok(net) = IpNet::new(ip, given.prefix_length) else { continue };
        check(ip, &net, &path, errors);
        if family.enabled {
            subnets.push(net.trunc());
            connect(interface, six, ip, net.trunc(), &path, addressing, errors);
            if let Some(anycast) = subnet_router_anycast(net).filter(|_| family.forwarding) {
                let vrf = addressing.vrf_of(interface).to_owned();
                addressing.tables.entry(vrf).or_default().anycast.insert(anycast, ());
            }
        }
        let prefix_length = u32::from(given.prefix_length);
        addresses.push(v1::Address { address: ip_bytes(ip), prefix_length, state: String::new() });
    }
    if family.enabled {
        addressing.active[usize::from(six)].insert(interface.to_owned(), subnets);
        neighbors(interface, path, six, family, addressing, errors);
    }
    v1::Family {
        enabled: family.enabled,
        forwarding: family.forwarding,
        addresses,
        options: Some(family.options),
        reverse_path: match family.reverse_path {
            ReversePath::Off => v1::ReversePath::Off,
            ReversePath::Strict => v1::ReversePath::Strict,
            ReversePath::Loose if family.allow_default => v1::ReversePath::LooseOrDefault,
            ReversePath::Loose => v1::ReversePath::Loose,
        }
        .into(),
        // Each family has a leaf of its own for it.
        duplicate_detection: if six { family.transmits } else { family.duplicate_detection },
        ..family.of.clone()
    }
}

fn check(ip: IpAddr, net: &IpNet, path: &str, errors: &mut ValidationErrors) {
    if let Some(reason) = not_a_host(ip) {
        errors.add(path, format!("{ip} {reason}"), "Use a host address.");
    } else if let Some(reason) = not_in_subnet(ip, net) {
        errors.add(path, format!("{ip} {reason}"), "Use another address of that subnet.");
    }
    if net.prefix_len() == 0 {
        errors.add(
            format!("{path}/prefix-length"),
            "a prefix length of 0 puts all addresses on this link",
            "Use the prefix length of the subnet; for a default route see static-routes.",
        );
    }
}

fn connect(
    interface: &str,
    six: bool,
    ip: IpAddr,
    net: IpNet,
    path: &str,
    addressing: &mut Addressing,
    errors: &mut ValidationErrors,
) {
    // fe80::/64 is on every link; the forwarder adds it.
    if six && is_link_local(ip) {
        return;
    }
    let vrf = addressing.vrf_of(interface).to_owned();
    let within = if vrf.is_empty() { String::new() } else { format!(" in VRF \"{vrf}\"") };
    let table = addressing.tables.entry(vrf).or_default();
    if let Some(other) = table.own.get(&ip) {
        errors.add_about(
            path,
            format!("interface \"{other}\" has the address {ip} already{within}"),
            "Use different addresses for each interface.",
            &[other, &ip],
        );
        return;
    }
    table.own.insert(ip, interface.to_owned());
    if net.prefix_len() == net.max_prefix_len() {
        return;
    }
    match table.connected.get(&net) {
        Some(other) if other != interface => errors.add_about(
            path,
            format!("the subnet {net} is on interface \"{other}\" already{within}"),
            "Use different subnets: packets to a subnet leave by one interface.",
            &[&net, other],
        ),
        Some(_) => {}
        None => {
            table.connected.insert(net, interface.to_owned());
            *table.lengths.entry((six, net.prefix_len())).or_default() += 1;
        }
    }
}

fn neighbors(
    interface: &str,
    path: &str,
    six: bool,
    family: &Family,
    addressing: &mut Addressing,
    errors: &mut ValidationErrors,
) {
    for given in &family.neighbor {
        let path = format!("{path}/neighbor[ip='{}']", given.ip);
        let Ok(ip) = given.ip.parse::<IpAddr>() else { continue };
        let subnets = addressing.subnets(interface, six).unwrap_or_default();
        let near = six && is_link_local(ip) || subnets.iter().any(|net| net.contains(&ip));
        if !near {
            errors.add_about(
                &path,
                format!("{ip} is in no subnet of \"{interface}\""),
                "Use a neighbour of this link, or add an address of that subnet to the interface.",
                &[&ip, &interface],
            );
        } else if addressing
            .table(addressing.vrf_of(interface))
            .own
            .get(&ip)
            .is_some_and(|owner| owner == interface)
        {
            errors.add_about(
                &path,
                format!("{ip} is a local address of \"{interface}\""),
                "Use the address of the neighbour.",
                &[&ip, &interface],
            );
        }
        match mac::individual(&given.link_layer_address) {
            Some(mac) => addressing.neighbors.push(v1::Neighbor {
                interface: interface.to_owned(),
                address: ip_bytes(ip),
                mac,
            }),
            None => errors.add(
                format!("{path}/link-layer-address"),
                format!("{} is not a unicast MAC address", given.link_layer_address),
                "Use a unicast address of six bytes, for example 02:00:00:00:00:01.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_subnet_wins() {
        let mut addressing = Addressing::default();
        let mut errors = ValidationErrors::default();
        for (interface, net) in [("a", "10.0.0.1/8"), ("b", "10.1.0.1/16"), ("c", "fd00::1/64")] {
            let net: IpNet = net.parse().unwrap();
            let six = net.addr().is_ipv6();
            connect(interface, six, net.addr(), net.trunc(), "/", &mut addressing, &mut errors);
        }
        let on_link =
            |text: &str| addressing.table("").on_link(text.parse().unwrap()).map(|(name, _)| name);
        assert_eq!(on_link("10.1.2.3"), Some("b"));
        assert_eq!(on_link("10.2.2.3"), Some("a"));
        assert_eq!(on_link("fd00::2"), Some("c"));
        assert_eq!(on_link("11.0.0.1"), None);
        assert!(errors.is_empty());
    }
}
