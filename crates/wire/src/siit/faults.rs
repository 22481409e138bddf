//! Mappings that cannot be meant. The control plane and the forwarder refuse the same ones, in the same words.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::mapping::{mask4, mask6};
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

/// IPv6 networks of which no host has an address to which packets are forwarded (RFC 4291 sections 2.5.2, 2.5.3,
/// 2.5.5.2, 2.5.6 and 2.7).
const NO_HOSTS6: [Net6; 5] = [
    Net6(Ipv6Addr::UNSPECIFIED, 128),
    Net6(Ipv6Addr::LOCALHOST, 128),
    Net6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96),
    Net6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
    Net6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
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

/// An IPv6 prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Net6(Ipv6Addr, u8);

impl Net6 {
    /// Whether it has any of the addresses whose bits in a mask are those of a network.
    fn meets(self, (network, mask): (u128, u128)) -> bool {
        (self.0.to_bits() ^ network) & mask & mask6(self.1) == 0
    }
}

impl fmt::Display for Net6 {
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
    /// It has IPv6 addresses of this network, which no host has.
    NoHost6(Net6),
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
            Cause::NoHost6(_) => "Use a global or unique local prefix.",
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
            Cause::NoHost6(of) => {
                write!(f, "{prefix6} has addresses of {of}, which no host can have")
            }
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
    if let Some(of) = NO_HOSTS6.into_iter().find(|it| it.meets((network, mask))) {
        return Some(Cause::NoHost6(of));
    }
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
mod tests;
