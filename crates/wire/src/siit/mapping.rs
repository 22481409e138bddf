//! Explicit address mappings: an IPv4 prefix and the IPv6 prefix that stands for it (RFC 7757 section 3), or the part
//! of a prefix of RFC 6052 that an IPv4 prefix has.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::Prefix;
use super::faults::Net4;

/// A mapping between prefixes of both families. Their suffixes are the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mapping {
    network4: u32,
    length4: u8,
    to: To,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    /// The suffix of the IPv4 address follows the prefix; zeros follow it.
    Explicit { network: u128, length: u8 },
    /// The address as a whole is in the prefix.
    Embedded(Prefix),
}

/// The bits of a prefix of an IPv4 address.
pub(super) const fn mask4(length: u8) -> u32 {
    match u32::MAX.checked_shr(length as u32) {
        Some(suffix) => !suffix,
        None => u32::MAX,
    }
}

/// The bits of a prefix of an IPv6 address.
pub(super) const fn mask6(length: u8) -> u128 {
    match u128::MAX.checked_shr(length as u32) {
        Some(suffix) => !suffix,
        None => u128::MAX,
    }
}

impl Mapping {
    /// An explicit mapping; `None`: host bits, a length that no prefix has, or the suffix of IPv4 is longer than that
    /// of IPv6 (RFC 7757 section 3.2).
    pub fn explicit(
        (ip4, length4): (Ipv4Addr, u8),
        (ip6, length6): (Ipv6Addr, u8),
    ) -> Option<Self> {
        let (network4, network) = (ip4.to_bits(), ip6.to_bits());
        let is_right = length4 <= 32
            && length6 <= 128
            && 32 - length4 <= 128 - length6
            && network4 & !mask4(length4) == 0
            && network & !mask6(length6) == 0;
        is_right.then_some(Self {
            network4,
            length4,
            to: To::Explicit { network, length: length6 },
        })
    }

    /// An IPv4 prefix in a prefix of RFC 6052: of hosts with IPv4-translatable addresses. `None`: host bits, or a
    /// length that no prefix has.
    pub fn embedded((ip4, length4): (Ipv4Addr, u8), prefix: Prefix) -> Option<Self> {
        let network4 = ip4.to_bits();
        let is_right = length4 <= 32 && network4 & !mask4(length4) == 0;
        is_right.then_some(Self { network4, length4, to: To::Embedded(prefix) })
    }

    /// The network and the mask of its IPv4 addresses.
    pub const fn ip4(&self) -> (u32, u32) {
        (self.network4, mask4(self.length4))
    }

    /// Its IPv4 prefix.
    pub const fn net4(&self) -> Net4 {
        Net4(Ipv4Addr::from_bits(self.network4), self.length4)
    }

    /// The length of its IPv4 prefix.
    pub const fn length4(&self) -> u8 {
        self.length4
    }

    /// Its IPv6 prefix, or that of RFC 6052 in which its addresses are as a whole.
    pub fn prefix6(&self) -> (Ipv6Addr, u8) {
        match self.to {
            To::Explicit { network, length } => (Ipv6Addr::from_bits(network), length),
            To::Embedded(prefix) => (prefix.network(), prefix.length()),
        }
    }

    /// Whether its addresses are as a whole in a prefix of RFC 6052.
    pub const fn is_embedded(&self) -> bool {
        matches!(self.to, To::Embedded(_))
    }

    /// Whether its prefix may stand for an address: the well-known one does only for global addresses (RFC 6052 section
    /// 3.1).
    #[inline]
    pub fn may_have(&self, address: u32) -> bool {
        match self.to {
            To::Explicit { .. } => true,
            To::Embedded(prefix) => prefix.may_have(Ipv4Addr::from_bits(address)),
        }
    }

    /// The network and the mask of its IPv6 addresses. Some bits of the mask may be 0 before others that are 1: bits 64
    /// to 71 of a prefix of RFC 6052 are always 0.
    pub fn ip6(&self) -> (u128, u128) {
        match self.to {
            To::Explicit { network, length } => (network, mask6(length)),
            To::Embedded(prefix) => {
                let network = prefix.embed(Ipv4Addr::from_bits(self.network4)).to_bits();
                let bits = prefix.embed(Ipv4Addr::from_bits(mask4(self.length4))).to_bits();
                (network, prefix.fixed() | bits & !prefix.network().to_bits())
            }
        }
    }

    /// The IPv6 address of one of its IPv4 addresses (RFC 7757 section 3.3.1).
    #[inline]
    pub fn to_ip6(&self, address: u32) -> u128 {
        match self.to {
            To::Explicit { network, length } => {
                let suffix = u128::from(address & !mask4(self.length4));
                // Both suffixes are of at least so many bits.
                let behind = 128 - u32::from(length) - (32 - u32::from(self.length4));
                network | suffix.checked_shl(behind).unwrap_or(0)
            }
            To::Embedded(prefix) => prefix.embed(Ipv4Addr::from_bits(address)).to_bits(),
        }
    }

