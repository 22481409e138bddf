//! Ports and their drivers: stoa-interfaces.

use serde::{Deserialize, Deserializer};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Port {
    #[serde(default)]
    pub rx_queues: u32,
    #[serde(default)]
    pub tx_queues: u32,
    #[serde(default)]
    pub mtu: u32,
    #[serde(default)]
    pub software_rss: bool,
    pub af_packet: Option<KernelDevice>,
    pub af_xdp: Option<AfXdp>,
    pub auto: Option<KernelDevice>,
    pub tap: Option<KernelDevice>,
    pub memif: Option<Memif>,
    pub dpdk: Option<Dpdk>,
    pub pcap: Option<Pcap>,
    pub generator: Option<Generator>,
    pub tunnel: Option<Tunnel>,
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
    pub attach: Attach,
    pub bind: Bind,
    pub need_wakeup: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attach {
    Auto,
    Native,
    Generic,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bind {
    Auto,
    Copy,
    ZeroCopy,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Memif {
    pub socket: String,
    pub id: u32,
    pub role: Role,
    #[serde(default)]
    pub secret: String,
    pub ring_size: u32,
    pub buffer_size: u32,
    pub peer_user: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    Master,
    Slave,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Dpdk {
    pub device: String,
    #[serde(default)]
    pub ring_size: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pcap {
    pub input: String,
    pub output: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Generator {
    pub frame: u32,
    #[serde(deserialize_with = "number_in_text")]
    pub count: u64,
    #[serde(deserialize_with = "number_in_text")]
    pub rate: u64,
    pub destination_mac: Option<String>,
    pub source: String,
    pub destination: String,
    #[serde(deserialize_with = "number_in_text")]
    pub destinations: u64,
    #[serde(default)]
    pub vlan: u32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Tunnel {
    pub encapsulation: Encapsulation,
    pub local: String,
    pub remote: String,
    pub hop_limit: u32,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum Encapsulation {
    Ip,
    Gre,
}

#[derive(Debug, Deserialize)]
pub struct Null {}

/// 64-bit numbers are strings (RFC 7951, section 6.1).
fn number_in_text<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(serde::de::Error::custom)
}
