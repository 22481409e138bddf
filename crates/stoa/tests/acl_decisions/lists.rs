//! Random configurations: lists, where they are attached, zones and their pairs.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The interfaces. Number n has the addresses 10.n.0.1 and 2001:db8:n::1.
pub const INTERFACES: [&str; 3] = ["lan", "wan", "dmz"];
const ZONES: [&str; 2] = ["inside", "outside"];
/// All lists may be attached to inputs and pairs, the last one to outputs only: its rules may have sending interfaces.
const LISTS: [&str; 4] = ["one", "two", "three", "sent"];
const MODULE: &str = "ietf-access-control-list";

/// The conditions of a rule, as far as its list can have them.
#[derive(Clone, Debug)]
struct Rule {
    /// Networks of the source and of the destination: interface, and whether one host of it.
    ends: [Option<(usize, bool)>; 2],
    protocol: Option<u8>,
    /// Of TCP and UDP; of ICMP the first value is the type.
    ports: [Option<(u16, u16)>; 2],
    flags: Option<(&'static str, &'static str)>,
    fragment: Option<&'static str>,
    dscp: Option<u8>,
    length: Option<(u16, u16)>,
    /// The receiving and the sending interface, and the VLAN.
    way: (Option<usize>, Option<usize>, Option<u16>),
    action: &'static str,
    is_stateful: bool,
}

/// A configuration.
#[derive(Clone, Debug)]
pub struct Lists {
    /// The family of each list (4, 6), or both (0), and its rules.
    lists: Vec<(u8, Vec<Rule>)>,
    /// The lists of each interface: received and sent packets.
    attached: Vec<[Vec<usize>; 2]>,
    zones: Vec<Option<usize>>,
    /// The lists of each pair: from, to; the router is number 2.
    pairs: Vec<((usize, usize), Vec<usize>)>,
    /// Whether rules may be stateful.
    pub has_flows: bool,
}

pub fn ports() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![22_u16, 53, 80, 443, 1000])
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let network = || of((0..3_usize, any::<bool>()));
    let range = || of((ports(), ports()).prop_map(|(one, other)| (one.min(other), one.max(other))));
    let flags =
        prop::sample::select(vec![("syn", ""), ("syn", "ack"), ("ack", ""), ("", "rst fin")]);
    let length = (20_u16..80, 0_u16..80).prop_map(|(lower, more)| (lower, lower + more));
    let fields = (
        [network(), network()],
        of(prop::sample::select(vec![1_u8, 6, 17, 47, 58])),
        [range(), range()],
        prop::option::weighted(0.3, flags),
        prop::option::weighted(0.2, prop::sample::select(vec!["none", "first", "later", "any"])),
        prop::option::weighted(0.1, prop::sample::select(vec![0_u8, 46])),
        prop::option::weighted(0.1, length),
        prop::option::weighted(0.2, 0..3_usize),
        prop::option::weighted(0.4, 0..3_usize),
        prop::option::weighted(0.1, prop::sample::select(vec![0_u16, 5])),
        prop::sample::select(vec!["accept", "accept", "drop", "reject"]),
        any::<bool>(),
    );
    let rule = fields.prop_map(|fields| {
        let (ends, protocol, ports, flags, fragment, dscp, ..) = fields;
        let (.., length, ingress, egress, vlan, action, is_stateful) = fields;
        let way = (ingress, egress, vlan);
        Rule { ends, protocol, ports, flags, fragment, dscp, length, way, action, is_stateful }
    });
    vec(rule, 0..5)
}

