//! The two address families for benchmarks: parsing, and the prefix lengths of real tables.

use std::net::IpAddr;

use stoa_tables::lpm::Key;

use crate::random::Random;

/// An address family, as the forwarding table stores it.
pub trait Family: Key + 'static {
    /// `IPv4` or `IPv6`.
    const NAME: &'static str;
    /// The most synthetic prefixes with realistic lengths.
    const SYNTHETIC_MAX: usize;

    /// The address, if it is of this family.
    fn of(address: IpAddr) -> Option<Self>;
    /// The address as a standard type.
    fn address(self) -> IpAddr;
    /// The address with these low bits.
    fn bits(bits: u128) -> Self;
    /// Its bits as a number.
    fn number(self) -> u128;
    /// A random address.
    fn anywhere(random: &mut Random) -> Self;
    /// A random prefix of a usual length.
    fn synthetic(random: &mut Random) -> (Self, u8);

    /// The address with all bits after `len` cleared.
    fn cut(self, len: u8) -> Self {
        Self::bits(self.number() & !low(Self::BITS - len))
    }

    /// An address that `self/len` covers.
    fn inside(self, len: u8, random: &mut Random) -> Self {
        let host = u128::from(random.next()) << 64 | u128::from(random.next());
        Self::bits(self.number() | host & low(Self::BITS - len))
    }
}

/// `count` ones.
fn low(count: u8) -> u128 {
    u128::MAX.checked_shr(128 - u32::from(count)).unwrap_or(0)
}

/// A length drawn by its share per thousand.
fn length(per_mille: &[(u8, u16)], random: &mut Random) -> u8 {
    let mut at = random.below(1000) as u16;
    for (len, share) in per_mille {
        if at < *share {
            return *len;
        }
        at -= share;
    }
    per_mille.last().map_or(0, |(len, _)| *len)
}

/// Prefix lengths in the Internet's IPv4 table of 2023, per thousand.
const LENGTHS4: [(u8, u16); 14] = [
    (24, 596),
    (22, 120),
    (23, 107),
    (21, 56),
    (20, 47),
    (19, 28),
    (16, 15),
    (18, 15),
    (17, 9),
    (15, 2),
    (32, 2),
    (14, 1),
    (13, 1),
    (12, 1),
];

/// Prefix lengths in the Internet's IPv6 table of 2023, per thousand.
const LENGTHS6: [(u8, u16); 24] = [
    (48, 471),
    (32, 141),
    (44, 90),
    (40, 84),
    (36, 37),
    (29, 27),
    (47, 20),
    (46, 19),
    (33, 18),
    (34, 16),
    (42, 14),
    (45, 10),
    (38, 10),
    (39, 9),
    (35, 7),
    (43, 6),
    (41, 6),
    (37, 5),
    (30, 4),
    (31, 2),
    (28, 1),
    (64, 1),
    (127, 1),
    (24, 1),
];

impl Family for u32 {
    const NAME: &'static str = "IPv4";
    const SYNTHETIC_MAX: usize = 6_000_000;

    fn of(address: IpAddr) -> Option<Self> {
        if let IpAddr::V4(address) = address { Some(address.to_bits()) } else { None }
    }
    fn address(self) -> IpAddr {
        IpAddr::V4(self.into())
    }
    fn bits(bits: u128) -> Self {
        bits as u32
    }
    fn number(self) -> u128 {
        self.into()
    }
    fn anywhere(random: &mut Random) -> Self {
        random.next() as u32
    }
    fn synthetic(random: &mut Random) -> (Self, u8) {
        let len = length(&LENGTHS4, random);
        loop {
            let address = 1 << 24 | random.below(223 << 24) as u32;
            // Excludes loopback, link-local and benchmark networks (RFC 2544), and the /7 blocks
            // that cover them.
            if !matches!(address >> 24, 0 | 126 | 127 | 168 | 169 | 198 | 199) {
                return (address.cut(len), len);
            }
        }
    }
}

impl Family for u128 {
    const NAME: &'static str = "IPv6";
    const SYNTHETIC_MAX: usize = 1_000_000;

    fn of(address: IpAddr) -> Option<Self> {
        if let IpAddr::V6(address) = address { Some(address.to_bits()) } else { None }
    }
    fn address(self) -> IpAddr {
        IpAddr::V6(self.into())
    }
    fn bits(bits: u128) -> Self {
        bits
    }
    fn number(self) -> u128 {
        self
    }
    /// In 2000::/3, the only allocated range (RFC 4291, section 2.4).
    fn anywhere(random: &mut Random) -> Self {
        1 << 125 | (u128::from(random.next()) << 64 | u128::from(random.next())) >> 3
    }
    fn synthetic(random: &mut Random) -> (Self, u8) {
        let len = length(&LENGTHS6, random);
        // 64 Ki allocations of /29, the size that registries allocate.
        let block = 0x2a00_0000 + random.below(1 << 16) as u128 * 8;
        let below = u128::from(random.next()) << 35 | u128::from(random.next());
        ((block << 96 | below & low(99)).cut(len), len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_shares_sum_to_a_thousand() {
        assert_eq!(LENGTHS4.iter().map(|(_, share)| share).sum::<u16>(), 1000);
        assert_eq!(LENGTHS6.iter().map(|(_, share)| share).sum::<u16>(), 1000);
    }
}
