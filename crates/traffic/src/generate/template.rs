//! A frame that is built once; the varying fields are written into copies of it.

use std::net::{Ipv4Addr, Ipv6Addr};

use stoa_wire::checksum::{self, Pseudo};
use stoa_wire::ethernet::{self, Mac, ethertype};
use stoa_wire::vlan::Stack;
use stoa_wire::{BuildError, ipv4, ipv6, protocol, tcp, udp};

use crate::signature::LENGTH as SIGNATURE;

/// Bytes of the frame check sequence: frame sizes include it, port buffers do not.
pub const FCS: usize = 4;

/// The network layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// None: zeros and the signature follow this ethertype.
    None(u16),
    /// IPv4.
    Ip4 {
        /// Source address.
        source: Ipv4Addr,
        /// Destination address.
        destination: Ipv4Addr,
    },
    /// IPv6.
    Ip6 {
        /// Source address.
        source: Ipv6Addr,
        /// Destination address.
        destination: Ipv6Addr,
    },
}

/// The transport layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP between these ports.
    Udp(u16, u16),
    /// TCP between these ports: segments without a connection, ACK set.
    Tcp(u16, u16),
    /// Echo requests with this identifier.
    Icmp(u16),
}

/// All headers of a packet.
#[derive(Clone, Debug)]
pub struct Headers {
    /// Destination MAC address.
    pub destination: [u8; 6],
    /// Source MAC address.
    pub source: [u8; 6],
    /// VLAN tags, outermost first.
    pub tags: Stack,
    /// Network layer.
    pub network: Network,
    /// Transport layer; ignored without an IP header.
    pub transport: Transport,
    /// TTL or hop limit.
    pub ttl: u8,
    /// DSCP and ECN.
    pub class: u8,
}

impl Headers {
    /// Bytes of the shortest frame, FCS included, that holds the headers and a signature.
    pub fn shortest(&self) -> usize {
        let over = match self.transport {
            Transport::Udp(..) | Transport::Icmp(_) => 8,
            Transport::Tcp(..) => 20,
        };
        let ip = match self.network {
            Network::None(_) => 0,
            Network::Ip4 { .. } => 20 + over,
            Network::Ip6 { .. } => 40 + over,
        };
        (14 + self.tags.bytes() + ip + SIGNATURE + FCS).max(64)
    }
}

/// A field that may vary from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// Destination MAC address.
    MacDestination,
    /// Source MAC address.
    MacSource,
    /// The VLAN of the outermost tag.
    Vlan,
    /// The VLAN of the second tag.
    InnerVlan,
    /// Source IP address.
    IpSource,
    /// Destination IP address.
    IpDestination,
    /// Source port, or identifier of an echo request.
    PortSource,
    /// Destination port.
    PortDestination,
}

/// Position of a field and the checksums that cover it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldLocation {
    pub(crate) at: u16,
    pub(crate) width: Width,
    /// Whether the IPv4 header checksum covers it.
    pub(crate) in_ip: bool,
    /// Whether the transport checksum covers it.
    pub(crate) in_transport: bool,
}

/// Bytes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Two,
    Four,
    Six,
    Sixteen,
}

/// The frame and the positions of its checksums.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// The frame without FCS.
    pub(crate) bytes: Vec<u8>,
    /// Position of the IPv4 header checksum.
    pub(crate) ip_checksum_at: Option<u16>,
    /// Position of the transport checksum.
    pub(crate) transport_checksum_at: Option<u16>,
    /// Whether a checksum of zero would mean "no checksum".
    pub(crate) is_udp: bool,
    pub(crate) is_ip4: bool,
    ip: usize,
    transport: usize,
    has_ports: bool,
}

impl Template {
    /// A frame of `size` bytes, FCS included, whose signature adds `signature_sum` to checksums.
    ///
    /// # Errors
    ///
    /// The headers do not fit.
    pub(crate) fn new(
        headers: &Headers,
        size: usize,
        signature_sum: u16,
    ) -> Result<Self, BuildError> {
        let mut bytes = vec![0; size - FCS];
        let kind = match headers.network {
            Network::None(kind) => kind,
            Network::Ip4 { .. } => ethertype::IP4,
            Network::Ip6 { .. } => ethertype::IP6,
        };
        let (to, from) = (Mac(headers.destination), Mac(headers.source));
        let ip = ethernet::build(&mut bytes, to, from, &headers.tags, kind)?;
        let rest = bytes.len() - ip;
        let (transport, pseudo) = match headers.network {
            Network::None(_) => (ip, None),
            Network::Ip4 { source, destination } => {
                let mut builder = ipv4::Builder::new(source, destination, protocol4(headers));
                (builder.time_to_live, builder.dscp_ecn) = (headers.ttl, headers.class);
                builder.build(&mut bytes[ip..], rest - ipv4::LENGTH)?;
                (ip + ipv4::LENGTH, Some(Pseudo::Ip4 { source, destination }))
            }
            Network::Ip6 { source, destination } => {
                let mut builder = ipv6::Builder::new(source, destination, protocol6(headers));
                (builder.hop_limit, builder.traffic_class) = (headers.ttl, headers.class);
                builder.build(&mut bytes[ip..], rest - ipv6::LENGTH)?;
                (ip + ipv6::LENGTH, Some(Pseudo::Ip6 { source, destination }))
            }
        };
        let is_ip4 = matches!(headers.network, Network::Ip4 { .. });
        let mut template = Self {
            bytes,
            ip_checksum_at: is_ip4.then_some(ip as u16 + 10),
            transport_checksum_at: None,
            is_udp: matches!(headers.transport, Transport::Udp(..)) && pseudo.is_some(),
            is_ip4,
            ip,
            transport,
            has_ports: pseudo.is_some(),
        };
        if let Some(pseudo) = pseudo {
            template.write_transport(headers.transport, &pseudo, signature_sum)?;
        }
        Ok(template)
    }

