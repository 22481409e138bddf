//! Router advertisements and virtual routers: ietf-ipv6-router-advertisements, stoa-ip, ietf-vrrp.

use serde::Deserialize;
use stoa_api::v1;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Advertisements {
    pub send_advertisements: bool,
    #[serde(flatten)]
    pub of: v1::RouterAdvertising,
    pub min_rtr_adv_interval: Option<u32>,
    pub cur_hop_limit: Option<u32>,
    pub default_lifetime: Option<u32>,
    #[serde(default)]
    pub prefix_list: PrefixList,
    #[serde(rename = "stoa-ip:dns", default)]
    pub dns: Dns,
    #[serde(rename = "stoa-ip:nat64-prefix", default)]
    pub nat64_prefix: Vec<AdvertisedNat64>,
}

#[derive(Debug, Deserialize)]
pub struct AdvertisedNat64 {
    pub prefix: String,
    pub lifetime: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PrefixList {
    pub prefix: Vec<AdvertisedPrefix>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AdvertisedPrefix {
    pub no_advertise: Option<serde_json::Value>,
    #[serde(flatten)]
    pub of: v1::AdvertisedPrefix,
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
    #[serde(flatten)]
    pub of: v1::RouterDiscovery,
    pub min_interval: Option<u32>,
    pub lifetime: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Vrrp {
    pub vrrp_instance: Vec<VirtualRouter>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct VirtualRouter {
    #[serde(flatten)]
    pub of: v1::VirtualRouter,
    pub version: String,
    pub preempt: Preempt,
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
    pub network: Vec<v1::TrackedNetwork>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct TrackedInterfaces {
    pub interface: Vec<v1::TrackedInterface>,
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
