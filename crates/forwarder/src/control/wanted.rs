//! What is wanted, as typed values: the contract's messages checked once, so that
//! nothing behind this file meets a name that is missing or an address of five
//! bytes. Every reason for a refusal is found, not just the first.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_api::v1;
use stoa_engine::INTERFACES;
use stoa_engine::pool::HugePages;
use stoa_engine::worker::Polling;
use stoa_ports::PortConfig;

use super::wanted_port;
use crate::ethernet::vlan_table::{TagKey, tag_key};
use crate::kernel::Kernel;
use crate::shared::Verdict;

/// A prefix: address without host bits, and length.
pub type Prefix = (IpAddr, u8);

/// How the workers are to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// How many, at least 1.
    pub count: usize,
    /// Where they run; empty: anywhere.
    pub cpus: Vec<usize>,
    /// How they wait.
    pub polling: Polling,
    /// Packet buffers.
    pub buffers: u32,
    /// What backs the buffers.
    pub huge_pages: HugePages,
    /// The SIMD kernel.
    pub kernel: Kernel,
}

impl Default for Workers {
    fn default() -> Self {
        Self {
            count: 1,
            cpus: Vec::new(),
            polling: Polling::Adaptive,
            buffers: BUFFERS,
            huge_pages: HugePages::WhenThere,
            kernel: Kernel::detect(),
        }
    }
}

/// Packet buffers unless told otherwise.
pub const BUFFERS: u32 = 16_384;

/// The IPv4 or IPv6 side of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family {
    /// Whether it is on.
    pub enabled: bool,
    /// Whether packets that come in here are forwarded.
    pub forwarding: bool,
    /// Bytes of an IP packet; 0: what the port carries.
    pub mtu: u16,
    /// Addresses with prefix lengths, the primary first.
    pub addresses: Vec<(IpAddr, u8)>,
    /// uRPF: see [`crate::ip::reverse_path`].
    pub reverse_path: u32,
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The port's interface that a sub-interface belongs to.
    pub parent: Option<String>,
    /// The tags of a sub-interface.
    pub tags: Vec<(u16, u16)>,
    /// Administratively up.
    pub enabled: bool,
    /// A MAC address of its own.
    pub mac: Option<[u8; 6]>,
    /// IPv4.
    pub ip4: Family,
    /// IPv6.
    pub ip6: Family,
}

impl Interface {
    /// The tags as the VLAN table knows them.
    pub fn tag_keys(&self) -> Vec<TagKey> {
        self.tags.iter().filter_map(|(tpid, vid)| tag_key(*tpid, *vid)).collect()
    }
}

/// One way of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// The interface's name.
    pub interface: String,
    /// The gateway; `None`: the destination is on the link.
    pub next_hop: Option<IpAddr>,
    /// Share of the flows, at least 1.
    pub weight: u16,
}

/// What a route does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send by one of these paths.
    Paths(Vec<Path>),
    /// Something else.
    Verdict(Verdict),
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Who wants it, as the contract numbers it.
    pub protocol: i32,
    /// What it does.
    pub action: Action,
}

/// The whole wanted state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The workers.
    pub workers: Workers,
    /// Ports by the name of their interface.
    pub ports: BTreeMap<String, PortConfig>,
    /// Interfaces by name.
    pub interfaces: BTreeMap<String, Interface>,
    /// Routes by prefix.
    pub routes: BTreeMap<Prefix, Route>,
    /// Fixed neighbours by interface and address.
    pub neighbors: BTreeMap<(String, IpAddr), [u8; 6]>,
}

/// Gathers reasons for a refusal.
#[derive(Default)]
pub(super) struct Reasons(pub(super) Vec<v1::Reason>);

impl Reasons {
    pub(super) fn add(&mut self, place: String, why: impl Into<String>, mend: &str) {
        self.0.push(v1::Reason { place, why: why.into(), mend: mend.to_owned() });
    }
}

/// An address of 4 or 16 bytes.
pub(super) fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(|octets| IpAddr::V4(Ipv4Addr::from(octets))),
        16 => <[u8; 16]>::try_from(bytes).ok().map(|octets| IpAddr::V6(Ipv6Addr::from(octets))),
        _ => None,
    }
}

/// The longest prefix of an address's family.
pub(super) fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with all bits behind the prefix cleared.
pub(super) fn network(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            IpAddr::V4((u32::from(ip) & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
            IpAddr::V6((u128::from(ip) & mask).into())
        }
    }
}

