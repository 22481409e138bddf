//! What the tracker reads of a packet: its segment, whether its flow can be tracked, and the flow that an ICMP error is
//! about.

use std::net::{Ipv4Addr, Ipv6Addr};

use stoa_tables::classifier::Fragment;
use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{FlowKey, Match, Tuple};
use stoa_wire::checksum::Pseudo;
use stoa_wire::pptp;
use stoa_wire::protocol::{GRE, ICMP4, ICMP6, TCP, has_ports};
use stoa_wire::tcp::{self, flag};
use stoa_wire::{icmp_query, ipv6_extensions};

use super::Side;
use crate::flow::alg::{CALL, hosts_key};
use crate::flow::fields::{Kind, Place};
use crate::flow::tcp::{Direction, Segment};

/// Bytes of an ICMP error before the packet that it is about.
const ICMP_HEADER: usize = 8;

/// A packet of which the fields are known. It is not malformed.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// From the IP header on.
    pub bytes: &'a [u8],
    /// As in the column of this name.
    pub kind: Kind,
    /// As in the column of this name.
    pub place: Place,
}

impl<'a> Seen<'a> {
    /// What counts of a TCP segment. `None`: it is a fragment, or it opens or ends a connection with a wrong checksum,
    /// so that its receiver ignores it. The checksum of other segments is not verified: they change little.
    #[inline]
    pub fn segment(&self) -> Option<Segment> {
        const CONTROL: u8 = flag::SYN | flag::FIN | flag::RST;
        let segment = self.bytes.get(self.place.upper().into()..self.place.length().into())?;
        let view = tcp::parse(segment).ok().filter(|_| self.kind.part() == Fragment::No)?;
        let is_control = view.header().flags & CONTROL != 0;
        if is_control && view.verify(&self.pseudo()?).is_err() {
            return None;
        }
        Some(Segment::of(&view))
    }

    /// What counts of a segment of which this is the first fragment, with the data of this part alone. Its checksum is
    /// of the whole segment, so it cannot be verified.
    pub fn first_part(&self) -> Option<Segment> {
        let segment = self.bytes.get(self.place.upper().into()..self.place.length().into())?;
        let view = tcp::parse(segment).ok().filter(|_| self.kind.part() == Fragment::First)?;
        Some(Segment::of(&view))
    }

    /// The segment, whole or the first fragment of one; its checksum is not verified.
    #[inline]
    pub fn view(&self) -> Option<tcp::View<'a>> {
        let segment = self.bytes.get(self.place.upper().into()..self.place.length().into())?;
        tcp::parse(segment).ok()
    }

    /// The addresses that its checksum covers.
    #[inline]
    pub fn pseudo(&self) -> Option<Pseudo> {
        if self.kind.is_ip6() {
            let (source, rest) = self.bytes.get(8..)?.split_first_chunk::<16>()?;
            let (source, destination) = ((*source).into(), (*rest.first_chunk::<16>()?).into());
            return Some(Pseudo::Ip6 { source, destination });
        }
        let (source, rest) = self.bytes.get(12..)?.split_first_chunk::<4>()?;
        let (source, destination) = ((*source).into(), (*rest.first_chunk::<4>()?).into());
        Some(Pseudo::Ip4 { source, destination })
    }
}

/// Whether a packet with this column `ports` can belong to a flow in this direction. Later fragments have no ports, and
/// ICMP has flows of queries only: from those that ask to those that reply (RFC 5508 section 3).
#[inline(always)]
pub fn fits(kind: Kind, ports: u32, direction: Direction) -> bool {
    const OTHER: u32 = Kind::LATER | (7 * Kind::MALFORMED);
    if kind.0 & OTHER != 0 {
        return false;
    }
    let icmp = if kind.is_ip6() { ICMP6 } else { ICMP4 };
    let is_reply = direction == Direction::Reply;
    kind.protocol() != icmp
        || icmp_query::of(kind.is_ip6(), (ports >> 24) as u8).is_some_and(|(_, it)| it == is_reply)
}

/// The packet that an ICMP error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Its key.
    pub key: FlowKey,
    /// The number of its first byte, if it is TCP.
    pub sequence: Option<u32>,
}

