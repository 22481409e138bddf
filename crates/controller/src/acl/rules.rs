//! The rules of lists, as the forwarder gets them.

use std::collections::HashMap;

use ipnet::IpNet;
use stoa_api::acl::{action_text, flags_of};
use stoa_api::v1;
use stoa_wire::protocol::{ICMP4, ICMP6, TCP, UDP};
use stoa_yang::error::ValidationErrors;

use super::flow_profiles;
use super::paths::{list_path, rule_path};
use crate::config::model::{
    Ace, Acl, Acls, Fragment, IcmpMatch, IpMatch, LengthRange, Matches, Operator, PortMatch, Ports,
};
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
    let profiles = flow_profiles::profiles(acls, errors);
    let mut rules = Vec::new();
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
            let place = Place { path: rule_path(&acl.name, &ace.name), family: family_of(acl) };
            let mut rule = place.rule(ace, errors);
            rule.flow_profile = place.flow_profile(ace, &profiles, errors);
            rule.acl.clone_from(&acl.name);
            rule.after = std::mem::replace(&mut after, ace.name.clone());
            rules.push(rule);
        }
    }
    rules
}

/// A rule that is translated: its path and the family of its list.
struct Place {
    path: String,
    family: u32,
}

impl Place {
    fn rule(&self, ace: &Ace, errors: &mut ValidationErrors) -> v1::AclRule {
        let matches = &ace.matches;
        let (of_ip, family) = self.of_ip(matches, errors);
        let mut rule = v1::AclRule {
            name: ace.name.clone(),
            family,
            dscp: of_ip.dscp,
            protocol: of_ip.protocol,
            action: self.action(ace, errors).into(),
            stateful: ace.actions.stateful,
            fragment: match matches.fragment {
                None => v1::AclFragment::AnyPacket,
                Some(Fragment::None) => v1::AclFragment::NoFragment,
                Some(Fragment::First) => v1::AclFragment::FirstFragment,
                Some(Fragment::Later) => v1::AclFragment::LaterFragment,
                Some(Fragment::Any) => v1::AclFragment::AnyFragment,
            }
            .into(),
            length: length(&matches.packet_length),
            ..v1::AclRule::default()
        };
        let prefix = |given: &Option<String>| {
            let net: IpNet = given.as_ref()?.parse().ok()?;
            (net.prefix_len() > 0).then(|| prefix_to_proto(&net.trunc()))
        };
        rule.source = prefix(&of_ip.source_ipv4_network).or(prefix(&of_ip.source_ipv6_network));
        rule.destination =
            prefix(&of_ip.destination_ipv4_network).or(prefix(&of_ip.destination_ipv6_network));
        self.upper(matches, &mut rule, errors);
        if matches.fragment.is_some_and(|it| matches!(it, Fragment::Later)) && needs_upper(&rule) {
            errors.add(
                format!("{}/matches/stoa-acl:fragment", self.path),
                "later fragments have neither ports nor TCP flags nor an ICMP type, so the rule matches no packet",
                "Remove the ports, flags and types, or match other fragments.",
            );
        }
        rule
    }

