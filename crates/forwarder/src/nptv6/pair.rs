//! A pair of prefixes that stand for each other, and what an address becomes (RFC 6296 section 3): the sum of its words
//! stays the same, so that no checksum changes.

use std::sync::Arc;

use stoa_engine::counters::Counter;

use crate::icmp::IcmpCause;

/// The longest prefix: beyond it there is no word left for the sum.
pub const LENGTH_MOST: u8 = 64;
/// Up to this length the sum is kept by the word of the subnet (RFC 6296 section 3.4), beyond it by one of the
/// interface identifier (section 3.5).
const SUBNET_LENGTH: u8 = 48;
/// The word of the subnet: bits 48 to 63.
const SUBNET: usize = 3;
/// The bits of the interface identifier.
const IDENTIFIER: u128 = u64::MAX as u128;

/// Packets of a pair on one worker, and the bytes of these IP packets.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Traffic {
    /// Packets whose source was translated.
    pub out_packets: Count,
    /// Their bytes.
    pub out_bytes: Count,
    /// Packets whose destination was translated.
    pub in_packets: Count,
    /// Their bytes.
    pub in_bytes: Count,
}

/// A counter of one worker.
#[derive(Default)]
pub struct Count(pub Counter);

impl std::fmt::Debug for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.get().fmt(f)
    }
}

/// A prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix6 {
    /// The first address.
    pub network: u128,
    /// Its length.
    pub length: u8,
}

impl Prefix6 {
    /// The bits of the prefix.
    pub const fn mask(self) -> u128 {
        match u128::MAX.checked_shr(self.length as u32) {
            Some(host_bits) => !host_bits,
            None => u128::MAX,
        }
    }

    /// Whether an address is in it.
    #[inline]
    pub const fn contains(self, address: u128) -> bool {
        address & self.mask() == self.network
    }

    /// Whether both have an address in common.
    pub const fn meets(self, other: Self) -> bool {
        self.contains(other.network) || other.contains(self.network)
    }
}

/// An internal and an external prefix of one length.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The index of the external interface.
    pub interface: u32,
    /// Its VRF.
    pub vrf: u32,
    /// Of hosts inside.
    pub internal: Prefix6,
    /// What hosts outside see.
    pub external: Prefix6,
    /// Whether the router has an address of the external prefix, which stays its own.
    pub has_own: bool,
    /// What is added to a word of an internal address (RFC 6296 section 3.1), in one's complement.
    adjustment: u16,
    /// By worker.
    pub traffic: Arc<[Traffic]>,
}

/// The words of an address.
fn words(address: u128) -> [u16; 8] {
    std::array::from_fn(|at| (address >> (112 - 16 * at)) as u16)
}

/// The sum in one's complement.
fn add(one: u16, other: u16) -> u16 {
    let (sum, carries) = one.overflowing_add(other);
    sum.wrapping_add(carries.into())
}

fn sum(address: u128) -> u16 {
    words(address).into_iter().fold(0, add)
}

impl Pair {
    /// A pair; the shorter prefix is continued by zeros (RFC 6296 section 3.1).
    pub fn new(
        (interface, vrf): (u32, u32),
        (internal, external): (Prefix6, Prefix6),
        has_own: bool,
        traffic: Arc<[Traffic]>,
    ) -> Self {
        let length = internal.length.max(external.length).min(LENGTH_MOST);
        let [internal, external] =
            [internal, external].map(|it| Prefix6 { network: it.network, length });
        let adjustment = add(sum(internal.network), !sum(external.network));
        Self { interface, vrf, internal, external, has_own, adjustment, traffic }
    }

    /// The external address of an internal one; `None`: it has none (RFC 6296 section 3.2).
    #[inline]
    pub fn outward(&self, address: u128) -> Option<u128> {
        self.exchange(address, self.external, self.adjustment)
    }

    /// The internal address of an external one; `None`: it has none (RFC 6296 section 3.3).
    #[inline]
    pub fn inward(&self, address: u128) -> Option<u128> {
        self.exchange(address, self.internal, !self.adjustment)
    }

    /// What a sender learns about an address without a counterpart, at an offset of the packet: that the subnet cannot
    /// be reached (RFC 6296 sections 3.2 and 3.3), or which field of the header is wrong (section 3.7).
    #[cold]
    pub(super) fn refusal(&self, at: usize) -> IcmpCause {
        match self.internal.length <= SUBNET_LENGTH {
            true => IcmpCause::PrefixSubnet,
            false => IcmpCause::PrefixIdentifier(at as u16),
        }
    }

