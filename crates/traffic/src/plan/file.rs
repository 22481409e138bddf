//! A run file: what is written in YAML or JSON, as it is written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ipnet::IpNet;
use serde::Deserialize;

use super::field::FieldText;
use super::quantity::{Rate, Seconds, Size};

/// A run file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RunFile {
    /// Ports by name.
    pub ports: BTreeMap<String, PortText>,
    /// Streams.
    #[serde(default)]
    pub streams: Vec<StreamText>,
    /// How long packets are sent; 10 s unless told.
    pub duration: Option<Seconds>,
    /// How long to wait for packets that are on their way at the end; 0.5 s unless told.
    pub settle: Option<Seconds>,
    /// How long ports may take to come up and gateways to answer; 10 s unless told.
    pub patience: Option<Seconds>,
    /// One thread for all ports, one for each, or two.
    pub threads: Option<ThreadsText>,
    /// The processors that threads run on, in turn.
    #[serde(default)]
    pub cpus: Vec<usize>,
}

/// How work is shared between threads.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadsText {
    /// One sends and receives on all ports.
    One,
    /// One for each port.
    PerPort,
    /// Two for each port: one sends, one receives.
    PerDirection,
}

/// A port: one driver, and who we are there.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PortText {
    /// Shared memory.
    pub memif: Option<MemifText>,
    /// A Linux device by a packet socket.
    pub af_packet: Option<DeviceText>,
    /// A Linux device by AF_XDP.
    pub af_xdp: Option<DeviceText>,
    /// A Linux device by what suits it best.
    pub auto: Option<DeviceText>,
    /// A TAP device, which is made.
    pub tap: Option<DeviceText>,
    /// A device of DPDK.
    pub dpdk: Option<DpdkText>,
    /// Capture files.
    pub pcap: Option<PcapText>,
    /// Nowhere: what is sent is gone (`null` itself is no word of YAML).
    pub discard: Option<NullText>,
    /// Our own MAC address.
    pub mac: Option<String>,
    /// Our own addresses, and networks that we speak for.
    #[serde(default)]
    pub addresses: Vec<IpNet>,
    /// The device under test's addresses on this link, one of a family.
    #[serde(default)]
    pub gateways: Vec<std::net::IpAddr>,
    /// Bits per second that the line carries.
    pub line_rate: Option<Rate>,
    /// Bytes of an IP packet.
    pub mtu: Option<u32>,
}

/// A memif link.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MemifText {
    /// The socket's path, or a name after `@`.
    pub socket: String,
    /// Which link of the socket.
    #[serde(default)]
    pub id: u32,
    /// Who listens: `master`; who connects and brings the memory: `slave`.
    #[serde(default)]
    pub role: RoleText,
    /// What both ends must know.
    pub secret: Option<String>,
    /// Descriptors of a ring.
    #[serde(default)]
    pub ring_size: u32,
    /// Bytes of a buffer.
    #[serde(default)]
    pub buffer_size: u32,
    /// Queues in each direction, 1 to 64; 0: one.
    #[serde(default)]
    pub queues: u16,
    /// Accept memory that the peer could take away.
    #[serde(default)]
    pub trust_memory: bool,
}

/// A device of DPDK.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DpdkText {
    /// A PCI address or a virtual device, with its settings.
    pub device: String,
    /// Queues in each direction.
    #[serde(default)]
    pub queues: u16,
    /// Descriptors of a ring.
    #[serde(default)]
    pub ring_size: u16,
}

/// The role in a memif link.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoleText {
    /// Listens.
    Master,
    /// Connects, and brings the memory.
    #[default]
    Slave,
}

/// A Linux device.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DeviceText {
    /// Its name.
    pub device: String,
    /// The network namespace that it is in.
    pub netns: Option<String>,
    /// Queues in each direction.
    #[serde(default)]
    pub queues: u16,
}

/// Capture files.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PcapText {
    /// What is received.
    pub input: Option<PathBuf>,
    /// Where to what is sent goes.
    pub output: Option<PathBuf>,
}

/// Nothing to set.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NullText {}

/// A stream.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StreamText {
    /// What it is called.
    pub name: String,
    /// The port that sends it.
    pub from: String,
    /// The port that it is to come back by.
    pub to: String,
    /// How much is sent; 1,000 packets per second unless told.
    pub rate: Option<Rate>,
    /// Packets that go at once.
    pub burst: Option<u32>,
    /// Packets in all.
    pub count: Option<u64>,
    /// Bytes of a frame with FCS, or a mix; the shortest unless told.
    pub size: Option<Size>,
    /// Flows: source ports and addresses in turn.
    pub flows: Option<u32>,
    /// Link-layer addresses.
    #[serde(default)]
    pub ethernet: EthernetText,
    /// VLAN, the outer one where there are two.
    pub vlan: Option<FieldText>,
    /// The inner VLAN: the outer one has the tag of a provider (QinQ).
    pub inner_vlan: Option<FieldText>,
    /// IPv4.
    pub ip4: Option<IpText>,
    /// IPv6.
    pub ip6: Option<IpText>,
    /// UDP.
    pub udp: Option<PortsText>,
    /// TCP.
    pub tcp: Option<PortsText>,
    /// ICMP or ICMPv6 echo requests.
    pub icmp: Option<IcmpText>,
    /// Frames of a capture file, as they are, in place of made ones.
    pub replay: Option<PathBuf>,
}

/// Link-layer addresses.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct EthernetText {
    /// The sender's; the port's unless told.
    pub source: Option<FieldText>,
    /// The receiver's; the gateway's, or the other port's, unless told.
    pub destination: Option<FieldText>,
    /// The type of frames without an IP header, such as `0x88b5`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// An IP header.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct IpText {
    /// The sender; the port's address unless told.
    pub source: Option<FieldText>,
    /// The receiver; the other port's address unless told.
    pub destination: Option<FieldText>,
    /// TTL or hop limit; 64 unless told.
    pub ttl: Option<u8>,
    /// DSCP, 0 to 63.
    pub dscp: Option<u8>,
}

/// Ports of UDP or TCP.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PortsText {
    /// The sender's; 49152 unless told.
    pub source: Option<FieldText>,
    /// The receiver's; 9 (discard) unless told.
    pub destination: Option<FieldText>,
}

/// Echo requests.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct IcmpText {
    /// Identifier; 1 unless told.
    pub identifier: Option<FieldText>,
}
