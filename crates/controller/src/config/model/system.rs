//! `stoa-system:system`.

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct System {
    pub workers: Workers,
    pub punt: Punt,
    pub limits: Limits,
    #[serde(rename = "stoa-ip:reassembly")]
    pub reassembly: Reassembly,
    #[serde(rename = "stoa-ip:multipath")]
    pub multipath: Multipath,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Multipath {
    pub hash_seed: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Reassembly {
    pub packets: u32,
    pub per_source: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Limits {
    pub ipv4_routes: u32,
    pub ipv6_routes: u32,
    pub vrf_routes: u32,
    pub next_hops: u32,
    pub adjacencies: u32,
    pub neighbors: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Punt {
    pub class: Vec<PuntClass>,
}

#[derive(Debug, Deserialize)]
pub struct PuntClass {
    pub name: String,
    #[serde(default)]
    pub rate: u32,
    #[serde(default)]
    pub burst: u32,
    #[serde(default)]
    pub total: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Workers {
    pub count: Option<u32>,
    pub cpus: Vec<u32>,
    pub polling: Polling,
    pub buffers: u32,
    pub huge_pages: HugePages,
    pub kernel: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Polling {
    #[default]
    Adaptive,
    #[serde(rename = "polling")]
    Always,
    Interrupt,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HugePages {
    #[default]
    IfAvailable,
    Never,
    Required,
}
