//! Generated frames: layers that fit together, with optional errors.

use std::net::{Ipv4Addr, Ipv6Addr};

use arbitrary::Arbitrary;
use stoa_wire::checksum::{Pseudo, ones_complement};
use stoa_wire::protocol;

use crate::body::Body;
use stoa_fuzz::everything::{virtual_mac, virtual4, virtual6};
use stoa_fuzz::setup::{host_mac, host4, host6, our_mac, our4, our6};

/// The most bytes of a frame: a little less than a buffer holds.
const LONGEST: usize = 2000;
/// The most VLAN tags of a frame.
const TAGS: usize = 10;
/// The most extension headers of a packet.
const CHAIN: usize = 40;

/// One frame.
#[derive(Arbitrary, Debug)]
pub enum Frame {
    /// Arbitrary bytes.
    Raw(Vec<u8>),
    /// Layers, then edits of single bytes, then truncation or padding.
    Layers {
        to: To,
        from: u8,
        tags: Vec<Tag>,
        payload: Payload,
        edits: Vec<(u16, u8)>,
        cut: Option<u16>,
        padding: u8,
    },
}

#[derive(Arbitrary, Debug)]
pub enum To {
    Router(u8),
    Host(u8),
    All,
    Group(Group),
    Any([u8; 6]),
}

#[derive(Arbitrary, Debug)]
pub enum Group {
    Four([u8; 3]),
    Six([u8; 4]),
}

#[derive(Arbitrary, Debug)]
pub enum Tag {
    Known(u8),
    Any(u16, u16),
}

#[derive(Arbitrary, Debug)]
pub enum Payload {
    Ip4(Ip4),
    Ip6(Ip6),
    Arp {
        operation: u16,
        sender: (Mac, Four),
        target: (Mac, Four),
        rest: u8,
    },
    /// IEEE 802.3: a length in place of the type.
    Llc(Vec<u8>),
    Other(u16, Vec<u8>),
}

#[derive(Arbitrary, Debug)]
pub enum Mac {
    Router(u8),
    Host(u8),
    Any([u8; 6]),
}

#[derive(Arbitrary, Debug)]
pub enum Four {
    Router(u8),
    Host(u8),
    Net(u8, u8),
    Routed(u8, u8),
    Any([u8; 4]),
}

#[derive(Arbitrary, Debug)]
pub enum Six {
    Router(u8),
    Host(u8),
    Nodes(u8),
    LinkLocal(u8),
    AllNodes,
    AllRouters,
    Any([u8; 16]),
}

#[derive(Arbitrary, Debug)]
pub struct Ip4 {
    source: Four,
    destination: Four,
    time_to_live: u8,
    traffic: u8,
    identification: u8,
    flags_fragment: u16,
    options: Vec<u8>,
    body: Body,
    error: Option<(i8, bool)>,
}

#[derive(Arbitrary, Debug)]
pub struct Ip6 {
    source: Six,
    destination: Six,
    hop_limit: u8,
    chain: Vec<Extension>,
    body: Body,
    error: Option<i8>,
}

#[derive(Arbitrary, Debug)]
pub enum Extension {
    HopByHop(Vec<u8>),
    Destination(Vec<u8>),
    Routing { kind: u8, left: u8, data: Vec<u8> },
    Fragment { offset: u16, identification: u8 },
    Authentication(Vec<u8>),
    Other(u8, Vec<u8>),
}

/// 1 to 3 are ports, 10 to 13 sub-interfaces (12 and 13 in VRFs), 14 and 15 tunnels, 9 is a routed host.
fn number(n: u8) -> u8 {
    match n {
        0..192 => [1, 2, 3, 10, 11, 9][usize::from(n) % 6],
        _ => [12, 13, 14, 15][usize::from(n) % 4],
    }
}

