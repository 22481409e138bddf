//! The rules of lists, as the forwarder gets them.

use std::collections::HashMap;

use ipnet::IpNet;
use stoa_api::acl::{ENTRIES, VALUES, action_text, entry_count};
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use super::flow_profiles;
use super::paths::{ACLS, list_path, rule_path};
use super::sets::Sets;
use crate::config::model::{Ace, Acl, Acls, Fragment, IpMatch, LengthRange, Matches};
use crate::prefix::prefix_to_proto;

/// The family of a list by its type: 4, 6, or 0 for both.
pub(super) fn family_of(acl: &Acl) -> u32 {
    match acl.kind.as_deref().and_then(|kind| kind.rsplit(':').next()) {
        Some("ipv4-acl-type") => 4,
        Some("ipv6-acl-type") => 6,
        _ => 0,
    }
}

/// The rules of all lists.
pub(super) fn rules(acls: &Acls, errors: &mut ValidationErrors) -> Vec<v1::AclRule> {
    let profiles = flow_profiles::profiles(acls);
    let sets = Sets::new(&acls.defined_sets, errors);
    let (mut rules, mut left) = (Vec::new(), Some(VALUES));
    for acl in &acls.acl {
        let kind = acl.kind.as_deref().and_then(|kind| kind.rsplit(':').next()).unwrap_or_default();
        if !matches!(kind, "" | "ipv4-acl-type" | "ipv6-acl-type") {
            errors.add(
                format!("{}/type", list_path(&acl.name)),
                format!("lists of the type {kind} are not supported"),
                "Use ipv4-acl-type or ipv6-acl-type, or no type for a list of both families.",
            );
        }
        let mut after = String::new();
        for ace in &acl.aces.ace {
            let path = rule_path(&acl.name, &ace.name);
            let place = Place { path, list: &acl.name, family: family_of(acl), sets: &sets };
            let mut rule = place.rule(ace, errors);
            rule.flow_profile = place.flow_profile(ace, &profiles, errors);
            rule.alg = place.alg(ace, &rule.protocols, errors);
            rule.rate_limit = place.rate_limit(ace, rule.action(), errors);
            if let Some(more) = left {
                left = more.checked_sub(value_count(&rule));
                if left.is_none() {
                    let cause =
                        format!("the sets of all rules together have more than {VALUES} values");
                    errors.add(ACLS, cause, "Use fewer rules with large sets, or smaller sets.");
                }
            }
            if left.is_none() {
                // Not to take memory without end.
                rule = v1::AclRule { name: rule.name, ..v1::AclRule::default() };
            }
            rule.acl.clone_from(&acl.name);
            rule.after = std::mem::replace(&mut after, ace.name.clone());
            rules.push(rule);
        }
    }
    rules
}

/// How many values the lists of a rule have.
fn value_count(rule: &v1::AclRule) -> usize {
    let prefixes = rule.sources.len() + rule.destinations.len();
    prefixes + rule.protocols.len() + rule.source_ports.len() + rule.destination_ports.len()
}

/// The name of an identity, without its module.
fn identity(value: &str) -> &str {
    value.rsplit(':').next().unwrap_or_default()
}

/// A rule that is translated: its path, its list with its family, and all sets.
pub(super) struct Place<'a> {
    pub(super) path: String,
    list: &'a str,
    family: u32,
    pub(super) sets: &'a Sets,
}

