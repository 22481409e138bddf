//! What a host may do that has not logged in: it reaches the walled garden, name servers and the portal, and what the
//! link needs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_engine::quiescence::Reader;
use stoa_tables::classifier::Fragment;
use stoa_wire::essential::is_essential;
use stoa_wire::protocol::{ICMP4, ICMP6, TCP, UDP};

use crate::flow::fields::PacketFields;
use crate::shared::Shared;

const DNS: u16 = 53;
const HTTP: u16 = 80;
/// The ports of DHCP and DHCPv6 servers (RFC 2131, RFC 8415).
const DHCP: [u16; 2] = [67, 547];

/// A set of addresses of one family, as ranges in order that have no address in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes {
    ranges: Vec<(u128, u128)>,
}

impl FromIterator<(u128, u128)> for Prefixes {
    /// The first and the last address of each prefix.
    fn from_iter<T: IntoIterator<Item = (u128, u128)>>(prefixes: T) -> Self {
        let mut all: Vec<_> = prefixes.into_iter().collect();
        all.sort_unstable();
        let mut ranges: Vec<(u128, u128)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match ranges.last_mut() {
                Some(before) if first <= before.1 => before.1 = before.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        Self { ranges }
    }
}

impl Prefixes {
    /// Whether an address is in the set.
    pub fn contains(&self, address: u128) -> bool {
        let behind = self.ranges.partition_point(|(first, _)| *first <= address);
        let before = behind.checked_sub(1).and_then(|at| self.ranges.get(at));
        before.is_some_and(|(_, last)| address <= *last)
    }
}

/// What unknown hosts of an interface may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admits {
    /// The walled garden, IPv4 and IPv6.
    pub garden: [Prefixes; 2],
    /// Name servers besides the router.
    pub name_servers: Vec<IpAddr>,
    /// Where the portal is.
    pub portal: Vec<IpAddr>,
    /// The port of the portal.
    pub portal_port: u16,
    /// The answers to any HTTP request, IPv4 and IPv6; empty: none.
    pub redirect: [Box<[u8]>; 2],
}

/// What becomes of a packet of an unknown host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// It passes.
    Pass,
    /// It passes, and takes of the share of its host: it is for servers that all hosts need.
    Query,
    /// It is answered with the address of the portal.
    Redirect,
    /// It is answered with a TCP reset.
    Reset,
    /// It is dropped.
    Drop,
}

impl Admits {
    /// What becomes of a packet. `local` tells whether its destination is the router.
    pub(super) fn treatment(
        &self,
        is_ip4: bool,
        packet: &PacketFields,
        hop_limit: u8,
        local: impl FnOnce(IpAddr) -> bool,
    ) -> Treatment {
        let destination = destination(is_ip4, packet);
        if self.is_in_garden(destination) {
            return Treatment::Pass;
        }
        let kind = packet.kind;
        if kind.malformed().is_some() || kind.part() == Fragment::Later {
            return Treatment::Drop;
        }
        let (protocol, port) = (kind.protocol(), packet.ports as u16);
        let is_upper = matches!(protocol, TCP | UDP);
        let is_dns = is_upper && port == DNS;
        if is_dns && self.name_servers.contains(&destination)
            || protocol == TCP && port == self.portal_port && self.portal.contains(&destination)
        {
            return Treatment::Query;
        }
        let [message, code, ..] = packet.ports.to_be_bytes();
        let is_link = protocol == if is_ip4 { ICMP4 } else { ICMP6 }
            && is_essential(is_ip4, [message, code], hop_limit);
        let is_dhcp = protocol == UDP && port == DHCP[usize::from(!is_ip4)];
        if (is_dns || is_link || is_dhcp) && local(destination) {
            return if is_link { Treatment::Pass } else { Treatment::Query };
        }
        match protocol {
            TCP if port == HTTP && !self.redirect[usize::from(!is_ip4)].is_empty() => {
                Treatment::Redirect
            }
            TCP => Treatment::Reset,
            _ => Treatment::Drop,
        }
    }

    /// Whether an unknown host may get packets of a sender: what it may reach answers it. `local` tells whether the
    /// sender is the router.
    pub(super) fn is_sender(&self, source: IpAddr, local: impl FnOnce(IpAddr) -> bool) -> bool {
        self.is_in_garden(source)
            || self.name_servers.contains(&source)
            || self.portal.contains(&source)
            || local(source)
    }

    fn is_in_garden(&self, destination: IpAddr) -> bool {
        let [garden4, garden6] = &self.garden;
        match destination {
            IpAddr::V4(it) => garden4.contains(it.to_bits().into()),
            IpAddr::V6(it) => garden6.contains(it.to_bits()),
        }
    }
}

/// The destination of a packet.
fn destination(is_ip4: bool, packet: &PacketFields) -> IpAddr {
    address(is_ip4, packet.destination)
}

