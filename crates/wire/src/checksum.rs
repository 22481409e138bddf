//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624): IPv4, ICMP, UDP, TCP.
//!
//! Two kinds of number are kept apart: a **sum** (`u32`) still grows and sums of parts are
//! added with `+`; a **checksum** (`u16`) is the complement that stands in the packet. Both are
//! values of the big-endian words, so `u16` here is what `U16::get` returns.

use core::net::{Ipv4Addr, Ipv6Addr};

/// The one's complement sum of `bytes` as big-endian 16-bit words, at most 0xffff.
///
/// Sums of parts add up with `+` as long as every part but the last has an even length; 65,537
/// parts fit a `u32`. A trailing odd byte counts as the high half of a word (RFC 1071 section 1).
/// The result is 0 only when every byte is 0. `bytes` must be shorter than 16 GiB.
#[inline]
pub fn sum(bytes: &[u8]) -> u32 {
    // Words of any width and of the machine's own order give the same sum, its two bytes
    // swapped at most (RFC 1071 section 2 (B) and (C)): the swap is made once at the end.
    let (words, tail) = bytes.as_chunks::<8>();
    let mut total: u64 = 0;
    for word in words {
        let word = u64::from_ne_bytes(*word);
        total += (word & 0xffff_ffff) + (word >> 32);
    }
    let mut tail = tail;
    if let Some((word, rest)) = tail.split_first_chunk::<4>() {
        total += u64::from(u32::from_ne_bytes(*word));
        tail = rest;
    }
    if let Some((word, rest)) = tail.split_first_chunk::<2>() {
        total += u64::from(u16::from_ne_bytes(*word));
        tail = rest;
    }
    if let Some(last) = tail.first() {
        total += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    from_native(total)
}

/// [`sum`] of an IPv4 header without options, with no loop.
#[inline]
pub fn sum20(header: &[u8; 20]) -> u32 {
    let mut total: u64 = 0;
    for word in header.as_chunks::<4>().0 {
        total += u64::from(u32::from_ne_bytes(*word));
    }
    from_native(total)
}

/// Folds a sum in the machine's byte order to 16 bits and puts it into big-endian order.
#[inline]
fn from_native(total: u64) -> u32 {
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff) + (total >> 16);
    let total = (total & 0xffff) + (total >> 16);
    let total = (total & 0xffff) + (total >> 16);
    u32::from(u16::from_be(total as u16))
}

/// Folds a sum into 16 bits by adding the carries back.
#[inline]
pub const fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

/// The checksum of `bytes`, whose checksum field must hold 0.
#[inline]
pub fn ones_complement(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

/// The checksum that a sum leads to.
#[inline]
pub const fn finish(sum: u32) -> u16 {
    !fold(sum)
}

/// Whether a sum that includes the checksum field is right.
#[inline]
pub const fn is_valid(sum: u32) -> bool {
    fold(sum) == 0xffff
}

/// The checksum after the 16-bit word `old` became `new` (RFC 1624 section 3, equation 3).
///
/// Equal to recomputing it, but for data that becomes all zeroes: that gives 0 where 0xffff is
/// right. No header with a version is so, nor a message with a pseudo-header.
#[inline]
pub const fn update16(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(!checksum as u32 + !old as u32 + new as u32)
}

/// The checksum after the 32-bit word `old`, at an even offset, became `new`: see [`update16`].
#[inline]
pub const fn update32(checksum: u16, old: u32, new: u32) -> u16 {
    let removed = (!old >> 16) + (!old & 0xffff);
    let added = (new >> 16) + (new & 0xffff);
    !fold(!checksum as u32 + removed + added)
}

/// The IPv4 header checksum after the time to live went down by one.
///
/// The word that holds the time to live falls by 0x0100 whatever it was, so the old value is not
/// needed. The caller has made sure that the time to live was not 0.
///
/// The checksum grows by 0x0100, with the end-around carry of the complement: of a sum, 0xffff
/// stays; of a checksum, it becomes 0 (RFC 1624 section 3).
#[inline]
pub const fn ttl_decremented(checksum: u16) -> u16 {
    let grown = checksum as u32 + 0x100;
    (grown + (grown >= 0xffff) as u32) as u16
}

/// The sum of the pseudo-header for `length` bytes of `protocol` over IPv4 (RFC 9293 section 3.1).
#[inline]
pub fn pseudo4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length: u16) -> u32 {
    let (source, destination) = (source.to_bits(), destination.to_bits());
    (source >> 16)
        + (source & 0xffff)
        + (destination >> 16)
        + (destination & 0xffff)
        + u32::from(protocol)
        + u32::from(length)
}

/// The sum of the pseudo-header for `length` bytes of `protocol` over IPv6 (RFC 8200 section 8.1).
///
/// With a routing header, `destination` is the final one.
#[inline]
pub fn pseudo6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, length: u32) -> u32 {
    sum(&source.octets())
        + sum(&destination.octets())
        + (length >> 16)
        + (length & 0xffff)
        + u32::from(protocol)
}

/// The addresses between which a TCP, UDP or ICMPv6 message travels: its checksum covers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pseudo {
    /// Over IPv4.
    Ip4 {
        /// Address of the sender.
        source: Ipv4Addr,
        /// Address of the receiver.
        destination: Ipv4Addr,
    },
    /// Over IPv6.
    Ip6 {
        /// Address of the sender.
        source: Ipv6Addr,
        /// Address of the final receiver.
        destination: Ipv6Addr,
    },
}

