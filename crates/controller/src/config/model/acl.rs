//! Access control lists: ietf-access-control-list, stoa-acl.

use serde::Deserialize;
use stoa_api::v1;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Acls {
    pub acl: Vec<Acl>,
    pub attachment_points: AttachmentPoints,
    #[serde(rename = "stoa-acl:flow-profile")]
    pub flow_profile: Vec<FlowProfile>,
    #[serde(rename = "stoa-acl:defined-sets")]
    pub defined_sets: DefinedSets,
    #[serde(rename = "stoa-acl:zones")]
    pub zones: Zones,
    #[serde(rename = "stoa-acl:zone-pairs")]
    pub zone_pairs: ZonePairs,
    #[serde(rename = "stoa-acl:flow-limits")]
    pub flow_limits: v1::FlowLimits,
    #[serde(rename = "stoa-acl:existing-flows")]
    pub existing_flows: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Zones {
    pub zone: Vec<Zone>,
}

#[derive(Debug, Deserialize)]
pub struct Zone {
    pub name: String,
    #[serde(default)]
    pub interface: Vec<String>,
    #[serde(rename = "syn-cookies")]
    pub syn_cookies: Option<SynCookies>,
}

#[derive(Debug, Deserialize)]
pub struct SynCookies {
    #[serde(default = "SynCookies::default_threshold")]
    pub threshold: u32,
}

impl SynCookies {
    const fn default_threshold() -> u32 {
        1000
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct ZonePairs {
    pub zone_pair: Vec<ZonePair>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ZonePair {
    pub from: String,
    pub to: String,
    #[serde(default)]
    pub acl_sets: AclSets,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct RateLimit {
    pub packets_per_second: Option<u32>,
    pub burst: Option<u32>,
}

/// How flows of entries are followed; a timeout of `None` is the default.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FlowProfile {
    pub name: String,
    #[serde(default)]
    pub timeouts: FlowTimeouts,
    #[serde(default)]
    pub tcp: FlowTcp,
}

/// In seconds.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct FlowTimeouts {
    pub tcp_opening: Option<u32>,
    pub tcp_established: Option<u32>,
    pub tcp_half_closed: Option<u32>,
    pub tcp_closing: Option<u32>,
    pub tcp_time_wait: Option<u32>,
    pub tcp_reset: Option<u32>,
    pub udp_new: Option<u32>,
    pub udp_replied: Option<u32>,
    pub icmp: Option<u32>,
    pub other_new: Option<u32>,
    pub other_replied: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct FlowTcp {
    pub loose: bool,
    pub liberal: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct DefinedSets {
    pub ipv4_prefix_sets: SetsOfKind<String>,
    pub ipv6_prefix_sets: SetsOfKind<String>,
    pub port_sets: SetsOfKind<PortOrRange>,
    pub protocol_sets: SetsOfKind<u32>,
}

/// The sets of a kind.
#[derive(Debug, Deserialize)]
pub struct SetsOfKind<T> {
    #[serde(
        default = "Vec::new",
        alias = "prefix-set",
        alias = "port-set",
        alias = "protocol-set"
    )]
    pub sets: Vec<DefinedSet<T>>,
}

impl<T> Default for SetsOfKind<T> {
    fn default() -> Self {
        Self { sets: Vec::new() }
    }
}

#[derive(Debug, Deserialize)]
pub struct DefinedSet<T> {
    pub name: String,
    #[serde(default = "Vec::new", alias = "prefix", alias = "port", alias = "protocol")]
    pub values: Vec<T>,
    #[serde(default)]
    pub include: Vec<String>,
}

/// A port, or "FIRST-LAST".
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum PortOrRange {
    Port(u32),
    Range(String),
}

#[derive(Debug, Deserialize)]
pub struct Acl {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    #[serde(default)]
    pub aces: Aces,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Aces {
    pub ace: Vec<Ace>,
}

#[derive(Debug, Deserialize)]
pub struct Ace {
    pub name: String,
    #[serde(default)]
    pub matches: Matches,
    pub actions: Actions,
}

#[derive(Debug, Deserialize)]
pub struct Actions {
    pub forwarding: String,
    #[serde(default)]
    pub logging: String,
    #[serde(default, rename = "stoa-acl:stateful")]
    pub stateful: bool,
    #[serde(default, rename = "stoa-acl:flow-profile")]
    pub flow_profile: Option<String>,
    #[serde(default, rename = "stoa-acl:alg")]
    pub alg: Option<String>,
    #[serde(default, rename = "stoa-acl:rate-limit")]
    pub rate_limit: RateLimit,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Matches {
    pub ipv4: Option<IpMatch>,
    pub ipv6: Option<IpMatch>,
    pub tcp: Option<PortMatch>,
    pub udp: Option<PortMatch>,
    pub icmp: Option<IcmpMatch>,
    #[serde(rename = "stoa-acl:fragment")]
    pub fragment: Option<Fragment>,
    #[serde(rename = "stoa-acl:packet-length")]
    pub packet_length: LengthRange,
    pub ingress_interface: Option<String>,
    pub egress_interface: Option<String>,
    #[serde(rename = "stoa-acl:vlan-id")]
    pub vlan_id: Option<u32>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct IpMatch {
    pub dscp: Option<u32>,
    pub protocol: Option<u32>,
    #[serde(rename = "stoa-acl:protocol-set")]
    pub protocol_set: Option<String>,
    #[serde(
        rename = "stoa-acl:source-ipv4-prefix-list",
        alias = "stoa-acl:source-ipv6-prefix-list"
    )]
    pub source_set: Option<String>,
    #[serde(
        rename = "stoa-acl:destination-ipv4-prefix-list",
        alias = "stoa-acl:destination-ipv6-prefix-list"
    )]
    pub destination_set: Option<String>,
    pub destination_ipv4_network: Option<String>,
    pub source_ipv4_network: Option<String>,
    pub destination_ipv6_network: Option<String>,
    pub source_ipv6_network: Option<String>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct PortMatch {
    pub source_port: Ports,
    pub destination_port: Ports,
    #[serde(rename = "stoa-acl:source-tcp-port-set", alias = "stoa-acl:source-udp-port-set")]
    pub source_set: Option<String>,
    #[serde(
        rename = "stoa-acl:destination-tcp-port-set",
        alias = "stoa-acl:destination-udp-port-set"
    )]
    pub destination_set: Option<String>,
    #[serde(rename = "stoa-acl:tcp-flags")]
    pub tcp_flags: TcpFlags,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Ports {
    pub lower_port: Option<u32>,
    pub upper_port: Option<u32>,
    pub operator: Option<Operator>,
    pub port: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operator {
    Lte,
    Gte,
    Eq,
    Neq,
}

/// Names of bits, in the order of the module.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TcpFlags {
    pub set: String,
    pub clear: String,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IcmpMatch {
    #[serde(rename = "type")]
    pub kind: Option<u32>,
    pub code: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fragment {
    None,
    First,
    Later,
    Any,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct LengthRange {
    pub lower: Option<u32>,
    pub upper: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct AttachmentPoints {
    pub interface: Vec<AttachmentPoint>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AttachmentPoint {
    pub interface_id: String,
    #[serde(default)]
    pub ingress: Direction,
    #[serde(default)]
    pub egress: Direction,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Direction {
    pub acl_sets: AclSets,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct AclSets {
    pub acl_set: Vec<AclSet>,
}

#[derive(Debug, Deserialize)]
pub struct AclSet {
    pub name: String,
}
