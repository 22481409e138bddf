//! A valid configuration as Rust types, named as in the YANG modules.
//!
//! It is parsed from the output of libyang: all defaults are present and all values in range. Leaves that mean the same
//! to the forwarder are fields of its messages (`of`), which the contract names after the leaves.

mod acl;
mod bfd;
mod hosts;
mod ipsec;
mod logging;
pub mod login;
pub mod management;
mod nat;
mod policy;
mod ports;
pub mod route_sources;
mod system;

pub use acl::*;
pub use bfd::*;
pub use hosts::*;
pub use ipsec::*;
pub use logging::*;
pub use login::*;
pub use nat::*;
pub use policy::*;
pub use ports::*;
pub use system::*;

use serde::Deserialize;
use stoa_api::v1;

use route_sources::RouteSource;

/// The whole configuration.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Model {
    #[serde(rename = "ietf-interfaces:interfaces")]
    pub interfaces: Interfaces,
    #[serde(rename = "ietf-routing:routing")]
    pub routing: Routing,
    #[serde(rename = "stoa-system:system")]
    pub system: System,
    #[serde(rename = "stoa-logging:logging")]
    pub logging: Logging,
    #[serde(rename = "stoa-vrf:vrfs")]
    pub vrfs: Vrfs,
    #[serde(rename = "stoa-management:management")]
    pub management: management::Management,
    #[serde(rename = "ietf-access-control-list:acls")]
    pub acls: Acls,
    #[serde(rename = "ietf-nat:nat")]
    pub nat: Nat,
    #[serde(rename = "stoa-ipfix:ipfix")]
    pub ipfix: v1::Ipfix,
    #[serde(rename = "stoa-ipsec:ipsec")]
    pub ipsec: Ipsec,
    #[serde(rename = "stoa-flow-sync:flow-sync")]
    pub flow_sync: v1::FlowSync,
    #[serde(rename = "stoa-login:login")]
    pub login: Login,
    #[serde(rename = "ietf-netconf-acm:nacm")]
    pub access: management::Access,
}

// ===== vrfs =====

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Vrfs {
    pub vrf: Vec<Vrf>,
}

#[derive(Debug, Deserialize)]
pub struct Vrf {
    #[serde(flatten)]
    pub of: v1::Vrf,
    #[serde(rename = "stoa-policy:kernel-table")]
    pub kernel_table: Option<u32>,
}

// ===== interfaces =====

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Interfaces {
    pub interface: Vec<Interface>,
}

#[derive(Debug, Deserialize)]
pub struct Interface {
    pub name: String,
    #[serde(default)]
    pub description: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub enabled: bool,
    #[serde(rename = "stoa-interfaces:mac-address")]
    pub mac: Option<String>,
    #[serde(rename = "stoa-vrf:vrf", default)]
    pub vrf: String,
    #[serde(rename = "stoa-interfaces:port")]
    pub port: Option<Port>,
    #[serde(rename = "stoa-interfaces:sub-interface")]
    pub sub_interface: Option<SubInterface>,
    #[serde(rename = "stoa-host-interface:host-interface")]
    pub host_interface: Option<KernelDevice>,
    #[serde(rename = "stoa-interfaces:cross-connect", default)]
    pub cross_connect: String,
    #[serde(rename = "stoa-login:login")]
    pub login: Option<InterfaceLogin>,
    #[serde(rename = "stoa-bfd:bfd", default)]
    pub bfd: Bfd,
    #[serde(rename = "ietf-ip:ipv4")]
    pub ip4: Option<Family>,
    #[serde(rename = "ietf-ip:ipv6")]
    pub ip6: Option<Family>,
}

impl Interface {
    /// Whether it is a tunnel.
    pub fn is_tunnel(&self) -> bool {
        self.port.as_ref().is_some_and(|port| port.tunnel.is_some())
    }

    /// Its families, with the names of their containers and whether they are IPv6.
    pub fn families(&self) -> impl Iterator<Item = (&Family, &'static str, bool)> {
        let four = self.ip4.iter().map(|family| (family, "ipv4", false));
        four.chain(self.ip6.iter().map(|family| (family, "ipv6", true)))
    }
}

#[derive(Debug, Deserialize)]
pub struct SubInterface {
    pub parent: String,
    pub outer: Tag,
    pub inner: Option<Tag>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Tag {
    pub tpid: Tpid,
    pub vid: u32,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tpid {
    CVlan,
    SVlan,
}

#[derive(Debug, Deserialize)]
pub struct Family {
    pub enabled: bool,
    pub forwarding: bool,
    #[serde(default)]
    pub address: Vec<Address>,
    #[serde(default)]
    pub neighbor: Vec<Neighbor>,
    #[serde(rename = "stoa-interfaces:reverse-path")]
    pub reverse_path: ReversePath,
    #[serde(rename = "stoa-interfaces:reverse-path-allow-default")]
    pub allow_default: bool,
    /// IPv4 only.
    #[serde(rename = "stoa-interfaces:duplicate-detection", default)]
    pub duplicate_detection: u32,
    /// IPv6 only.
    #[serde(rename = "dup-addr-detect-transmits", default)]
    pub transmits: u32,
    /// IPv6 only.
    #[serde(rename = "ietf-ipv6-unicast-routing:ipv6-router-advertisements")]
    pub advertisements: Option<Advertisements>,
    /// IPv4 only.
    #[serde(rename = "stoa-ip:router-discovery")]
    pub discovery: Option<Discovery>,
    #[serde(rename = "ietf-vrrp:vrrp", default)]
    pub vrrp: Vrrp,
    /// Leaves that mean the same to the forwarder.
    #[serde(flatten)]
    pub of: v1::Family,
    #[serde(flatten)]
    pub options: v1::FamilyOptions,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Address {
    pub ip: String,
    pub prefix_length: u8,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Neighbor {
    pub ip: String,
    pub link_layer_address: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReversePath {
    Off,
    Strict,
    Loose,
}

// ===== routing =====

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Routing {
    pub control_plane_protocols: Protocols,
    #[serde(rename = "stoa-policy:policy")]
    pub policy: Policy,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Protocols {
    pub control_plane_protocol: Vec<Protocol>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Protocol {
    #[serde(rename = "type")]
    pub kind: String,
    pub name: String,
    #[serde(rename = "stoa-vrf:vrf", default)]
    pub vrf: String,
    #[serde(default)]
    pub static_routes: StaticRoutes,
    #[serde(rename = "stoa-routing:route-source")]
    pub route_source: Option<RouteSource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct StaticRoutes {
    #[serde(rename = "ietf-ipv4-unicast-routing:ipv4")]
    pub ip4: Routes,
    #[serde(rename = "ietf-ipv6-unicast-routing:ipv6")]
    pub ip6: Routes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Routes {
    pub route: Vec<Route>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Route {
    pub destination_prefix: String,
    /// Present: the route competes with learned routes. Absent: it takes precedence over them.
    #[serde(rename = "stoa-routing:preference")]
    pub preference: Option<u8>,
    pub next_hop: NextHop,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NextHop {
    pub outgoing_interface: Option<String>,
    pub next_hop_address: Option<String>,
    pub special_next_hop: Option<Special>,
    pub next_hop_list: Option<NextHopList>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Special {
    Blackhole,
    Unreachable,
    Prohibit,
    Receive,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct NextHopList {
    pub next_hop: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Entry {
    pub index: String,
    pub outgoing_interface: Option<String>,
    pub next_hop_address: Option<String>,
    #[serde(rename = "stoa-routing:weight")]
    pub weight: u32,
}
