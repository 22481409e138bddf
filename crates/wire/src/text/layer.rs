//! One header in words.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{half, icmp, word};
use crate::ethernet::{Mac, ethertype};
use crate::{protocol, vlan};

/// One header of a packet; its `Display` is one line of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer<'a> {
    /// 14 bytes.
    Ethernet(&'a [u8]),
    /// TPID, tag control information, and the type that follows.
    Vlan(u16, u16, u16),
    /// The packet.
    Arp(&'a [u8]),
    /// The header with its options.
    Ip4(&'a [u8]),
    /// The fixed header.
    Ip6(&'a [u8]),
    /// Protocol number and header.
    Extension(u8, &'a [u8]),
    /// The message.
    Icmp4(&'a [u8]),
    /// The message.
    Icmp6(&'a [u8]),
    /// Header and payload.
    Tcp(&'a [u8]),
    /// Header and payload.
    Udp(&'a [u8]),
    /// Another protocol above IP, and bytes of it.
    Protocol(u8, usize),
    /// A truncated header of that name, and the bytes present.
    Cut(&'static str, usize),
}

impl fmt::Display for Layer<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ethernet(header) => ethernet(header, out),
            Self::Vlan(tpid, tci, next) => tag(*tpid, *tci, *next, out),
            Self::Arp(packet) => arp(packet, out),
            Self::Ip4(header) => ip4(header, out),
            Self::Ip6(header) => write!(
                out,
                "IPv6 {} > {}, hop limit {}, payload {}",
                ip6_at(header, 8),
                ip6_at(header, 24),
                header.get(7).copied().unwrap_or(0),
                half(header, 4)
            ),
            Self::Extension(kind, header) => extension(*kind, header, out),
            Self::Icmp4(message) => icmp::four(message, out),
            Self::Icmp6(message) => icmp::six(message, out),
            Self::Tcp(segment) => tcp(segment, out),
            Self::Udp(datagram) => {
                let (from, to) = (half(datagram, 0), half(datagram, 2));
                let length = half(datagram, 4).saturating_sub(8);
                write!(out, "UDP {from} > {to}, {length} bytes")
            }
            Self::Protocol(number, bytes) => {
                protocol_name(*number, out)?;
                write!(out, ", {bytes} bytes")
            }
            Self::Cut(name, bytes) => write!(out, "{name}, cut short: {bytes} bytes"),
        }
    }
}

fn mac(bytes: &[u8], at: usize) -> Mac {
    Mac(bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default())
}

fn ip4_at(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::from(word(bytes, at))
}

pub(super) fn ip6_at(bytes: &[u8], at: usize) -> Ipv6Addr {
    let octets: [u8; 16] =
        bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
    Ipv6Addr::from(octets)
}

/// A type that no further header gives.
fn not_shown(kind: u16, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let is_shown = matches!(kind, ethertype::IP4 | ethertype::IP6 | ethertype::ARP);
    if is_shown || vlan::is_tag(kind) { Ok(()) } else { write!(out, ", type {kind:#06x}") }
}

fn ethernet(header: &[u8], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(out, "Ethernet {} > {}", mac(header, 6), mac(header, 0))?;
    not_shown(half(header, 12), out)
}

fn tag(tpid: u16, tci: u16, next: u16, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let service = if tpid == 0x88a8 { "s" } else { "" };
    write!(out, "VLAN {service}{}", tci & 0xfff)?;
    if tci >> 13 != 0 {
        write!(out, ", priority {}", tci >> 13)?;
    }
    not_shown(next, out)
}

fn arp(packet: &[u8], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if packet.len() < 28 {
        return write!(out, "ARP, cut short: {} bytes", packet.len());
    }
    let (sender, target) = (ip4_at(packet, 14), ip4_at(packet, 24));
    let at = mac(packet, 8);
    match half(packet, 6) {
        1 if sender == target => write!(out, "ARP announces {sender} at {at}"),
        1 => write!(out, "ARP who has {target}, tell {sender} at {at}"),
        2 => write!(out, "ARP {sender} is at {at}, to {target}"),
        other => write!(out, "ARP operation {other}"),
    }
}

fn ip4(header: &[u8], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (from, to) = (ip4_at(header, 12), ip4_at(header, 16));
    let (ttl, number) = (header[8], header[9]);
    write!(out, "IPv4 {from} > {to}, TTL {ttl}, length {}", half(header, 2))?;
    if header.len() > 20 {
        write!(out, ", {} bytes of options", header.len() - 20)?;
    }
    let word = half(header, 6);
    if word & 0x4000 != 0 {
        out.write_str(", DF")?;
    }
    if word & 0x3fff != 0 {
        write!(out, ", fragment of {} at {}", half(header, 4), u32::from(word & 0x1fff) * 8)?;
        out.write_str(if word & 0x2000 != 0 { ", more follow" } else { ", the last" })?;
    }
    if word & 0x1fff != 0 {
        out.write_str(", ")?;
        return protocol_name(number, out);
    }
    Ok(())
}

fn extension(kind: u8, header: &[u8], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match kind {
        0 => write!(out, "hop-by-hop options, {} bytes", header.len()),
        43 => write!(out, "routing header type {}, {} left", header[2], header[3]),
        44 => {
            let word = half(header, 2);
            let at = word & 0xfff8;
            write!(out, "fragment of {} at {at}", super::word(header, 4))?;
            out.write_str(if word & 1 != 0 { ", more follow" } else { ", the last" })?;
            if at == 0 {
                return Ok(());
            }
            out.write_str(", ")?;
            protocol_name(header[0], out)
        }
        _ => write!(out, "destination options, {} bytes", header.len()),
    }
}

/// Flags of TCP from the highest bit of the byte down, as they are printed.
const TCP_FLAGS: [(u8, &str); 8] = [
    (0x02, "SYN"),
    (0x01, "FIN"),
    (0x04, "RST"),
    (0x08, "PSH"),
    (0x10, "ACK"),
    (0x20, "URG"),
    (0x40, "ECE"),
    (0x80, "CWR"),
];

fn tcp(segment: &[u8], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(out, "TCP {} > {},", half(segment, 0), half(segment, 2))?;
    for (bit, name) in TCP_FLAGS {
        if segment[13] & bit != 0 {
            write!(out, " {name}")?;
        }
    }
    if segment[13] == 0 {
        out.write_str(" no flags")?;
    }
    write!(out, ", seq {}", word(segment, 4))?;
    if segment[13] & 0x10 != 0 {
        write!(out, ", ack {}", word(segment, 8))?;
    }
    write!(out, ", window {}", half(segment, 14))
}

fn protocol_name(number: u8, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let name = match number {
        protocol::ICMP4 => "ICMP",
        2 => "IGMP",
        4 => "IPv4 in IP",
        protocol::TCP => "TCP",
        protocol::UDP => "UDP",
        41 => "IPv6 in IP",
        46 => "RSVP",
        47 => "GRE",
        50 => "ESP",
        51 => "AH",
        protocol::ICMP6 => "ICMPv6",
        89 => "OSPF",
        103 => "PIM",
        112 => "VRRP",
        132 => "SCTP",
        _ => return write!(out, "protocol {number}"),
    };
    out.write_str(name)
}