impl Wanted {
    /// Checks a message of the contract.
    ///
    /// # Errors
    /// All reasons why it cannot be.
    pub fn parse(desired: &v1::Desired) -> Result<Self, Vec<v1::Reason>> {
        let mut reasons = Reasons::default();
        let workers = workers(desired.workers.as_ref(), &mut reasons);
        let mut wanted = Self { workers, ..Self::default() };
        for port in &desired.ports {
            if let Some(config) = wanted_port::parse(port, &mut reasons)
                && wanted.ports.insert(port.interface.clone(), config).is_some()
            {
                let place = format!("port {:?}", port.interface);
                reasons.add(place, "is there twice", "Give each port an interface of its own.");
            }
        }
        for interface in &desired.interfaces {
            wanted.add_interface(interface, &mut reasons);
        }
        wanted.check_parents(&mut reasons);
        for route in &desired.routes {
            wanted.add_route(route, &mut reasons);
        }
        for neighbor in &desired.neighbors {
            wanted.add_neighbor(neighbor, &mut reasons);
        }
        if reasons.0.is_empty() { Ok(wanted) } else { Err(reasons.0) }
    }

    fn add_interface(&mut self, interface: &v1::Interface, reasons: &mut Reasons) {
        let place = format!("interface {:?}", interface.name);
        let mac = match interface.mac.as_slice() {
            [] => None,
            &[a, b, c, d, e, f] if a & 1 == 0 => Some([a, b, c, d, e, f]),
            _ => {
                reasons.add(
                    place.clone(),
                    "has a MAC address that is no unicast address",
                    "Give six bytes, the first of them even.",
                );
                None
            }
        };
        let tags: Vec<_> = [&interface.outer, &interface.inner].into_iter().flatten().collect();
        for tag in &tags {
            let known = matches!(tag.tpid, 0x8100 | 0x88a8);
            if !known || !(1..=4094).contains(&tag.vid) {
                let why = format!("has the VLAN tag {:#06x}/{}", tag.tpid, tag.vid);
                reasons.add(
                    place.clone(),
                    why,
                    "Use 0x8100 or 0x88a8 and a VLAN id from 1 to 4094.",
                );
            }
        }
        let known = Interface {
            parent: (!interface.parent.is_empty()).then(|| interface.parent.clone()),
            tags: tags.iter().map(|tag| (tag.tpid as u16, tag.vid as u16)).collect(),
            enabled: interface.enabled,
            mac,
            ip4: family(interface.ip4.as_ref(), true, &place, reasons),
            ip6: family(interface.ip6.as_ref(), false, &place, reasons),
        };
        if self.interfaces.insert(interface.name.clone(), known).is_some() {
            reasons.add(place, "is there twice", "Give each interface a name of its own.");
        }
    }

    fn check_parents(&self, reasons: &mut Reasons) {
        if self.interfaces.len() > INTERFACES {
            let why = format!("{} interfaces are more than {INTERFACES}", self.interfaces.len());
            reasons.add("interfaces".to_owned(), why, "Spread them over several forwarders.");
        }
        let mut seen = BTreeMap::new();
        for (name, interface) in &self.interfaces {
            let place = format!("interface {name:?}");
            match &interface.parent {
                None if !interface.tags.is_empty() => {
                    reasons.add(
                        place,
                        "has VLAN tags but no parent",
                        "Name the parent, or leave the tags out.",
                    );
                }
                None if !self.ports.contains_key(name) => {
                    reasons.add(
                        place,
                        "has neither a port nor a parent",
                        "Give it a port, or make it a sub-interface.",
                    );
                }
                None => {}
                Some(parent) if !self.ports.contains_key(parent) => {
                    let why = format!("has the parent {parent:?}, which is no port");
                    reasons.add(place, why, "Name an interface that has a port.");
                }
                Some(_) if interface.tags.is_empty() => {
                    reasons.add(place, "has a parent but no VLAN tag", "Give it an outer tag.");
                }
                Some(parent) => {
                    if let Some(other) = seen.insert((parent, &interface.tags), name) {
                        let why = format!("has the same tags as {other:?} on {parent:?}");
                        reasons.add(place, why, "Give each sub-interface tags of its own.");
                    }
                }
            }
        }
    }

    fn add_route(&mut self, route: &v1::Route, reasons: &mut Reasons) {
        let prefix = route.prefix.as_ref();
        let Some(ip) = prefix.and_then(|prefix| address(&prefix.address)) else {
            return reasons.add(
                "route".to_owned(),
                "has no prefix of 4 or 16 bytes",
                "Send a prefix.",
            );
        };
        let length = prefix.map_or(0, |prefix| prefix.length);
        let place = format!("route {ip}/{length}");
        if length > u32::from(bits(ip)) || network(ip, length as u8) != ip {
            return reasons.add(
                place,
                "is no prefix: too long, or host bits are set",
                "Clear the host bits.",
            );
        }
        let action = match &route.action {
            Some(v1::route::Action::Special(special)) => match v1::Special::try_from(*special) {
                Ok(v1::Special::Local) => Action::Verdict(Verdict::Local),
                Ok(v1::Special::Blackhole) => Action::Verdict(Verdict::Blackhole),
                Ok(v1::Special::Unreachable) => Action::Verdict(Verdict::Unreachable),
                Ok(v1::Special::Prohibit) => Action::Verdict(Verdict::Prohibited),
                Err(_) => {
                    return reasons.add(place, "does something unknown", "Use a newer forwarder.");
                }
            },
            Some(v1::route::Action::Paths(paths)) if !paths.paths.is_empty() => {
                Action::Paths(self.paths(&paths.paths, ip, &place, reasons))
            }
            _ => return reasons.add(place, "leads nowhere", "Give it a path or a special action."),
        };
        let route = Route { protocol: route.protocol, action };
        if self.routes.insert((ip, length as u8), route).is_some() {
            reasons.add(place, "is there twice", "Send each prefix once.");
        }
    }

