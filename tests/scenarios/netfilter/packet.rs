//! Packets by short descriptions: `> SA 5000 1001 d10` is a SYN-ACK of host-a with ten bytes of data.
//!
//! A description begins with the sender (`>` host-a, `<` host-b) and what it sends:
//! - TCP: flags by their first letters (`-`: none), sequence and acknowledgement number.
//! - `udp`; `echo ID`, `reply ID`, `stamp ID`; `p47`: another protocol.
//! - `error KIND`, which is about the packet behind `about`.
//!
//! Then come changes: `d10` bytes of data, `w9` window, `s7` window scale, `:8000` port of host-b, `@40000` port of
//! host-a, `h46` DSCP, `x` wrong checksum, `y` a byte of the data is another one, `cut8` bytes of what an error quotes
//! or of the upper layer, `off4` words of the TCP header, `t1` TTL, `other` another address of the sender, `ext` an
//! extension header of IPv6, `i7 o16 l24 m` a fragment of packet 7: offset, length, and whether more follow.

use std::net::IpAddr;

use stoa_wire::checksum::{self, Pseudo};
use stoa_wire::tcp::flag;
use stoa_wire::{ipv4, ipv6, protocol, tcp, udp};

/// Types and codes of ICMP and ICMPv6.
const ERRORS: [(&str, [[u8; 2]; 2]); 7] = [
    ("port", [[3, 3], [1, 4]]),
    ("prohibited", [[3, 13], [1, 1]]),
    ("too-big", [[3, 4], [2, 0]]),
    ("expired", [[11, 0], [3, 0]]),
    ("parameter", [[12, 0], [4, 0]]),
    ("quench", [[4, 0], [100, 0]]),
    ("redirect", [[5, 1], [137, 0]]),
];

/// Addresses of host-a and host-b, and others beside them.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub usual: [IpAddr; 2],
    pub other: [IpAddr; 2],
}

#[derive(Clone, Debug)]
enum Kind {
    Tcp {
        flags: u8,
        sequence: u32,
        acknowledgement: u32,
    },
    Udp,
    /// Types of ICMP and ICMPv6, and the identifier.
    Query([u8; 2], u16),
    Error([[u8; 2]; 2], Box<Packet>),
    /// The same about a packet as it was received.
    Quote([u8; 2], Vec<u8>),
    Other(u8),
}

/// Which part of a packet a fragment is: its number, offset, length, and whether more follow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Piece {
    pub id: u16,
    pub offset: usize,
    pub length: Option<usize>,
    pub more: bool,
}

/// A packet of either family.
#[derive(Clone, Debug)]
pub struct Packet {
    /// 0: host-a sends it; 1: host-b.
    pub from: usize,
    pub piece: Option<Piece>,
    kind: Kind,
    data: usize,
    /// What it carries in place of `data`.
    pub text: Option<Vec<u8>>,
    window: u16,
    scale: Option<u8>,
    /// Other TCP options, padded.
    pub options: Vec<u8>,
    ports: [u16; 2],
    dscp: u8,
    ttl: u8,
    cut: Option<usize>,
    words: Option<u8>,
    is_wrong: bool,
    is_changed: bool,
    is_other: bool,
    has_extension: bool,
}

impl Packet {
    /// Reads a description.
    ///
    /// # Panics
    /// It is none.
    pub fn parse(text: &str) -> Self {
        let mut words = text.split_whitespace().peekable();
        let from = usize::from(words.next() != Some(">"));
        let kind = words.next().unwrap_or_else(|| panic!("no packet: {text}"));
        let mut made = Self::of(from, Kind::Udp);
        let mut number = || {
            let number = words.next_if(|word| word.parse::<u32>().is_ok());
            number.and_then(|word| word.parse::<u32>().ok()).unwrap_or(0)
        };
        made.kind = match kind {
            "udp" => Kind::Udp,
            "echo" => Kind::Query([8, 128], number() as u16),
            "reply" => Kind::Query([0, 129], number() as u16),
            "stamp" => Kind::Query([13, 200], number() as u16),
            "stamped" => Kind::Query([14, 201], number() as u16),
            "error" => {
                let name = words.next().expect("a kind of error");
                let (_, kinds) = ERRORS.iter().find(|(it, _)| *it == name).expect("a known kind");
                let (_, about) = text.split_once("about").expect("what the error is about");
                Kind::Error(*kinds, Box::new(Self::parse(about)))
            }
            kind if kind.starts_with('p') => Kind::Other(kind[1..].parse().expect("a protocol")),
            flags => {
                let flags = flags.chars().fold(0, |all, letter| all | bit(letter));
                Kind::Tcp { flags, sequence: number(), acknowledgement: number() }
            }
        };
        words.take_while(|word| *word != "about").for_each(|word| made.change(word));
        made
    }

