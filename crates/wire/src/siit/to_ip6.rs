//! IPv4 packets as IPv6 packets (RFC 7915 section 4).

use super::icmp::{self, Head};
use super::upper::{self, Change};
use super::{Ends4, Ends6, Refused, of_quoted};
use crate::checksum::Pseudo;
use crate::ipv6_extensions::{FRAGMENT_LENGTH, is_extension};
use crate::{checksum, icmp4, icmp6, ipv4, ipv6, protocol, udp};

/// Options of source routes (RFC 791 section 3.1).
const SOURCE_ROUTES: [u8; 2] = [131, 137];

/// The IPv6 header, with a fragment header if the packet is a fragment, that replaces an IPv4 one.
struct Header {
    bytes: [u8; ipv6::LENGTH + FRAGMENT_LENGTH],
    length: usize,
    /// Bytes of the IPv4 header.
    replaced: usize,
    /// The end of the IPv4 packet.
    end: usize,
    /// The protocol of IPv4.
    protocol: u8,
    is_fragment: bool,
    is_later: bool,
}

/// The addresses of an IPv4 packet.
fn ends(header: &[u8; ipv4::LENGTH]) -> Ends4 {
    let [.., a, b, c, d, e, f, g, h] = *header;
    ([a, b, c, d].into(), [e, f, g, h].into())
}

/// Whether a source route has addresses left: where it is.
fn open_source_route(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(kind) = options.get(at) {
        match kind {
            0 => return None,
            1 => at += 1,
            kind => {
                let length = usize::from(*options.get(at + 1)?);
                let pointer = usize::from(options.get(at + 2).copied().unwrap_or(0));
                if SOURCE_ROUTES.contains(kind) && pointer <= length {
                    return Some(ipv4::LENGTH + at);
                }
                at += length.max(2);
            }
        }
    }
    None
}

/// `is_quoted`: the packet may be cut behind its header.
fn header(packet: &[u8], (source, destination): Ends6, is_quoted: bool) -> Result<Header, Refused> {
    let old = packet.first_chunk::<{ ipv4::LENGTH }>().ok_or(Refused::Malformed)?;
    let word = |at: usize| u16::from_be_bytes([old[at], old[at + 1]]);
    let (replaced, total) = (usize::from(old[0] & 0xf) * 4, usize::from(word(2)));
    let end = if is_quoted { total.min(packet.len()) } else { total };
    if old[0] >> 4 != 4 || replaced < ipv4::LENGTH || end < replaced || packet.len() < end {
        return Err(Refused::Malformed);
    }
    let options = packet.get(ipv4::LENGTH..replaced).unwrap_or(&[]);
    if let Some(at) = open_source_route(options).filter(|_| !is_quoted) {
        return Err(Refused::SourceRoute(at));
    }
    let (fragment, protocol) = (word(6), old[9]);
    let is_later = fragment & ipv4::OFFSET_MASK != 0;
    let is_fragment = fragment & (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK) != 0;
    let is_icmp = protocol == protocol::ICMP4;
    if is_fragment && is_icmp && !is_quoted {
        return Err(Refused::IcmpFragment);
    }
    // As IPv6 they would be other headers than the sender and access lists of IPv4 have seen: RFC 7915 section 4.1
    // copies the number of any protocol.
    match protocol {
        protocol::ICMP6 if !is_quoted => return Err(Refused::Icmp),
        protocol::NO_NEXT_HEADER if !is_quoted => return Err(Refused::Extension),
        other if is_extension(other) && !is_quoted => return Err(Refused::Extension),
        _ => {}
    }
    let next = if is_icmp { protocol::ICMP6 } else { protocol };
    let mut bytes = [0; ipv6::LENGTH + FRAGMENT_LENGTH];
    let extra = if is_fragment { FRAGMENT_LENGTH } else { 0 };
    let payload = u16::try_from(total - replaced + extra).map_err(|_| Refused::TooLong)?;
    bytes[..2].copy_from_slice(&[0x60 | old[1] >> 4, old[1] << 4]);
    bytes[4..6].copy_from_slice(&payload.to_be_bytes());
    bytes[6] = if is_fragment { protocol::FRAGMENT } else { next };
    bytes[7] = old[8];
    bytes[8..24].copy_from_slice(&source.octets());
    bytes[24..40].copy_from_slice(&destination.octets());
    if is_fragment {
        bytes[40] = next;
        let more = fragment >> 13 & 1;
        bytes[42..44].copy_from_slice(&(fragment << 3 | more).to_be_bytes());
        bytes[46..48].copy_from_slice(&old[4..6]);
    }
    let length = ipv6::LENGTH + extra;
    Ok(Header { bytes, length, replaced, end, protocol, is_fragment, is_later })
}

/// Writes the IPv6 packet of an IPv4 one; returns its length. `ends`: its addresses. `quoted`: those of a packet that
/// an ICMP error quotes, by its IPv4 ones. Hop limit and TTL are equal: the caller decrements. Packets that become too
/// long are the caller's matter, also those without DF above 1,280 bytes.
///
/// # Errors
/// Why it has no translation.
pub fn to_ip6(
    packet: &[u8],
    ends: Ends6,
    quoted: impl Fn(Ends4) -> Option<Ends6>,
    out: &mut [u8],
) -> Result<usize, Refused> {
    let header = header(packet, ends, false)?;
    let payload = packet.get(header.replaced..header.end).ok_or(Refused::Malformed)?;
    if header.protocol == protocol::ICMP4 {
        return message(&header, payload, ends, quoted, out);
    }
    let length = header.length + payload.len();
    let out = out.get_mut(..length).ok_or(Refused::TooLong)?;
    let (head, upper) = out.split_at_mut(header.length);
    head.copy_from_slice(&header.bytes[..header.length]);
    upper.copy_from_slice(payload);
    if !header.is_later {
        let change = Change::between(old_ends(packet), ends);
        fix(upper, &header, change, ends)?;
    }
    Ok(length)
}

