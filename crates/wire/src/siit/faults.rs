//! Mappings that cannot be meant. The control plane and the forwarder refuse the same ones, in the same words.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::mapping::mask4;
use super::{Mapping, Prefix};

/// IPv4 networks of which no host has an address (RFC 1122 section 3.2.1.3), or that no router forwards to (RFC 3927
/// section 7).
const NO_HOSTS: [Net4; 4] = [
    Net4(Ipv4Addr::new(0, 0, 0, 0), 8),
    Net4(Ipv4Addr::new(127, 0, 0, 0), 8),
    Net4(Ipv4Addr::new(169, 254, 0, 0), 16),
    Net4(Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// IPv4 networks that the well-known prefix does not stand for (RFC 6052 section 3.1): those for which
/// [`Prefix::may_have`] is false.
const NOT_GLOBAL: [Net4; 9] = [
    Net4(Ipv4Addr::new(10, 0, 0, 0), 8),
    Net4(Ipv4Addr::new(172, 16, 0, 0), 12),
    Net4(Ipv4Addr::new(192, 168, 0, 0), 16),
    Net4(Ipv4Addr::new(100, 64, 0, 0), 10),
    Net4(Ipv4Addr::new(192, 0, 0, 0), 24),
    Net4(Ipv4Addr::new(192, 0, 2, 0), 24),
    Net4(Ipv4Addr::new(198, 18, 0, 0), 15),
    Net4(Ipv4Addr::new(198, 51, 100, 0), 24),
    Net4(Ipv4Addr::new(203, 0, 113, 0), 24),
];

/// Whether an IPv4 address can be that of a host to which packets are forwarded (RFC 1122 section 3.2.1.3, RFC 3927
/// section 7).
#[inline]
pub const fn is_host(address: Ipv4Addr) -> bool {
    !matches!(address.octets()[0], 0 | 127 | 224..) && !address.is_link_local()
}

/// An IPv4 prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net4(pub Ipv4Addr, pub u8);

impl Net4 {
    /// Whether it has all addresses of another one.
    fn contains(self, other: Self) -> bool {
        self.1 <= other.1 && other.0.to_bits() & mask4(self.1) == self.0.to_bits()
    }

    fn overlaps(self, other: Self) -> bool {
        self.contains(other) || other.contains(self)
    }
}

impl fmt::Display for Net4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

/// Why a mapping cannot be meant. As text it is the cause of an error, without a full stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    of: Mapping,
    cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// It has addresses of this network, which no host has.
    NoHost(Net4),
    /// Its addresses of the well-known prefix stand for addresses of this network.
    NotGlobal(Net4),
    /// It maps all of IPv4 into the prefix of hosts without a mapping.
    All,
    /// Its IPv6 prefix has all of the prefix of hosts without a mapping.
    HasPrefix(Prefix),
    /// Another mapping has its IPv4 prefix.
    Ip4Twice(Mapping),
    /// Another mapping has its IPv6 prefix.
    Ip6Twice(Mapping),
}

impl Fault {
    /// Whether another IPv6 prefix would be the remedy.
    pub const fn is_of_ip6(&self) -> bool {
        !matches!(self.cause, Cause::NoHost(_) | Cause::Ip4Twice(_))
    }

    /// What to do, as a sentence.
    pub const fn fix(&self) -> &'static str {
        match self.cause {
            Cause::NoHost(_) => {
                "Use unicast addresses without host bits, such as 192.0.2.0/24, or 0.0.0.0/0 for all."
            }
            Cause::NotGlobal(_) => {
                "Use a prefix of your network, or a destination-ipv4-prefix of 64:ff9b::/96 that has global addresses."
            }
            Cause::All => {
                "Name the addresses of IPv6 hosts alone, or map all of IPv4 to another prefix."
            }
            Cause::HasPrefix(_) => "Use another prefix for one of them.",
            Cause::Ip4Twice(_) => "Remove one of them.",
            Cause::Ip6Twice(_) => "Give each IPv4 prefix an IPv6 prefix of its own.",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (net4, prefix6) = (self.of.net4(), Range6(self.of));
        match self.cause {
            Cause::NoHost(of) => write!(f, "{net4} has addresses of {of}, which no host can have"),
            Cause::NotGlobal(of) => write!(
                f,
                "{prefix6} would stand for {of}, and the well-known prefix 64:ff9b::/96 stands for global addresses \
                 alone (RFC 6052)"
            ),
            Cause::All => write!(
                f,
                "{net4} is mapped to {prefix6}, which stands for IPv4 hosts without a mapping: nobody would be one"
            ),
            Cause::HasPrefix(prefix) => write!(
                f,
                "{prefix6} has all of {}/{}, which stands for hosts without a mapping",
                prefix.network(),
                prefix.length()
            ),
            Cause::Ip4Twice(other) => {
                write!(f, "{net4} has another mapping, to {}", Range6(other))
            }
            Cause::Ip6Twice(other) => write!(
                f,
                "{prefix6} is that of {}, too: packets from it would have one of both",
                other.net4()
            ),
        }
    }
}

/// The IPv6 addresses of a mapping.
struct Range6(Mapping);

impl fmt::Display for Range6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (network, mask) = self.0.ip6();
        // Bits 64 to 71 are those of no address, but inside of one.
        let is_before = self.0.is_embedded() && mask << 72 == 0;
        let mask = if is_before { mask & u128::MAX << 64 } else { mask };
        write!(f, "{}/{}", Ipv6Addr::from_bits(network), 128 - mask.trailing_zeros())
    }
}

