//! Segments that ICMP errors quote.

use stoa_wire::checksum::update32;

use super::fields::{Kind, Place};

/// Bytes of an ICMP error before the packet that it quotes.
const ICMP: usize = 8;

/// An ICMP error quotes a segment as its receiver has seen it: it gets the number that its sender knows. `by`: how much
/// was added on the way.
#[cold]
pub fn unshift(bytes: &mut [u8], (kind, place): (Kind, Place), by: u32) {
    let Some(message) = bytes.get_mut(usize::from(place.upper())..) else { return };
    let inner = match (message.get(ICMP), kind.is_ip6()) {
        (Some(first), false) => usize::from(first & 0xf).max(5) * 4,
        // With a fragment header (RFC 8200 section 4.5), which only a first fragment has here.
        (_, true) if message.get(ICMP + 6) == Some(&stoa_wire::protocol::FRAGMENT) => 48,
        (_, true) => 40,
        (None, _) => return,
    };
    let at = ICMP + inner + 4;
    let Some(number) = message.get(at..).and_then(|it| it.first_chunk::<4>()) else { return };
    let old = u32::from_be_bytes(*number);
    let new = old.wrapping_sub(by);
    let checksum = update32(u16::from_be_bytes([message[2], message[3]]), old, new);
    message[at..at + 4].copy_from_slice(&new.to_be_bytes());
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
}
