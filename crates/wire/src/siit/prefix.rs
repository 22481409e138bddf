//! IPv4 addresses in IPv6 prefixes (RFC 6052 section 2.2).

use core::net::{Ipv4Addr, Ipv6Addr};

/// A prefix for IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    network: u128,
    length: u8,
}

/// Bits 64 to 71, which are 0 in each such address.
const U: u128 = 0xff << 56;

impl Prefix {
    /// The lengths that a prefix can have.
    pub const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];
    /// The well-known one, 64:ff9b::/96 (RFC 6052 section 2.1).
    pub const WELL_KNOWN: Self = Self { network: 0x64_ff9b << 96, length: 96 };

    /// A prefix; `None`: another length, host bits, or bits 64 to 71 that are not 0.
    pub fn new(network: Ipv6Addr, length: u8) -> Option<Self> {
        let it = Self { network: network.to_bits(), length };
        let is_right =
            Self::LENGTHS.contains(&length) && it.network & !it.mask() == 0 && it.network & U == 0;
        is_right.then_some(it)
    }

    /// Its first address.
    pub const fn network(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.network)
    }

    /// Its length.
    pub const fn length(self) -> u8 {
        self.length
    }

    const fn mask(self) -> u128 {
        u128::MAX << (128 - self.length)
    }

    /// The bits that are those of [`Self::network`] in each of its addresses.
    pub const fn fixed(self) -> u128 {
        self.mask() | if self.length == 96 { 0 } else { U }
    }

    /// Whether it may stand for an IPv4 address: the well-known one is for global addresses alone (RFC 6052 section
    /// 3.1).
    pub const fn may_have(self, address: Ipv4Addr) -> bool {
        let [a, b, c, _] = address.octets();
        let is_shared = a == 100 && b & 0xc0 == 64;
        let is_special = a == 192 && b == 0 && c == 0 || a == 198 && b & 0xfe == 18;
        let is_well_known = self.length == 96 && self.network == Self::WELL_KNOWN.network;
        !is_well_known
            || !(address.is_private() || address.is_documentation() || is_shared || is_special)
    }

    /// The IPv6 address of an IPv4 one: its bits behind the prefix, with bits 64 to 71 left out, and then zeros.
    #[inline]
    pub fn embed(self, address: Ipv4Addr) -> Ipv6Addr {
        let bits = u128::from(address.to_bits());
        let behind = match self.length {
            96 => bits,
            // The gap is behind what fits before bit 64.
            length => {
                let before = u32::from(64 - length);
                let whole = bits << (96 - length);
                let high = whole & u128::MAX << 64;
                let low = whole & u128::from(u64::MAX);
                if before >= 32 { high } else { high | low >> 8 }
            }
        };
        Ipv6Addr::from_bits(self.network | behind)
    }

    /// The IPv4 address in an IPv6 one; `None`: it is not in the prefix, or bits 64 to 71 are not 0. Bits behind the
    /// address are ignored, as RFC 6052 says of bits that are reserved for extensions.
    #[inline]
    pub fn extract(self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        let bits = address.to_bits();
        if bits & self.fixed() != self.network {
            return None;
        }
        let of = match self.length {
            96 => bits,
            length => (bits & u128::MAX << 64 | bits << 8 & u128::from(u64::MAX)) >> (96 - length),
        };
        Some(Ipv4Addr::from_bits(of as u32))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prefix(text: &str, length: u8) -> Prefix {
        Prefix::new(text.parse().unwrap(), length).unwrap()
    }

    #[test]
    fn the_examples_of_rfc_6052_hold() {
        // Section 2.4.
        let address = Ipv4Addr::new(192, 0, 2, 33);
        for (network, length, expected) in [
            ("2001:db8::", 32, "2001:db8:c000:221::"),
            ("2001:db8:100::", 40, "2001:db8:1c0:2:21::"),
            ("2001:db8:122::", 48, "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::", 56, "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::", 64, "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::", 96, "2001:db8:122:344::192.0.2.33"),
            ("64:ff9b::", 96, "64:ff9b::192.0.2.33"),
        ] {
            let expected: Ipv6Addr = expected.parse().unwrap();
            let prefix = prefix(network, length);
            assert_eq!(prefix.embed(address), expected, "{network}/{length}");
            assert_eq!(prefix.extract(expected), Some(address), "{network}/{length}");
        }
    }

    #[test]
    fn wrong_prefixes_are_refused() {
        for (network, length) in [("2001:db8::", 33), ("2001:db8::1", 32), ("64:0:0:0:100::", 96)] {
            assert_eq!(Prefix::new(network.parse().unwrap(), length), None, "{network}/{length}");
        }
        let short = prefix("2001:db8::", 32);
        assert_eq!(short.extract("2001:db9:c000:221::".parse().unwrap()), None);
        assert_eq!(short.extract("2001:db8:c000:221:100::".parse().unwrap()), None);
    }

    proptest! {
        #[test]
        fn an_address_comes_back(
            network in any::<u128>(),
            length in prop::sample::select(Prefix::LENGTHS.to_vec()),
            address in any::<u32>(),
            noise in any::<u128>(),
        ) {
            let mask = u128::MAX << (128 - length);
            let prefix = Prefix::new(Ipv6Addr::from_bits(network & mask & !U), length).unwrap();
            let address = Ipv4Addr::from_bits(address);
            let embedded = prefix.embed(address);
            prop_assert_eq!(embedded.to_bits() & mask, prefix.network);
            prop_assert_eq!(embedded.to_bits() & U, 0);
            prop_assert_eq!(prefix.extract(embedded), Some(address));
            // What is behind the address is zero, and ignored (RFC 6052 section 2.2).
            let suffix = if length == 96 { 0 } else { (1_u128 << (88 - length)) - 1 };
            prop_assert_eq!(embedded.to_bits() & suffix, 0);
            let other = Ipv6Addr::from_bits(embedded.to_bits() | noise & suffix);
            prop_assert_eq!(prefix.extract(other), Some(address));
        }
    }
}
