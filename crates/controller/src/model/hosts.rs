//! What hosts are to hear of the router: ietf-ipv6-router-advertisements and stoa-ip.

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