impl Place<'_> {
    fn rule(&self, ace: &Ace, errors: &mut ValidationErrors) -> v1::AclRule {
        let matches = &ace.matches;
        let (of_ip, family) = self.of_ip(matches, errors);
        let mut rule = v1::AclRule {
            name: ace.name.clone(),
            family,
            dscp: of_ip.dscp,
            protocols: of_ip.protocol.into_iter().collect(),
            action: self.action(ace, errors).into(),
            stateful: ace.actions.stateful,
            log: identity(&ace.actions.logging) == "log-syslog",
            fragment: match matches.fragment {
                None => v1::AclFragment::AnyPacket,
                Some(Fragment::None) => v1::AclFragment::NoFragment,
                Some(Fragment::First) => v1::AclFragment::FirstFragment,
                Some(Fragment::Later) => v1::AclFragment::LaterFragment,
                Some(Fragment::Any) => v1::AclFragment::AnyFragment,
            }
            .into(),
            length: length(&matches.packet_length),
            ingress_interface: matches.ingress_interface.clone().unwrap_or_default(),
            egress_interface: matches.egress_interface.clone().unwrap_or_default(),
            vlan_id: matches.vlan_id,
            ..v1::AclRule::default()
        };
        self.addresses(of_ip, &mut rule);
        self.protocol_set(of_ip, &mut rule, errors);
        self.upper(matches, &mut rule, errors);
        if !rule.matches_nothing {
            // All addresses are no condition.
            for list in [&mut rule.sources, &mut rule.destinations] {
                if list.iter().any(|prefix| prefix.length == 0) {
                    list.clear();
                }
            }
        }
        self.check_entries(&rule, errors);
        if matches.fragment.is_some_and(|it| matches!(it, Fragment::Later)) && needs_upper(&rule) {
            errors.add(
                format!("{}/matches/stoa-acl:fragment", self.path),
                "later fragments have neither ports nor TCP flags nor an ICMP type, so the rule matches no packet",
                "Remove the ports, flags and types, or match other fragments.",
            );
        }
        rule
    }

    /// The prefixes of a rule, from leaves or from sets.
    fn addresses(&self, of_ip: &IpMatch, rule: &mut v1::AclRule) {
        let is_ip4 = rule.family == 4;
        let mut list = |leaves: [&Option<String>; 2], set: &Option<String>| {
            let one = leaves.into_iter().flatten().find_map(|it| it.parse::<IpNet>().ok());
            let mut nets: Vec<IpNet> = one.into_iter().map(|net| net.trunc()).collect();
            if let Some(set) = set {
                let values = self.sets.prefixes(is_ip4, set);
                rule.matches_nothing |= values.is_some_and(<[_]>::is_empty);
                nets = values.unwrap_or_default().to_vec();
            }
            nets.iter().map(prefix_to_proto).collect()
        };
        let leaves = [&of_ip.source_ipv4_network, &of_ip.source_ipv6_network];
        let sources = list(leaves, &of_ip.source_set);
        let leaves = [&of_ip.destination_ipv4_network, &of_ip.destination_ipv6_network];
        let destinations = list(leaves, &of_ip.destination_set);
        (rule.sources, rule.destinations) = (sources, destinations);
        if of_ip.source_set.is_some() || of_ip.destination_set.is_some() {
            let names = rule.sets.get_or_insert_default();
            names.sources = of_ip.source_set.clone().unwrap_or_default();
            names.destinations = of_ip.destination_set.clone().unwrap_or_default();
        }
    }

    /// The protocols of a rule, if they are a set.
    fn protocol_set(&self, of_ip: &IpMatch, rule: &mut v1::AclRule, errors: &mut ValidationErrors) {
        let Some(set) = &of_ip.protocol_set else { return };
        if of_ip.protocol.is_some() {
            errors.add(
                self.protocol_set_path(rule),
                "\"protocol\" and \"protocol-set\" exclude each other",
                "Keep one of them: protocol or protocol-set.",
            );
        }
        rule.sets.get_or_insert_default().protocols.clone_from(set);
        let values = self.sets.protocols(set);
        rule.matches_nothing |= values.is_some_and(<[_]>::is_empty);
        rule.protocols = values.unwrap_or_default().to_vec();
    }

    pub(super) fn protocol_set_path(&self, rule: &v1::AclRule) -> String {
        format!("{}/matches/ipv{}/stoa-acl:protocol-set", self.path, rule.family)
    }

    /// Checks that the product of the lists of a rule is not too large.
    fn check_entries(&self, rule: &v1::AclRule, errors: &mut ValidationErrors) {
        let entries = entry_count(rule);
        if entries <= ENTRIES {
            return;
        }
        let lists = [
            (rule.sources.len(), "source prefixes"),
            (rule.destinations.len(), "destination prefixes"),
            (rule.protocols.len(), "protocols"),
            (rule.source_ports.len(), "ranges of source ports"),
            (rule.destination_ports.len(), "ranges of destination ports"),
        ];
        let lists = lists.iter().filter(|(count, _)| *count > 1);
        let lists: Vec<String> = lists.map(|(count, what)| format!("{count} {what}")).collect();
        errors.add(
            &self.path,
            format!(
                "the rule combines {}: {entries} entries, more than {ENTRIES}",
                lists.join(" with ")
            ),
            "Use smaller sets, or prefixes and ranges that cover several of their values.",
        );
    }

    /// The conditions on the IP header, and the family of the rule.
    fn of_ip<'a>(&self, matches: &'a Matches, errors: &mut ValidationErrors) -> (&'a IpMatch, u32) {
        static NONE: IpMatch = IpMatch {
            dscp: None,
            protocol: None,
            protocol_set: None,
            source_set: None,
            destination_set: None,
            destination_ipv4_network: None,
            source_ipv4_network: None,
            destination_ipv6_network: None,
            source_ipv6_network: None,
        };
        // A container without a leaf is no condition.
        let given = |it: &'a Option<IpMatch>| it.as_ref().filter(|it| **it != NONE);
        let (of_ip, family) = match (given(&matches.ipv4), given(&matches.ipv6)) {
            (Some(four), _) => (four, 4),
            (None, Some(six)) => (six, 6),
            (None, None) => return (&NONE, self.family),
        };
        if self.family != family {
            let path = format!("{}/matches/ipv{family}", self.path);
            let kind = format!("ipv{family}-acl-type");
            // libyang refuses these conditions only if no list has their type.
            match self.family {
                0 => errors.add(
                    path,
                    format!("conditions of ipv{family} need a list of the type {kind}"),
                    format!(
                        "Set {}/type to {kind}, or move the rule to a list of this type.",
                        list_path(self.list)
                    ),
                ),
                of_list => errors.add(
                    path,
                    format!("the list is of the other family (IPv{of_list})"),
                    "Move the rule to a list of its family.",
                ),
            }
        }
        (of_ip, family)
    }

    fn action(&self, ace: &Ace, errors: &mut ValidationErrors) -> v1::AclAction {
        let action = match identity(&ace.actions.forwarding) {
            "accept" => v1::AclAction::AclAccept,
            "reject" => v1::AclAction::AclReject,
            _ => v1::AclAction::AclDrop,
        };
        if ace.actions.stateful && action != v1::AclAction::AclAccept {
            errors.add(
                format!("{}/actions/stoa-acl:stateful", self.path),
                format!(
                    "packets that the rule does not accept ({}) begin no flow",
                    action_text(action)
                ),
                "Remove stateful, or set forwarding to accept.",
            );
        }
        action
    }

    /// The limit of what it accepts.
    fn rate_limit(
        &self,
        ace: &Ace,
        action: v1::AclAction,
        errors: &mut ValidationErrors,
    ) -> Option<v1::RateLimit> {
        let given = &ace.actions.rate_limit;
        let path = format!("{}/actions/stoa-acl:rate-limit", self.path);
        let Some(packets_per_second) = given.packets_per_second else {
            if given.burst.is_some() {
                let cause = "a burst limits nothing without a rate";
                errors.add(format!("{path}/burst"), cause, "Set packets-per-second, too.");
            }
            return None;
        };
        if action != v1::AclAction::AclAccept {
            errors.add(
                path,
                format!("the rule accepts no packets ({})", action_text(action)),
                "Remove the rate limit, or set forwarding to accept.",
            );
        }
        let burst = given.burst.unwrap_or(packets_per_second);
        Some(v1::RateLimit { packets_per_second, burst })
    }

    /// How its flows are followed.
    fn flow_profile(
        &self,
        ace: &Ace,
        profiles: &HashMap<&str, v1::FlowProfile>,
        errors: &mut ValidationErrors,
    ) -> Option<v1::FlowProfile> {
        let name = ace.actions.flow_profile.as_deref()?;
        if !ace.actions.stateful {
            errors.add(
                format!("{}/actions/stoa-acl:flow-profile", self.path),
                "an entry that is not stateful begins no flows",
                "Remove the flow profile, or set stateful to true.",
            );
        }
        profiles.get(name).copied()
    }
}

/// Whether a rule looks at the header of the upper layer.
pub(super) fn needs_upper(rule: &v1::AclRule) -> bool {
    !rule.source_ports.is_empty()
        || !rule.destination_ports.is_empty()
        || rule.icmp_type.is_some()
        || rule.icmp_code.is_some()
        || rule.tcp_flags_mask != 0
}

fn length(range: &LengthRange) -> Option<v1::PortRange> {
    let all = u32::from(u16::MAX);
    (range.lower.is_some() || range.upper.is_some()).then(|| v1::PortRange {
        first: range.lower.unwrap_or(0),
        last: range.upper.unwrap_or(all),
    })
}