/// Finds what is wrong with the mappings of a policy, which have numbers, beside its prefix for hosts without a
/// mapping; changes their order. Longer prefixes inside of shorter ones are as they should be.
pub fn check(
    prefix: Prefix,
    mappings: &mut [(usize, Mapping)],
    mut found: impl FnMut(usize, Fault),
) {
    for (number, of) in mappings.iter() {
        if let Some(cause) = alone(of, prefix) {
            found(*number, Fault { of: *of, cause });
        }
    }
    mappings.sort_unstable_by_key(|(number, it)| (it.ip4(), *number));
    for [(_, former), (number, of)] in mappings.array_windows() {
        if former.ip4() == of.ip4() {
            found(*number, Fault { of: *of, cause: Cause::Ip4Twice(*former) });
        }
    }
    mappings.sort_unstable_by_key(|(number, it)| (it.ip6(), *number));
    for [(_, former), (number, of)] in mappings.array_windows() {
        // One that stands twice as a whole is an error already.
        if former.ip6() == of.ip6() && former.ip4() != of.ip4() {
            found(*number, Fault { of: *of, cause: Cause::Ip6Twice(*former) });
        }
    }
}

/// What is wrong with a mapping whatever others there are.
fn alone(of: &Mapping, prefix: Prefix) -> Option<Cause> {
    let net4 = of.net4();
    // All of IPv4 means all hosts.
    let no_hosts = NO_HOSTS.into_iter().find(|it| net4.1 > 0 && it.overlaps(net4));
    if let Some(of) = no_hosts {
        return Some(Cause::NoHost(of));
    }
    let (network, mask) = of.ip6();
    let well_known = Prefix::WELL_KNOWN;
    let may_not = match of.is_embedded() {
        // Others of its addresses are left out.
        true if of.prefix6() == (well_known.network(), well_known.length()) => {
            NOT_GLOBAL.into_iter().find(|it| it.contains(net4))
        }
        true => None,
        false => inside_of_well_known(network, of.prefix6().1)
            .and_then(|range| NOT_GLOBAL.into_iter().chain(NO_HOSTS).find(|it| it.overlaps(range))),
    };
    if let Some(of) = may_not {
        return Some(Cause::NotGlobal(of));
    }
    if mask & !prefix.fixed() != 0 || prefix.network().to_bits() & mask != network {
        return None;
    }
    let is_same = of.is_embedded() && of.prefix6() == (prefix.network(), prefix.length());
    Some(if is_same { Cause::All } else { Cause::HasPrefix(prefix) })
}