impl Frame {
    /// The bytes on the wire.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = match self {
            Self::Raw(bytes) => bytes.clone(),
            Self::Layers { to, from, tags, payload, edits, cut, padding } => {
                let mut bytes = [to.mac(), host_mac(number(*from))].concat();
                for tag in tags.iter().take(TAGS) {
                    bytes.extend(tag.bytes());
                }
                payload.add_to(&mut bytes);
                bytes.resize(bytes.len() + usize::from(*padding), 0);
                let length = bytes.len();
                for (at, by) in edits.iter().take(4) {
                    bytes[usize::from(*at) % length] ^= by;
                }
                if let Some(cut) = cut {
                    bytes.truncate(usize::from(*cut) % length);
                }
                bytes
            }
        };
        bytes.truncate(LONGEST);
        bytes
    }
}

impl To {
    fn mac(&self) -> [u8; 6] {
        match self {
            Self::Router(n @ 0..224) => our_mac(n % 3 + 1),
            Self::Router(n) => virtual_mac(usize::from(*n), n & 2 != 0),
            Self::Host(n) => host_mac(number(*n)),
            Self::All => [0xff; 6],
            Self::Group(Group::Four([a, b, c])) => [1, 0, 0x5e, a & 0x7f, *b, *c],
            Self::Group(Group::Six([a, b, c, d])) => [0x33, 0x33, *a, *b, *c, *d],
            Self::Any(mac) => *mac,
        }
    }
}

impl Tag {
    fn bytes(&self) -> [u8; 4] {
        let (tpid, tci) = match self {
            Self::Known(n @ 0..192) => {
                [(0x8100, 100), (0x88a8, 7), (0x8100, 8), (0x8100, 0)][usize::from(n % 4)]
            }
            Self::Known(n) => (0x8100, 31 + u16::from(n % 2)),
            Self::Any(tpid, tci) => (*tpid, *tci),
        };
        let ([a, b], [c, d]) = (u16::to_be_bytes(tpid), u16::to_be_bytes(tci));
        [a, b, c, d]
    }
}

impl Mac {
    fn octets(&self) -> [u8; 6] {
        match self {
            Self::Router(n) => our_mac(number(*n)),
            Self::Host(n) => host_mac(number(*n)),
            Self::Any(mac) => *mac,
        }
    }
}

impl Four {
    fn address(&self) -> Ipv4Addr {
        match self {
            Self::Router(n @ 0..240) => our4(number(*n)),
            Self::Router(n) => virtual4(usize::from(*n)),
            Self::Host(n) => host4(number(*n)),
            Self::Net(n, last) => Ipv4Addr::new(10, 0, number(*n), *last),
            Self::Routed(n, last) => Ipv4Addr::new(10, 9, n % 8, *last),
            Self::Any(octets) => (*octets).into(),
        }
    }
}

impl Six {
    /// The address.
    pub fn address(&self) -> Ipv6Addr {
        match self {
            Self::Router(n @ 0..240) => our6(number(*n)),
            Self::Router(n) => virtual6(usize::from(*n)),
            Self::Host(n) => host6(number(*n)),
            Self::Nodes(n) => stoa_wire::ipv6::solicited_node(our6(number(*n))),
            Self::LinkLocal(n) => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, (*n).into()),
            Self::AllNodes => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1),
            Self::AllRouters => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2),
            Self::Any(octets) => (*octets).into(),
        }
    }
}

impl Payload {
    /// As the payload of a tunnel: its protocol over IP, and the bytes. With GRE, any payload fits.
    pub fn in_tunnel(&self, with_gre: bool) -> (u8, Vec<u8>) {
        let mut bytes = Vec::new();
        self.add_to(&mut bytes);
        match self {
            Self::Ip4(_) if !with_gre => (protocol::IP4, bytes.split_off(2)),
            Self::Ip6(_) if !with_gre => (protocol::IP6, bytes.split_off(2)),
            _ => (protocol::GRE, [&[0, 0][..], &bytes[..]].concat()),
        }
    }

    /// The bytes without the type.
    pub fn packet(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.add_to(&mut bytes);
        bytes.split_off(2)
    }

