//! What access lists read of a packet, of either family.

use stoa_wire::{ipv4, ipv6, protocol, tcp};

/// The protocol of an IPv6 packet whose extension headers cannot be read: no rule can match it.
pub const NO_PROTOCOL: u16 = 0x100;

/// Protocols with ports in their first four bytes, besides TCP and UDP.
const DCCP: u8 = 33;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// Bytes of a UDP header, and of the part of an ICMP message that rules read.
const UDP: usize = 8;
const ICMP: usize = 4;

/// Which part of a packet it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The whole one.
    #[default]
    Whole,
    /// The first fragment.
    First,
    /// Another fragment, without the header of the upper layer.
    Later,
}

/// The fields that rules match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields<K> {
    /// Addresses in host byte order.
    pub source: K,
    /// The same of the receiver.
    pub destination: K,
    /// The differentiated services code point.
    pub dscp: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// The upper protocol, or [`NO_PROTOCOL`].
    pub protocol: u16,
    /// Which part of a packet it is.
    pub part: Part,
    /// Whether the header of the upper layer is missing or cut although this part should have it. Rules cannot judge
    /// such a packet (RFC 1858, RFC 7112).
    pub is_cut: bool,
    /// Source and destination port; type and code of ICMP; 0 without.
    pub ports: (u16, u16),
    /// Flags of TCP; 0 without.
    pub tcp_flags: u8,
    /// Bytes of the IP packet.
    pub length: u16,
}

impl<K> Fields<K> {
    /// Whether it has ports, or type and code of ICMP.
    #[inline]
    pub fn has_upper(&self) -> bool {
        self.part != Part::Later && !self.is_cut
    }
}

/// An address of a family, with what reads packets of that family.
pub trait Family: Copy + Default + Eq + Ord + std::fmt::Debug + Send + Sync + 'static {
    /// Whether it is IPv4.
    const IS_IP4: bool;
    /// The protocol number of its ICMP.
    const ICMP: u8;

    /// Whether it is in a network.
    fn is_in(self, network: Self, mask: Self) -> bool;
    /// The fields of a packet that was validated; `None`: it is shorter than an IP header.
    fn fields(packet: &[u8]) -> Option<Fields<Self>>;
}

impl Family for u32 {
    const IS_IP4: bool = true;
    const ICMP: u8 = protocol::ICMP4;

    #[inline(always)]
    fn is_in(self, network: Self, mask: Self) -> bool {
        self & mask == network
    }

    fn fields(packet: &[u8]) -> Option<Fields<Self>> {
        let head = packet.first_chunk::<{ ipv4::LENGTH }>()?;
        let word =
            |at: usize| Self::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let fragment = u16::from_be_bytes([head[6], head[7]]);
        let offset = fragment & ipv4::OFFSET_MASK;
        let part = match (offset, fragment & ipv4::MORE_FRAGMENTS) {
            (0, 0) => Part::Whole,
            (0, _) => Part::First,
            _ => Part::Later,
        };
        let fields = Fields {
            source: word(12),
            destination: word(16),
            dscp: head[1] >> 2,
            hop_limit: head[8],
            protocol: head[9].into(),
            part,
            // A fragment that begins inside a TCP header overwrites its flags (RFC 3128).
            is_cut: head[9] == protocol::TCP && offset == 1,
            length: packet.len().min(u16::MAX.into()) as u16,
            ..Fields::default()
        };
        let behind = packet.get(usize::from(head[0] & 0xf) * 4..).unwrap_or(&[]);
        Some(with_upper(fields, behind))
    }
}

impl Family for u128 {
    const IS_IP4: bool = false;
    const ICMP: u8 = protocol::ICMP6;

    #[inline(always)]
    fn is_in(self, network: Self, mask: Self) -> bool {
        self & mask == network
    }

    fn fields(packet: &[u8]) -> Option<Fields<Self>> {
        let head = packet.first_chunk::<{ ipv6::LENGTH }>()?;
        let address = |at: usize| head.get(at..at + 16).and_then(<[u8]>::first_chunk::<16>);
        let fields = Fields {
            source: Self::from_be_bytes(*address(8)?),
            destination: Self::from_be_bytes(*address(24)?),
            dscp: (head[0] << 4 | head[1] >> 4) >> 2,
            hop_limit: head[7],
            protocol: NO_PROTOCOL,
            is_cut: true,
            length: packet.len().min(u16::MAX.into()) as u16,
            ..Fields::default()
        };
        let Some(upper) = ipv6::check(packet).ok().and_then(|view| view.upper().ok()) else {
            return Some(fields);
        };
        let part = match upper.fragment {
            Some(fragment) if fragment.offset() > 0 => Part::Later,
            Some(fragment) if fragment.more() => Part::First,
            _ => Part::Whole,
        };
        let fields = Fields { protocol: upper.protocol.into(), part, is_cut: false, ..fields };
        Some(with_upper(fields, upper.payload))
    }
}

