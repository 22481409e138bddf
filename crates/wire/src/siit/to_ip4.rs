//! IPv6 packets as IPv4 packets (RFC 7915 section 5).

use super::icmp::{self, Head};
use super::upper::{self, Change};
use super::{Ends4, Ends6, FRAGMENTED, Refused, of_quoted};
use crate::checksum::Pseudo;
use crate::{checksum, icmp4, icmp6, ipv4, ipv6, ipv6_extensions, protocol};

/// Offset of the segments left in a routing header.
const SEGMENTS_LEFT: usize = 3;

/// Extension headers that IPv4 packets do without (RFC 7915 section 5.1).
const LEFT_OUT: [u8; 4] =
    [protocol::HOP_BY_HOP, protocol::ROUTING, protocol::DESTINATION_OPTIONS, protocol::FRAGMENT];

/// What of an IPv6 packet decides about its IPv4 header.
struct Header {
    bytes: [u8; ipv4::LENGTH],
    /// Where the upper layer begins.
    upper: usize,
    /// The end of the packet.
    end: usize,
    protocol: u8,
    is_later: bool,
}

fn ends(packet: &[u8]) -> Ends6 {
    let of = |at: usize| packet.get(at..).and_then(|it| it.first_chunk::<16>()).copied();
    (of(8).unwrap_or_default().into(), of(24).unwrap_or_default().into())
}

/// `is_quoted`: the packet may be cut. `identification`: of a packet that is no fragment.
fn header(
    packet: &[u8],
    (source, destination): Ends4,
    identification: u16,
    is_quoted: bool,
) -> Result<Header, Refused> {
    let (upper, declared) = if is_quoted {
        let old = packet.first_chunk::<{ ipv6::LENGTH }>().ok_or(Refused::Malformed)?;
        let declared = ipv6::LENGTH + usize::from(u16::from_be_bytes([old[4], old[5]]));
        (ipv6_extensions::quoted(packet).map_err(|_| Refused::Malformed)?, declared)
    } else {
        let view = ipv6::check(packet).map_err(|_| Refused::Malformed)?;
        (view.upper().map_err(|_| Refused::Malformed)?, ipv6::LENGTH + view.payload().len())
    };
    if let Some((_, left @ 1..)) = upper.routing.filter(|_| !is_quoted) {
        return Err(Refused::SourceRoute(routing_at(packet, left)));
    }
    if has_other_extension(packet) {
        return Err(Refused::Extension);
    }
    // Access lists of IPv6 do not know its types.
    if upper.protocol == protocol::ICMP4 && !is_quoted {
        return Err(Refused::Icmp);
    }
    let is_icmp = upper.protocol == protocol::ICMP6;
    let fragment = upper.fragment.filter(|it| !it.is_atomic());
    // Other fragments of the packet would keep their offsets, as if it were still there.
    if fragment.is_some_and(|it| LEFT_OUT.contains(&it.next_header)) {
        return Err(Refused::Extension);
    }
    if fragment.is_some() && is_icmp && !is_quoted {
        return Err(Refused::IcmpFragment);
    }
    let total = ipv4::LENGTH + declared.checked_sub(upper.offset).ok_or(Refused::Malformed)?;
    let length = u16::try_from(total).map_err(|_| Refused::TooLong)?;
    let mut bytes = [0; ipv4::LENGTH];
    bytes[..2].copy_from_slice(&[0x45, packet[0] << 4 | packet[1] >> 4]);
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    let (identification, flags) = match upper.fragment {
        Some(it) => {
            let more = if it.more() { ipv4::MORE_FRAGMENTS } else { 0 };
            let identification = it.identification.get() as u16;
            (identification, (it.offset() / 8) as u16 | more)
        }
        None if total <= FRAGMENTED => (identification, 0),
        // Nobody cuts it: its identification says nothing (RFC 6864 section 4.1).
        None => (0, ipv4::DONT_FRAGMENT),
    };
    bytes[4..6].copy_from_slice(&identification.to_be_bytes());
    bytes[6..8].copy_from_slice(&flags.to_be_bytes());
    bytes[8] = packet[7];
    bytes[9] = if is_icmp { protocol::ICMP4 } else { upper.protocol };
    bytes[12..16].copy_from_slice(&source.octets());
    bytes[16..20].copy_from_slice(&destination.octets());
    seal(&mut bytes);
    let is_later = upper.fragment.is_some_and(|it| it.offset() != 0);
    let end = declared.min(packet.len());
    Ok(Header { bytes, upper: upper.offset, end, protocol: upper.protocol, is_later })
}

/// Whether there is an extension header that cannot be left out (RFC 7915 section 5.1).
fn has_other_extension(packet: &[u8]) -> bool {
    let Ok(view) = ipv6::check(packet) else { return false };
    view.extensions().filter_map(Result::ok).any(|it| !LEFT_OUT.contains(&it.kind))
}

/// The offset of the segments left of the routing header that has some.
fn routing_at(packet: &[u8], left: u8) -> usize {
    let Ok(view) = ipv6::check(packet) else { return 0 };
    let mut headers = view.extensions().filter_map(Result::ok);
    let found = headers
        .find(|it| it.kind == protocol::ROUTING && it.bytes.get(SEGMENTS_LEFT) == Some(&left));
    found.map_or(0, |it| it.offset + SEGMENTS_LEFT)
}

