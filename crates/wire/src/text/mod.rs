//! Text for a frame: each header as a line that people read, in traces and
//! captures. For display only: bytes may be cut short or wrong, and nothing is checked that
//! is not printed.

mod icmp;
mod layer;

pub use layer::Layer;

use crate::ethernet::ethertype;
use crate::{protocol, vlan};

/// What the first byte begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A frame: Ethernet.
    Ethernet,
    /// What follows a header with that ethertype; unknown ethertypes give no text.
    Type(u16),
    /// An IP packet of either version.
    Ip,
}

/// Headers that are printed of one packet at most.
const MOST: usize = 16;

enum Next {
    Ethernet,
    Type(u16),
    Ip,
    Ip4(u8),
    Ip6(u8),
    Done,
}

/// The headers of a packet from the outside in.
pub struct Layers<'a> {
    rest: &'a [u8],
    next: Next,
    left: usize,
}

/// The headers of `bytes`, the beginning of a packet.
pub fn layers(bytes: &[u8], start: Start) -> Layers<'_> {
    let next = match start {
        Start::Ethernet => Next::Ethernet,
        Start::Type(kind) => Next::Type(kind),
        Start::Ip => Next::Ip,
    };
    Layers { rest: bytes, next, left: MOST }
}

impl<'a> Iterator for Layers<'a> {
    type Item = Layer<'a>;

    fn next(&mut self) -> Option<Layer<'a>> {
        self.left = self.left.checked_sub(1)?;
        let next = std::mem::replace(&mut self.next, Next::Done);
        Some(match next {
            Next::Ethernet => self.ethernet(),
            Next::Type(kind) if vlan::is_tag(kind) => self.tag(kind),
            Next::Type(ethertype::ARP) => Layer::Arp(self.rest),
            Next::Type(ethertype::IP4) => self.ip4(),
            Next::Type(ethertype::IP6) => self.ip6(),
            // The Ethernet header gives the type.
            Next::Type(_) | Next::Done => return None,
            Next::Ip => match self.rest.first().map(|first| first >> 4) {
                Some(4) => self.ip4(),
                Some(6) => self.ip6(),
                _ => Layer::Cut("IP", self.rest.len()),
            },
            Next::Ip4(protocol) => self.above(protocol, false)?,
            Next::Ip6(protocol) => self.above(protocol, true)?,
        })
    }
}

impl<'a> Layers<'a> {
    /// Takes the header off, when all of it is there.
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (header, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(header)
    }

    fn ethernet(&mut self) -> Layer<'a> {
        let Some(header) = self.take(14) else { return Layer::Cut("Ethernet", self.rest.len()) };
        self.next = Next::Type(half(header, 12));
        Layer::Ethernet(header)
    }

    fn tag(&mut self, tpid: u16) -> Layer<'a> {
        let Some(tag) = self.take(4) else { return Layer::Cut("VLAN", self.rest.len()) };
        self.next = Next::Type(half(tag, 2));
        Layer::Vlan(tpid, half(tag, 0), half(tag, 2))
    }

    fn ip4(&mut self) -> Layer<'a> {
        let length = self.rest.first().map_or(20, |first| usize::from(first & 0xf) * 4).max(20);
        let Some(header) = self.take(length) else { return Layer::Cut("IPv4", self.rest.len()) };
        // Padding of the link is not of the packet.
        let payload = usize::from(half(header, 2)).saturating_sub(length);
        self.rest = &self.rest[..payload.min(self.rest.len())];
        if half(header, 6) & 0x1fff == 0 {
            self.next = Next::Ip4(header[9]);
        }
        Layer::Ip4(header)
    }

    fn ip6(&mut self) -> Layer<'a> {
        let Some(header) = self.take(40) else { return Layer::Cut("IPv6", self.rest.len()) };
        let payload = usize::from(half(header, 4));
        self.rest = &self.rest[..payload.min(self.rest.len())];
        self.next = Next::Ip6(header[6]);
        Layer::Ip6(header)
    }

    /// What stands above IP; `None` when nothing is there.
    fn above(&mut self, protocol: u8, is_ip6: bool) -> Option<Layer<'a>> {
        let bytes = self.rest;
        let enough = |length: usize, layer, name| {
            if bytes.len() < length { Layer::Cut(name, bytes.len()) } else { layer }
        };
        Some(match protocol {
            protocol::ICMP4 if !is_ip6 => enough(8, Layer::Icmp4(bytes), "ICMP"),
            protocol::ICMP6 if is_ip6 => enough(8, Layer::Icmp6(bytes), "ICMPv6"),
            protocol::TCP => enough(20, Layer::Tcp(bytes), "TCP"),
            protocol::UDP => enough(8, Layer::Udp(bytes), "UDP"),
            0 | 43 | 44 | 60 if is_ip6 => self.extension(protocol),
            59 if is_ip6 => return None,
            other => Layer::Protocol(other, bytes.len()),
        })
    }

    fn extension(&mut self, kind: u8) -> Layer<'a> {
        let length = match (kind, self.rest) {
            (44, _) => 8,
            (_, [_, words, ..]) => 8 + usize::from(*words) * 8,
            _ => 8,
        };
        let Some(header) = self.take(length) else {
            return Layer::Cut("IPv6 extension header", self.rest.len());
        };
        // What follows the first fragment is data.
        if kind != 44 || half(header, 2) & 0xfff8 == 0 {
            self.next = Next::Ip6(header[0]);
        }
        Layer::Extension(kind, header)
    }
}