pub fn lists() -> impl Strategy<Value = Lists> {
    let list = (prop::sample::select(vec![0_u8, 4, 6]), rules());
    // Most interfaces have none in a direction.
    let of_input = prop_oneof![2 => Just(vec![]), 1 => vec(0..3_usize, 1..3)];
    let of_output = prop_oneof![2 => Just(vec![]), 1 => vec(0..4_usize, 1..3)];
    let attached = (of_input, of_output).prop_map(|(input, output)| [input, output]);
    let pair = ((0..3_usize, 0..3_usize), vec(0..3_usize, 0..3));
    let all = (
        vec(list, LISTS.len()),
        vec(attached, INTERFACES.len()),
        vec(of(0..ZONES.len()), INTERFACES.len()),
        vec(pair, 0..6),
        any::<bool>(),
    );
    all.prop_map(|(lists, attached, zones, pairs, has_flows)| {
        let mut seen = std::collections::BTreeSet::new();
        let is_pair =
            |((from, to), _): &((usize, usize), _)| from != to && seen.insert((*from, *to));
        let pairs = pairs.into_iter().filter(is_pair).collect();
        Lists { lists, attached, zones, pairs, has_flows }
    })
}

fn network((interface, is_host): (usize, bool), is_ip4: bool) -> String {
    let n = interface + 1;
    match (is_ip4, is_host) {
        (true, false) => format!("10.{n}.0.0/24"),
        (true, true) => format!("10.{n}.0.2/32"),
        (false, false) => format!("2001:db8:{n}::/64"),
        (false, true) => format!("2001:db8:{n}::2/128"),
    }
}

impl Rule {
    /// What a list of this family can have of the conditions.
    fn matches(&self, family: u8, is_sent: bool) -> Value {
        let mut all = Map::new();
        let protocol = self.protocol.filter(|it| family != 0 || [6, 17].contains(it));
        if family != 0 {
            let mut ip = Map::new();
            let ends = ["source", "destination"].iter().zip(self.ends);
            for (name, end) in ends.filter_map(|(name, end)| Some((name, end?))) {
                ip.insert(format!("{name}-ipv{family}-network"), json!(network(end, family == 4)));
            }
            ip.extend(self.dscp.map(|dscp| ("dscp".to_owned(), json!(dscp))));
            ip.extend(protocol.map(|it| ("protocol".to_owned(), json!(it))));
            if !ip.is_empty() {
                all.insert(format!("ipv{family}"), ip.into());
            }
        }
        let mut upper = Map::new();
        let ends = ["source-port", "destination-port"].iter().zip(self.ports);
        for (name, (lower, last)) in ends.filter_map(|(name, range)| Some((name, range?))) {
            let range = json!({ "lower-port": lower, "upper-port": last });
            upper.insert((*name).to_owned(), range);
        }
        match protocol {
            Some(6) => {
                if let Some((set, clear)) = self.flags {
                    upper
                        .insert("stoa-acl:tcp-flags".into(), json!({ "set": set, "clear": clear }));
                }
                all.insert("tcp".into(), upper.into());
            }
            Some(17) => drop(all.insert("udp".into(), upper.into())),
            Some(1 | 58) if family == if protocol == Some(1) { 4 } else { 6 } => {
                let kinds = if family == 4 { [8, 0, 3] } else { [128, 2, 135] };
                let kind = self.ports[0].map(|(port, _)| kinds[usize::from(port) % 3]);
                all.extend(kind.map(|kind| ("icmp".to_owned(), json!({ "type": kind }))));
            }
            _ => {}
        }
        // Later fragments have no ports: the commit refuses rules that want both.
        let has_upper = ["tcp", "udp", "icmp"].iter().any(|it| all.contains_key(*it));
        let fragment = self.fragment.filter(|it| !has_upper || *it != "later");
        all.extend(fragment.map(|it| ("stoa-acl:fragment".to_owned(), json!(it))));
        let length = |(lower, upper)| json!({ "lower": lower, "upper": upper });
        all.extend(self.length.map(|it| ("stoa-acl:packet-length".to_owned(), length(it))));
        let ((ingress, egress, vlan), name) = (self.way, |at: usize| json!(INTERFACES[at]));
        all.extend(ingress.map(|it| ("ingress-interface".to_owned(), name(it))));
        let egress = egress.filter(|_| is_sent);
        all.extend(egress.map(|it| ("egress-interface".to_owned(), name(it))));
        all.extend(vlan.map(|it| ("stoa-acl:vlan-id".to_owned(), json!(it))));
        all.into()
    }
}

