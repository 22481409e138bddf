//! From the rules of lists to a classifier.

use std::net::IpAddr;
use std::sync::Arc;

use super::{AccessListState, Compiled, Set};
use crate::acl::fields::Family;
use crate::acl::matcher::{Conditions, Matcher};
use crate::acl::{Classifier, Rule};
use crate::control::desired::{Prefix, RuleOfList};

/// An address as workers compare it.
pub(super) trait Bits: Family {
    /// Network and mask; without a prefix of this family: all addresses.
    fn masked(prefix: Option<Prefix>) -> (Self, Self);
}

impl Bits for u32 {
    fn masked(prefix: Option<Prefix>) -> (Self, Self) {
        let Some((IpAddr::V4(ip), length)) = prefix else { return (0, 0) };
        let mask = Self::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
        (Self::from(ip) & mask, mask)
    }
}

impl Bits for u128 {
    fn masked(prefix: Option<Prefix>) -> (Self, Self) {
        let Some((IpAddr::V6(ip), length)) = prefix else { return (0, 0) };
        let mask = Self::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
        (Self::from(ip) & mask, mask)
    }
}

/// The conditions of a rule: one for each pair of its ranges of ports.
pub(super) fn conditions<K: Bits>(rule: &RuleOfList) -> Vec<Conditions<K>> {
    const ALL: (u16, u16) = (0, u16::MAX);
    let one = |byte: Option<u8>| byte.map_or(ALL, |byte| (byte.into(), byte.into()));
    let ranges = |ranges: &[(u16, u16)], icmp: Option<u8>| match ranges {
        [] => vec![one(icmp)],
        ranges => ranges.to_vec(),
    };
    let sources = ranges(&rule.source_ports, rule.icmp_type);
    let destinations = ranges(&rule.destination_ports, rule.icmp_code);
    let all = Conditions {
        source: K::masked(rule.source),
        destination: K::masked(rule.destination),
        dscp: rule.dscp,
        protocol: rule.protocol,
        source_ports: ALL,
        destination_ports: ALL,
        tcp_flags: rule.tcp_flags,
        fragments: rule.fragments,
        length: rule.length.unwrap_or(ALL),
    };
    let mut pairs = Vec::with_capacity(sources.len() * destinations.len());
    for source_ports in &sources {
        for destination_ports in &destinations {
            let (source_ports, destination_ports) = (*source_ports, *destination_ports);
            pairs.push(Conditions { source_ports, destination_ports, ..all.clone() });
        }
    }
    pairs
}

impl AccessListState {
    /// Compiles the lists of a set; returns how many rules they have, too.
    pub(super) fn compile(&self, id: u32, set: &Set) -> (Compiled, u32) {
        if set.is_ip4 {
            let classifier = self.classifier::<u32>(id, &set.lists, 4);
            let rules = classifier.rules.len() as u32;
            return (Compiled::Ip4(Arc::new(classifier)), rules);
        }
        let classifier = self.classifier::<u128>(id, &set.lists, 6);
        let rules = classifier.rules.len() as u32;
        (Compiled::Ip6(Arc::new(classifier)), rules)
    }

    fn classifier<K: Bits>(&self, id: u32, lists: &[String], family: u8) -> Classifier<K> {
        let (mut entries, mut rules) = (Vec::new(), Vec::new());
        let all = lists.iter().flat_map(|acl| self.list(acl));
        for installed in
            all.filter(|it| matches!(it.rule.rule.family, 0) || it.rule.rule.family == family)
        {
            let rule = &installed.rule.rule;
            let number = rules.len() as u32;
            entries.extend(conditions::<K>(rule).into_iter().map(|it| (it, number)));
            rules.push(Rule { action: rule.action, hits: installed.hits.clone() });
        }
        Classifier { id, matcher: Matcher::new(entries), rules }
    }
}
