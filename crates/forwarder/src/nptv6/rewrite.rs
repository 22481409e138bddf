//! Addresses of packets, and of packets that ICMPv6 errors quote. The sums stay the same, so checksums do.

use stoa_wire::{icmp6, ipv6, protocol};

/// Where the source of an IPv6 header is.
pub(super) const SOURCE: usize = 8;
/// Where the destination is.
pub(super) const DESTINATION: usize = 24;
/// The byte of the next header.
const NEXT_HEADER: usize = 6;

/// The address at an offset; 0 where the bytes end before.
#[inline(always)]
pub(super) fn address(bytes: &[u8], at: usize) -> u128 {
    let of = bytes.get(at..).and_then(|it| it.first_chunk::<16>());
    of.map_or(0, |it| u128::from_be_bytes(*it))
}

/// Writes an address at an offset.
#[inline(always)]
pub(super) fn write(bytes: &mut [u8], at: usize, address: u128) {
    if let Some(field) = bytes.get_mut(at..).and_then(|it| it.first_chunk_mut::<16>()) {
        *field = address.to_be_bytes();
    }
}

/// Replaces an address by another one, if there is one.
pub(super) fn exchange(bytes: &mut [u8], at: usize, by: impl Fn(u128) -> Option<u128>) -> bool {
    let new = by(address(bytes, at));
    new.is_some_and(|new| {
        write(bytes, at, new);
        true
    })
}

/// Whether the packet can be an ICMPv6 error: most are TCP or UDP, which one comparison says.
#[inline(always)]
pub(super) fn may_be_error(bytes: &[u8]) -> bool {
    !matches!(bytes.get(NEXT_HEADER), Some(&(protocol::TCP | protocol::UDP)))
}

/// Where the packet begins that an ICMPv6 error quotes; `None`: it is none, or not whole.
#[cold]
#[inline(never)]
pub(super) fn quoted(bytes: &[u8]) -> Option<usize> {
    icmp6::quoted_at(bytes).filter(|at| bytes.len() >= at + ipv6::LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_packet_is_found_behind_extensions() {
        let mut packet = vec![0; 40];
        packet[0] = 0x60;
        packet[NEXT_HEADER] = 0;
        packet.extend([58, 0, 1, 4, 0, 0, 0, 0]);
        packet.extend([3, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend([0; 48]);
        let length = packet.len() as u16 - 40;
        packet[4..6].copy_from_slice(&length.to_be_bytes());
        assert_eq!(quoted(&packet), Some(56));
        packet[48] = 128;
        assert_eq!(quoted(&packet), None);
        assert_eq!(quoted(&packet[..30]), None);
        assert!(may_be_error(&packet));
        packet[NEXT_HEADER] = protocol::UDP;
        assert!(!may_be_error(&packet));
    }
}