fn names(lists: &[usize]) -> Value {
    let mut seen = std::collections::BTreeSet::new();
    let lists = lists.iter().filter(|at| seen.insert(**at));
    let names: Vec<Value> = lists.map(|at| json!({ "name": LISTS[*at] })).collect();
    json!({ "acl-sets": { "acl-set": names } })
}

fn interface(n: usize, name: &str) -> Value {
    let neighbors = |address: fn(usize, usize) -> String| -> Vec<Value> {
        let mac = |host: usize| format!("02:00:00:00:0{n}:0{host}");
        (2..4)
            .map(|host| json!({ "ip": address(n, host), "link-layer-address": mac(host) }))
            .collect()
    };
    let four = |n, host| format!("10.{n}.0.{host}");
    let six = |n, host| format!("2001:db8:{n}::{host}");
    json!({
        "name": name, "type": "iana-if-type:ethernetCsmacd",
        "stoa-interfaces:mac-address": format!("02:00:00:00:0{n}:01"),
        "stoa-interfaces:port": { "pcap": { "input": format!("{name}.pcap") } },
        "ietf-ip:ipv4": {
            "forwarding": true, "address": [{ "ip": four(n, 1), "prefix-length": 24 }],
            "neighbor": neighbors(four),
        },
        "ietf-ip:ipv6": {
            "forwarding": true, "address": [{ "ip": six(n, 1), "prefix-length": 64 }],
            "dup-addr-detect-transmits": 0, "neighbor": neighbors(six),
        },
    })
}

impl Lists {
    /// The configuration as a text.
    pub fn text(&self) -> String {
        let interfaces: Vec<Value> =
            (1..).zip(INTERFACES).map(|(n, name)| interface(n, name)).collect();
        let acl = |((family, rules), name): (&(u8, Vec<Rule>), &str)| {
            let ace = |(at, rule): (usize, &Rule)| {
                let is_stateful = self.has_flows && rule.is_stateful && rule.action == "accept";
                json!({
                    "name": at.to_string(), "matches": rule.matches(*family, name == "sent"),
                    "actions": {
                        "forwarding": format!("{MODULE}:{}", rule.action),
                        "stoa-acl:stateful": is_stateful,
                    },
                })
            };
            let aces: Vec<Value> = rules.iter().enumerate().map(ace).collect();
            let mut list = json!({ "name": name, "aces": { "ace": aces } });
            if *family != 0 {
                list["type"] = json!(format!("{MODULE}:ipv{family}-acl-type"));
            }
            list
        };
        let points = self.attached.iter().zip(INTERFACES).map(|([input, output], name)| {
            json!({ "interface-id": name, "ingress": names(input), "egress": names(output) })
        });
        let zone = |(at, zone): (usize, &str)| {
            let members = self.zones.iter().zip(INTERFACES).filter(|(zone, _)| **zone == Some(at));
            let members: Vec<&str> = members.map(|(_, name)| name).collect();
            json!({ "name": zone, "interface": members })
        };
        let end = |at: usize| ZONES.get(at).copied().unwrap_or("router");
        let pairs = self.pairs.iter().map(|((from, to), lists)| {
            let mut pair = names(lists);
            (pair["from"], pair["to"]) = (json!(end(*from)), json!(end(*to)));
            pair
        });
        json!({
            "ietf-interfaces:interfaces": { "interface": interfaces },
            "ietf-access-control-list:acls": {
                "acl": self.lists.iter().zip(LISTS).map(acl).collect::<Vec<_>>(),
                "attachment-points": { "interface": points.collect::<Vec<_>>() },
                "stoa-acl:zones": { "zone": ZONES.into_iter().enumerate().map(zone).collect::<Vec<_>>() },
                "stoa-acl:zone-pairs": { "zone-pair": pairs.collect::<Vec<_>>() },
            },
        })
        .to_string()
    }
}
