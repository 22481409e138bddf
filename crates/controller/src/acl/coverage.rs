//! Whether a rule matches all packets that another one matches.

use ipnet::IpNet;
use stoa_api::text::ip;
use stoa_api::v1;

use super::rules::needs_upper;

/// The prefix of an address; `None`: it is none.
pub(super) fn net(prefix: &v1::Prefix) -> Option<IpNet> {
    IpNet::new(ip(&prefix.address)?, prefix.length as u8).ok()
}

/// A rule with its prefixes, which are read once: each rule is compared with thousands of others.
pub(super) struct Compared<'a> {
    /// The rule.
    pub(super) rule: &'a v1::AclRule,
    sources: Vec<IpNet>,
    destinations: Vec<IpNet>,
}

impl<'a> Compared<'a> {
    /// Reads the prefixes of a rule.
    pub(super) fn new(rule: &'a v1::AclRule) -> Self {
        let nets = |prefixes: &[v1::Prefix]| {
            let mut nets: Vec<IpNet> = prefixes.iter().filter_map(net).collect();
            nets.sort();
            nets
        };
        Self { rule, sources: nets(&rule.sources), destinations: nets(&rule.destinations) }
    }

    /// Whether it matches every packet of its family.
    pub(super) fn is_unconditional(&self) -> bool {
        let all = v1::AclRule { family: self.rule.family, ..v1::AclRule::default() };
        self.covers(&Compared::new(&all), &mut usize::MAX.clone())
    }

    /// Whether every packet that `other` matches matches this rule, too. Takes one of `steps` for each value of a
    /// list; when there are none left, it says no. A rule that no packet matches covers none, and no other covers it.
    pub(super) fn covers(&self, other: &Compared<'_>, steps: &mut usize) -> bool {
        !self.rule.matches_nothing
            && !other.rule.matches_nothing
            && covers_rest(self.rule, other.rule)
            && covers_all(&self.rule.protocols, &other.rule.protocols, steps, has_number)
            && covers_ranges(&self.rule.source_ports, &other.rule.source_ports, steps)
            && covers_ranges(&self.rule.destination_ports, &other.rule.destination_ports, steps)
            && covers_all(&self.sources, &other.sources, steps, has_net)
            && covers_all(&self.destinations, &other.destinations, steps, has_net)
    }
}

/// The same for all conditions that are no lists.
fn covers_rest(rule: &v1::AclRule, other: &v1::AclRule) -> bool {
    let is_wider = |rule: &Option<u32>, other: &Option<u32>| rule.is_none() || rule == other;
    let has_end = |rule: &String, other: &String| rule.is_empty() || rule == other;
    (rule.family == 0 || rule.family == other.family)
        && has_end(&rule.ingress_interface, &other.ingress_interface)
        && has_end(&rule.egress_interface, &other.egress_interface)
        && is_wider(&rule.vlan_id, &other.vlan_id)
        && is_wider(&rule.dscp, &other.dscp)
        && is_wider(&rule.icmp_type, &other.icmp_type)
        && is_wider(&rule.icmp_code, &other.icmp_code)
        && rule.tcp_flags_mask & !other.tcp_flags_mask == 0
        && other.tcp_flags & rule.tcp_flags_mask == rule.tcp_flags
        && covers_fragments(rule, other)
        && covers_length(&rule.length, &other.length)
}

/// Whether a list of values in ascending order, of which none is a part of two others, has all values of another one.
/// An empty list has all there are.
fn covers_all<T>(
    list: &[T],
    other: &[T],
    steps: &mut usize,
    has: impl Fn(&[T], &T) -> bool,
) -> bool {
    let is_in = |it: &T| {
        let left = steps.checked_sub(1);
        *steps = left.unwrap_or_default();
        left.is_some() && has(list, it)
    };
    list.is_empty() || !other.is_empty() && other.iter().all(is_in)
}

fn has_number(numbers: &[u32], number: &u32) -> bool {
    numbers.binary_search(number).is_ok()
}

fn has_net(nets: &[IpNet], net: &IpNet) -> bool {
    let behind = nets.partition_point(|it| it.network() <= net.network());
    nets[..behind].last().is_some_and(|it| it.contains(net))
}

/// Ranges are sorted and apart from each other.
fn covers_ranges(ranges: &[v1::PortRange], other: &[v1::PortRange], steps: &mut usize) -> bool {
    covers_all(ranges, other, steps, |ranges, it| {
        let behind = ranges.partition_point(|range| range.first <= it.first);
        ranges[..behind].last().is_some_and(|range| it.last <= range.last)
    })
}

fn covers_fragments(rule: &v1::AclRule, other: &v1::AclRule) -> bool {
    use v1::AclFragment::{AnyFragment, AnyPacket, FirstFragment, LaterFragment};
    let (of_rule, of_other) = (rule.fragment(), other.fragment());
    // What looks at ports never matches later fragments.
    let is_narrower = of_other == AnyFragment && of_rule == FirstFragment && needs_upper(other);
    of_rule == of_other
        || of_rule == AnyPacket
        || of_rule == AnyFragment && matches!(of_other, FirstFragment | LaterFragment)
        || is_narrower
}

fn covers_length(rule: &Option<v1::PortRange>, other: &Option<v1::PortRange>) -> bool {
    let Some(rule) = rule else { return true };
    other.as_ref().is_some_and(|other| rule.first <= other.first && other.last <= rule.last)
}
