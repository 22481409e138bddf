//! The desired state as typed values: the messages of the contract are checked once, so that no later code
//! meets a missing name or an address of five bytes. Parsing reports all errors, not only the first.

mod acl;
mod advertising;
mod bfd;
mod change;
mod check;
mod cross_connect;
mod flow_limits;
mod flow_profile;
mod flow_sync;
mod held;
mod interface;
mod ipfix;
mod ipsec;
mod login;
pub(in crate::control) mod message;
mod nat;
mod nptv6;
mod pacer;
mod plugin;
mod policy;
mod punt;
mod references;
mod route;
mod siit;
mod tunnel;
mod virtual_router;
mod zones;

pub use acl::{AclRule, AclRuleKey, AclSets, Fragments, RuleOfList};
pub use advertising::{Advertisement, Discovery};
pub use change::{Changes, DesiredChange};
pub use flow_limits::FlowLimits;
pub(in crate::control) use held::Held;
pub use ipsec::{Association, Way};
pub use login::Login;
pub(in crate::control) use nat::NatAlgs;
pub use nat::{Nat, NatBackend, NatBlocks, NatMapping, NatPolicy, NatRemote, PortControl};
pub use nptv6::NptPrefix;
pub(in crate::control) use pacer::Pacer;
pub use pacer::Pause;
pub use policy::{Rule, RuleAction};
pub use siit::SiitPolicy;
pub use virtual_router::VirtualRouter;
pub use zones::{ZonePair, ZonePairKey};

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_api::v1;
use stoa_engine::pool::HugePages;
use stoa_engine::worker::Polling;
use stoa_ports::PortConfig;

use super::limits::LimitOverrides;
use crate::ethernet::vlan_table::{TagKey, tag_key};
use crate::ipfix::Settings;
use crate::kernel::Kernel;
use crate::punt::{Class, Limit};
use crate::shared::SpecialNextHop;

/// A prefix: address without host bits, and length.
pub type Prefix = (IpAddr, u8);

/// The first prefix of a table with both families.
pub(super) const FIRST_PREFIX: Prefix = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The configuration of the workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// How many, at least 1.
    pub count: usize,
    /// Their CPUs; empty: not pinned.
    pub cpus: Vec<usize>,
    /// How they wait for packets.
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

/// Default number of packet buffers.
pub const BUFFERS: u32 = 16_384;

/// The IPv4 or IPv6 configuration of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family {
    /// Whether the protocol is enabled.
    pub enabled: bool,
    /// Whether packets that come in here are forwarded.
    pub forwarding: bool,
    /// MTU of IP packets; 0: that of the port.
    pub mtu: u16,
    /// Addresses with prefix lengths, the primary first.
    pub addresses: Vec<(IpAddr, u8)>,
    /// uRPF: see [`crate::ip::reverse_path`].
    pub reverse_path: u32,
    /// Most neighbours; 0: the default.
    pub neighbor_limit: u32,
    /// Proxy ARP: answer for addresses that are routed elsewhere (RFC 1027).
    pub proxy: bool,
    /// Number of DAD or ACD probes; 0: none.
    pub duplicate_detection: u8,
    /// IPv6: the router advertisement.
    pub advertisement: Option<Advertisement>,
    /// IPv4: router discovery.
    pub discovery: Option<Discovery>,
    /// VRRP: virtual routers.
    pub virtual_routers: Vec<VirtualRouter>,
    /// Options that the configuration has in the same form.
    pub options: v1::FamilyOptions,
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The parent interface of a sub-interface.
    pub parent: Option<String>,
    /// The tags of a sub-interface: TPID and VLAN ID.
    pub tags: Vec<(u16, u16)>,
    /// Administratively up.
    pub enabled: bool,
    /// The configured MAC address.
    pub mac: Option<[u8; 6]>,
    /// IPv4.
    pub ip4: Family,
    /// IPv6.
    pub ip6: Family,
    /// Its VRF; "" is the default VRF.
    pub vrf: String,
    /// Its host interface in Linux.
    pub host_interface: Option<HostInterface>,
    /// The interface that its frames are cross-connected to.
    pub cross_connect: Option<String>,
    /// Whether it has the features `ip4-noop` and `ip6-noop`, which benchmarks measure; the contract
    /// cannot set it.
    pub noop: bool,
    /// The same for `ip4-flow-hash` and `ip6-flow-hash`.
    pub flow_hash: bool,
    /// The same for `ethernet-noop`.
    pub noop_ethernet: bool,
    /// The same for `ip-local-noop`.
    pub noop_local: bool,
    /// The same for `ip4-output-noop` and `ip6-output-noop`.
    pub noop_output: bool,
    /// The same for `port-output-noop`.
    pub noop_port: bool,
    /// BFD sessions by neighbour.
    pub bfd: BTreeMap<IpAddr, crate::bfd::session::Config>,
    /// Settings of plugins, by their names.
    pub plugins: BTreeMap<String, Vec<u8>>,
    /// Its access lists.
    pub acls: AclSets,
    /// Its zone; "": none.
    pub zone: String,
    /// From how many half-open connections to its zone on SYN cookies are sent; `None`: never.
    pub zone_syn_cookies: Option<u32>,
    /// What hosts may do that have not logged in; `None`: they need not.
    pub login: Option<Login>,
}

/// The host interface of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostInterface {
    /// The network namespace; empty: our own.
    pub netns: String,
    /// The name of its device there.
    pub device: String,
}

