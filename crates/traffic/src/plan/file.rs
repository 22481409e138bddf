//! A run file in YAML or JSON, before any check.

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
    /// How long packets are sent; default 10 s.
    pub duration: Option<Seconds>,
    /// How long to wait at the end for packets in flight; default 0.5 s.
    pub settle: Option<Seconds>,
    /// How long ports may take to come up and gateways to reply; default 10 s.
    pub patience: Option<Seconds>,
    /// One thread for all ports, one for each, or two for each.
    pub threads: Option<ThreadsText>,
    /// CPUs of the threads, in turn.
    #[serde(default)]
    pub cpus: Vec<usize>,
}

/// How the work is distributed to threads.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadsText {
    /// One thread sends and receives on all ports.
    One,
    /// One for each port.
    PerPort,
    /// Two for each port: one sends, one receives.
    PerDirection,
}

/// A port: one driver, and its addresses.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PortText {
    /// memif, shared memory.
    pub memif: Option<MemifText>,
    /// A Linux device through a packet socket.
    pub af_packet: Option<DeviceText>,
    /// A Linux device through AF_XDP.
    pub af_xdp: Option<DeviceText>,
    /// A Linux device with the fastest driver that it supports.
    pub auto: Option<DeviceText>,
    /// A TAP device, which is created.
    pub tap: Option<DeviceText>,
    /// A DPDK device.
    pub dpdk: Option<DpdkText>,
    /// Capture files.
    pub pcap: Option<PcapText>,
    /// Discards sent packets (YAML reads `null` as no value, hence this name).
    pub discard: Option<NullText>,
    /// MAC address of the port.
    pub mac: Option<String>,
    /// Addresses of the port; a network means all of its hosts.
    #[serde(default)]
    pub addresses: Vec<IpNet>,
    /// Addresses of the device under test on this link, one per family.
    #[serde(default)]
    pub gateways: Vec<std::net::IpAddr>,
    /// Line rate in bits per second.
    pub line_rate: Option<Rate>,
    /// MTU: bytes of an IP packet.
    pub mtu: Option<u32>,
}

/// A memif link.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MemifText {
    /// Path of the socket, or an abstract name after `@`.
    pub socket: String,
    /// Link number on the socket.
    #[serde(default)]
    pub id: u32,
    /// `master` listens; `slave` connects and provides the memory.
    #[serde(default)]
    pub role: RoleText,
    /// Secret that both ends share.
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
    /// Accept memory that the peer can withdraw.
    #[serde(default)]
    pub trust_memory: bool,
}

/// A DPDK device.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DpdkText {
    /// A PCI address or a virtual device, with its device arguments.
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
    /// Connects and provides the memory.
    #[default]
    Slave,
}

/// A Linux device.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DeviceText {
    /// Its name.
    pub device: String,
    /// Network namespace of the device.
    pub netns: Option<String>,
    /// Queues in each direction.
    #[serde(default)]
    pub queues: u16,
}

/// Capture files.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PcapText {
    /// File with the frames to receive.
    pub input: Option<PathBuf>,
    /// File for the sent frames.
    pub output: Option<PathBuf>,
}

/// No settings.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NullText {}

/// A stream.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StreamText {
    /// Its name.
    pub name: String,
    /// The port that sends it.
    pub from: String,
    /// The port that it is expected on.
    pub to: String,
    /// Transmit rate; default 1,000 packets per second.
    pub rate: Option<Rate>,
    /// Packets per burst.
    pub burst: Option<u32>,
    /// Total number of packets.
    pub count: Option<u64>,
    /// Bytes of a frame with FCS, or a mix; default: the shortest possible.
    pub size: Option<Size>,
    /// Flows: source ports and addresses vary.
    pub flows: Option<u32>,
    /// Link-layer addresses.
    #[serde(default)]
    pub ethernet: EthernetText,
    /// VLAN; the outer one for QinQ.
    pub vlan: Option<FieldText>,
    /// Inner VLAN; the outer tag is then a service tag (QinQ).
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
    /// Capture file whose frames are sent unmodified, in place of generated ones.
    pub replay: Option<PathBuf>,
}

/// Link-layer addresses.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct EthernetText {
    /// Source address; default: the port's.
    pub source: Option<FieldText>,
    /// Destination address; default: the gateway's or the other port's.
    pub destination: Option<FieldText>,
    /// EtherType of frames without an IP header, such as `0x88b5`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// An IP header.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct IpText {
    /// Source address; default: the port's.
    pub source: Option<FieldText>,
    /// Destination address; default: the other port's.
    pub destination: Option<FieldText>,
    /// TTL or hop limit; default 64.
    pub ttl: Option<u8>,
    /// DSCP, 0 to 63.
    pub dscp: Option<u8>,
}

/// Ports of UDP or TCP.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PortsText {
    /// Source port; default 49152.
    pub source: Option<FieldText>,
    /// Destination port; default 9 (discard).
    pub destination: Option<FieldText>,
}

/// Echo requests.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct IcmpText {
    /// Identifier; default 1.
    pub identifier: Option<FieldText>,
}
