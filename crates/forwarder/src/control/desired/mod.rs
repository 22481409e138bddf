//! What is desired, as typed values: the contract's messages checked once, so that
//! nothing behind this file meets a name that is missing or an address of five
//! bytes. Every reason for a refusal is found, not just the first.

mod advertising;
mod bfd;
mod cross_connect;
mod interface;
mod policy;
mod punt;
mod route;
mod tunnel;
mod virtual_router;

pub use advertising::{Advertisement, Discovery};
pub use policy::{Rule, RuleAction};
pub use virtual_router::VirtualRouter;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_api::v1;
use stoa_engine::pool::HugePages;
use stoa_engine::worker::Polling;
use stoa_ports::PortConfig;

use super::desired_port;
use super::limits::LimitOverrides;
use crate::ethernet::vlan_table::{TagKey, tag_key};
use crate::kernel::Kernel;
use crate::punt::{Class, Limit};
use crate::shared::SpecialNextHop;

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
            huge_pages: HugePages::IfAvailable,
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
    /// Whether senders are told of a shorter way.
    pub redirects: bool,
    /// Whether packets to the broadcast address of a network here are sent to all (RFC 2644).
    pub directed_broadcast: bool,
    /// Neighbours at most; 0: as usual.
    pub neighbor_limit: u32,
    /// Whether we answer ARP for addresses that we route elsewhere (RFC 1027).
    pub proxy: bool,
    /// Questions about an address before we are sure that it is ours; 0: none.
    pub duplicate_detection: u8,
    /// IPv6: what hosts hear of us.
    pub advertisement: Option<Advertisement>,
    /// IPv4: the same.
    pub discovery: Option<Discovery>,
    /// Routers that are shared with others of the link.
    pub virtual_routers: Vec<VirtualRouter>,
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
    /// The VRF that it is in; "" is the default one.
    pub vrf: String,
    /// Its end in Linux.
    pub host_interface: Option<HostInterface>,
    /// The interface that all its frames leave by, as they came.
    pub cross_connect: Option<String>,
    /// Neighbours that are asked all the time whether they are there.
    pub bfd: BTreeMap<IpAddr, crate::bfd::session::Config>,
}

/// The end in Linux of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostInterface {
    /// The namespace: a name, or empty for our own.
    pub netns: String,
    /// The device's name there.
    pub device: String,
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
    Special(SpecialNextHop),
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Who wants it, as the contract numbers it.
    pub protocol: i32,
    /// What it does.
    pub action: Action,
}

/// The whole desired state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredState {
    /// The workers.
    pub workers: Workers,
    /// Ports by the name of their interface.
    pub ports: BTreeMap<String, PortConfig>,
    /// Ports whose packets are shared out among all workers.
    pub software_rss: BTreeSet<String>,
    /// Interfaces by name.
    pub interfaces: BTreeMap<String, Interface>,
    /// Routes of the default VRF by prefix.
    pub routes: BTreeMap<Prefix, Route>,
    /// All other VRFs by name, with their routes.
    pub vrfs: BTreeMap<String, BTreeMap<Prefix, Route>>,
    /// Room in the tables.
    pub limits: LimitOverrides,
    /// Rules of policy routing by VRF and whether they are about IPv4, each by priority.
    pub rules: BTreeMap<(String, bool), Vec<Rule>>,
    /// Fixed neighbours by interface and address.
    pub neighbors: BTreeMap<(String, IpAddr), [u8; 6]>,
    /// Budgets that are not the usual ones.
    pub punts: BTreeMap<Class, Limit>,
    /// Packets put together at a time, and of one source; 0: as usual.
    pub reassembly: (u32, u32),
}

/// Gathers reasons for a refusal.
#[derive(Default)]
pub(super) struct ValidationErrors(pub(super) Vec<v1::ValidationError>);

impl ValidationErrors {
    pub(super) fn add(&mut self, path: String, cause: impl Into<String>, fix: &str) {
        self.0.push(v1::ValidationError { path, cause: cause.into(), fix: fix.to_owned() });
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

impl DesiredState {
    /// Checks a message of the contract.
    ///
    /// # Errors
    /// All reasons why it cannot be.
    pub fn parse(desired: &v1::Desired) -> Result<Self, Vec<v1::ValidationError>> {
        let mut errors = ValidationErrors::default();
        let workers = interface::workers(desired.workers.as_ref(), &mut errors);
        let limits = desired.limits.as_ref().map(LimitOverrides::from).unwrap_or_default();
        let mut state = Self { workers, limits, ..Self::default() };
        for port in &desired.ports {
            if port.software_rss {
                state.software_rss.insert(port.interface.clone());
            }
            if let Some(config) = desired_port::parse(port, &mut errors)
                && state.ports.insert(port.interface.clone(), config).is_some()
            {
                let path = format!("port {:?}", port.interface);
                errors.add(path, "is there twice", "Give each port an interface of its own.");
            }
        }
        for vrf in &desired.vrfs {
            state.add_vrf(vrf, &mut errors);
        }
        for interface in &desired.interfaces {
            state.add_interface(interface, &mut errors);
        }
        state.check_parents(&mut errors);
        state.check_host_interfaces(&mut errors);
        state.check_cross_connects(&mut errors);
        for route in &desired.routes {
            state.add_route(route, &mut errors);
        }
        state.add_rules(&desired.rules, &mut errors);
        for neighbor in &desired.neighbors {
            state.add_neighbor(neighbor, &mut errors);
        }
        state.check_tunnels(&mut errors);
        if let Some(config) = &desired.reassembly {
            let most = crate::ip::reassembly::CONTEXTS_MAX;
            if config.packets > most || config.per_source > most {
                let cause =
                    format!("{} packets, {} of one source", config.packets, config.per_source);
                let fix = "Give at most 1,024 of both.";
                errors.add("reassembly".to_owned(), cause, fix);
            }
            state.reassembly = (config.packets, config.per_source);
        }
        for punt in &desired.punts {
            state.add_punt(punt, &mut errors);
        }
        if errors.0.is_empty() { Ok(state) } else { Err(errors.0) }
    }

    fn add_vrf(&mut self, vrf: &v1::Vrf, errors: &mut ValidationErrors) {
        let path = || format!("vrf {:?}", vrf.name);
        if vrf.name.is_empty() {
            errors.add(path(), "has no name", "Name it; the default VRF needs no entry.");
        } else if self.vrfs.insert(vrf.name.clone(), BTreeMap::new()).is_some() {
            errors.add(path(), "is there twice", "Give each VRF a name of its own.");
        }
    }

    /// The routes of a VRF; "" is the default one.
    pub fn routes_of(&self, vrf: &str) -> Option<&BTreeMap<Prefix, Route>> {
        if vrf.is_empty() { Some(&self.routes) } else { self.vrfs.get(vrf) }
    }

    /// All VRFs with their routes, the default one first.
    pub fn all_routes(&self) -> impl Iterator<Item = (&str, &BTreeMap<Prefix, Route>)> {
        let others = self.vrfs.iter().map(|(name, routes)| (name.as_str(), routes));
        std::iter::once(("", &self.routes)).chain(others)
    }
}