    /// An ICMP error of this name about a packet that has been received.
    pub fn quoting(name: &str, quoted: &[u8]) -> Self {
        let (_, kinds) = ERRORS.iter().find(|(it, _)| *it == name).expect("a known kind");
        Self::of(0, Kind::Quote(kinds[0], quoted.to_vec()))
    }

    fn of(from: usize, kind: Kind) -> Self {
        Self {
            from,
            piece: None,
            kind,
            data: 0,
            text: None,
            window: 4096,
            scale: None,
            options: vec![],
            ports: [40_000, 8000],
            dscp: 0,
            ttl: 64,
            cut: None,
            words: None,
            is_wrong: false,
            is_changed: false,
            is_other: false,
            has_extension: false,
        }
    }

    /// Changes it by a word.
    pub fn change(&mut self, word: &str) {
        match word {
            "x" => return self.is_wrong = true,
            "y" => return self.is_changed = true,
            "m" => return self.piece.get_or_insert_default().more = true,
            "other" => return self.is_other = true,
            "ext" => return self.has_extension = true,
            _ => {}
        }
        let at = word.find(|letter: char| letter.is_ascii_digit()).unwrap_or(word.len());
        let (name, number) = word.split_at(at);
        let number: usize = number.parse().unwrap_or_else(|_| panic!("no change: {word}"));
        match name {
            "d" => self.data = number,
            "w" => self.window = number as u16,
            "s" => self.scale = Some(number as u8),
            ":" => self.ports[1] = number as u16,
            "@" => self.ports[0] = number as u16,
            "h" => self.dscp = number as u8,
            "t" => self.ttl = number as u8,
            "cut" => self.cut = Some(number),
            "off" => self.words = Some(number as u8),
            "i" => self.piece.get_or_insert_default().id = number as u16,
            "o" => self.piece.get_or_insert_default().offset = number,
            "l" => self.piece.get_or_insert_default().length = Some(number),
            _ => panic!("no change: {word}"),
        }
    }

    /// Its addresses, the source first.
    pub fn addresses(&self, ends: &Ends) -> [IpAddr; 2] {
        let source = if self.is_other { ends.other } else { ends.usual }[self.from];
        [source, ends.usual[1 - self.from]]
    }

    /// What is behind the IP header, of the whole packet.
    pub fn upper(&self, ends: &Ends) -> Vec<u8> {
        let pseudo = match self.addresses(ends) {
            [IpAddr::V4(source), IpAddr::V4(destination)] => Pseudo::Ip4 { source, destination },
            [IpAddr::V6(source), IpAddr::V6(destination)] => Pseudo::Ip6 { source, destination },
            _ => panic!("addresses of one family"),
        };
        let six = matches!(pseudo, Pseudo::Ip6 { .. });
        let salt = self.piece.map_or(0, |piece| piece.id as usize);
        let pattern = || (0..self.data).map(|at| (at * 7 + salt * 31 + 1) as u8).collect();
        let mut data: Vec<u8> = self.text.clone().unwrap_or_else(pattern);
        if self.is_changed {
            data.iter_mut().for_each(|byte| *byte ^= 0x55);
        }
        let mut bytes = self.message(&pseudo, &data, ends);
        if let (Some(words), Kind::Tcp { .. }) = (self.words, &self.kind) {
            bytes[12] = words << 4;
            seal(&mut bytes, 16, &pseudo);
        }
        if self.is_wrong {
            let at = match self.kind {
                Kind::Tcp { .. } => 16,
                Kind::Udp => 6,
                _ => 2,
            };
            bytes[at] ^= 0x5a;
        }
        if let (Some(cut), false) =
            (self.cut, matches!(self.kind, Kind::Error(..) | Kind::Quote(..)))
        {
            bytes.truncate(cut);
        }
        if self.has_extension && six {
            bytes.splice(0..0, [self.protocol(true), 0, 1, 4, 0, 0, 0, 0]);
        }
        bytes
    }

    fn message(&self, pseudo: &Pseudo, data: &[u8], ends: &Ends) -> Vec<u8> {
        let [source, destination] = [self.ports[self.from], self.ports[1 - self.from]];
        let six = matches!(pseudo, Pseudo::Ip6 { .. });
        let mut out = vec![0; 2000];
        let length = match &self.kind {
            Kind::Tcp { flags, sequence, acknowledgement } => {
                let mut options = self.scale.map_or(vec![], |scale| vec![3, 3, scale, 1]);
                options.extend(&self.options);
                let builder = tcp::Builder {
                    source_port: source,
                    destination_port: destination,
                    sequence: *sequence,
                    acknowledgement: *acknowledgement,
                    flags: *flags,
                    window: self.window,
                    urgent: 0,
                    options: &options,
                };
                builder.build(&mut out, pseudo, data)
            }
            Kind::Udp => udp::build(&mut out, pseudo, source, destination, data),
            Kind::Query(kinds, id) => {
                let [high, low] = id.to_be_bytes();
                return icmp(pseudo, [kinds[usize::from(six)], 0], [high, low, 0, 1], data);
            }
            Kind::Error(kinds, about) => {
                return self.error(pseudo, kinds[usize::from(six)], &about.bytes(ends, 0));
            }
            Kind::Quote(kind, quoted) => return self.error(pseudo, *kind, quoted),
            Kind::Other(_) => return [&[0, 0, 8, 0, 0, 0, 0, 7], data].concat(),
        };
        out.truncate(length.expect("it fits"));
        out
    }

