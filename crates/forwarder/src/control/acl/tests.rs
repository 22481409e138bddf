//! Compiled rules against a linear walk over them.

mod changes;
mod order;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use stoa_tables::classifier::{ClassifierError, ClassifierLimit, NO_RULE};
use stoa_tables::lpm::Kernel;
use stoa_wire::protocol::{ICMP4, ICMP6, TCP, UDP};

use super::compile::{BuildError, add_entries, build};
use crate::acl::Action;
use crate::acl::interfaces::{Ends, word};
use crate::acl::keys::{Family, Ip4, Ip6, first};
use crate::control::desired::{Fragments, RuleOfList, network};

/// A packet, and what rules look at in it.
#[derive(Clone, Debug)]
struct Packet {
    source: IpAddr,
    destination: IpAddr,
    dscp: u8,
    protocol: u8,
    /// Ports, or type and code.
    numbers: (u16, u16),
    flags: u8,
    /// Whole, first or later fragment.
    part: Fragments,
    payload: usize,
    /// The interfaces that receive and send it, and the VLAN of the first one.
    ends: (u16, u16, u16),
}

/// Few addresses, which differ in each word, so that rules and packets meet.
fn address(is_ip4: bool) -> impl Strategy<Value = IpAddr> {
    (0..2_u128, 0..2_u128, 0..2_u128, 0..3_u128).prop_map(move |(a, b, c, d)| {
        if is_ip4 {
            return Ipv4Addr::from((a << 31 | b << 23 | c << 8 | d) as u32).into();
        }
        Ipv6Addr::from(a << 100 | b << 70 | c << 40 | d).into()
    })
}

/// Protocols, as packets and rules have them.
fn upper(is_ip4: bool) -> impl Strategy<Value = u8> {
    prop::sample::select(vec![TCP, TCP, UDP, UDP, if is_ip4 { ICMP4 } else { ICMP6 }, 47])
}

fn part() -> impl Strategy<Value = Fragments> {
    prop::sample::select(vec![Fragments::None, Fragments::None, Fragments::First, Fragments::Later])
}

fn packet(is_ip4: bool) -> impl Strategy<Value = Packet> {
    let ends = (address(is_ip4), address(is_ip4));
    let rest = (0..2_u8, upper(is_ip4), (0..4_u16, 0..4_u16), 0..4_u8, part(), 20..23_usize);
    // Number 0: no rule names the interface.
    let interfaces = (0..3_u16, 0..3_u16, 0..3_u16);
    (ends, rest, interfaces).prop_map(|((source, destination), rest, ends)| {
        let (dscp, protocol, numbers, flags, part, payload) = rest;
        let flags = if protocol == TCP { flags } else { 0 };
        Packet { source, destination, dscp, protocol, numbers, flags, part, payload, ends }
    })
}

impl Packet {
    fn length(&self) -> u16 {
        let (header, fragment) = if self.source.is_ipv4() { (20, 0) } else { (40, 8) };
        let extension = if self.part == Fragments::None { 0 } else { fragment };
        header + extension + self.payload as u16
    }

    fn bytes(&self) -> Vec<u8> {
        let fragment = match self.part {
            Fragments::First => 1_u16,
            Fragments::Later => 8 << 3,
            _ => 0,
        };
        let mut upper = vec![0; self.payload];
        let (a, b) = self.numbers;
        if [ICMP4, ICMP6].contains(&self.protocol) {
            // An identifier, which no rule looks at.
            (upper[0], upper[1], upper[5]) = (a as u8, b as u8, 9);
        } else {
            upper[..2].copy_from_slice(&a.to_be_bytes());
            upper[2..4].copy_from_slice(&b.to_be_bytes());
        }
        (upper[12], upper[13]) = (0x50, self.flags);
        let length = self.length();
        let mut bytes = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut header = vec![0; 20];
                (header[0], header[1], header[9]) = (0x45, self.dscp << 2, self.protocol);
                header[2..4].copy_from_slice(&length.to_be_bytes());
                let fragment = fragment.rotate_right(3);
                header[6..8].copy_from_slice(&fragment.to_be_bytes());
                header[12..16].copy_from_slice(&source.octets());
                header[16..20].copy_from_slice(&destination.octets());
                header
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut header = vec![0; 40];
                (header[0], header[1]) = (0x60 | self.dscp >> 2, self.dscp << 6);
                header[4..6].copy_from_slice(&(length - 40).to_be_bytes());
                header[8..24].copy_from_slice(&source.octets());
                header[24..40].copy_from_slice(&destination.octets());
                header[6] = if fragment == 0 { self.protocol } else { 44 };
                if fragment != 0 {
                    let [high, low] = fragment.to_be_bytes();
                    header.extend([self.protocol, 0, high, low, 0, 0, 0, 1]);
                }
                header
            }
            _ => unreachable!("both are of one family"),
        };
        bytes.extend(upper);
        bytes
    }
}

