//! Access lists of the receiving interfaces: generated rules about the networks of the table.

use std::net::IpAddr;

use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::{
    AclRule, AclSets, DesiredState, Fragments, RuleOfList, ZonePair,
};
use stoa_forwarder::flow::profiles::Profile;
use stoa_forwarder::flow::timeouts::Class;
use stoa_tables::classifier::{self, Fragment, Range};
use stoa_wire::protocol::{ICMP4, ICMP6};

use super::flows::NEW_TIMEOUT_S;
use super::targets::{Prefix, Table};
use super::{Ip, Workload};
use crate::classify::Rules;

/// The seed of the rules.
const SEED: u64 = 8519;

/// Adds a list for each family. All its rules accept, so that no packet is lost, and `is_stateful` ones begin flows,
/// which have a profile.
/// Returns the lists of an interface that receives.
pub(super) fn add(
    desired: &mut DesiredState,
    (rules, is_stateful, flow_profile): (&Rules, bool, Option<Profile>),
    tables: &[Table],
) -> AclSets {
    let mut sets = AclSets::default();
    for table in tables {
        let (list, lists) = match table.ip {
            Ip::V4 => ("ip4", &mut sets.in4),
            Ip::V6 => ("ip6", &mut sets.in6),
        };
        let sources: Vec<Prefix> =
            table.sources.iter().flatten().map(|(prefix, _)| *prefix).collect();
        let mut after = String::new();
        for (at, rule) in rules.of_family(table.ip == Ip::V6, SEED).into_iter().enumerate() {
            let rule = translated(&rule, table, &sources);
            let rule = RuleOfList { is_stateful, flow_profile, ..rule };
            let before = std::mem::replace(&mut after, at.to_string());
            let rule = AclRule { after: before, sets: None, rule };
            desired.acl_rules.insert((list.to_owned(), after.clone()), rule);
        }
        lists.push(list.to_owned());
    }
    sets
}

/// The profile of flows of which each has one packet: they end soon. `None`: as without one.
pub(super) fn profile(workload: &Workload) -> Option<Profile> {
    let mut profile = Profile::default();
    profile.timeouts.set(Class::UdpNew, NEW_TIMEOUT_S);
    workload.flows.are_new().then_some(profile)
}

/// The zones of receiving and of sending interfaces.
pub(super) const ZONES: [&str; 2] = ["in", "out"];

/// Gives the lists to the pair of both zones.
pub(super) fn attach_to_zones(desired: &mut DesiredState, sets: AclSets) {
    let pair = ZonePair { acls4: sets.in4, acls6: sets.in6 };
    desired.zone_pairs.insert(ZONES.map(str::to_owned).into(), pair);
}

/// The same rule as an entry of a list, without interfaces, VLANs and states of flows: packets here have none of them.
fn translated(rule: &classifier::Rule, table: &Table, sources: &[Prefix]) -> RuleOfList {
    let is_icmp = rule.protocol.is_some_and(|protocol| matches!(protocol, ICMP4 | ICMP6));
    let ranges = |range: Range| match range {
        Range::ANY => Vec::new(),
        _ if is_icmp => Vec::new(),
        Range { first, last } => vec![(first, last)],
    };
    let kind = rule.source_ports.first.min(255) as u8;
    let Range { first, last } = rule.lengths;
    RuleOfList {
        family: if table.ip == Ip::V4 { 4 } else { 6 },
        sources: rule.source.map(|prefix| moved(prefix, sources)).into_iter().collect(),
        destinations: rule.destination.map(|it| moved(it, &table.prefixes)).into_iter().collect(),
        dscp: rule.dscp,
        protocols: rule.protocol.into_iter().collect(),
        source_ports: ranges(rule.source_ports),
        destination_ports: ranges(rule.destination_ports),
        icmp_type: (is_icmp && rule.source_ports != Range::ANY).then_some(kind),
        tcp_flags: (rule.tcp_flags, rule.tcp_flags_mask),
        fragments: if rule.fragments == Fragment::Later.bit() {
            Fragments::Later
        } else {
            Fragments::Any
        },
        length: (rule.lengths != Range::ANY).then_some((first, last)),
        ..RuleOfList::all(Action::Accept)
    }
}

/// The same prefix within one of these networks: always the same one. Without networks it stays.
fn moved(prefix: classifier::Prefix, networks: &[Prefix]) -> Prefix {
    let (bits, len) = match prefix {
        classifier::Prefix::Ip4 { address, len } => (u128::from(address) << 96, len),
        classifier::Prefix::Ip6 { address, len } => (address, len),
    };
    let is_ip4 = matches!(prefix, classifier::Prefix::Ip4 { .. });
    // Addresses next to each other are in different networks.
    let mixed = (bits >> 64 ^ bits) as u64;
    let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let network = networks.get(mixed as usize % networks.len().max(1));
    let (bits, len) = network.map_or((bits, len), |(network, within)| {
        let network = match network {
            IpAddr::V4(four) => u128::from(four.to_bits()) << 96,
            IpAddr::V6(six) => six.to_bits(),
        };
        let inner = u128::MAX.checked_shr((*within).into()).unwrap_or(0);
        let len = len.max(*within);
        let outer = !u128::MAX.checked_shr(len.into()).unwrap_or(0);
        (network & !inner | bits & inner & outer, len)
    });
    match is_ip4 {
        true => (IpAddr::V4(((bits >> 96) as u32).into()), len),
        false => (IpAddr::V6(bits.into()), len),
    }
}
