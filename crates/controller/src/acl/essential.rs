//! What a commit warns about: rules that drop what links and paths need (RFC 4890, RFC 1191).

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_api::v1;
use stoa_api::zones::ROUTER;

use super::interfaces::{Way, reads_interfaces};
use super::paths::{ACLS, pair_path, point_path, rule_path};
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
    fn dropped_by<'a>(&self, rules: &[&'a v1::AclRule], way: Way<'_>) -> Option<&'a v1::AclRule> {
        // Rules for some addresses or lengths mean some packets: only those for all are in question.
        let is_for_all = |rule: &v1::AclRule| {
            rule.sources.is_empty() && rule.destinations.is_empty() && rule.length.is_none()
        };
        let packet = self.packet();
        let decides = |rule: &&v1::AclRule| {
            (self.is_of_link || is_for_all(rule)) && matches(rule, &packet, way)
        };
        let first = rules.iter().copied().find(decides)?;
        (first.action() != v1::AclAction::AclAccept).then_some(first)
    }
}

/// Where lists are attached.
#[derive(Clone, Copy)]
enum Place<'a> {
    Interface(&'a str),
    Pair(&'a v1::ZonePair),
}

/// Lists that apply to packets of a family.
#[derive(Clone, Copy)]
struct Row<'a> {
    family: u32,
    /// Whether packets of the link meet them: the router's own messages do not pass output lists.
    is_of_link: bool,
    set: &'a [String],
    place: Place<'a>,
    /// What is known of the interfaces of its packets.
    way: Way<'a>,
}

/// The rows of lists of interfaces and of pairs of zones.
fn rows<'a>(
    interfaces: &'a Interfaces,
    pairs: &'a [v1::ZonePair],
) -> impl Iterator<Item = Row<'a>> {
    let of_interfaces = interfaces.iter().flat_map(|interface| {
        let place = Place::Interface(&interface.name);
        let row = move |(family, is_of_link, set)| {
            let way = match is_of_link {
                true => Way { ingress: Some(interface), egress: None },
                false => Way { ingress: None, egress: Some(interface) },
            };
            Row { family, is_of_link, set, place, way }
        };
        interface.acls.iter().flat_map(move |acls| {
            let v1::AclSets { in4, in6, out4, out6 } = acls;
            [(4, true, &in4[..]), (6, true, in6), (4, false, out4), (6, false, out6)].map(row)
        })
    });
    let of_pairs = pairs.iter().flat_map(|pair| {
        let row = |(family, set)| Row {
            family,
            is_of_link: pair.to == ROUTER,
            set,
            place: Place::Pair(pair),
            way: Way::default(),
        };
        [(4, &pair.acls4[..]), (6, &pair.acls6)].map(row)
    });
    of_interfaces.chain(of_pairs).filter(|row| !row.set.is_empty())
}

/// The warnings, one for each rule and message. Interfaces with the same lists are looked at once. It
/// makes `steps` comparisons and returns [`LISTED`] warnings at most.
pub(super) fn warnings(
    lists: &BTreeMap<&str, Vec<&v1::AclRule>>,
    (interfaces, pairs): (&Interfaces, &[v1::ZonePair]),
    mut steps: usize,
) -> Vec<Warning> {
    let (mut warnings, mut seen, mut known) = (Vec::new(), HashSet::new(), HashSet::new());
    // What these do depends on the interface.
    let reading = lists.iter().filter(|(_, rules)| rules.iter().any(|rule| reads_interfaces(rule)));
    let reading: HashSet<&str> = reading.map(|(name, _)| *name).collect();
    for row in rows(interfaces, pairs) {
        let is_reading = row.set.iter().any(|name| reading.contains(name.as_str()));
        let at = is_reading.then(|| row.place.text());
        if !known.insert((row.family, row.is_of_link, row.set, at)) {
            continue;
        }
        let lists = row.set.iter().filter_map(|name| lists.get(name.as_str()));
        let rules: Vec<&v1::AclRule> = lists.flatten().copied().collect();
        let prefixes = rules.iter().map(|it| it.sources.len() + it.destinations.len());
        let cost = rules.len() + prefixes.sum::<usize>();
        let is_needed =
            |it: &&Needed| it.family == row.family && (row.is_of_link || !it.is_of_link);
        for it in NEEDED.iter().filter(is_needed) {
            let Some(left) = steps.checked_sub(cost) else {
                warnings.push(incomplete(row.place));
                return warnings;
            };
            steps = left;
            let Some(rule) = it.dropped_by(&rules, row.way) else { continue };
            if seen.insert((&rule.acl, &rule.name, it.name)) {
                warnings.push(warning(it, rule, row.place));
            }
            if warnings.len() == LISTED {
                return warnings;
            }
        }
    }
    warnings
}

impl Place<'_> {
    fn text(self) -> String {
        match self {
            Self::Interface(name) => format!("interface {name}"),
            Self::Pair(v1::ZonePair { from, to, .. }) => format!("zones {from} to {to}"),
        }
    }

    fn path(self) -> String {
        match self {
            Self::Interface(name) => point_path(name),
            Self::Pair(v1::ZonePair { from, to, .. }) => pair_path(from, to),
        }
    }
}

fn incomplete(place: Place<'_>) -> Warning {
    let text = format!(
        "the rules of access lists are too many to find all that drop what links and paths need: those of {} and of \
         later ones were not compared",
        place.text()
    );
    Warning { text, nodes: vec![ACLS.to_owned()] }
}

fn warning(needed: &Needed, rule: &v1::AclRule, place: Place<'_>) -> Warning {
    let Needed { name, loss, fix, .. } = needed;
    let (acl, rule) = (&rule.acl, &rule.name);
    let at = place.text();
    Warning {
        text: format!(
            "access list {acl}: rule {rule} drops {name} at {at}: {loss}; accept {fix} before it"
        ),
        nodes: vec![rule_path(acl, rule), place.path()],
    }
}
