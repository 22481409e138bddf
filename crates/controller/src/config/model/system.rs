//! `stoa-system:system`.

use serde::Deserialize;
use stoa_api::v1;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct System {
    pub workers: Workers,
    pub punt: Punt,
    pub limits: v1::Limits,
    #[serde(rename = "stoa-ip:reassembly")]
    pub reassembly: v1::Reassembly,
    #[serde(rename = "stoa-ip:multipath")]
    pub multipath: Multipath,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Multipath {
    pub hash_seed: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Punt {
    pub class: Vec<v1::PuntLimit>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Workers {
    pub count: Option<u32>,
    #[serde(flatten)]
    pub of: v1::Workers,
}
