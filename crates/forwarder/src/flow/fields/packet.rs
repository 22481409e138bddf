//! The fields of one packet: the reference of the kernels, and what they leave to it.

use stoa_wire::ipv6_extensions::Fragment;
use stoa_wire::protocol::{AH, DCCP, FRAGMENT, ICMP4, ICMP6, SCTP, TCP, UDP, UDP_LITE};
use stoa_wire::{ipv4, ipv6, tcp};

use super::{Kind, Malformed, Place};

/// Protocols with ports where TCP has them, each with the length of its fixed header.
const OTHERS: [(u8, usize); 3] = [(SCTP, 12), (DCCP, 12), (UDP_LITE, 8)];
/// Fixed headers of UDP and of ICMP messages, in bytes.
pub(in crate::flow) const SHORT: usize = 8;
/// Most authentication headers of an IPv4 packet.
const MOST: usize = 8;

/// What the columns hold for one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketFields {
    /// Words of the source address, the most significant first; IPv4: the first one.
    pub source: [u32; 4],
    /// Words of the destination address.
    pub destination: [u32; 4],
    /// Ports, or type, code and identifier of ICMP.
    pub ports: u32,
    /// Protocol, flags and kinds.
    pub kind: Kind,
    /// Where the upper layer begins, and the length.
    pub place: Place,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
}

fn words(bytes: &[u8], at: usize) -> [u32; 4] {
    [0, 4, 8, 12].map(|by| word(bytes, at + by))
}

/// The fields of an IPv4 packet; all 0 but the mark for less than a header.
pub fn of_ip4(bytes: &[u8]) -> PacketFields {
    let mut packet = PacketFields::default();
    let Some((header, _)) = bytes.split_first_chunk::<{ ipv4::LENGTH }>() else {
        return packet.marked(Malformed::Truncated);
    };
    let (length, upper) = (u16::from_be_bytes([header[2], header[3]]), header[0] & 0xf);
    let upper = usize::from(upper) * 4;
    packet.source[0] = word(header, 12);
    packet.destination[0] = word(header, 16);
    packet.kind = Kind(u32::from(header[9]) | u32::from(header[1]) << 16);
    packet.place = Place((upper as u32) << 16 | u32::from(length));
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    let (offset, is_last) = (fragment & 0x1fff, fragment & 0x2000 == 0);
    let packet_bytes = bytes.get(..usize::from(length)).unwrap_or(bytes);
    if upper < ipv4::LENGTH || upper > packet_bytes.len() || packet_bytes.len() < length.into() {
        return packet.marked(Malformed::Truncated);
    }
    if offset != 0 {
        packet.kind.0 |= Kind::LATER;
        // The first 8 bytes of TCP have no flags: the rest would come here (RFC 3128).
        let is_tiny = offset == 1 && header[9] == TCP;
        return if is_tiny { packet.marked(Malformed::TinyFragment) } else { packet };
    }
    if !is_last {
        packet.kind.0 |= Kind::FIRST;
    }
    match behind_authentication(packet_bytes, header[9], upper) {
        Some((protocol, upper)) => packet.with_upper(packet_bytes, protocol, upper, ICMP4),
        None => packet.marked(packet.short(Malformed::Extensions)),
    }
}

/// Protocol and place of what follows authentication headers (RFC 4302); `None`: they cannot be read.
fn behind_authentication(bytes: &[u8], first: u8, upper: usize) -> Option<(u8, usize)> {
    let (mut protocol, mut upper) = (first, upper);
    for _ in 0..=MOST {
        if protocol != AH {
            return Some((protocol, upper));
        }
        let [next, length, ..] = *bytes.get(upper..)? else { return None };
        (protocol, upper) = (next, upper + (usize::from(length) + 2) * 4);
        if upper > bytes.len() {
            return None;
        }
    }
    None
}

/// The fields of an IPv6 packet; all 0 but the mark for less than a header.
pub fn of_ip6(bytes: &[u8]) -> PacketFields {
    let mut packet = PacketFields { kind: Kind(Kind::IP6), ..PacketFields::default() };
    let Some((header, _)) = bytes.split_first_chunk::<{ ipv6::LENGTH }>() else {
        return packet.marked(Malformed::Truncated);
    };
    packet.source = words(header, 8);
    packet.destination = words(header, 24);
    packet.kind.0 |= u32::from(header[6]) | (word(header, 0) >> 20 & 0xff) << 16;
    let length = ipv6::LENGTH + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let length = length.min(usize::from(u16::MAX));
    packet.place = Place((ipv6::LENGTH as u32) << 16 | length as u32);
    // The version does not matter here: the arc says what the packet is.
    let Some(whole) = bytes.get(..length) else {
        return packet.marked(Malformed::Truncated);
    };
    packet.with_chain(whole)
}