/// The source of a packet.
pub(super) fn source(is_ip4: bool, packet: &PacketFields) -> IpAddr {
    address(is_ip4, packet.source)
}

fn address(is_ip4: bool, words: [u32; 4]) -> IpAddr {
    match is_ip4 {
        true => Ipv4Addr::from_bits(words[0]).into(),
        false => {
            let bits = words.iter().fold(0, |all, word| all << 32 | u128::from(*word));
            Ipv6Addr::from_bits(bits).into()
        }
    }
}

/// Whether an address is one of the router.
pub(super) fn is_local(shared: &Shared, at: (u32, &Reader), address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => shared.is_local4(at, it),
        IpAddr::V6(it) => shared.is_local6(at, it),
    }
}

/// The TTL or hop limit of a packet; 0: it has no whole header.
pub(super) fn hop_limit(is_ip4: bool, bytes: &[u8]) -> u8 {
    bytes.get(if is_ip4 { 8 } else { 7 }).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::flow::fields::Kind;

    const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);

    fn admits() -> Admits {
        let garden = [(0xcb00_7100, 0xcb00_71ff)].into_iter().collect();
        Admits {
            garden: [garden, Prefixes::default()],
            name_servers: vec![Ipv4Addr::new(9, 9, 9, 9).into()],
            portal: vec![ROUTER.into()],
            portal_port: 8444,
            redirect: [b"HTTP/1.1 302 Found\r\n\r\n"[..].into(), Box::default()],
        }
    }

    fn treatment(to: Ipv4Addr, protocol: u8, ports: u32, flags: u32) -> Treatment {
        let packet = PacketFields {
            destination: [to.to_bits(), 0, 0, 0],
            ports,
            kind: Kind(u32::from(protocol) | flags),
            ..PacketFields::default()
        };
        admits().treatment(true, &packet, 64, |address| address == IpAddr::from(ROUTER))
    }

    #[test]
    fn unknown_hosts_reach_what_they_need_to_log_in() {
        use Treatment::{Drop, Pass, Query, Redirect, Reset};
        let garden = Ipv4Addr::new(203, 0, 113, 7);
        let quad9 = Ipv4Addr::new(9, 9, 9, 9);
        for (to, protocol, port, expected) in [
            (garden, 47, 0, Pass),
            (quad9, UDP, 53, Query),
            (quad9, TCP, 53, Query),
            (quad9, UDP, 54, Drop),
            (OTHER, UDP, 53, Drop),
            (ROUTER, UDP, 53, Query),
            (ROUTER, UDP, 67, Query),
            (OTHER, UDP, 67, Drop),
            (ROUTER, TCP, 8444, Query),
            (OTHER, TCP, 8444, Reset),
            (ROUTER, TCP, 22, Reset),
            (ROUTER, TCP, 80, Redirect),
            (OTHER, TCP, 80, Redirect),
            (OTHER, TCP, 443, Reset),
            (OTHER, UDP, 443, Drop),
            (OTHER, ICMP4, 0, Drop),
            (ROUTER, ICMP4, 0, Drop),
        ] {
            assert_eq!(treatment(to, protocol, port, 0), expected, "{to} {protocol} {port}");
        }
        // What is behind the first fragment is not known.
        assert_eq!(treatment(OTHER, TCP, 80, Kind::LATER), Drop);
        assert_eq!(treatment(OTHER, TCP, 80, Kind::MALFORMED), Drop);
        assert_eq!(treatment(garden, UDP, 0, Kind::LATER), Pass);
        // Fragmentation needed, to the router.
        assert_eq!(treatment(ROUTER, ICMP4, 0x0304_0000, 0), Pass);
        assert_eq!(treatment(OTHER, ICMP4, 0x0304_0000, 0), Drop);
    }

    #[test]
    fn unknown_hosts_get_answers_of_what_they_reach() {
        let garden = Ipv4Addr::new(203, 0, 113, 7);
        let quad9 = Ipv4Addr::new(9, 9, 9, 9);
        for (from, expected) in [(garden, true), (quad9, true), (ROUTER, true), (OTHER, false)] {
            assert_eq!(admits().is_sender(from.into(), |_| false), expected, "{from}");
        }
        assert!(admits().is_sender(OTHER.into(), |_| true), "an address of the router");
    }

    proptest! {
        #[test]
        fn a_set_has_the_addresses_of_its_prefixes(
            prefixes in proptest::collection::vec((0_u128..64, 0_u32..4), 0..12),
            address in 0_u128..72,
        ) {
            let of = |(first, bits): (u128, u32)| {
                let first = first >> bits << bits;
                (first, first | ((1 << bits) - 1))
            };
            let ranges: Vec<_> = prefixes.into_iter().map(of).collect();
            let set: Prefixes = ranges.iter().copied().collect();
            let expected = ranges.iter().any(|(first, last)| (first..=last).contains(&&address));
            prop_assert_eq!(set.contains(address), expected);
        }
    }
}