fn range(most: u16) -> impl Strategy<Value = (u16, u16)> {
    (0..most, 0..most).prop_map(|(a, b)| (a.min(b), a.max(b)))
}

fn rule(is_ip4: bool) -> impl Strategy<Value = RuleOfList> {
    let lengths: &[u8] = if is_ip4 { &[0, 1, 9, 24, 31] } else { &[0, 28, 58, 88, 127] };
    // Some of a list overlap.
    let prefixes = || {
        let one = (address(is_ip4), prop::sample::select(lengths))
            .prop_map(|(ip, length)| (network(ip, length), length));
        prop_oneof![1 => Just(Vec::new()), 1 => prop::collection::vec(one, 1..4)]
    };
    let ports = || prop_oneof![4 => range(4), 1 => Just((0, u16::MAX))];
    let ranges = || prop::collection::vec(ports(), 0..3);
    let of_upper = (
        protocols(is_ip4),
        (ranges(), ranges()),
        (0..4_u8, prop_oneof![Just(0), 0..4_u8]),
        (prop::option::of(0..4_u8), prop::option::of(0..4_u8)),
    );
    let fragments = prop::sample::select(vec![
        Fragments::Any,
        Fragments::Any,
        Fragments::Any,
        Fragments::None,
        Fragments::First,
        Fragments::Later,
        Fragments::All,
    ]);
    let shortest = if is_ip4 { 40 } else { 60 };
    let length = prop::option::weighted(0.2, range(10))
        .prop_map(move |it| it.map(|(first, last)| (shortest + first, shortest + last)));
    let never = prop::bool::weighted(0.05);
    let rest = (prop::option::weighted(0.3, 0..2_u8), fragments, length, any::<bool>(), never);
    let named = || prop::option::weighted(0.2, prop::sample::select(vec!["1", "2"]));
    let interfaces = (named(), named(), prop::option::weighted(0.2, 0..3_u16));
    let all = ((prefixes(), prefixes()), of_upper, rest, interfaces);
    all.prop_map(move |(ends, of_upper, rest, (ingress, egress, vlan))| {
        let (protocols, ports, (flags, mask), icmp) = of_upper;
        let (dscp, fragments, length, is_of_both, matches_nothing) = rest;
        let is_open = ends.0.is_empty() && ends.1.is_empty() && is_of_both;
        let family = if is_ip4 { 4 } else { 6 };
        let mut rule = RuleOfList {
            family: if is_open { 0 } else { family },
            sources: ends.0,
            destinations: ends.1,
            dscp,
            protocols,
            fragments,
            length,
            matches_nothing,
            ingress: ingress.map(str::to_owned),
            egress: egress.map(str::to_owned),
            vlan,
            ..RuleOfList::all(Action::Accept)
        };
        if fragments == Fragments::Later {
            return rule;
        }
        let has_ports =
            |all: &[u8]| !all.is_empty() && all.iter().all(|it| [TCP, UDP].contains(it));
        match rule.protocols.as_slice() {
            [ICMP4 | ICMP6] if !is_open => (rule.icmp_type, rule.icmp_code) = icmp,
            all if has_ports(all) => (rule.source_ports, rule.destination_ports) = ports,
            _ => {}
        }
        if rule.protocols == [TCP] {
            rule.tcp_flags = (flags & mask, mask);
        }
        rule
    })
}

/// None, one or several protocols, as rules have them.
fn protocols(is_ip4: bool) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => Just(Vec::new()),
        3 => upper(is_ip4).prop_map(|it| vec![it]),
        1 => Just(vec![TCP, UDP]),
        1 => prop::collection::vec(upper(is_ip4), 2..4),
    ]
}

