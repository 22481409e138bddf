//! Network address translation: ietf-nat.

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Nat {
    pub instances: NatInstances,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NatInstances {
    pub instance: Vec<NatInstance>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NatInstance {
    pub id: u32,
    /// `None`: yes.
    pub enable: Option<bool>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    #[serde(default)]
    pub nat_pass_through: Vec<PassThrough>,
    #[serde(default)]
    pub policy: Vec<NatPolicy>,
    #[serde(default)]
    pub mapping_table: MappingTable,
}

#[derive(Debug, Deserialize)]
pub struct PassThrough {
    pub id: u32,
    pub prefix: String,
    pub port: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NatPolicy {
    pub id: u32,
    #[serde(default)]
    pub external_ip_address_pool: Vec<ExternalPool>,
    #[serde(default)]
    pub port_set_restrict: NatPorts,
    #[serde(default)]
    pub subscriber_match: Vec<SubscriberMatch>,
    pub address_allocation_type: Option<String>,
    pub port_allocation_type: Option<String>,
    pub mapping_type: Option<MappingType>,
    pub filtering_type: Option<FilteringType>,
    pub fragment_behavior: Option<String>,
    #[serde(default)]
    pub port_quota: Vec<PortQuota>,
    pub port_set: Option<PortSet>,
    #[serde(rename = "stoa-nat:subscriber-mask-v4")]
    pub subscriber_mask: Option<u32>,
    /// "icmp" or "silent".
    #[serde(rename = "stoa-nat:refusal")]
    pub refusal: Option<String>,
    #[serde(default)]
    pub external_realm: ExternalRealm,
    #[serde(default)]
    pub algs: Vec<NatAlg>,
    #[serde(rename = "stoa-nat:port-control", default)]
    pub port_control: PortControl,
    #[serde(default)]
    pub nptv6_prefixes: Vec<Nptv6Prefixes>,
    #[serde(default)]
    pub nat64_prefixes: Vec<Nat64Prefix>,
    #[serde(default)]
    pub eam: Vec<ExplicitMapping>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Nat64Prefix {
    pub nat64_prefix: String,
    #[serde(default)]
    pub destination_ipv4_prefix: Vec<DestinationPrefix>,
    #[serde(default)]
    pub stateless_enable: bool,
}

/// IPv4 destinations that a prefix stands for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DestinationPrefix {
    pub ipv4_prefix: String,
}

/// An explicit address mapping (RFC 7757).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ExplicitMapping {
    pub ipv4_prefix: String,
    pub ipv6_prefix: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Nptv6Prefixes {
    pub internal_ipv6_prefix: String,
    pub external_ipv6_prefix: String,
}

/// Who may ask for mappings; nobody without interfaces.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct PortControl {
    pub interface: Vec<String>,
    pub nat_pmp: Option<bool>,
    pub third_party: Option<bool>,
    pub min_lifetime: Option<u32>,
    pub max_lifetime: Option<u32>,
    pub max_mappings_per_host: Option<u32>,
}

/// An application level gateway.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NatAlg {
    pub name: String,
    pub transport_protocol: Option<u32>,
    #[serde(default)]
    pub dst_transport_port: NatPorts,
    pub status: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ExternalPool {
    pub pool_id: u32,
    pub external_ip_pool: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SubscriberMatch {
    pub match_id: u32,
    pub subnet: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MappingType {
    Eim,
    Adm,
    Edm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilteringType {
    Eif,
    Adf,
    Edf,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PortQuota {
    pub quota_type: u32,
    pub port_limit: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PortSet {
    pub port_set_size: u32,
    pub port_set_timeout: Option<u32>,
    #[serde(rename = "stoa-nat:max-port-sets")]
    pub max_port_sets: Option<u32>,
    #[serde(default, rename = "stoa-nat:deterministic")]
    pub deterministic: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct ExternalRealm {
    pub external_interface: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct MappingTable {
    pub mapping_entry: Vec<MappingEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MappingEntry {
    pub index: u32,
    /// `None`: static.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub transport_protocol: Option<u32>,
    pub internal_src_address: Option<String>,
    #[serde(default)]
    pub internal_src_port: NatPorts,
    pub external_src_address: Option<String>,
    #[serde(default)]
    pub external_src_port: NatPorts,
    pub internal_dst_address: Option<String>,
    #[serde(default)]
    pub internal_dst_port: NatPorts,
    #[serde(rename = "stoa-nat:internal-vrf")]
    pub internal_vrf: Option<String>,
    /// "connection" or "source".
    #[serde(rename = "stoa-nat:backend-selection")]
    pub backend_selection: Option<String>,
    #[serde(rename = "stoa-nat:backend", default)]
    pub backend: Vec<NatBackend>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NatBackend {
    pub id: u32,
    pub address: std::net::Ipv4Addr,
    pub start_port_number: Option<u32>,
    pub weight: Option<u32>,
}

/// A port, or the first and the last one of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct NatPorts {
    pub start_port_number: Option<u32>,
    pub end_port_number: Option<u32>,
}