/// The fields with those of the upper layer, whose header begins with `behind`.
#[inline]
fn with_upper<K>(fields: Fields<K>, behind: &[u8]) -> Fields<K> {
    if fields.part == Part::Later {
        return fields;
    }
    let upper = fields.protocol as u8;
    let needed = match upper {
        _ if fields.protocol == NO_PROTOCOL => return fields,
        protocol::TCP => tcp::LENGTH,
        protocol::UDP | UDP_LITE | DCCP | SCTP => UDP,
        protocol::ICMP4 | protocol::ICMP6 => ICMP,
        _ => return fields,
    };
    let Some([a, b, c, d, ..]) = behind.get(..needed) else {
        return Fields { is_cut: true, ..fields };
    };
    let ports = match upper {
        protocol::ICMP4 | protocol::ICMP6 => (u16::from(*a), u16::from(*b)),
        _ => (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])),
    };
    let tcp_flags = if upper == protocol::TCP { behind[13] } else { 0 };
    Fields { ports, tcp_flags, ..fields }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip4(upper: u8, behind: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 20];
        (packet[0], packet[1], packet[8], packet[9]) = (0x45, 0xb8, 64, upper);
        packet[12..16].copy_from_slice(&[10, 0, 0, 1]);
        packet.extend(behind);
        packet
    }

    #[test]
    fn ports_flags_and_types_are_those_of_whole_headers() {
        let mut segment = [0; 20];
        (segment[1], segment[3], segment[13]) = (53, 80, 0x12);
        let mut packet = ip4(protocol::TCP, &segment);
        let read = |packet: &[u8]| <u32 as Family>::fields(packet).unwrap();
        let fields = read(&packet);
        assert_eq!((fields.source, fields.dscp, fields.length), (0x0a00_0001, 46, 40));
        assert_eq!((fields.ports, fields.tcp_flags, fields.part), ((53, 80), 0x12, Part::Whole));
        assert!(fields.has_upper());
        packet[6] = 0x20;
        assert_eq!((read(&packet).part, read(&packet).ports), (Part::First, (53, 80)));
        packet[7] = 2;
        assert_eq!((read(&packet).part, read(&packet).ports), (Part::Later, (0, 0)));
        assert!(!read(&packet).is_cut && !read(&packet).has_upper());
        packet[7] = 1;
        assert!(read(&packet).is_cut, "it would overwrite the flags");
        for (upper, needed) in [(6, 20), (17, 8), (1, 4), (58, 4), (132, 8)] {
            for length in 0..24 {
                let fields = read(&ip4(upper, &[0; 24][..length]));
                assert_eq!(fields.is_cut, length < needed, "{upper} with {length} bytes");
            }
        }
        assert!(!read(&ip4(protocol::ESP, &[])).is_cut);
        let echo = read(&ip4(protocol::ICMP4, &[8, 3, 0, 0]));
        assert_eq!(echo.ports, (8, 3));
        assert!((0..20).all(|length| <u32 as Family>::fields(&packet[..length]).is_none()));
    }

    #[test]
    fn extension_headers_are_passed() {
        let mut packet = [0; 56];
        (packet[0], packet[1], packet[5], packet[6], packet[7]) = (0x6b, 0x80, 16, 60, 255);
        packet[40] = protocol::UDP;
        packet[48..52].copy_from_slice(&[0, 53, 0, 54]);
        let read = |packet: &[u8]| <u128 as Family>::fields(packet).unwrap();
        let fields = read(&packet);
        assert_eq!((fields.dscp, fields.protocol, fields.ports), (46, 17, (53, 54)));
        assert_eq!((fields.hop_limit, fields.part, fields.is_cut), (255, Part::Whole, false));
        packet[6] = protocol::FRAGMENT;
        packet[43] = 1;
        assert_eq!(read(&packet).part, Part::First);
        packet[43] = 8;
        assert_eq!((read(&packet).part, read(&packet).ports), (Part::Later, (0, 0)));
        // The options header is longer than the packet.
        (packet[6], packet[41]) = (60, 9);
        let fields = read(&packet);
        assert_eq!((fields.protocol, fields.is_cut), (NO_PROTOCOL, true));
    }
}