fn old_ends(packet: &[u8]) -> Ends4 {
    packet.first_chunk().map_or((0.into(), 0.into()), ends)
}

/// Corrects the checksum of the upper layer; computes that of UDP if there is none (RFC 7915 section 4.5).
fn fix(
    upper: &mut [u8],
    header: &Header,
    change: Change,
    (source, destination): Ends6,
) -> Result<(), Refused> {
    let has_none = header.protocol == protocol::UDP && upper.get(6..8) == Some(&[0, 0]);
    if !has_none {
        upper::correct(upper, header.protocol, change.sum);
        return Ok(());
    }
    if header.is_fragment {
        return Err(Refused::NoChecksum);
    }
    // Bytes may follow the datagram.
    let length = upper.get(4..6).map_or(0, |it| usize::from(u16::from_be_bytes([it[0], it[1]])));
    let datagram = upper.get(..length).filter(|it| it.len() >= udp::LENGTH);
    let datagram = datagram.ok_or(Refused::Malformed)?;
    let pseudo = Pseudo::Ip6 { source, destination }.sum(protocol::UDP, length);
    let value = udp::transmitted(checksum::finish(checksum::sum(datagram) + pseudo));
    if let Some(field) = upper.get_mut(6..8) {
        field.copy_from_slice(&value.to_be_bytes());
    }
    Ok(())
}

/// An ICMP message.
fn message(
    header: &Header,
    message: &[u8],
    (source, destination): Ends6,
    quoted: impl Fn(Ends4) -> Option<Ends6>,
    out: &mut [u8],
) -> Result<usize, Refused> {
    let (head, rest) =
        message.split_first_chunk::<{ icmp4::LENGTH }>().ok_or(Refused::Malformed)?;
    let [kind, code, _, _, a, b, c, d] = *head;
    let about = rest.get(2..4).map_or(0, |it| u16::from_be_bytes([it[0], it[1]]));
    let word = u32::from_be_bytes([a, b, c, d]);
    let (new, is_error) = icmp::of_icmp4(Head { kind, code, word }, about)?;
    let (ip, body) = out.split_at_mut_checked(header.length).ok_or(Refused::TooLong)?;
    let at = body.get_mut(..icmp6::LENGTH).ok_or(Refused::TooLong)?;
    at.copy_from_slice(&upper::icmp_head(new));
    let rest_out = &mut body[icmp6::LENGTH..];
    let rest_length = if is_error {
        // The objects of RFC 4884 behind the quoted packet are left out.
        let inner = match usize::from(b) * 4 {
            0 => rest,
            _ if !matches!(kind, 3 | 11 | 12) => rest,
            length => rest.get(..length).unwrap_or(rest),
        };
        let most = ipv6::LEAST_MTU - header.length - icmp6::LENGTH;
        let most = most.min(rest_out.len());
        inner_packet(inner, quoted, &mut rest_out[..most])?
    } else {
        rest_out.get_mut(..rest.len()).ok_or(Refused::TooLong)?.copy_from_slice(rest);
        rest.len()
    };
    let length = icmp6::LENGTH + rest_length;
    ip.copy_from_slice(&header.bytes[..header.length]);
    ip[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    let pseudo = Pseudo::Ip6 { source, destination }.sum(protocol::ICMP6, length);
    // An error is made anew; of others a wrong checksum stays wrong.
    let sum = if is_error {
        checksum::sum(&body[..length]) + pseudo
    } else {
        upper::query_sum(message, new) + pseudo
    };
    body[2..4].copy_from_slice(&checksum::finish(sum).to_be_bytes());
    Ok(header.length + length)
}

/// The packet that an error quotes, cut where the place for it ends.
fn inner_packet(
    packet: &[u8],
    quoted: impl Fn(Ends4) -> Option<Ends6>,
    out: &mut [u8],
) -> Result<usize, Refused> {
    if packet.len() < ipv4::LENGTH {
        return Err(Refused::QuotedTruncated);
    }
    if packet[0] >> 4 != 4 {
        return Err(Refused::QuotedMalformed);
    }
    let old = old_ends(packet);
    let ends = quoted(old).ok_or(Refused::Quoted)?;
    let header = header(packet, ends, true).map_err(of_quoted)?;
    let rest = packet.get(header.replaced..header.end).ok_or(Refused::QuotedMalformed)?;
    let (ip, upper) = out.split_at_mut_checked(header.length).ok_or(Refused::TooLong)?;
    ip.copy_from_slice(&header.bytes[..header.length]);
    let length = rest.len().min(upper.len());
    let upper = &mut upper[..length];
    upper.copy_from_slice(&rest[..length]);
    if header.is_later {
        return Ok(header.length + length);
    }
    if header.protocol == protocol::ICMP4 {
        let of = |head| match icmp::of_icmp4(head, 0) {
            Ok((new, false)) => Ok(new),
            _ => Err(Refused::Icmp),
        };
        let total = u16::from_be_bytes([header.bytes[4], header.bytes[5]]).into();
        let pseudo = Pseudo::Ip6 { source: ends.0, destination: ends.1 };
        upper::quoted_query(upper, of, pseudo.sum(protocol::ICMP6, total))?;
    } else {
        let is_bare = header.protocol == protocol::UDP && upper.get(6..8) == Some(&[0, 0]);
        if !is_bare {
            upper::correct(upper, header.protocol, Change::between(old, ends).sum);
        }
    }
    Ok(header.length + length)
}
