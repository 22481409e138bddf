//! The configuration of a port: plain values that the forwarder fills in.

mod exclusive;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use crate::generator::Senders;
use crate::tunnel::TunnelConfig;

/// A driver and what it is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortConfig {
    /// A network device of this machine, over a packet socket.
    AfPacket(AfPacketConfig),
    /// A network device of this machine, over AF_XDP.
    AfXdp(AfXdpConfig),
    /// A network device of this machine, over what suits it best.
    Auto(AutoConfig),
    /// A TAP device that the port makes.
    Tap(TapConfig),
    /// Shared memory with another program.
    Memif(MemifConfig),
    /// A device that DPDK has a driver for.
    Dpdk(DpdkConfig),
    /// Capture files.
    Pcap(PcapConfig),
    /// Packets made in memory.
    Generator(GeneratorConfig),
    /// Nothing.
    Null(NullConfig),
    /// Another port, with a header of our own before each packet.
    Tunnel(TunnelConfig),
    /// The end in Linux of one of our interfaces: a TAP device of the forwarder's own.
    HostInterface(HostInterfaceConfig),
}

impl PortConfig {
    /// The configured driver's name: one of [`crate::DRIVERS`], or `auto`, which
    /// becomes one of them.
    pub fn driver(&self) -> &'static str {
        match self {
            Self::AfPacket(_) => "af-packet",
            Self::AfXdp(_) => "af-xdp",
            Self::Auto(_) => "auto",
            Self::Tap(_) | Self::HostInterface(_) => "tap",
            Self::Memif(_) => "memif",
            Self::Dpdk(_) => "dpdk",
            Self::Pcap(_) => "pcap",
            Self::Generator(_) => "generator",
            Self::Null(_) => "null",
            Self::Tunnel(_) => "tunnel",
        }
    }
}

/// A network device of this machine, over AF_PACKET.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AfPacketConfig {
    /// The device's name.
    pub device: String,
    /// The network namespace: a name below `/run/netns` or a path. `None`: our own.
    pub netns: Option<String>,
    /// Receive queues, 1 to 64; 0: one.
    pub rx_queues: u16,
    /// Transmit queues, 1 to 64; 0: one.
    pub tx_queues: u16,
    /// Bytes of an IP packet, 68 to 11,050; 0: the device's, which is the most in any case.
    pub mtu: u32,
}

/// Where an XDP program is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpAttach {
    /// In the device's driver when it can, else before the network stack.
    #[default]
    Auto,
    /// In the device's driver.
    Native,
    /// Before the network stack: any device, slower.
    Generic,
}

/// The writer of frames to the memory that is shared with the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpBind {
    /// The device when it can, else the kernel.
    #[default]
    Auto,
    /// The kernel, by copying.
    Copy,
    /// The device.
    ZeroCopy,
}

/// A network device of this machine, over AF_XDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfXdpConfig {
    /// The device's name.
    pub device: String,
    /// The network namespace: a name below `/run/netns` or a path. `None`: our own.
    pub netns: Option<String>,
    /// Queues in each direction, 1 to 64; 0: as many as the device receives by.
    pub queues: u16,
    /// Where the program is attached.
    pub attach: XdpAttach,
    /// The writer of frames.
    pub bind: XdpBind,
    /// The kernel signals when it must be called, otherwise it is called for each burst.
    pub need_wakeup: bool,
    /// Bytes of an IP packet, 68 to 11,050; 0: the device's, which is the most in any case.
    pub mtu: u32,
}

impl Default for AfXdpConfig {
    fn default() -> Self {
        Self {
            device: String::new(),
            netns: None,
            queues: 0,
            attach: XdpAttach::Auto,
            bind: XdpBind::Auto,
            need_wakeup: true,
            mtu: 0,
        }
    }
}

/// A network device of this machine, by the driver that suits it best.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoConfig {
    /// The device's name.
    pub device: String,
    /// The network namespace: a name below `/run/netns` or a path. `None`: our own.
    pub netns: Option<String>,
    /// Receive queues, 1 to 64; 0: as many as the device has with AF_XDP, else one.
    pub rx_queues: u16,
    /// Transmit queues of a packet socket, 1 to 64; 0: one.
    pub tx_queues: u16,
    /// Bytes of an IP packet, 68 to 11,050; 0: the device's, which is the most in any case.
    pub mtu: u32,
}

