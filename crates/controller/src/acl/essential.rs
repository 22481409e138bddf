//! What a commit warns about: rules that drop what links and paths need (RFC 4890, RFC 1191).

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_api::v1;

use super::paths::{ACLS, point_path, rule_path};
use super::walk::{Packet, matches};
use super::warnings::LISTED;
use crate::config::Interfaces;
use crate::warning::Warning;

/// Comparisons of a rule, and of each of its prefixes, with a message, at most: some hundredths of a second.
pub(super) const STEPS: usize = 1_000_000;

/// A message that hosts and routers need.
struct Needed {
    family: u32,
    kind: u32,
    code: u32,
    /// Whether it comes from the link, with the hop limit 255; others cross the router from anywhere.
    is_of_link: bool,
    name: &'static str,
    /// What happens without it.
    loss: &'static str,
    /// What to accept.
    fix: &'static str,
}

const NEEDED: [Needed; 4] = [
    Needed {
        family: 6,
        kind: 135,
        code: 0,
        is_of_link: true,
        name: "neighbor solicitations",
        loss: "IPv6 hosts on the link do not find the router",
        fix: "ICMPv6 type 135",
    },
    Needed {
        family: 6,
        kind: 136,
        code: 0,
        is_of_link: true,
        name: "neighbor advertisements",
        loss: "the router does not find IPv6 hosts on the link",
        fix: "ICMPv6 type 136",
    },
    Needed {
        family: 6,
        kind: 2,
        code: 0,
        is_of_link: false,
        name: "ICMPv6 \"packet too big\"",
        loss: "connections through links with a small MTU stall",
        fix: "ICMPv6 type 2",
    },
    Needed {
        family: 4,
        kind: 3,
        code: 4,
        is_of_link: false,
        name: "ICMP \"fragmentation needed\"",
        loss: "connections through links with a small MTU stall",
        fix: "ICMP type 3, code 4",
    },
];

impl Needed {
    fn packet(&self) -> Packet {
        let of = v1::TestAclRequest {
            protocol: if self.family == 4 { 1 } else { 58 },
            icmp_type: self.kind,
            icmp_code: self.code,
            hop_limit: if self.is_of_link { 255 } else { 64 },
            ..v1::TestAclRequest::default()
        };
        let [source, destination] = match self.family {
            4 => [1, 2].map(|host| IpAddr::V4(Ipv4Addr::new(203, 0, 113, host))),
            _ => [1, 2].map(|host| IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host))),
        };
        Packet { source, destination, of }
    }

    /// The rule that drops it. Without a rule, it passes.
    fn dropped_by<'a>(&self, rules: &[&'a v1::AclRule]) -> Option<&'a v1::AclRule> {
        // Rules for some addresses or lengths mean some packets: only those for all are in question.
        let is_for_all = |rule: &v1::AclRule| {
            rule.sources.is_empty() && rule.destinations.is_empty() && rule.length.is_none()
        };
        let packet = self.packet();
        let decides =
            |rule: &&v1::AclRule| (self.is_of_link || is_for_all(rule)) && matches(rule, &packet);
        let first = rules.iter().copied().find(decides)?;
        (first.action() != v1::AclAction::AclAccept).then_some(first)
    }
}

/// The warnings, one for each rule and message. Interfaces with the same lists are looked at once. It
/// makes `steps` comparisons and returns [`LISTED`] warnings at most.
pub(super) fn warnings(
    lists: &BTreeMap<&str, Vec<&v1::AclRule>>,
    interfaces: &Interfaces,
    mut steps: usize,
) -> Vec<Warning> {
    let (mut warnings, mut seen, mut rows) = (Vec::new(), HashSet::new(), HashSet::new());
    for interface in interfaces.iter() {
        let Some(acls) = &interface.acls else { continue };
        let sets = [
            (4, true, &acls.in4),
            (6, true, &acls.in6),
            (4, false, &acls.out4),
            (6, false, &acls.out6),
        ];
        for row in sets.into_iter().filter(|(_, _, set)| !set.is_empty()) {
            if !rows.insert(row) {
                continue;
            }
            let (family, is_input, set) = row;
            let rules: Vec<&v1::AclRule> =
                set.iter().filter_map(|name| lists.get(name.as_str())).flatten().copied().collect();
            let prefixes = rules.iter().map(|it| it.sources.len() + it.destinations.len());
            let cost = rules.len() + prefixes.sum::<usize>();
            // The router's own messages do not pass output lists.
            let needed =
                NEEDED.iter().filter(|it| it.family == family && (is_input || !it.is_of_link));
            for it in needed {
                let Some(left) = steps.checked_sub(cost) else {
                    warnings.push(incomplete(&interface.name));
                    return warnings;
                };
                steps = left;
                let Some(rule) = it.dropped_by(&rules) else { continue };
                if seen.insert((&rule.acl, &rule.name, it.name)) {
                    warnings.push(warning(it, rule, &interface.name));
                }
                if warnings.len() == LISTED {
                    return warnings;
                }
            }
        }
    }
    warnings
}

fn incomplete(interface: &str) -> Warning {
    let text = format!(
        "the rules of access lists are too many to find all that drop what links and paths need: those of interface \
         {interface} and of later ones were not compared"
    );
    Warning { text, nodes: vec![ACLS.to_owned()] }
}

fn warning(needed: &Needed, rule: &v1::AclRule, interface: &str) -> Warning {
    let Needed { name, loss, fix, .. } = needed;
    let (acl, rule) = (&rule.acl, &rule.name);
    Warning {
        text: format!(
            "access list {acl}: rule {rule} drops {name} at interface {interface}: {loss}; accept {fix} before it"
        ),
        nodes: vec![rule_path(acl, rule), point_path(interface)],
    }
}