impl PacketFields {
    fn marked(mut self, what: Malformed) -> Self {
        self.kind.0 |= what as u32 * Kind::MALFORMED;
        self
    }

    /// What a header that is not there means: in a first fragment, that this one is too small.
    fn short(&self, otherwise: Malformed) -> Malformed {
        if self.kind.0 & Kind::FIRST != 0 { Malformed::TinyFragment } else { otherwise }
    }

    /// Walks the extension headers of an IPv6 packet.
    fn with_chain(mut self, packet: &[u8]) -> Self {
        let Ok(view) = ipv6::check(packet) else { return self.marked(Malformed::Truncated) };
        let (mut extensions, mut is_unreadable) = (view.extensions(), false);
        for extension in extensions.by_ref() {
            match extension {
                Ok(extension) if extension.kind == FRAGMENT => self.note(extension.bytes),
                Ok(_) => {}
                Err(_) => is_unreadable = true,
            }
        }
        let upper = if is_unreadable { None } else { view.upper().ok() };
        let Some(upper) = upper else {
            return self.marked(self.short(Malformed::Extensions));
        };
        self.kind.0 = self.kind.0 & !0xff | u32::from(upper.protocol);
        self.place.0 = self.place.0 & 0xffff | (upper.offset as u32) << 16;
        if self.kind.0 & Kind::LATER != 0 {
            return self;
        }
        self.with_upper(packet, upper.protocol, upper.offset, ICMP6)
    }

    /// Notes what a fragment header says.
    fn note(&mut self, header: &[u8]) {
        use zerocopy::FromBytes;
        let Ok(fragment) = Fragment::ref_from_bytes(header) else { return };
        self.kind.0 |= match (fragment.offset(), fragment.more()) {
            (0, false) => 0,
            (0, true) => Kind::FIRST,
            _ => Kind::LATER,
        };
    }

    /// Reads the header of the upper layer, which begins at `at` of the packet.
    fn with_upper(mut self, packet: &[u8], protocol: u8, at: usize, icmp: u8) -> Self {
        self.kind.0 = self.kind.0 & !0xff | u32::from(protocol);
        self.place.0 = self.place.0 & 0xffff | (at as u32) << 16;
        let upper = packet.get(at..).unwrap_or(&[]);
        let other = OTHERS.iter().find(|(number, _)| *number == protocol);
        let least = match protocol {
            TCP => tcp::LENGTH,
            UDP => SHORT,
            protocol if protocol == icmp => SHORT,
            _ => other.map_or(0, |(_, length)| *length),
        };
        if least == 0 {
            return self;
        }
        if upper.len() < least {
            return self.marked(self.short(Malformed::Truncated));
        }
        if protocol == TCP {
            let data = usize::from(upper[12] >> 4) * 4;
            if data < tcp::LENGTH {
                return self.marked(Malformed::DataOffset);
            }
            if data > upper.len() {
                return self.marked(self.short(Malformed::DataOffset));
            }
            self.kind.0 |= u32::from(upper[13]) << 8;
        }
        self.ports = word(upper, 0);
        if protocol == icmp {
            let has_identifier = is_query(upper[0], icmp);
            let identifier = if has_identifier { word(upper, 4) >> 16 } else { 0 };
            self.ports = self.ports & 0xffff_0000 | identifier;
        }
        self
    }
}

/// Types of ICMP below 32 that are queries with an identifier, as bits: echo, timestamp, information and address mask
/// (RFC 792, RFC 950).
pub(in crate::flow) const QUERIES: u32 = 1 << 0 | 1 << 8 | 0b11_1111 << 13;

/// Whether an ICMP message has an identifier; extended echo has, too (RFC 8335).
fn is_query(kind: u8, icmp: u8) -> bool {
    if icmp == ICMP4 {
        kind < 32 && QUERIES >> kind & 1 != 0 || matches!(kind, 42 | 43)
    } else {
        matches!(kind, 128 | 129 | 160 | 161)
    }
}