/// A TAP device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TapConfig {
    /// The device's name.
    pub device: String,
    /// The network namespace: a name below `/run/netns` or a path. `None`: our own.
    pub netns: Option<String>,
    /// Queues in each direction, 1 to 64; 0: one.
    pub queues: u16,
    /// Bytes of an IP packet, 68 to 11,050; 0: 1,500. The device gets it.
    pub mtu: u32,
}

/// The end in Linux of one of our interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostInterfaceConfig {
    /// The device's name.
    pub device: String,
    /// The network namespace: a name below `/run/netns` or a path. `None`: our own.
    pub netns: Option<String>,
    /// Queues in each direction, 1 to 64; 0: one.
    pub queues: u16,
    /// Marks the device as ours, so that it is recognized again: 255 bytes at most. Empty: a
    /// device that is there is never taken over.
    pub alias: String,
}

/// The side that listens, and the side that owns the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemifRole {
    /// Listens on the socket; maps the peer's memory.
    #[default]
    Master,
    /// Connects to the socket; owns the memory.
    Slave,
}

/// A shared-memory link, memif 2.0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemifConfig {
    /// The Unix socket; a name that begins with `@` is an abstract one.
    pub socket: String,
    /// Distinguishes links that share a socket.
    pub id: u32,
    /// The side that listens, and the side that owns the memory.
    pub role: MemifRole,
    /// The shared secret, 24 bytes at most.
    pub secret: Option<String>,
    /// Descriptors of each ring: a power of two, 64 to 16,384; 0: 1,024. Slave only.
    pub ring_size: u32,
    /// Bytes of each buffer, 256 to 65,536, a multiple of 64; 0: 2,048. Slave only.
    pub buffer_size: u32,
    /// Queues towards us, 1 to 16; 0: one. Slave only: the master takes what the slave brings.
    pub rx_queues: u16,
    /// Queues towards the peer, 1 to 16; 0: one. Slave only.
    pub tx_queues: u16,
    /// The number of the user that the peer must run as. `None`: any user who may open the socket.
    pub peer_user: Option<u32>,
    /// Accept memory that the peer could take away (a DPDK zero-copy client cannot
    /// seal its huge pages); such a peer can end this program. Master only.
    pub trust_memory: bool,
    /// Bytes of an IP packet, 68 to 11,050; 0: 1,500.
    pub mtu: u32,
    /// The port's own MAC address. `None`: one made from random.
    pub mac: Option<[u8; 6]>,
}

/// A device that DPDK has a driver for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DpdkConfig {
    /// A PCI address (`0000:3b:00.0`), or a virtual device by the name of its driver and a number; both
    /// may be followed by settings of the driver (`net_memif0,role=client`). 255 letters at most.
    pub device: String,
    /// Receive queues, 1 to 64; 0: one.
    pub rx_queues: u16,
    /// Transmit queues, 1 to 64; 0: as many as `workers`.
    pub tx_queues: u16,
    /// Transmit queues when their number is left open: so many, or as many as the device has.
    pub workers: u16,
    /// Descriptors of each ring; 0: the driver's preferred number, else 1,024. The device may have more
    /// or fewer.
    pub ring_size: u16,
    /// Bytes of an IP packet, 68 to 11,050; 0: the device's.
    pub mtu: u32,
}

impl DpdkConfig {
    /// The device without its settings.
    fn name(&self) -> &str {
        self.device.split(',').next().unwrap_or(&self.device)
    }
}

/// Capture files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PcapConfig {
    /// A pcap or pcapng file whose frames are received once. `None`: the port receives nothing.
    pub input: Option<PathBuf>,
    /// A pcap file, made anew, for what is sent. `None`: what is sent is gone.
    pub output: Option<PathBuf>,
    /// The folder that both files are in: there, links are not followed. `None`: they may be anywhere.
    pub folder: Option<PathBuf>,
    /// Bytes of an IP packet, 68 to 11,050; 0: 1,500.
    pub mtu: u32,
    /// The port's own MAC address. `None`: one made from random.
    pub mac: Option<[u8; 6]>,
}

