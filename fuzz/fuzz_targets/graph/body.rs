//! The upper layers of generated packets, with valid checksums unless an edit changes them.

use arbitrary::Arbitrary;
use stoa_wire::checksum::{Pseudo, finish, sum};
use stoa_wire::protocol;

use crate::frames::{Payload, Six};

/// The upper layer of a packet.
#[derive(Arbitrary, Debug)]
pub enum Body {
    Udp {
        ports: (u16, u16),
        data: Vec<u8>,
    },
    /// A number of bytes, to exceed an MTU.
    Large(u16),
    Tcp {
        ports: (u16, u16),
        flags: u16,
        rest: Vec<u8>,
    },
    Echo {
        code: u8,
        data: Vec<u8>,
    },
    /// ICMP of any kind about a quoted packet.
    Icmp {
        kind: u8,
        code: u8,
        word: u32,
        quoted: Vec<u8>,
    },
    /// Neighbour discovery, MLD: 133 to 137, or 130 to 132 and 143.
    Discovery {
        kind: u8,
        target: Six,
        options: Vec<u8>,
        flags: u32,
    },
    /// A packet in a tunnel.
    Inner {
        with_gre: bool,
        payload: Box<Payload>,
    },
    Any(u8, Vec<u8>),
    /// A segment of one of few connections, with numbers that may fit.
    Segment {
        ports: u8,
        flags: u8,
        numbers: (u8, u8),
        data: u8,
    },
    /// An ICMP error about a packet, of which the end may be cut.
    About {
        kind: u8,
        code: u8,
        payload: Box<Payload>,
        cut: u8,
    },
}

impl Body {
    /// Its protocol and bytes, with a valid checksum.
    pub fn bytes(&self, pseudo: &Pseudo) -> (u8, Vec<u8>) {
        let is_six = matches!(pseudo, Pseudo::Ip6 { .. });
        let icmp = if is_six { protocol::ICMP6 } else { protocol::ICMP4 };
        match self {
            Self::Udp { ports, data } => (protocol::UDP, udp(*ports, data, pseudo)),
            Self::Large(length) => {
                let data = vec![0x5a; usize::from(length % 1800)];
                (protocol::UDP, udp((1000, 2000), &data, pseudo))
            }
            Self::Tcp { ports, flags, rest } => {
                let mut bytes = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
                bytes.extend([0; 8]);
                bytes.extend(flags.to_be_bytes());
                bytes.extend([0; 6]);
                bytes.extend(rest);
                (protocol::TCP, with_sum(bytes, 16, protocol::TCP, Some(pseudo)))
            }
            Self::Echo { code, data } => {
                let kind = if is_six { 128 } else { 8 };
                let bytes = [&[kind, *code, 0, 0][..], data].concat();
                (icmp, with_sum(bytes, 2, icmp, is_six.then_some(pseudo)))
            }
            Self::Icmp { kind, code, word, quoted } => {
                let bytes = [&[*kind, *code, 0, 0][..], &word.to_be_bytes(), quoted].concat();
                (icmp, with_sum(bytes, 2, icmp, is_six.then_some(pseudo)))
            }
            Self::Discovery { kind, target, options, flags } => {
                let kind = [133, 134, 135, 136, 137, 130, 131, 132, 143][usize::from(kind % 9)];
                let mut bytes = [&[kind, 0, 0, 0][..], &flags.to_be_bytes()].concat();
                bytes.extend(target.address().octets());
                bytes.extend(&options[..options.len() / 8 * 8]);
                (icmp, with_sum(bytes, 2, icmp, is_six.then_some(pseudo)))
            }
            Self::Inner { with_gre, payload } => payload.in_tunnel(*with_gre),
            Self::Any(protocol::VRRP, data) if data.len() >= 8 => {
                (protocol::VRRP, with_sum(data.clone(), 6, protocol::VRRP, Some(pseudo)))
            }
            Self::Any(protocol, data) => (*protocol, data.clone()),
            Self::Segment { ports, flags, numbers, data } => {
                (protocol::TCP, segment(*ports, *flags, *numbers, *data, pseudo))
            }
            Self::About { kind, code, payload, cut } => {
                let kinds = if is_six { [1, 2, 3, 4] } else { [3, 5, 11, 12] };
                let kind = kinds[usize::from(kind % 4)];
                let quoted = payload.packet();
                let end = quoted.len().saturating_sub(usize::from(cut % 64)).min(1200);
                let bytes = [&[kind, *code, 0, 0, 0, 0, 5, 0], &quoted[..end]].concat();
                (icmp, with_sum(bytes, 2, icmp, is_six.then_some(pseudo)))
            }
        }
    }
}

/// Both directions of four connections; numbers are near each other or half of the space away.
fn segment(ports: u8, flags: u8, numbers: (u8, u8), data: u8, pseudo: &Pseudo) -> Vec<u8> {
    let (port, peer) = (5000 + u16::from(ports & 1), 1000 + u16::from(ports >> 1 & 1));
    let ends = if ports & 4 == 0 { (port, peer) } else { (peer, port) };
    let number = |of: u8| u32::from(of & 0x7f) + (u32::from(of & 0x80) << 24);
    let mut bytes = [ends.0.to_be_bytes(), ends.1.to_be_bytes()].concat();
    bytes.extend(number(numbers.0).to_be_bytes());
    bytes.extend(number(numbers.1).to_be_bytes());
    bytes.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
    bytes.resize(20 + usize::from(data), 0x5a);
    with_sum(bytes, 16, protocol::TCP, Some(pseudo))
}

fn udp(ports: (u16, u16), data: &[u8], pseudo: &Pseudo) -> Vec<u8> {
    let mut bytes = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    bytes.extend((data.len() as u16 + 8).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(data);
    with_sum(bytes, 6, protocol::UDP, Some(pseudo))
}

/// Sets the checksum at this offset.
fn with_sum(mut bytes: Vec<u8>, at: usize, protocol: u8, pseudo: Option<&Pseudo>) -> Vec<u8> {
    bytes[at..at + 2].fill(0);
    let pseudo = pseudo.map_or(0, |pseudo| pseudo.sum(protocol, bytes.len()));
    let right = finish(sum(&bytes) + pseudo);
    bytes[at..at + 2].copy_from_slice(&right.to_be_bytes());
    bytes
}
