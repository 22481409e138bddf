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
    source: Option<IpNet>,
    destination: Option<IpNet>,
}

impl<'a> Compared<'a> {
    /// Reads the prefixes of a rule.
    pub(super) fn new(rule: &'a v1::AclRule) -> Self {
        let net = |prefix: &Option<v1::Prefix>| prefix.as_ref().and_then(net);
        Self { rule, source: net(&rule.source), destination: net(&rule.destination) }
    }

    /// Whether it matches every packet of its family.
    pub(super) fn is_unconditional(&self) -> bool {
        let all = v1::AclRule { family: self.rule.family, ..v1::AclRule::default() };
        self.covers(&Compared::new(&all))
    }

    /// Whether every packet that `other` matches matches this rule, too.
    pub(super) fn covers(&self, other: &Compared<'_>) -> bool {
        covers_prefix(self.source, other.source)
            && covers_prefix(self.destination, other.destination)
            && covers_rest(self.rule, other.rule)
    }
}

/// The same for all conditions but prefixes.
fn covers_rest(rule: &v1::AclRule, other: &v1::AclRule) -> bool {
    let is_wider = |rule: &Option<u32>, other: &Option<u32>| rule.is_none() || rule == other;
    (rule.family == 0 || rule.family == other.family)
        && is_wider(&rule.protocol, &other.protocol)
        && is_wider(&rule.dscp, &other.dscp)
        && covers_ranges(&rule.source_ports, &other.source_ports)
        && covers_ranges(&rule.destination_ports, &other.destination_ports)
        && is_wider(&rule.icmp_type, &other.icmp_type)
        && is_wider(&rule.icmp_code, &other.icmp_code)
        && rule.tcp_flags_mask & !other.tcp_flags_mask == 0
        && other.tcp_flags & rule.tcp_flags_mask == rule.tcp_flags
        && covers_fragments(rule, other)
        && covers_length(&rule.length, &other.length)
}

fn covers_prefix(net: Option<IpNet>, other: Option<IpNet>) -> bool {
    let Some(net) = net else { return true };
    other.is_some_and(|other| net.contains(&other))
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