/// Where generated packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destinations {
    /// So many addresses from `destination` on; at least one.
    Range(u64),
    /// IPv4 addresses from a list.
    List4(Arc<[u32]>),
    /// IPv6 addresses from a list.
    List6(Arc<[u128]>),
}

/// Packets made in memory: UDP over IPv4 or IPv6 from one host to one or many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratorConfig {
    /// Bytes of a frame without FCS: headers (42; IPv6: 62; VLAN: 4 more) to 11,072. The headers of
    /// tunnels come on top.
    pub frame: u16,
    /// Packets in all; 0: for ever.
    pub count: u64,
    /// Packets per second; 0: as fast as they are taken.
    pub rate: u64,
    /// The next hop's MAC address. `None`: the port's own.
    pub destination_mac: Option<[u8; 6]>,
    /// The sender's address.
    pub source: IpAddr,
    /// The first receiver's address, of the same family.
    pub destination: IpAddr,
    /// All receivers.
    pub destinations: Destinations,
    /// VLAN of the frames, 1 to 4,094; 0: untagged.
    pub vlan: u16,
    /// Tags and source of each frame in place of `vlan` and `source`.
    pub senders: Option<Arc<Senders>>,
    /// UDP checksum of IPv4 packets, whether it is right or not; 0: none.
    pub udp_checksum: u16,
    /// Visit the receivers in a pseudo-random order, not in turn.
    pub random: bool,
    /// Receive queues, 1 to 64; 0: one. Count and rate are shared between them.
    pub queues: u16,
    /// Flows of each sender, in turn: source port and, every 16,384 of them, source address
    /// differ. 0: one. At most 1,048,576.
    pub flows: u32,
    /// TCP segments of IPv4 that open a connection, in place of UDP datagrams: 58 bytes at least.
    pub syn: bool,
    /// Packets of several kinds in place of `frame`, `source` and `destinations`.
    pub mix: Option<Arc<Mix>>,
    /// Packets that lie prepared in each queue; 0: 8,192, or 64 of more than 2,112 bytes.
    /// Needs as many buffers.
    pub prepared: u32,
    /// Packets that a queue gives at once, at most; 0: as many as a vector holds.
    pub burst: u16,
    /// Bytes of an IP packet, 68 to 11,050; 0: 1,500, or what the frames need.
    pub mtu: u32,
    /// The port's own MAC address. `None`: one made from random.
    pub mac: Option<[u8; 6]>,
}

impl Default for GeneratorConfig {
    fn default() -> Self {
        Self {
            frame: 60,
            count: 0,
            rate: 0,
            destination_mac: None,
            // RFC 2544, appendix C.2.2: addresses for benchmarks.
            source: IpAddr::from([198, 18, 0, 1]),
            destination: IpAddr::from([198, 19, 0, 1]),
            destinations: Destinations::Range(1),
            vlan: 0,
            senders: None,
            udp_checksum: 0,
            random: false,
            queues: 0,
            flows: 0,
            syn: false,
            mix: None,
            prepared: 0,
            burst: 0,
            mtu: 0,
            mac: None,
        }
    }
}

/// Packets of several kinds. Their headers are written and nothing behind the first 64 bytes, as
/// a network card costs the processor no cycles for a payload: it is what the buffer held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// The kinds, 1 to 256.
    pub kinds: Vec<Kind>,
    /// The kinds of the packets in their order, again and again.
    pub order: Vec<u8>,
}

/// One kind of packets in a mix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Bytes of a frame without FCS; no jumbo frames.
    pub frame: u16,
    /// The sender's address.
    pub source: IpAddr,
    /// The receivers, of the same family.
    pub destinations: Destinations,
    /// Tags and sources, in place of the generator's.
    pub senders: Option<Arc<Senders>>,
}

/// A port that receives nothing and discards what is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NullConfig {
    /// Transmit queues, 1 to 64; 0: one.
    pub tx_queues: u16,
    /// Bytes of an IP packet, 68 to 11,050; 0: 1,500.
    pub mtu: u32,
    /// The port's own MAC address. `None`: one made from random.
    pub mac: Option<[u8; 6]>,
}

#[cfg(test)]
mod tests;