/// What an ICMP error is about: destination unreachable, packet too big, time exceeded, parameter problem (RFC 792, RFC
/// 4443). The error goes to the sender of that packet. `None`: it is no such message.
pub fn about(packet: &Seen<'_>, ports: u32, vrf: u16) -> Option<About> {
    let is_ip6 = packet.kind.is_ip6();
    let message = (ports >> 24) as u8;
    let is_error = match packet.kind.protocol() {
        ICMP4 if !is_ip6 => matches!(message, 3 | 11 | 12),
        ICMP6 if is_ip6 => matches!(message, 1..=4),
        _ => false,
    };
    let has_header = packet.kind.part() == Fragment::No && packet.kind.malformed().is_none();
    if !is_error || !has_header {
        return None;
    }
    let inner = packet.bytes.get(usize::from(packet.place.upper()) + ICMP_HEADER..)?;
    if is_ip6 { about6(packet.bytes, inner, vrf) } else { about4(packet.bytes, inner, vrf) }
}

fn about4(outer: &[u8], inner: &[u8], vrf: u16) -> Option<About> {
    let header = inner.first_chunk::<20>()?;
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    if header[0] >> 4 != 4 || fragment & 0x1fff != 0 || outer.get(16..20)? != &header[12..16] {
        return None;
    }
    let upper = inner.get(usize::from(header[0] & 0xf).max(5) * 4..)?;
    let (source_port, destination_port) = ports_of(header[9], upper, false)?;
    let address = |at: usize| {
        Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]).to_bits()
    };
    let (source, destination, protocol) = (address(12), address(16), header[9]);
    let flow = Flow { source, destination, source_port, destination_port, protocol };
    Some(About { key: FlowKey::ip4(flow, vrf), sequence: sequence_of(protocol, upper)? })
}

fn about6(outer: &[u8], inner: &[u8], vrf: u16) -> Option<About> {
    let header = inner.first_chunk::<40>()?;
    if header[0] >> 4 != 6 || outer.get(24..40)? != &header[8..24] {
        return None;
    }
    let quoted = ipv6_extensions::quoted(inner).ok().filter(|it| it.has_header())?;
    let (protocol, upper) = (quoted.protocol, quoted.payload);
    let (source_port, destination_port) = ports_of(protocol, upper, true)?;
    let address = |at: usize| {
        let octets = header.get(at..at + 16).and_then(|it| it.first_chunk::<16>());
        octets.map(|it| Ipv6Addr::from(*it).to_bits())
    };
    let (source, destination) = (address(8)?, address(24)?);
    let flow = Flow { source, destination, source_port, destination_port, protocol };
    Some(About { key: FlowKey::ip6(flow, vrf), sequence: sequence_of(protocol, upper)? })
}

/// The ports of a key, of a packet of which 8 bytes of the upper layer are known.
fn ports_of(protocol: u8, upper: &[u8], is_ip6: bool) -> Option<(u16, u16)> {
    let word = |at: usize| Some(u16::from_be_bytes([*upper.get(at)?, *upper.get(at + 1)?]));
    if has_ports(protocol) {
        return Some((word(0)?, word(2)?));
    }
    if protocol == if is_ip6 { ICMP6 } else { ICMP4 } {
        let identifier = word(4)?;
        return icmp_query::of(is_ip6, *upper.first()?).map(|(request, is_reply)| match is_reply {
            false => (identifier, request.into()),
            true => (request.into(), identifier),
        });
    }
    // If no call has it, the packet belongs to the flow of its hosts: see `find_about`.
    let call = if protocol == GRE { pptp::call_id(upper) } else { None };
    Some(call.map_or((0, 0), |id| (CALL, id)))
}

impl Side {
    /// The live flow of the packet that an ICMP error is about.
    pub fn find_about(&self, about: &About) -> Option<Match> {
        let protocol = match about.key.tuple {
            Tuple::Ip4(it) => it.protocol,
            Tuple::Ip6(it) => it.protocol,
        };
        let of_hosts = hosts_key(&about.key);
        let is_other = protocol == GRE && of_hosts != about.key;
        self.find(&about.key).or_else(|| if is_other { self.find(&of_hosts) } else { None })
    }
}

/// The sequence number of a TCP segment of which 8 bytes are known; `None`: they are not.
fn sequence_of(protocol: u8, upper: &[u8]) -> Option<Option<u32>> {
    if protocol != TCP {
        return Some(None);
    }
    let (_, rest) = upper.split_first_chunk::<4>()?;
    rest.first_chunk::<4>().map(|number| Some(u32::from_be_bytes(*number)))
}