impl Interface {
    /// Whether the sub-interfaces of a port are the same with either of two states of its interface.
    pub(in crate::control) fn passes_on_the_same(&self, other: &Self) -> bool {
        // All fields, so that a new one cannot be forgotten here.
        let Self {
            parent,
            tags,
            enabled,
            mac,
            host_interface,
            cross_connect,
            ip4: _,
            ip6: _,
            vrf: _,
            bfd: _,
            noop: _,
            flow_hash: _,
            noop_ethernet: _,
            noop_local: _,
            noop_output: _,
            noop_port: _,
            plugins: _,
            acls: _,
            zone: _,
            zone_syn_cookies: _,
            login: _,
        } = self;
        (parent, tags, host_interface, cross_connect)
            == (&other.parent, &other.tags, &other.host_interface, &other.cross_connect)
            && (*enabled, *mac) == (other.enabled, other.mac)
    }

    /// The tags as keys of the VLAN table.
    pub fn tag_keys(&self) -> Vec<TagKey> {
        self.tags.iter().filter_map(|(tpid, vid)| tag_key(*tpid, *vid)).collect()
    }
}

/// A path of a route.
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
    /// Sends packets over one of these paths.
    Paths(Vec<Path>),
    /// A special next hop.
    Special(SpecialNextHop),
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its protocol, as numbered in the contract.
    pub protocol: i32,
    /// What it does.
    pub action: Action,
}

/// The whole desired state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredState {
    /// The workers.
    pub workers: Workers,
    /// Ports by interface name.
    pub ports: BTreeMap<String, PortConfig>,
    /// Ports with software RSS: their packets are distributed over all workers.
    pub software_rss: BTreeSet<String>,
    /// Interfaces by name.
    pub interfaces: BTreeMap<String, Interface>,
    /// Routes of the default VRF by prefix.
    pub routes: BTreeMap<Prefix, Route>,
    /// The other VRFs by name, with their routes.
    pub vrfs: BTreeMap<String, BTreeMap<Prefix, Route>>,
    /// Sizes of the tables.
    pub limits: LimitOverrides,
    /// Policy-routing rules by VRF and whether they are for IPv4, each list by priority.
    pub rules: BTreeMap<(String, bool), Vec<Rule>>,
    /// Rules of access lists by list and name.
    pub acl_rules: BTreeMap<AclRuleKey, AclRule>,
    /// Pairs of zones, by both names.
    pub zone_pairs: BTreeMap<ZonePairKey, ZonePair>,
    /// Address translation.
    pub nat: Nat,
    /// Translation of IPv6 prefixes.
    pub nptv6: Vec<NptPrefix>,
    /// Translation without state.
    pub siit: Vec<SiitPolicy>,
    /// Export by IPFIX; without collectors, nothing is exported.
    pub ipfix: Settings,
    /// The partner that has the flows.
    pub flow_sync: Option<crate::flow_sync::Settings>,
    /// Security associations by name.
    pub ipsec: BTreeMap<String, Association>,
    /// Limits of flows.
    pub flow_limits: FlowLimits,
    /// Whether flows go on when rules change.
    pub keeps_flows: bool,
    /// Permanent neighbours by interface and address.
    pub neighbors: BTreeMap<(String, IpAddr), [u8; 6]>,
    /// Policers that differ from their defaults.
    pub punts: BTreeMap<Class, Limit>,
    /// Most packets in reassembly, in all and per source; 0: the default.
    pub reassembly: (u32, u32),
    /// Seed of the flow hashes that choose a path; 0: the default.
    pub hash_seed: u32,
    /// The log; `None`: it stays as it is.
    pub logging: Option<v1::Logging>,
    /// Whether the router has the features `ip4-origin-noop` and `ip6-origin-noop`; the contract cannot
    /// set it.
    pub noop_origin: bool,
}

/// Collects errors.
#[derive(Default)]
pub(super) struct ValidationErrors(pub(super) Vec<v1::ValidationError>);

impl ValidationErrors {
    pub(super) fn add(&mut self, path: String, cause: impl Into<String>, fix: &str) {
        let (cause, fix) = (cause.into(), fix.to_owned());
        self.0.push(v1::ValidationError { path, cause, fix, ..v1::ValidationError::default() });
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

/// The number of bits of an address of this family.
pub(super) fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with the host bits cleared.
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
    /// All errors of the message.
    pub fn parse(desired: &v1::Desired) -> Result<Self, Vec<v1::ValidationError>> {
        let mut errors = ValidationErrors::default();
        let (mut held, pause) = (Held::default(), &mut |_| {});
        let change = DesiredChange::whole(desired, &mut errors);
        held.check_vrfs(&change, &mut errors);
        let inverse = held.exchange(change, pause);
        held.check((&inverse, &BTreeSet::new()), &mut errors, pause);
        if errors.0.is_empty() { Ok(held.into_desired()) } else { Err(errors.0) }
    }

    /// The routes of a VRF; "" is the default VRF.
    pub fn routes_of(&self, vrf: &str) -> Option<&BTreeMap<Prefix, Route>> {
        if vrf.is_empty() { Some(&self.routes) } else { self.vrfs.get(vrf) }
    }

    /// All VRFs with their routes, the default VRF first.
    pub fn all_routes(&self) -> impl Iterator<Item = (&str, &BTreeMap<Prefix, Route>)> {
        let others = self.vrfs.iter().map(|(name, routes)| (name.as_str(), routes));
        std::iter::once(("", &self.routes)).chain(others)
    }
}