impl Pseudo {
    /// The sum of the pseudo-header for a message of `length` bytes (header and data).
    ///
    /// Over IPv4, no message is longer than 65,535 bytes: the high half of `length` is added all
    /// the same, as IPv6 does.
    #[inline]
    pub fn sum(&self, protocol: u8, length: usize) -> u32 {
        let length = length as u32;
        match *self {
            Self::Ip4 { source, destination } => {
                pseudo4(source, destination, protocol, length as u16) + (length >> 16)
            }
            Self::Ip6 { source, destination } => pseudo6(source, destination, protocol, length),
        }
    }

    /// Whether the message travels over IPv6, where a UDP checksum is a duty.
    #[inline]
    pub const fn is_ip6(&self) -> bool {
        matches!(self, Self::Ip6 { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 as it reads: one big-endian word after the other, carry added at once.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u32::from(u16::from_be_bytes([pair[0], low]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn rfc1071_section_3_example() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes)), 0xddf2);
        assert_eq!(ones_complement(&bytes), 0x220d);
    }

    #[test]
    fn rfc1624_section_4_example() {
        assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn edges() {
        assert_eq!(sum(&[]), 0);
        assert_eq!(ones_complement(&[]), 0xffff);
        assert_eq!(sum(&[0; 33]), 0);
        assert_eq!(sum(&[0xff; 65_536]), 0xffff);
        assert_eq!(sum(&[0xab]), 0xab00);
        assert_eq!(fold(u32::MAX), 0xffff);
        assert_eq!(ttl_decremented(0xfeff), 0x0000);
        assert_eq!(ttl_decremented(0xffff), 0x0100);
    }

    #[test]
    fn ttl_decremented_is_equation_3_for_every_checksum() {
        for checksum in 0..=u16::MAX {
            assert_eq!(ttl_decremented(checksum), update16(checksum, 0x4011, 0x3f11));
        }
    }

    proptest! {
        #[test]
        fn sum_is_the_naive_sum(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
            prop_assert_eq!(sum(&bytes), u32::from(naive(&bytes)));
            for length in 0..bytes.len().min(40) {
                prop_assert_eq!(sum(&bytes[..length]), u32::from(naive(&bytes[..length])));
            }
        }

        #[test]
        fn sum20_is_sum(header: [u8; 20]) {
            prop_assert_eq!(sum20(&header), sum(&header));
        }

        #[test]
        fn parts_add_up(bytes in prop::collection::vec(any::<u8>(), 0..512), at: prop::sample::Index) {
            let at = at.index(bytes.len() + 1) & !1;
            let parts = sum(&bytes[..at]) + sum(&bytes[at..]);
            prop_assert_eq!(fold(parts), naive(&bytes));
        }

        #[test]
        fn checksum_makes_the_sum_valid(mut bytes in prop::collection::vec(any::<u8>(), 2..256)) {
            bytes[..2].fill(0);
            let checksum = ones_complement(&bytes);
            bytes[..2].copy_from_slice(&checksum.to_be_bytes());
            prop_assert!(is_valid(sum(&bytes)));
        }

        #[test]
        fn update16_is_recomputing(mut data: [u8; 20], at in 1usize..10, new: u16) {
            data[0] = 0x45;
            let old = u16::from_be_bytes([data[2 * at], data[2 * at + 1]]);
            let before = ones_complement(&data);
            data[2 * at..][..2].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update16(before, old, new), ones_complement(&data));
        }

        #[test]
        fn update32_is_recomputing(mut data: [u8; 20], at in 1usize..9, new: u32) {
            data[0] = 0x45;
            let at = 2 * at;
            let old = u32::from_be_bytes(data[at..at + 4].try_into().unwrap());
            let before = ones_complement(&data);
            data[at..at + 4].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update32(before, old, new), ones_complement(&data));
        }

        #[test]
        fn ttl_decremented_is_recomputing(mut header: [u8; 20], ttl in 1u8..) {
            header[0] = 0x45;
            header[8] = ttl;
            let before = ones_complement(&header);
            header[8] -= 1;
            prop_assert_eq!(ttl_decremented(before), ones_complement(&header));
        }

        #[test]
        fn pseudo_headers_are_their_bytes(
            source: [u8; 16], destination: [u8; 16], protocol: u8, length in 0usize..=65_535,
        ) {
            let length16 = (length as u16).to_be_bytes();
            let (source4, destination4): ([u8; 4], [u8; 4]) =
                (source[..4].try_into().unwrap(), destination[..4].try_into().unwrap());
            let bytes = [&source4[..], &destination4, &[0, protocol], &length16].concat();
            let pseudo =
                Pseudo::Ip4 { source: source4.into(), destination: destination4.into() };
            prop_assert_eq!(fold(pseudo.sum(protocol, length)), naive(&bytes));
            prop_assert!(!pseudo.is_ip6());

            let length = length * 3;
            let length32 = (length as u32).to_be_bytes();
            let bytes = [&source[..], &destination, &length32, &[0, 0, 0, protocol]].concat();
            let pseudo = Pseudo::Ip6 { source: source.into(), destination: destination.into() };
            prop_assert_eq!(fold(pseudo.sum(protocol, length)), naive(&bytes));
            prop_assert!(pseudo.is_ip6());
        }
    }
}