    fn paths(
        &self,
        paths: &[v1::Path],
        ip: IpAddr,
        place: &str,
        reasons: &mut Reasons,
    ) -> Vec<Path> {
        let mut known = Vec::new();
        for path in paths {
            if !self.interfaces.contains_key(&path.interface) {
                let why = format!("leads through {:?}, which is no interface", path.interface);
                reasons.add(place.to_owned(), why, "Name an interface that exists.");
            }
            let next_hop = address(&path.next_hop);
            let fits = next_hop.is_none_or(|next_hop| next_hop.is_ipv4() == ip.is_ipv4());
            if !fits || (next_hop.is_none() && !path.next_hop.is_empty()) {
                reasons.add(
                    place.to_owned(),
                    "has a next hop of another family",
                    "Give one of the prefix's family.",
                );
            }
            let weight = path.weight.clamp(1, u16::MAX.into()) as u16;
            known.push(Path { interface: path.interface.clone(), next_hop, weight });
        }
        known.sort();
        known.dedup();
        known
    }

    fn add_neighbor(&mut self, neighbor: &v1::Neighbor, reasons: &mut Reasons) {
        let ip = address(&neighbor.address);
        let mac = <[u8; 6]>::try_from(neighbor.mac.as_slice()).ok().filter(|mac| mac[0] & 1 == 0);
        let place = format!("neighbor on {:?}", neighbor.interface);
        match (ip, mac, self.interfaces.contains_key(&neighbor.interface)) {
            (Some(ip), Some(mac), true) => {
                self.neighbors.insert((neighbor.interface.clone(), ip), mac);
            }
            (_, _, false) => {
                reasons.add(place, "is on no interface", "Name an interface that exists.")
            }
            _ => reasons.add(place, "has no address or no unicast MAC address", "Give both."),
        }
    }
}

fn workers(workers: Option<&v1::Workers>, reasons: &mut Reasons) -> Workers {
    let Some(given) = workers else { return Workers::default() };
    let place = || "workers".to_owned();
    let kernel = Kernel::choose(&given.kernel).unwrap_or_else(|error| {
        reasons.add(place(), error.to_string(), "Leave the kernel out for the best one.");
        Kernel::Scalar
    });
    let cpus: Vec<usize> = given.cpus.iter().map(|cpu| *cpu as usize).collect();
    let count = given.count.max(1) as usize;
    if count > 64 || (!cpus.is_empty() && cpus.len() != count) {
        let why = format!("{count} workers on {} CPUs", cpus.len());
        reasons.add(place(), why, "Give 1 to 64 workers, and one CPU for each of them or none.");
    }
    Workers {
        count,
        cpus,
        polling: match given.polling() {
            v1::Polling::Adaptive => Polling::Adaptive,
            v1::Polling::Polling => Polling::Always,
            v1::Polling::Interrupt => Polling::Interrupt,
        },
        buffers: if given.buffers == 0 { BUFFERS } else { given.buffers },
        huge_pages: match given.huge_pages() {
            v1::HugePages::WhenThere => HugePages::WhenThere,
            v1::HugePages::Never => HugePages::Never,
            v1::HugePages::Required => HugePages::Required,
        },
        kernel,
    }
}

fn family(family: Option<&v1::Family>, is_ip4: bool, place: &str, reasons: &mut Reasons) -> Family {
    let Some(given) = family else { return Family::default() };
    let mut addresses = Vec::new();
    for given in &given.addresses {
        let ip = address(&given.address).filter(|ip| ip.is_ipv4() == is_ip4);
        match ip {
            Some(ip) if given.prefix_length <= bits(ip).into() => {
                addresses.push((ip, given.prefix_length as u8));
            }
            _ => reasons.add(
                place.to_owned(),
                "has an address that is none of its family",
                "Give 4 or 16 bytes and a prefix length that fits.",
            ),
        }
    }
    Family {
        enabled: given.enabled,
        forwarding: given.forwarding,
        mtu: given.mtu.min(u16::MAX.into()) as u16,
        addresses,
        reverse_path: given.reverse_path as u32 & 3,
    }
}