    fn write_transport(
        &mut self,
        transport: Transport,
        pseudo: &Pseudo,
        signature_sum: u16,
    ) -> Result<(), BuildError> {
        let out = &mut self.bytes[self.transport..];
        let payload = |header: usize, out: &[u8]| vec![0; out.len() - header];
        let at = match transport {
            Transport::Udp(from, to) => {
                let payload = payload(8, out);
                udp::build(out, pseudo, from, to, &payload)?;
                6
            }
            Transport::Tcp(from, to) => {
                let builder = tcp::Builder {
                    source_port: from,
                    destination_port: to,
                    flags: 0x10,
                    window: 0xffff,
                    ..tcp::Builder::default()
                };
                let payload = payload(20, out);
                builder.build(out, pseudo, &payload)?;
                16
            }
            Transport::Icmp(identifier) => {
                out[0] = if pseudo.is_ip6() { 128 } else { 8 };
                out[4..6].copy_from_slice(&identifier.to_be_bytes());
                let covered = match pseudo.is_ip6() {
                    true => pseudo.sum(protocol::ICMP6, out.len()),
                    false => 0,
                };
                let sum = checksum::finish(checksum::sum(out) + covered);
                out[2..4].copy_from_slice(&sum.to_be_bytes());
                2
            }
        };
        // The sum of the signature, with bytes swapped when it starts at an odd offset (RFC 1071,
        // section 2 (B)).
        let is_odd = !(out.len() - SIGNATURE).is_multiple_of(2);
        let sum = if is_odd { signature_sum.swap_bytes() } else { signature_sum };
        let old = u16::from_be_bytes([out[at], out[at + 1]]);
        let new = checksum::finish(u32::from(!old) + u32::from(sum));
        let new = if self.is_udp { udp::transmitted(new) } else { new };
        out[at..at + 2].copy_from_slice(&new.to_be_bytes());
        self.transport_checksum_at = Some((self.transport + at) as u16);
        Ok(())
    }

    /// Position of a field; `None` when this frame does not have it.
    pub(crate) fn locate(&self, field: Field) -> Option<FieldLocation> {
        let tagged = |bytes: usize| (self.ip >= 14 + bytes).then_some(14 + bytes - 4);
        let plain = |at: usize, width| Some((at, width, false, false));
        let address = |four: usize, six: usize| match (self.is_ip4, self.has_ports) {
            (true, _) => Some((self.ip + four, Width::Four, true, true)),
            (false, true) => Some((self.ip + six, Width::Sixteen, false, true)),
            (false, false) => None,
        };
        let is_icmp = self.transport_checksum_at == Some(self.transport as u16 + 2);
        let (at, width, in_ip, mut in_transport) = match field {
            Field::MacDestination => plain(0, Width::Six),
            Field::MacSource => plain(6, Width::Six),
            Field::Vlan => plain(tagged(4)?, Width::Two),
            Field::InnerVlan => plain(tagged(8)?, Width::Two),
            Field::IpSource => address(12, 8),
            Field::IpDestination => address(16, 24),
            Field::PortSource if is_icmp => Some((self.transport + 4, Width::Two, false, true)),
            Field::PortSource => Some((self.transport, Width::Two, false, true)),
            Field::PortDestination => Some((self.transport + 2, Width::Two, false, true)),
        }?;
        // ICMP over IPv4 has no pseudo-header.
        in_transport &= !(in_ip && is_icmp);
        let has = self.has_ports || !matches!(field, Field::PortSource | Field::PortDestination);
        has.then_some(FieldLocation { at: at as u16, width, in_ip, in_transport })
    }
}

fn protocol4(headers: &Headers) -> u8 {
    match headers.transport {
        Transport::Udp(..) => protocol::UDP,
        Transport::Tcp(..) => protocol::TCP,
        Transport::Icmp(_) => protocol::ICMP4,
    }
}

fn protocol6(headers: &Headers) -> u8 {
    match headers.transport {
        Transport::Icmp(_) => protocol::ICMP6,
        _ => protocol4(headers),
    }
}
