//! Checksums of the upper layer, corrected by the difference (RFC 1624): a wrong one stays wrong.

use super::icmp::Head;
use super::{Ends4, Ends6, Refused};
use crate::checksum::{finish, fold, sum};
use crate::protocol::{DCCP, TCP, UDP, UDP_LITE};
use crate::{icmp4, udp};

/// What goes from the sum of a packet, and what comes.
pub(super) struct Change {
    pub(super) sum: u32,
}

fn of4((source, destination): Ends4) -> u32 {
    sum(&source.octets()) + sum(&destination.octets())
}

fn of6((source, destination): Ends6) -> u32 {
    sum(&source.octets()) + sum(&destination.octets())
}

/// The sum that takes another one away.
pub(super) fn less(sum: u32) -> u32 {
    u32::from(!fold(sum))
}

impl Change {
    /// From IPv4 to IPv6.
    pub(super) fn between(old: Ends4, new: Ends6) -> Self {
        Self { sum: less(of4(old)) + of6(new) }
    }

    /// From IPv6 to IPv4.
    pub(super) fn back(old: Ends6, new: Ends4) -> Self {
        Self { sum: less(of6(old)) + of4(new) }
    }
}

/// Corrects the checksum of a protocol whose pseudo-header changes, if the bytes have it. Other protocols have none, or
/// one without a pseudo-header.
pub(super) fn correct(upper: &mut [u8], protocol: u8, by: u32) {
    let (at, has_zero) = match protocol {
        TCP => (16, true),
        DCCP => (6, true),
        UDP | UDP_LITE => (6, false),
        _ => return,
    };
    let Some(field) = upper.get_mut(at..).and_then(|it| it.first_chunk_mut::<2>()) else { return };
    let old = u16::from_be_bytes(*field);
    if old == 0 && !has_zero {
        // There is none (UDP), or it is wrong and stays so (UDP-Lite).
        return;
    }
    let new = finish(u32::from(!old) + by);
    let new = if has_zero { new } else { udp::transmitted(new) };
    *field = new.to_be_bytes();
}

/// The first bytes of a message, without its checksum.
pub(super) fn icmp_head(head: Head) -> [u8; icmp4::LENGTH] {
    let [a, b, c, d] = head.word.to_be_bytes();
    [head.kind, head.code, 0, 0, a, b, c, d]
}

/// The sum of a query with another type and code.
pub(super) fn query_sum(message: &[u8], new: Head) -> u32 {
    let word =
        |at: usize| message.get(at..at + 2).map_or(0, |it| u16::from_be_bytes([it[0], it[1]]));
    u32::from(!word(2)) + u32::from(!word(0)) + (u32::from(new.kind) << 8 | u32::from(new.code))
}

/// Gives a quoted query another type. `of`: which one; `pseudo`: what its sum changes by. The checksum may be cut.
pub(super) fn quoted_query(
    upper: &mut [u8],
    of: impl Fn(Head) -> Result<Head, Refused>,
    pseudo: u32,
) -> Result<(), Refused> {
    let Some([kind, code]) = upper.first_chunk::<2>().copied() else { return Ok(()) };
    let new = of(Head { kind, code, word: 0 })?;
    let value = finish(query_sum(upper, new) + pseudo);
    if let Some(field) = upper.get_mut(2..4) {
        field.copy_from_slice(&value.to_be_bytes());
    }
    upper[..2].copy_from_slice(&[new.kind, new.code]);
    Ok(())
}
