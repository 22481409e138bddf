//! The fields of packets that rules and flow tables compare, as columns that one kernel fills for all features of a
//! vector: addresses, protocol, ports, flags, fragments, and what is wrong with the header of the upper layer.

pub(super) mod packet;
#[cfg(test)]
mod tests;

use std::ops::Range;

use stoa_engine::Vector;
use stoa_engine::vector::Fields;
use stoa_tables::classifier::Fragment;

use super::column::Packets;
use crate::kernel::Kernel;
pub use packet::{PacketFields, of_ip4, of_ip6};
use stoa_wire::icmp_query;
use stoa_wire::protocol::{ICMP4, ICMP6};

/// What is wrong behind the IP header. Such lanes have neither ports nor flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Malformed {
    /// The packet ends before the fixed header of its upper layer, or within the IP header.
    Truncated = 1,
    /// A first fragment without the whole header of the upper layer, options included (RFC 7112; RFC 1858 for TCP over
    /// IPv4), or a fragment of TCP that begins within it (RFC 3128).
    TinyFragment = 2,
    /// The data offset of a TCP header is below 20 bytes or beyond the packet.
    DataOffset = 3,
    /// IPv6 extension headers, or authentication headers, that cannot be read or are more than 8.
    Extensions = 4,
}

/// The column `kind`.
///
/// | bits | |
/// |---|---|
/// | 0..8 | protocol of the upper layer |
/// | 8..16 | TCP flags |
/// | 16..24 | DSCP (upper 6) and ECN |
/// | 24 | IPv6 |
/// | 25, 26 | first fragment, another fragment |
/// | 27..30 | [`Malformed`] |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind(pub u32);

impl Kind {
    /// The bit of IPv6.
    pub const IP6: u32 = 1 << 24;
    /// The bit of a first fragment.
    pub const FIRST: u32 = 1 << 25;
    /// The bit of another fragment.
    pub const LATER: u32 = 1 << 26;
    /// The lowest bit of [`Malformed`].
    pub const MALFORMED: u32 = 1 << 27;

    /// The protocol of the upper layer, behind extension headers and authentication headers. If those cannot be read,
    /// that of the IP header. In a fragment that is not the first one, what the fragment header names.
    #[inline(always)]
    pub const fn protocol(self) -> u8 {
        self.0 as u8
    }