/// The number of an interface, which is its name.
fn number_of(name: &str) -> u16 {
    name.parse().unwrap()
}

/// Whether a packet meets a rule, condition by condition.
fn meets(rule: &RuleOfList, packet: &Packet) -> bool {
    let is_in = |prefixes: &[(IpAddr, u8)], ip: IpAddr| {
        prefixes.is_empty() || prefixes.iter().any(|(of, length)| network(ip, *length) == *of)
    };
    let is_within = |(first, last): (u16, u16), value: u16| (first..=last).contains(&value);
    let is_one_of = |ranges: &[(u16, u16)], value: u16| {
        ranges.is_empty() || ranges.iter().any(|range| is_within(*range, value))
    };
    let part = match rule.fragments {
        Fragments::Any => true,
        Fragments::All => packet.part != Fragments::None,
        one => packet.part == one,
    };
    let reads_upper = !rule.source_ports.is_empty()
        || !rule.destination_ports.is_empty()
        || rule.icmp_type.is_some()
        || rule.icmp_code.is_some()
        || rule.tcp_flags.1 != 0;
    let (a, b) = packet.numbers;
    let upper = is_one_of(&rule.source_ports, a)
        && is_one_of(&rule.destination_ports, b)
        && rule.icmp_type.is_none_or(|it| u16::from(it) == a)
        && rule.icmp_code.is_none_or(|it| u16::from(it) == b)
        && packet.flags & rule.tcp_flags.1 == rule.tcp_flags.0;
    let (received, sent, vlan) = packet.ends;
    let is_named =
        |name: &Option<String>, it: u16| name.as_ref().is_none_or(|name| number_of(name) == it);
    !rule.matches_nothing
        && is_named(&rule.ingress, received)
        && is_named(&rule.egress, sent)
        && rule.vlan.is_none_or(|it| it == vlan)
        && is_in(&rule.sources, packet.source)
        && is_in(&rule.destinations, packet.destination)
        && rule.dscp.is_none_or(|it| it == packet.dscp)
        && (rule.protocols.is_empty() || rule.protocols.contains(&packet.protocol))
        && rule.length.is_none_or(|it| is_within(it, packet.length()))
        && part
        && (!reads_upper || packet.part != Fragments::Later && upper)
}

fn check<F: Family>(rules: &[RuleOfList], packets: &[Packet]) {
    let (mut all, mut owners) = (Vec::new(), Vec::new());
    for (number, rule) in rules.iter().enumerate() {
        add_entries((rule, number_of), F::IS_IP4, &mut all);
        assert_eq!(all.len(), owners.len() + rule.entries());
        owners.resize(all.len(), number);
    }
    for kernel in [Kernel::Bits, Kernel::detect()] {
        let ranked: Vec<_> = (0..).zip(all.iter().copied()).collect();
        let (_, tree) = build(&ranked, kernel.or_narrower()).unwrap();
        for packet in packets {
            let fields = F::fields(&packet.bytes());
            assert_eq!(fields.kind.malformed(), None, "{packet:?}");
            let (received, sent, vlan) = packet.ends;
            let ends = Ends { received: word(received, vlan), sent: word(sent, 0) };
            let found = first::<F>(&tree.reader, &fields, ends);
            let expected = rules.iter().position(|rule| meets(rule, packet));
            let owner = (found != NO_RULE).then(|| owners[found as usize]);
            assert_eq!(owner, expected, "{packet:?}");
        }
    }
}

#[test]
fn missing_memory_is_no_limit_that_is_reached() {
    let full = BuildError::from(ClassifierError::Full(ClassifierLimit::LookupBytes));
    assert!(full.to_string().contains("the limit of"), "{full}");
    assert_eq!(BuildError::NoMemory.to_string(), "the system has no memory for their tree");
}

proptest! {
    #[test]
    fn a_packet_meets_the_first_rule_that_matches(
        of4 in (prop::collection::vec(rule(true), 0..20), prop::collection::vec(packet(true), 1..30)),
        of6 in (prop::collection::vec(rule(false), 0..20), prop::collection::vec(packet(false), 1..30)),
    ) {
        check::<Ip4>(&of4.0, &of4.1);
        check::<Ip6>(&of6.0, &of6.1);
    }
}