    fn error(&self, pseudo: &Pseudo, kind: [u8; 2], quoted: &[u8]) -> Vec<u8> {
        let header = if matches!(pseudo, Pseudo::Ip6 { .. }) { 40 } else { 20 };
        let end = self.cut.map_or(quoted.len(), |cut| header + cut).min(quoted.len());
        let mtu = if matches!(kind, [3, 4] | [2, 0]) { [0, 0, 5, 0] } else { [0; 4] };
        icmp(pseudo, kind, mtu, &quoted[..end.min(500)])
    }

    /// The protocol of what it has behind the IP header.
    pub fn protocol(&self, six: bool) -> u8 {
        match self.kind {
            Kind::Tcp { .. } => protocol::TCP,
            Kind::Udp => protocol::UDP,
            Kind::Query(..) | Kind::Error(..) | Kind::Quote(..) if six => protocol::ICMP6,
            Kind::Query(..) | Kind::Error(..) | Kind::Quote(..) => protocol::ICMP4,
            Kind::Other(number) => number,
        }
    }

    /// The bytes that a fragment has of [`Self::upper`], or all.
    pub fn range(&self, upper: &[u8]) -> std::ops::Range<usize> {
        let piece = self.piece.unwrap_or_default();
        let end = piece.length.map_or(upper.len(), |length| piece.offset + length);
        piece.offset.min(upper.len())..end.min(upper.len())
    }

    /// The packet from its IP header on. `number` tells it from other ones: it is the IPv4 identification, or the flow
    /// label. A fragment has the number of its packet.
    pub fn bytes(&self, ends: &Ends, number: u16) -> Vec<u8> {
        let upper = self.upper(ends);
        let data = &upper[self.range(&upper)];
        let piece = self.piece;
        let mut out = vec![0; 60];
        match self.addresses(ends) {
            [IpAddr::V4(source), IpAddr::V4(destination)] => {
                let fragment = piece.map_or(0, |piece| {
                    (piece.offset / 8) as u16 | (u16::from(piece.more) * ipv4::MORE_FRAGMENTS)
                });
                let builder = ipv4::Builder {
                    time_to_live: self.ttl,
                    dscp_ecn: self.dscp << 2,
                    identification: piece.map_or(number, |piece| piece.id),
                    flags_fragment: fragment,
                    ..ipv4::Builder::new(source, destination, self.protocol(false))
                };
                let length = builder.build(&mut out, data.len()).expect("it fits");
                [&out[..length], data].concat()
            }
            [IpAddr::V6(source), IpAddr::V6(destination)] => {
                let options = if self.has_extension { 60 } else { self.protocol(true) };
                let header = piece.map_or(vec![], |piece| {
                    let [high, low] =
                        ((piece.offset as u16) & !7 | u16::from(piece.more)).to_be_bytes();
                    let [first, second] = piece.id.to_be_bytes();
                    vec![options, 0, high, low, 0, 0, first, second]
                });
                let next = if piece.is_some() { protocol::FRAGMENT } else { options };
                let builder = ipv6::Builder {
                    hop_limit: self.ttl,
                    traffic_class: self.dscp << 2,
                    flow_label: number.into(),
                    ..ipv6::Builder::new(source, destination, next)
                };
                let length = builder.build(&mut out, header.len() + data.len());
                [&out[..length.expect("it fits")], &header, data].concat()
            }
            _ => panic!("addresses of one family"),
        }
    }
}

fn bit(letter: char) -> u8 {
    match letter {
        'S' => flag::SYN,
        'A' => flag::ACK,
        'F' => flag::FIN,
        'R' => flag::RST,
        'P' => flag::PSH,
        'U' => flag::URG,
        'E' => flag::ECE,
        'C' => flag::CWR,
        '-' => 0,
        _ => panic!("no flag: {letter}"),
    }
}

fn icmp(pseudo: &Pseudo, kind: [u8; 2], word: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut bytes = [&kind[..], &[0, 0], &word, data].concat();
    let six = matches!(pseudo, Pseudo::Ip6 { .. });
    let sum = if six { pseudo.sum(protocol::ICMP6, bytes.len()) } else { 0 };
    let sum = checksum::finish(checksum::sum(&bytes) + sum);
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Writes the checksum of TCP anew.
fn seal(bytes: &mut [u8], at: usize, pseudo: &Pseudo) {
    bytes[at..at + 2].fill(0);
    let sum = checksum::sum(bytes) + pseudo.sum(protocol::TCP, bytes.len());
    bytes[at..at + 2].copy_from_slice(&checksum::finish(sum).to_be_bytes());
}