    /// The IPv4 address of one of its IPv6 addresses (RFC 7757 section 3.3.2). Bits behind it are ignored.
    #[inline]
    pub fn to_ip4(&self, address: u128) -> u32 {
        match self.to {
            To::Explicit { length, .. } => {
                let behind = 128 - u32::from(length) - (32 - u32::from(self.length4));
                let suffix = address.checked_shr(behind).unwrap_or(0) as u32;
                self.network4 | suffix & !mask4(self.length4)
            }
            To::Embedded(prefix) => {
                let address = prefix.extract(Ipv6Addr::from_bits(address));
                address.map_or(self.network4, Ipv4Addr::to_bits)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(ip4: (&str, u8), ip6: (&str, u8)) -> Option<Mapping> {
        Mapping::explicit((ip4.0.parse().unwrap(), ip4.1), (ip6.0.parse().unwrap(), ip6.1))
    }

    #[test]
    fn the_examples_of_rfc_7757_hold() {
        // Figure 1 of section 3.1, and the table of section 3.3.
        for (ip4, ip6, address4, address6) in [
            (("192.0.2.1", 32), ("2001:db8:aaaa::", 128), "192.0.2.1", "2001:db8:aaaa::"),
            (("192.0.2.2", 32), ("2001:db8:bbbb::b", 128), "192.0.2.2", "2001:db8:bbbb::b"),
            (("192.0.2.16", 28), ("2001:db8:cccc::", 124), "192.0.2.20", "2001:db8:cccc::4"),
            (("192.0.2.128", 26), ("2001:db8:dddd::", 64), "192.0.2.130", "2001:db8:dddd:0:800::"),
            (("192.0.2.192", 31), ("64:ff9b::", 127), "192.0.2.193", "64:ff9b::1"),
            (("0.0.0.0", 0), ("64:ff9b::", 96), "198.51.100.7", "64:ff9b::c633:6407"),
        ] {
            let mapping = of(ip4, ip6).unwrap();
            let bits4 = address4.parse::<Ipv4Addr>().unwrap().to_bits();
            let bits6 = address6.parse::<Ipv6Addr>().unwrap().to_bits();
            assert_eq!(Ipv6Addr::from_bits(mapping.to_ip6(bits4)).to_string(), address6);
            assert_eq!(Ipv4Addr::from_bits(mapping.to_ip4(bits6)).to_string(), address4);
        }
    }

    #[test]
    fn wrong_prefixes_are_refused() {
        // The suffix of IPv4 has 8 bits, that of IPv6 7.
        assert_eq!(of(("192.0.2.0", 24), ("2001:db8::", 121)), None);
        assert!(of(("192.0.2.0", 24), ("2001:db8::", 120)).is_some());
        assert_eq!(of(("192.0.2.1", 24), ("2001:db8::", 64)), None);
        assert_eq!(of(("192.0.2.0", 24), ("2001:db8::1", 64)), None);
        assert_eq!(of(("192.0.2.0", 33), ("2001:db8::", 64)), None);
        assert_eq!(of(("192.0.2.0", 24), ("2001:db8::", 129)), None);
        let of =
            |address: &str| Mapping::embedded((address.parse().unwrap(), 24), Prefix::WELL_KNOWN);
        assert_eq!((of("192.0.2.1"), of("192.0.2.0").is_some()), (None, true));
    }

    proptest! {
        #[test]
        fn an_address_comes_back(
            (network4, network6, address) in any::<(u32, u128, u32)>(),
            (length4, of_suffix) in (0..=32_u8, 0..=96_u8),
            embedded in prop::option::of(prop::sample::select(Prefix::LENGTHS.to_vec())),
        ) {
            let network4 = network4 & mask4(length4);
            let ip4 = (Ipv4Addr::from_bits(network4), length4);
            let mapping = if let Some(length) = embedded {
                let network = network6 & mask6(length) & !(0xff << 56);
                let prefix = Prefix::new(Ipv6Addr::from_bits(network), length).unwrap();
                Mapping::embedded(ip4, prefix).unwrap()
            } else {
                let length6 = of_suffix + length4;
                let network = Ipv6Addr::from_bits(network6 & mask6(length6));
                Mapping::explicit(ip4, (network, length6)).unwrap()
            };
            let address = network4 | address & !mask4(length4);
            let six = mapping.to_ip6(address);
            let (network, mask) = mapping.ip6();
            prop_assert_eq!(six & mask, network);
            prop_assert_eq!(network & !mask, 0);
            prop_assert_eq!(mapping.to_ip4(six), address);
        }
    }
}
