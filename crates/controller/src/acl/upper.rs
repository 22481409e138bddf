//! The conditions of rules on the header of the upper layer: ports, TCP flags, types of ICMP.

use stoa_api::acl::flags_of;
use stoa_api::v1;
use stoa_wire::protocol::{ICMP4, ICMP6, TCP, UDP};
use stoa_yang::error::ValidationErrors;

use super::rules::Place;
use crate::config::model::{IcmpMatch, Matches, Operator, PortMatch, Ports};

impl Place<'_> {
    /// The conditions on the header of the upper layer.
    pub(super) fn upper(
        &self,
        matches: &Matches,
        rule: &mut v1::AclRule,
        errors: &mut ValidationErrors,
    ) {
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
            self.set_ports(("tcp", tcp), rule, errors);
        }
        if let Some(udp) = matches.udp.as_ref().filter(ports) {
            self.set_protocol(("udp", UDP), rule, errors);
            self.set_ports(("udp", udp), rule, errors);
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
        if rule.sets.as_ref().is_some_and(|names| !names.protocols.is_empty()) {
            errors.add(
                self.protocol_set_path(rule),
                format!("the protocol of {name} is {number}, so a set of protocols has no effect"),
                "Remove protocol-set.",
            );
        } else if let Some(other) = rule.protocols.iter().find(|other| **other != number) {
            errors.add(
                format!("{}/matches/{name}", self.path),
                format!("the protocol of the rule is {other}, that of {name} is {number}: no packet has both"),
                format!("Remove protocol, or set it to {number}."),
            );
        }
        rule.protocols = vec![number];
    }

    fn set_ports(
        &self,
        (name, given): (&str, &PortMatch),
        rule: &mut v1::AclRule,
        errors: &mut ValidationErrors,
    ) {
        let mut one = |side: &str, ports: &Ports, set: &Option<String>| {
            let ranges = ranges(ports);
            let Some(set) = set else {
                if ranges.as_ref().is_some_and(Vec::is_empty) {
                    errors.add(
                        format!("{}/matches/{name}/{side}-port", self.path),
                        "no port is in this range, so the rule matches no packet",
                        "Set lower-port to the lower port.",
                    );
                }
                return ranges.unwrap_or_default();
            };
            if ranges.is_some() {
                let leaf = format!("{side}-{name}-port-set");
                errors.add(
                    format!("{}/matches/{name}/stoa-acl:{leaf}", self.path),
                    format!("\"{side}-port\" and \"{leaf}\" exclude each other"),
                    format!("Keep one of them: {side}-port or {leaf}."),
                );
            }
            let values = self.sets.ports(set);
            rule.matches_nothing |= values.is_some_and(<[_]>::is_empty);
            values.unwrap_or_default().to_vec()
        };
        let PortMatch { source_port, destination_port, source_set, destination_set, .. } = given;
        let sources = one("source", source_port, source_set);
        let destinations = one("destination", destination_port, destination_set);
        if source_set.is_some() || destination_set.is_some() {
            let names = rule.sets.get_or_insert_default();
            names.source_ports = source_set.clone().unwrap_or_default();
            names.destination_ports = destination_set.clone().unwrap_or_default();
        }
        (rule.source_ports, rule.destination_ports) = (sources, destinations);
    }
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