/// The IPv4 addresses for which the part of an IPv6 prefix stands that is in the well-known prefix.
fn inside_of_well_known(network: u128, length: u8) -> Option<Net4> {
    let well_known = Prefix::WELL_KNOWN.network().to_bits();
    let shorter = u32::from(length.min(96));
    if (network ^ well_known).checked_shr(128 - shorter).unwrap_or(0) != 0 {
        return None;
    }
    let behind = length.saturating_sub(96);
    Some(Net4(Ipv4Addr::from_bits(network as u32 & mask4(behind)), behind))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prefix(text: &str, length: u8) -> Prefix {
        Prefix::new(text.parse().unwrap(), length).unwrap()
    }

    fn ip4(text: &str) -> (Ipv4Addr, u8) {
        let (address, length) = text.split_once('/').unwrap();
        (address.parse().unwrap(), length.parse().unwrap())
    }

    fn ip6(text: &str) -> (Ipv6Addr, u8) {
        let (address, length) = text.split_once('/').unwrap();
        (address.parse().unwrap(), length.parse().unwrap())
    }

    fn explicit(four: &str, six: &str) -> Mapping {
        Mapping::explicit(ip4(four), ip6(six)).unwrap()
    }

    fn embedded(four: &str, six: &str) -> Mapping {
        let (network, length) = ip6(six);
        Mapping::embedded(ip4(four), Prefix::new(network, length).unwrap()).unwrap()
    }

    /// The causes with the numbers of their mappings, beside 2001:db8:46::/96.
    fn causes(mappings: &[Mapping]) -> Vec<(usize, String)> {
        let mut numbered: Vec<_> = mappings.iter().copied().enumerate().collect();
        let mut all = Vec::new();
        check(prefix("2001:db8:46::", 96), &mut numbered, |number, fault| {
            all.push((number, fault.to_string()));
        });
        all
    }

    #[test]
    fn mappings_that_can_be_meant_are_right() {
        let right = [
            explicit("192.0.2.0/24", "2001:db8:1::/64"),
            explicit("192.0.2.7/32", "2001:db8:2::7/128"),
            embedded("198.51.100.0/25", "2001:db8:46::/96"),
            embedded("0.0.0.0/0", "64:ff9b::/96"),
            embedded("198.0.0.0/8", "64:ff9b::/96"),
            explicit("198.41.0.0/16", "64:ff9b::c629:0/112"),
        ];
        assert_eq!(causes(&right), []);
        assert_eq!(causes(&[explicit("0.0.0.0/0", "2001:db8:64::/96")]), []);
    }

    #[test]
    fn each_fault_has_its_words() {
        for (mapping, cause) in [
            (
                explicit("169.254.0.0/16", "2001:db8:1::/64"),
                "169.254.0.0/16 has addresses of 169.254.0.0/16, which no host can have",
            ),
            (
                explicit("127.0.0.1/32", "2001:db8:1::/64"),
                "127.0.0.1/32 has addresses of 127.0.0.0/8, which no host can have",
            ),
            (
                embedded("128.0.0.0/1", "64:ff9b::/96"),
                "128.0.0.0/1 has addresses of 169.254.0.0/16, which no host can have",
            ),
            (
                embedded("240.0.0.0/4", "2001:db8:64::/96"),
                "240.0.0.0/4 has addresses of 224.0.0.0/3, which no host can have",
            ),
            (
                embedded("10.9.0.0/16", "64:ff9b::/96"),
                "64:ff9b::a09:0/112 would stand for 10.0.0.0/8, and the well-known prefix 64:ff9b::/96 stands for \
                 global addresses alone (RFC 6052)",
            ),
            (
                explicit("0.0.0.0/0", "64:ff9b::/96"),
                "64:ff9b::/96 would stand for 10.0.0.0/8, and the well-known prefix 64:ff9b::/96 stands for global \
                 addresses alone (RFC 6052)",
            ),
            (
                explicit("198.41.0.4/32", "64:ff9b::c0a8:1/128"),
                "64:ff9b::c0a8:1/128 would stand for 192.168.0.0/16, and the well-known prefix 64:ff9b::/96 stands \
                 for global addresses alone (RFC 6052)",
            ),
            (
                explicit("198.41.0.0/16", "64:ff9b::/64"),
                "64:ff9b::/64 would stand for 10.0.0.0/8, and the well-known prefix 64:ff9b::/96 stands for global \
                 addresses alone (RFC 6052)",
            ),
            (
                embedded("0.0.0.0/0", "2001:db8:46::/96"),
                "0.0.0.0/0 is mapped to 2001:db8:46::/96, which stands for IPv4 hosts without a mapping: nobody would \
                 be one",
            ),
            (
                embedded("0.0.0.0/0", "2001:db8::/32"),
                "2001:db8::/32 has all of 2001:db8:46::/96, which stands for hosts without a mapping",
            ),
            (
                explicit("192.0.2.0/24", "2001:db8::/32"),
                "2001:db8::/32 has all of 2001:db8:46::/96, which stands for hosts without a mapping",
            ),
        ] {
            assert_eq!(causes(&[mapping]), [(0, cause.to_owned())]);
        }
    }

    #[test]
    fn equal_ranges_of_any_kind_are_found() {
        let mappings = [
            embedded("198.51.100.0/25", "2001:db8:46::/96"),
            explicit("192.0.2.0/25", "2001:db8:46::c633:6400/121"),
            explicit("192.0.2.0/25", "2001:db8:9::/121"),
        ];
        let expected = [
            (2, "192.0.2.0/25 has another mapping, to 2001:db8:46::c633:6400/121"),
            (
                1,
                "2001:db8:46::c633:6400/121 is that of 198.51.100.0/25, too: packets from it would have one of both",
            ),
        ];
        assert_eq!(causes(&mappings), expected.map(|(number, text)| (number, text.to_owned())));
        // The whole mapping twice is one error.
        assert_eq!(causes(&[mappings[2]; 2]).len(), 1);
    }

    proptest! {
        #[test]
        fn networks_are_those_of_the_functions(address in any::<u32>(), high in any::<u8>()) {
            for bits in [address, u32::from(high) << 24 | address & 0xff_ffff, address & 0xf | 0xc0a8 << 16] {
                let address = Ipv4Addr::from_bits(bits);
                let is_in = |nets: &[Net4]| nets.iter().any(|it| it.contains(Net4(address, 32)));
                prop_assert_eq!(is_host(address), !is_in(&NO_HOSTS));
                prop_assert_eq!(Prefix::WELL_KNOWN.may_have(address), !is_in(&NOT_GLOBAL));
            }
        }
    }

    #[test]
    fn borders_of_networks_are_those_of_the_functions() {
        let borders = |it: &Net4| {
            let first = it.0.to_bits();
            let last = first | !mask4(it.1);
            [first.wrapping_sub(1), first, last, last.wrapping_add(1)].map(Ipv4Addr::from_bits)
        };
        for address in NO_HOSTS.iter().chain(&NOT_GLOBAL).flat_map(borders) {
            let is_in = |nets: &[Net4]| nets.iter().any(|it| it.contains(Net4(address, 32)));
            assert_eq!(is_host(address), !is_in(&NO_HOSTS), "{address}");
            assert_eq!(Prefix::WELL_KNOWN.may_have(address), !is_in(&NOT_GLOBAL), "{address}");
        }
    }
}