/// A big-endian half word; 0 beyond the end.
fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |pair| u16::from_be_bytes(*pair))
}

/// A big-endian word; 0 beyond the end.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |four| u32::from_be_bytes(*four))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(bytes: &[u8], start: Start) -> Vec<String> {
        layers(bytes, start).map(|layer| layer.to_string()).collect()
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(pair).collect()
    }

    #[test]
    fn a_tagged_ping_in_words() {
        let frame = hex("020000000101 02aa00000102 8100 6064 0800
             4500001d 00004000 4001 0000 0a000102 0a000202
             0800f7ff 00070009 61");
        assert_eq!(
            text(&frame, Start::Ethernet),
            [
                "Ethernet 02:aa:00:00:01:02 > 02:00:00:00:01:01",
                "VLAN 100, priority 3",
                "IPv4 10.0.1.2 > 10.0.2.2, TTL 64, length 29, DF",
                "ICMP echo request, id 7, sequence 9",
            ]
        );
        assert_eq!(text(&frame[18..30], Start::Ip), ["IPv4, cut short: 12 bytes"]);
    }

    #[test]
    fn other_things_in_words() {
        let arp = hex("0001 0800 06 04 0001 02aa00000102 0a000102 000000000000 0a000101");
        assert_eq!(
            text(&arp, Start::Type(ethertype::ARP)),
            ["ARP who has 10.0.1.1, tell 10.0.1.2 at 02:aa:00:00:01:02"]
        );
        let tcp = hex(
            "60000000 0014 06 40 20010db8000000000000000000000002 20010db8000100000000000000000002
             03e80050 00000001 00000002 5012 0400 0000 0000",
        );
        assert_eq!(
            text(&tcp, Start::Ip),
            [
                "IPv6 2001:db8::2 > 2001:db8:1::2, hop limit 64, payload 20",
                "TCP 1000 > 80, SYN ACK, seq 1, ack 2, window 1024",
            ]
        );
        let fragment = hex("4500001d 1234 2010 4011 0000 0a000102 0a000202 00112233 44556677 88");
        assert_eq!(
            text(&fragment, Start::Ip),
            [
                "IPv4 10.0.1.2 > 10.0.2.2, TTL 64, length 29, fragment of 4660 at 128, more follow, UDP"
            ]
        );
        let lldp = hex("0180c200000e 02aa00000102 88cc 0000");
        assert_eq!(
            text(&lldp, Start::Ethernet),
            ["Ethernet 02:aa:00:00:01:02 > 01:80:c2:00:00:0e, type 0x88cc"]
        );
        assert_eq!(text(&lldp[14..], Start::Type(0x88cc)), [""; 0]);
    }

    proptest! {
        #[test]
        fn any_bytes_have_words(bytes in proptest::collection::vec(any::<u8>(), 0..200), version in 0u8..3) {
            for start in [Start::Ethernet, Start::Type(ethertype::ARP), Start::Type(0x88cc), Start::Ip] {
                let mut bytes = bytes.clone();
                if let (Some(first), true) = (bytes.first_mut(), start == Start::Ip) {
                    *first = *first & 0xf | [0x40, 0x60, 0x50][usize::from(version)];
                }
                prop_assert!(text(&bytes, start).len() <= MOST);
            }
        }
    }
}