    /// The flags of TCP, bits of [`stoa_wire::tcp::flag`]; 0 for others.
    #[inline(always)]
    pub const fn tcp_flags(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// The DSCP, 0..=63.
    #[inline(always)]
    pub const fn dscp(self) -> u8 {
        (self.0 >> 18 & 0x3f) as u8
    }

    /// Whether the packet is IPv6.
    #[inline(always)]
    pub const fn is_ip6(self) -> bool {
        self.0 & Self::IP6 != 0
    }

    /// Which part of a packet it is.
    #[inline(always)]
    pub const fn part(self) -> Fragment {
        match self.0 & (Self::FIRST | Self::LATER) {
            0 => Fragment::No,
            Self::FIRST => Fragment::First,
            _ => Fragment::Later,
        }
    }

    /// The column `ports` of this lane as rules compare it ([`stoa_tables::classifier::ports`]): ICMP has its type in
    /// the upper half and its code in the lower one. The identifier is left out.
    #[inline(always)]
    pub const fn rule_ports(self, ports: u32) -> u32 {
        if self.is_icmp() { ports >> 8 & 0xff_0000 | ports >> 16 & 0xff } else { ports }
    }

    /// The column `ports` of this lane as keys of flows have it ([`stoa_tables::flow_table::Columns4::ports`]). In
    /// place of ports, an ICMP query has its identifier at the end that asks, and the type of the request at the other
    /// one: so replies of another kind, and queries of the other end with the same identifier, are of other flows. ICMP
    /// messages without an identifier have 0 and belong to no flow.
    #[inline(always)]
    pub const fn flow_ports(self, ports: u32) -> u32 {
        if self.is_icmp() { self.query_ports(ports) } else { ports }
    }

    const fn query_ports(self, ports: u32) -> u32 {
        let identifier = ports & 0xffff;
        match icmp_query::of(self.is_ip6(), (ports >> 24) as u8) {
            Some((request, false)) => identifier << 16 | request as u32,
            Some((request, true)) => (request as u32) << 16 | identifier,
            None => 0,
        }
    }

    /// Whether it is ICMP over IPv4 or ICMPv6 over IPv6: the column `ports` has type, code and identifier.
    #[inline(always)]
    const fn is_icmp(self) -> bool {
        self.protocol() == if self.is_ip6() { ICMP6 } else { ICMP4 }
    }

    /// What is wrong.
    #[inline]
    pub const fn malformed(self) -> Option<Malformed> {
        match self.0 >> 27 & 7 {
            0 => None,
            1 => Some(Malformed::Truncated),
            2 => Some(Malformed::TinyFragment),
            3 => Some(Malformed::DataOffset),
            _ => Some(Malformed::Extensions),
        }
    }
}

/// The column `place`: where the upper layer begins (upper 16 bits), and the length of the packet (lower), in bytes
/// from the IP header on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place(pub u32);

impl Place {
    /// Where the header of the upper layer begins; in a fragment that is not the first one, its data.
    #[inline(always)]
    pub const fn upper(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Bytes of the packet, as its IP header says.
    #[inline(always)]
    pub const fn length(self) -> u16 {
        self.0 as u16
    }
}

/// The fields of each lane, for a feature that needs them. All lanes begin at their IP header. Only the first feature
/// that asks pays for the kernel.
///
/// The column `ports` has the source port above the destination port, of TCP, UDP, UDP-Lite, SCTP and DCCP. ICMP has
/// type and code in the upper half, and in the lower one the identifier of queries (0 for other messages). Other
/// protocols have 0. [`Kind::rule_ports`] and [`Kind::flow_ports`] convert it for classifiers and flow tables.
///
/// A lane that was taken has no packet: ask before you take lanes.
#[inline]
pub fn of(kernel: Kernel, vector: &mut Vector, packets: Packets) -> &Fields {
    vector.fields(|vector, fields| fill(kernel, vector, packets, fields))
}

/// Fills the columns; returns whether there is an IPv6 lane.
fn fill(kernel: Kernel, vector: &Vector, packets: Packets, fields: &mut Fields) -> bool {
    let lanes = 0..vector.len();
    match packets {
        Packets::Ip4 => fill_family::<true>(kernel, vector, lanes, fields),
        Packets::Ip6 => fill_family::<false>(kernel, vector, lanes, fields),
        Packets::Both => return fill_both(kernel, vector, fields),
    }
    packets == Packets::Ip6
}

/// Fills runs of lanes of one family together.
#[inline(never)]
fn fill_both(kernel: Kernel, vector: &Vector, fields: &mut Fields) -> bool {
    let lanes = vector.len();
    let is_ip6 = |lane: usize| vector.bytes(lane).first().is_some_and(|first| first >> 4 == 6);
    let (mut start, mut has_ip6) = (0, false);
    while start < lanes {
        let family = is_ip6(start);
        let end = (start..lanes).find(|lane| is_ip6(*lane) != family).unwrap_or(lanes);
        if family {
            fill_family::<false>(kernel, vector, start..end, fields);
        } else {
            fill_family::<true>(kernel, vector, start..end, fields);
        }
        has_ip6 |= family;
        start = end;
    }
    has_ip6
}

/// Fills lanes of one family. AVX-512 has no code of its own: loads are the cost, and they are the same.
#[inline(always)]
fn fill_family<const IS_IP4: bool>(
    kernel: Kernel,
    vector: &Vector,
    lanes: Range<usize>,
    fields: &mut Fields,
) {
    match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 | Kernel::Avx512 => {
            super::fields_avx2::fill::<IS_IP4>(vector, lanes, fields);
        }
        _ => lanes.for_each(|lane| fill_lane::<IS_IP4>(vector, lane, fields)),
    }
}

/// The reference, and what kernels leave to it.
pub(super) fn fill_lane<const IS_IP4: bool>(vector: &Vector, lane: usize, fields: &mut Fields) {
    let bytes = vector.bytes(lane);
    let packet = if IS_IP4 { of_ip4(bytes) } else { of_ip6(bytes) };
    for word in 0..if IS_IP4 { 1 } else { 4 } {
        fields.source[word][lane] = packet.source[word];
        fields.destination[word][lane] = packet.destination[word];
    }
    fields.ports[lane] = packet.ports;
    fields.kind[lane] = packet.kind.0;
    fields.place[lane] = packet.place.0;
}
