//! Router advertisements and virtual routers: ietf-ipv6-router-advertisements, stoa-ip, ietf-vrrp.

use ipnet::IpNet;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Advertisements {
    pub send_advertisements: bool,
    pub max_rtr_adv_interval: u32,
    pub min_rtr_adv_interval: Option<u32>,
    pub managed_flag: bool,
    pub other_config_flag: bool,
    pub link_mtu: u32,
    pub reachable_time: u32,
    pub retrans_timer: u32,
    pub cur_hop_limit: Option<u32>,
    pub default_lifetime: Option<u32>,
    #[serde(default)]
    pub prefix_list: PrefixList,
    #[serde(rename = "stoa-ip:preference")]
    pub preference: Preference,
    #[serde(rename = "stoa-ip:dns", default)]
    pub dns: Dns,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PrefixList {
    pub prefix: Vec<AdvertisedPrefix>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AdvertisedPrefix {
    pub prefix_spec: String,
    pub no_advertise: Option<serde_json::Value>,
    #[serde(default)]
    pub valid_lifetime: u32,
    #[serde(default)]
    pub on_link_flag: bool,
    #[serde(default)]
    pub preferred_lifetime: u32,
    #[serde(default)]
    pub autonomous_flag: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preference {
    High,
    Medium,
    Low,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Dns {
    pub server: Vec<String>,
    pub server_lifetime: Option<u32>,
    pub search: Vec<String>,
    pub search_lifetime: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Discovery {
    pub max_interval: u32,
    pub min_interval: Option<u32>,
    pub lifetime: Option<u32>,
    pub broadcast: bool,
    pub preference: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Vrrp {
    pub vrrp_instance: Vec<VirtualRouter>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct VirtualRouter {
    pub vrid: u32,
    pub version: String,
    pub log_state_change: bool,
    pub preempt: Preempt,
    pub priority: u32,
    /// Version 3 only.
    #[serde(default)]
    pub accept_mode: bool,
    pub advertise_interval_sec: Option<u32>,
    pub advertise_interval_centi_sec: Option<u32>,
    #[serde(default)]
    pub track: Track,
    #[serde(rename = "virtual-ipv4-addresses", default)]
    pub addresses4: Addresses4,
    #[serde(rename = "virtual-ipv6-addresses", default)]
    pub addresses6: Addresses6,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Preempt {
    pub enabled: bool,
    pub hold_time: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Track {
    pub interfaces: TrackedInterfaces,
    pub networks: TrackedNetworks,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct TrackedNetworks {
    pub network: Vec<TrackedNetwork>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TrackedNetwork {
    pub prefix: IpNet,
    pub priority_decrement: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct TrackedInterfaces {
    pub interface: Vec<TrackedInterface>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TrackedInterface {
    pub interface: String,
    pub priority_decrement: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Addresses4 {
    #[serde(rename = "virtual-ipv4-address")]
    pub list: Vec<Address4>,
}

#[derive(Debug, Deserialize)]
pub struct Address4 {
    #[serde(rename = "ipv4-address")]
    pub ip: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Addresses6 {
    #[serde(rename = "virtual-ipv6-address")]
    pub list: Vec<Address6>,
}

#[derive(Debug, Deserialize)]
pub struct Address6 {
    #[serde(rename = "ipv6-address")]
    pub ip: String,
}