    /// The conditions on the IP header, and the family of the rule.
    fn of_ip<'a>(&self, matches: &'a Matches, errors: &mut ValidationErrors) -> (&'a IpMatch, u32) {
        static NONE: IpMatch = IpMatch {
            dscp: None,
            protocol: None,
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
        if self.family != 0 && self.family != family {
            let other = if family == 4 { "ipv4" } else { "ipv6" };
            errors.add(
                format!("{}/matches/{other}", self.path),
                format!("the list is of the other family (IPv{})", self.family),
                "Move the rule to a list of its family, or remove the type of the list.",
            );
        }
        (of_ip, family)
    }

    fn action(&self, ace: &Ace, errors: &mut ValidationErrors) -> v1::AclAction {
        let identity = |value: &str| value.rsplit(':').next().unwrap_or_default().to_owned();
        if identity(&ace.actions.logging) == "log-syslog" {
            errors.add(
                format!("{}/actions/logging", self.path),
                "packets of access lists are not logged yet",
                "Remove it: the counters of the rule tell how many packets match, and when the last one did.",
            );
        }
        let action = match identity(&ace.actions.forwarding).as_str() {
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

    /// The conditions on the header of the upper layer.
    fn upper(&self, matches: &Matches, rule: &mut v1::AclRule, errors: &mut ValidationErrors) {
        let ports = |it: &&PortMatch| **it != PortMatch::default();
        if let Some(tcp) = matches.tcp.as_ref().filter(ports) {
            self.set_protocol(("tcp", TCP), rule, errors);
            // libyang has checked the names.
            let [set, clear] = [&tcp.tcp_flags.set, &tcp.tcp_flags.clear]
                .map(|names| flags_of(names).unwrap_or_default());
            if set & clear != 0 {
                errors.add(
                    format!("{}/matches/tcp/stoa-acl:tcp-flags/clear", self.path),
                    "a flag cannot be set and clear, so the rule matches no packet",
                    "Remove the flag from one of the two leaves.",
                );
            }
            (rule.tcp_flags, rule.tcp_flags_mask) = (set, set | clear);
            self.set_ports("tcp", tcp, rule, errors);
        }
        if let Some(udp) = matches.udp.as_ref().filter(ports) {
            self.set_protocol(("udp", UDP), rule, errors);
            self.set_ports("udp", udp, rule, errors);
        }
        let Some(icmp) = matches.icmp.as_ref().filter(|it| **it != IcmpMatch::default()) else {
            return;
        };
        let number = match rule.family {
            4 => ICMP4,
            6 => ICMP6,
            _ => {
                errors.add(
                    format!("{}/matches/icmp", self.path),
                    "the rule is of both families, whose types of ICMP differ",
                    "Set the type of the list to ipv4-acl-type or ipv6-acl-type.",
                );
                return;
            }
        };
        self.set_protocol(("icmp", number), rule, errors);
        if icmp.kind.is_none() && icmp.code.is_some() {
            errors.add(
                format!("{}/matches/icmp/code", self.path),
                "a code means nothing without its type",
                "Set type, too.",
            );
        }
        (rule.icmp_type, rule.icmp_code) = (icmp.kind, icmp.code);
    }

    fn set_protocol(
        &self,
        (name, number): (&str, u8),
        rule: &mut v1::AclRule,
        errors: &mut ValidationErrors,
    ) {
        let number = u32::from(number);
        if let Some(other) = rule.protocol.filter(|other| *other != number) {
            errors.add(
                format!("{}/matches/{name}", self.path),
                format!("the protocol of the rule is {other}, that of {name} is {number}: no packet has both"),
                format!("Remove protocol, or set it to {number}."),
            );
        }
        rule.protocol = Some(number);
    }

    fn set_ports(
        &self,
        name: &str,
        given: &PortMatch,
        rule: &mut v1::AclRule,
        errors: &mut ValidationErrors,
    ) {
        let mut one = |leaf: &str, ports: &Ports| {
            let ranges = ranges(ports);
            if ranges.as_ref().is_some_and(Vec::is_empty) {
                errors.add(
                    format!("{}/matches/{name}/{leaf}", self.path),
                    "no port is in this range, so the rule matches no packet",
                    "Set lower-port to the lower port.",
                );
            }
            ranges.unwrap_or_default()
        };
        rule.source_ports = one("source-port", &given.source_port);
        rule.destination_ports = one("destination-port", &given.destination_port);
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

/// The ranges of a port; `None`: all ports. Empty: none.
fn ranges(ports: &Ports) -> Option<Vec<v1::PortRange>> {
    let all = u32::from(u16::MAX);
    let range = |first: u32, last: u32| {
        (first <= last && last <= all).then_some(v1::PortRange { first, last })
    };
    if let (Some(first), Some(last)) = (ports.lower_port, ports.upper_port) {
        return Some(range(first, last).into_iter().collect());
    }
    let port = ports.port?;
    let ranges = match ports.operator.unwrap_or(Operator::Eq) {
        Operator::Eq => [range(port, port), None],
        Operator::Lte => [range(0, port), None],
        Operator::Gte => [range(port, all), None],
        Operator::Neq => {
            [port.checked_sub(1).and_then(|last| range(0, last)), range(port + 1, all)]
        }
    };
    Some(ranges.into_iter().flatten().collect())
}

fn length(range: &LengthRange) -> Option<v1::PortRange> {
    let all = u32::from(u16::MAX);
    (range.lower.is_some() || range.upper.is_some()).then(|| v1::PortRange {
        first: range.lower.unwrap_or(0),
        last: range.upper.unwrap_or(all),
    })
}
