//! Ports and their drivers: stoa-interfaces.

use serde::Deserialize;
use stoa_api::v1;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Port {
    #[serde(flatten)]
    pub of: v1::Port,
    pub af_packet: Option<KernelDevice>,
    pub af_xdp: Option<AfXdp>,
    pub auto: Option<KernelDevice>,
    pub tap: Option<KernelDevice>,
    pub memif: Option<Memif>,
    pub dpdk: Option<v1::Dpdk>,
    pub pcap: Option<v1::Pcap>,
    pub generator: Option<Generator>,
    pub tunnel: Option<v1::Tunnel>,
    pub null: Option<Null>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct KernelDevice {
    pub device: Option<String>,
    pub netns: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AfXdp {
    #[serde(flatten)]
    pub device: KernelDevice,
    #[serde(flatten)]
    pub of: v1::AfXdp,
    pub need_wakeup: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Memif {
    #[serde(flatten)]
    pub of: v1::Memif,
    pub role: Role,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    Master,
    Slave,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Generator {
    #[serde(flatten)]
    pub of: v1::Generator,
    pub destination_mac: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Null {}
