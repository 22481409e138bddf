//! stoa-bfd.

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Bfd {
    pub session: Vec<BfdSession>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct BfdSession {
    pub dest_addr: String,
    pub local_multiplier: u8,
    pub desired_min_tx_interval: u32,
    pub required_min_rx_interval: u32,
}