/// Writes the checksum of a header.
fn seal(header: &mut [u8; ipv4::LENGTH]) {
    header[10..12].fill(0);
    let checksum = checksum::finish(checksum::sum20(header));
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// Writes the IPv4 packet of an IPv6 one; returns its length. `ends`: its addresses. `identification`: for a packet
/// that is no fragment. `quoted`: addresses of a packet that an ICMP error quotes, by its IPv6 ones. Hop limit and TTL
/// are equal: the caller decrements.
///
/// # Errors
/// Why it has no translation.
pub fn to_ip4(
    packet: &[u8],
    (ends, identification): (Ends4, u16),
    quoted: impl Fn(Ends6) -> Option<Ends4>,
    out: &mut [u8],
) -> Result<usize, Refused> {
    let header = header(packet, ends, identification, false)?;
    let payload = packet.get(header.upper..header.end).ok_or(Refused::Malformed)?;
    if header.protocol == protocol::ICMP6 {
        return message(header, (packet, payload), quoted, out);
    }
    // IPv6 does not know it (RFC 8200 section 8.1), and as an IPv4 packet it would be a right one.
    let is_whole = header.protocol == protocol::UDP && !header.is_later;
    if is_whole && payload.get(6..8) == Some(&[0, 0]) {
        return Err(Refused::NoChecksum);
    }
    let length = ipv4::LENGTH + payload.len();
    let out = out.get_mut(..length).ok_or(Refused::TooLong)?;
    out[..ipv4::LENGTH].copy_from_slice(&header.bytes);
    out[ipv4::LENGTH..].copy_from_slice(payload);
    if !header.is_later {
        let by = Change::back(self::ends(packet), ends).sum;
        upper::correct(&mut out[ipv4::LENGTH..], header.protocol, by);
    }
    Ok(length)
}

/// An ICMP message.
fn message(
    mut header: Header,
    (packet, message): (&[u8], &[u8]),
    quoted: impl Fn(Ends6) -> Option<Ends4>,
    out: &mut [u8],
) -> Result<usize, Refused> {
    let (head, rest) =
        message.split_first_chunk::<{ icmp6::LENGTH }>().ok_or(Refused::Malformed)?;
    let [kind, code, _, _, a, b, c, d] = *head;
    let has_length = matches!(kind, 1 | 3) && a != 0;
    let word = u32::from_be_bytes([a, b, c, d]);
    let (new, is_error) = icmp::of_icmp6(Head { kind, code, word })?;
    let (ip, body) = out.split_at_mut_checked(ipv4::LENGTH).ok_or(Refused::TooLong)?;
    let at = body.get_mut(..icmp4::LENGTH).ok_or(Refused::TooLong)?;
    at.copy_from_slice(&upper::icmp_head(new));
    let rest_out = &mut body[icmp4::LENGTH..];
    let rest_length = if is_error {
        // The objects of RFC 4884 behind the quoted packet are left out.
        let inner = if has_length { rest.get(..usize::from(a) * 8).unwrap_or(rest) } else { rest };
        let most = icmp4::MOST_QUOTED.min(rest_out.len());
        inner_packet(inner, quoted, &mut rest_out[..most])?
    } else {
        rest_out.get_mut(..rest.len()).ok_or(Refused::TooLong)?.copy_from_slice(rest);
        rest.len()
    };
    let length = icmp4::LENGTH + rest_length;
    if is_error {
        let total = (ipv4::LENGTH + length) as u16;
        header.bytes[2..4].copy_from_slice(&total.to_be_bytes());
        seal(&mut header.bytes);
    }
    ip.copy_from_slice(&header.bytes);
    let (source, destination) = ends(packet);
    let pseudo = Pseudo::Ip6 { source, destination }.sum(protocol::ICMP6, message.len());
    // An error is made anew; of others a wrong checksum stays wrong.
    let sum = match is_error {
        true => checksum::sum(&body[..length]),
        false => upper::query_sum(message, new) + upper::less(pseudo),
    };
    body[2..4].copy_from_slice(&checksum::finish(sum).to_be_bytes());
    Ok(ipv4::LENGTH + length)
}

/// The packet that an error quotes, cut where the place for it ends.
fn inner_packet(
    packet: &[u8],
    quoted: impl Fn(Ends6) -> Option<Ends4>,
    out: &mut [u8],
) -> Result<usize, Refused> {
    if packet.len() < ipv6::LENGTH {
        return Err(Refused::QuotedTruncated);
    }
    if packet[0] >> 4 != 6 {
        return Err(Refused::QuotedMalformed);
    }
    let old = ends(packet);
    let new = quoted(old).ok_or(Refused::Quoted)?;
    let header = header(packet, new, 0, true).map_err(of_quoted)?;
    let rest = packet.get(header.upper..header.end).ok_or(Refused::QuotedMalformed)?;
    let (ip, upper) = out.split_at_mut_checked(ipv4::LENGTH).ok_or(Refused::TooLong)?;
    ip.copy_from_slice(&header.bytes);
    let length = rest.len().min(upper.len());
    let upper = &mut upper[..length];
    upper.copy_from_slice(&rest[..length]);
    if header.is_later {
        return Ok(ipv4::LENGTH + length);
    }
    if header.protocol == protocol::ICMP6 {
        let of = |head| match icmp::of_icmp6(head) {
            Ok((new, false)) => Ok(new),
            _ => Err(Refused::Icmp),
        };
        let total = u16::from_be_bytes([header.bytes[2], header.bytes[3]]);
        let upper_length = usize::from(total) - ipv4::LENGTH;
        let pseudo = Pseudo::Ip6 { source: old.0, destination: old.1 };
        let pseudo = pseudo.sum(protocol::ICMP6, upper_length);
        upper::quoted_query(upper, of, upper::less(pseudo))?;
    } else {
        upper::correct(upper, header.protocol, Change::back(old, new).sum);
    }
    Ok(ipv4::LENGTH + length)
}
