//! Security associations: stoa-ipsec.

use std::fmt;

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Ipsec {
    pub sad: Sad,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Sad {
    pub sad_entry: Vec<SadEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SadEntry {
    pub name: String,
    pub interface: String,
    pub direction: SaDirection,
    pub ipsec_sa_config: SaConfig,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SaDirection {
    Inbound,
    Outbound,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SaConfig {
    pub spi: u32,
    pub ext_seq_num: bool,
    pub anti_replay_window_size: u32,
    pub esp_sa: EspSa,
    pub tunnel: SaTunnel,
    pub encapsulation_type: Option<SaEncapsulation>,
}

#[derive(Debug, Deserialize)]
pub struct EspSa {
    pub encryption: SaEncryption,
    #[serde(default)]
    pub integrity: SaIntegrity,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SaEncryption {
    pub encryption_algorithm: u16,
    #[serde(default)]
    pub key: HexKey,
    #[serde(default)]
    pub iv: HexKey,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SaIntegrity {
    pub integrity_algorithm: Option<u16>,
    #[serde(default)]
    pub key: HexKey,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SaTunnel {
    pub df_bit: DfBit,
    pub bypass_dscp: bool,
    pub outer_dscp: u32,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DfBit {
    Copy,
    Set,
    Clear,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct SaEncapsulation {
    pub sport: u32,
    pub dport: u32,
}

/// A key as `01:ab:...`, which `Debug` leaves out.
#[derive(Clone, Default, Deserialize)]
pub struct HexKey(String);

impl HexKey {
    /// Its bytes: the type of the leaf permits nothing else.
    pub fn bytes(&self) -> Vec<u8> {
        let octets = self.0.split(':').filter(|it| !it.is_empty());
        octets.filter_map(|it| u8::from_str_radix(it, 16).ok()).collect()
    }
}

impl fmt::Debug for HexKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HexKey").finish_non_exhaustive()
    }
}
