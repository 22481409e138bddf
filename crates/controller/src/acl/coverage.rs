//! Whether a rule matches all packets that another one matches.

use stoa_api::text::ip;
use stoa_api::v1;

use super::rules::needs_upper;

/// Whether every packet that `other` matches matches `rule`, too.
pub(super) fn covers(rule: &v1::AclRule, other: &v1::AclRule) -> bool {
    let is_wider = |rule: &Option<u32>, other: &Option<u32>| rule.is_none() || rule == other;
    (rule.family == 0 || rule.family == other.family)
        && is_wider(&rule.protocol, &other.protocol)
        && is_wider(&rule.dscp, &other.dscp)
        && covers_prefix(&rule.source, &other.source)
        && covers_prefix(&rule.destination, &other.destination)
        && covers_ranges(&rule.source_ports, &other.source_ports)
        && covers_ranges(&rule.destination_ports, &other.destination_ports)
        && is_wider(&rule.icmp_type, &other.icmp_type)
        && is_wider(&rule.icmp_code, &other.icmp_code)
        && rule.tcp_flags_mask & !other.tcp_flags_mask == 0
        && other.tcp_flags & rule.tcp_flags_mask == rule.tcp_flags
        && covers_fragments(rule, other)
        && covers_length(&rule.length, &other.length)
}

fn covers_prefix(rule: &Option<v1::Prefix>, other: &Option<v1::Prefix>) -> bool {
    let Some(rule) = rule else { return true };
    let Some(other) = other else { return false };
    let net = |it: &v1::Prefix| ipnet::IpNet::new(ip(&it.address)?, it.length as u8).ok();
    net(rule).zip(net(other)).is_some_and(|(rule, other)| rule.contains(&other))
}

/// Ranges are sorted and apart from each other.
fn covers_ranges(rule: &[v1::PortRange], other: &[v1::PortRange]) -> bool {
    let is_in = |it: &v1::PortRange| {
        rule.iter().any(|range| range.first <= it.first && it.last <= range.last)
    };
    rule.is_empty() || !other.is_empty() && other.iter().all(is_in)
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