    #[inline]
    fn exchange(&self, address: u128, to: Prefix6, adjustment: u16) -> Option<u128> {
        let word = |at: usize| (address >> (112 - 16 * at)) as u16;
        let at = if to.length <= SUBNET_LENGTH {
            (word(SUBNET) != u16::MAX).then_some(SUBNET)?
        } else if address & IDENTIFIER == 0 {
            // RFC 6296 section 3.7. It is the anycast address of the routers of a subnet.
            return None;
        } else {
            (SUBNET + 1..8).find(|at| word(*at) != u16::MAX)?
        };
        // 0xffff is another way to write 0 (RFC 6296 section 3.2); it has no way back.
        let new = match add(word(at), adjustment) {
            u16::MAX => 0,
            new => new,
        };
        let shift = 112 - 16 * at;
        let rest = address & !to.mask() & !(u128::from(u16::MAX) << shift);
        // The word is behind the prefix, whatever its length.
        Some(to.network | rest | u128::from(new) << shift)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use proptest::prelude::*;

    use super::*;

    fn bits(text: &str) -> u128 {
        text.parse::<Ipv6Addr>().unwrap().to_bits()
    }

    fn prefix(text: &str) -> Prefix6 {
        let (address, length) = text.split_once('/').unwrap();
        Prefix6 { network: bits(address), length: length.parse().unwrap() }
    }

    fn pair(internal: &str, external: &str) -> Pair {
        Pair::new((1, 0), (prefix(internal), prefix(external)), false, Arc::new([]))
    }

    fn text(address: Option<u128>) -> String {
        address.map_or_else(|| "none".to_owned(), |it| Ipv6Addr::from_bits(it).to_string())
    }

    #[test]
    fn the_examples_of_rfc_6296_hold() {
        // Section 3.6; its way back has the erratum 3033.
        let long = pair("fd01:203:405::/48", "2001:db8:1::/48");
        assert_eq!(text(long.outward(bits("fd01:203:405:1::1234"))), "2001:db8:1:d550::1234");
        assert_eq!(text(long.inward(bits("2001:db8:1:d550::1234"))), "fd01:203:405:1::1234");
        assert_eq!(long.adjustment, 0xd54f);
        // Section 3.7: the first word of the identifier that is not 0xffff.
        let longer = pair("fd01:203:405:1::/64", "2001:db8:1:2::/64");
        let outside = longer.outward(bits("fd01:203:405:1:ffff:5::9"));
        assert_eq!(text(outside), "2001:db8:1:2:ffff:d553:0:9");
        assert_eq!(text(longer.inward(outside.unwrap())), "fd01:203:405:1:ffff:5:0:9");
    }

    #[test]
    fn addresses_without_a_counterpart_are_refused() {
        let long = pair("fd01:203:405::/48", "2001:db8:1::/48");
        assert_eq!(long.outward(bits("fd01:203:405:ffff::1")), None);
        assert_eq!(long.inward(bits("2001:db8:1:ffff::1")), None);
        let longer = pair("fd01:203:405:1::/64", "2001:db8:1:2::/64");
        assert_eq!(longer.outward(bits("fd01:203:405:1::")), None);
        assert_eq!(longer.outward(bits("fd01:203:405:1:ffff:ffff:ffff:ffff")), None);
    }

    #[test]
    fn the_shorter_prefix_is_continued_by_zeros() {
        let uneven = pair("fd00:1::/32", "2001:db8:4500::/40");
        assert_eq!((uneven.internal.length, uneven.external.length), (40, 40));
        assert!(!uneven.internal.contains(bits("fd00:1:100::1")));
        let outside = uneven.outward(bits("fd00:1:12:3::4")).unwrap();
        assert!(uneven.external.contains(outside));
        assert_eq!(text(uneven.inward(outside)), "fd00:1:12:3::4");
    }

    proptest! {
        #[test]
        fn an_address_comes_back_and_keeps_its_sum(
            (internal, external) in any::<(u128, u128)>(),
            length in 1..=LENGTH_MOST,
            address in any::<u128>(),
            ones in 0_u8..32,
        ) {
            let [internal, external] = [internal, external].map(|it| {
                let it = Prefix6 { network: it, length };
                Prefix6 { network: it.network & it.mask(), length }
            });
            let pair = Pair::new((1, 0), (internal, external), false, Arc::new([]));
            // Words of ones are rare in random addresses.
            let ones = (3..8).filter(|at| ones & 1 << (at - 3) != 0);
            let address = ones.fold(address, |it, at| it | 0xffff << (112 - 16 * at));
            let inside = internal.network | address & !internal.mask();
            let Some(outside) = pair.outward(inside) else {
                let words = words(inside);
                let none = match length {
                    ..=48 => words[3] == u16::MAX,
                    _ => inside & IDENTIFIER == 0 || words[4..] == [u16::MAX; 4],
                };
                prop_assert!(none);
                return Ok(());
            };
            prop_assert!(external.contains(outside));
            // 0 and 0xffff are the same sum.
            prop_assert_eq!(sum(outside) % u16::MAX, sum(inside) % u16::MAX);
            // A word of 0xffff is chosen neither way, and 0 has one way only.
            prop_assert_eq!(pair.inward(outside), Some(inside));
        }
    }
}