    fn add_to(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Ip4(packet) => {
                bytes.extend([0x08, 0x00]);
                bytes.extend(packet.bytes());
            }
            Self::Ip6(packet) => {
                bytes.extend([0x86, 0xdd]);
                bytes.extend(packet.bytes());
            }
            Self::Arp { operation, sender, target, rest } => {
                bytes.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4]);
                bytes.extend((operation % 4).to_be_bytes());
                for (mac, ip) in [sender, target] {
                    bytes.extend(mac.octets());
                    bytes.extend(ip.address().octets());
                }
                bytes.resize(bytes.len() + usize::from(*rest), 0);
            }
            Self::Llc(data) => {
                bytes.extend((data.len() as u16).to_be_bytes());
                bytes.extend(data);
            }
            Self::Other(ethertype, data) => {
                bytes.extend(ethertype.to_be_bytes());
                bytes.extend(data);
            }
        }
    }
}

impl Ip4 {
    fn bytes(&self) -> Vec<u8> {
        let (source, destination) = (self.source.address(), self.destination.address());
        let (protocol, body) = self.body.bytes(&Pseudo::Ip4 { source, destination });
        let options = &self.options[..self.options.len().min(40) / 4 * 4];
        let header = 20 + options.len();
        let total = (header + body.len()) as i32 + i32::from(self.error.map_or(0, |error| error.0));
        let mut bytes = vec![0x40 | (header / 4) as u8, self.traffic];
        bytes.extend((total as u16).to_be_bytes());
        bytes.extend([0, self.identification]);
        bytes.extend(self.flags_fragment.to_be_bytes());
        bytes.extend([self.time_to_live, protocol, 0, 0]);
        bytes.extend(source.octets());
        bytes.extend(destination.octets());
        bytes.extend(options);
        if !self.error.is_some_and(|error| error.1) {
            let sum = ones_complement(&bytes);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        bytes.extend(body);
        bytes
    }
}

impl Ip6 {
    fn bytes(&self) -> Vec<u8> {
        let (source, destination) = (self.source.address(), self.destination.address());
        let (protocol, body) = self.body.bytes(&Pseudo::Ip6 { source, destination });
        let mut rest = Vec::new();
        let chain = &self.chain[..self.chain.len().min(CHAIN)];
        for (at, extension) in chain.iter().enumerate() {
            let next = chain.get(at + 1).map_or(protocol, Extension::number);
            extension.add_to(next, &mut rest);
        }
        rest.extend(body);
        let length = rest.len() as i32 + i32::from(self.error.unwrap_or(0));
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend((length as u16).to_be_bytes());
        bytes.extend([chain.first().map_or(protocol, Extension::number), self.hop_limit]);
        bytes.extend(source.octets());
        bytes.extend(destination.octets());
        bytes.extend(rest);
        bytes
    }
}

impl Extension {
    fn number(&self) -> u8 {
        match self {
            Self::HopByHop(_) => 0,
            Self::Destination(_) => 60,
            Self::Routing { .. } => 43,
            Self::Fragment { .. } => 44,
            Self::Authentication(_) => 51,
            Self::Other(number, _) => *number,
        }
    }

    fn add_to(&self, next: u8, bytes: &mut Vec<u8>) {
        // Two header bytes and six data bytes, then units of eight bytes.
        let whole = |data: &[u8]| {
            let length = data.len().min(62).saturating_sub(6).next_multiple_of(8);
            let mut data = data[..data.len().min(6 + length)].to_vec();
            data.resize(6 + length, 0);
            ((length / 8) as u8, data)
        };
        match self {
            Self::HopByHop(data) | Self::Destination(data) | Self::Other(_, data) => {
                let (length, data) = whole(data);
                bytes.extend([next, length]);
                bytes.extend(data);
            }
            Self::Routing { kind, left, data } => {
                let (length, mut data) = whole(data);
                (data[0], data[1]) = (*kind, *left);
                bytes.extend([next, length]);
                bytes.extend(data);
            }
            Self::Fragment { offset, identification } => {
                bytes.extend([next, 0]);
                bytes.extend(offset.to_be_bytes());
                bytes.extend([0, 0, 0, *identification]);
            }
            Self::Authentication(data) => {
                let (length, data) = whole(data);
                bytes.extend([next, length * 2]);
                bytes.extend(data);
            }
        }
    }
}
