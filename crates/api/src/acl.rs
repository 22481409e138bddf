//! Rules of access lists in words, for operators.

use crate::v1;

/// The most entries of the trees of all attached lists. A rule has one for each way to combine a value of each of its
/// lists: of its prefixes, its protocols and its ranges of ports.
pub const ENTRIES: usize = 65_536;

/// The most prefixes, protocols and ranges of ports of all rules together.
pub const VALUES: usize = 262_144;

/// Protocols that have a name here.
const PROTOCOLS: [(u32, &str); 9] = [
    (1, "icmp"),
    (6, "tcp"),
    (17, "udp"),
    (47, "gre"),
    (50, "esp"),
    (58, "icmpv6"),
    (89, "ospf"),
    (112, "vrrp"),
    (132, "sctp"),
];

/// Types of ICMP for IPv4 and IPv6, by the names that routers and hosts usually give them (IANA).
pub const ICMP_TYPES: [(&str, [Option<u8>; 2]); 18] = [
    ("echo-request", [Some(8), Some(128)]),
    ("echo-reply", [Some(0), Some(129)]),
    ("destination-unreachable", [Some(3), Some(1)]),
    ("packet-too-big", [None, Some(2)]),
    ("time-exceeded", [Some(11), Some(3)]),
    ("parameter-problem", [Some(12), Some(4)]),
    ("redirect", [Some(5), Some(137)]),
    ("source-quench", [Some(4), None]),
    ("router-advertisement", [Some(9), Some(134)]),
    ("router-solicitation", [Some(10), Some(133)]),
    ("timestamp-request", [Some(13), None]),
    ("timestamp-reply", [Some(14), None]),
    ("neighbor-solicitation", [None, Some(135)]),
    ("neighbor-advertisement", [None, Some(136)]),
    ("multicast-listener-query", [None, Some(130)]),
    ("multicast-listener-report", [None, Some(131)]),
    ("multicast-listener-done", [None, Some(132)]),
    ("multicast-listener-report-v2", [None, Some(143)]),
];

/// Flags of TCP from the lowest bit on (RFC 9293 3.1).
const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

/// The name of a protocol, or its number.
pub fn protocol_name(number: u32) -> String {
    let known = PROTOCOLS.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
}

/// The number of a protocol by its name or number; "icmp" is that of the family.
pub fn protocol_number(name: &str, is_ip4: bool) -> Option<u32> {
    match name {
        "icmp" if !is_ip4 => Some(58),
        "icmp6" => Some(58),
        name => {
            let known = PROTOCOLS.iter().find(|(_, known)| *known == name);
            known.map(|(number, _)| *number).or_else(|| name.parse().ok().filter(|it| *it <= 255))
        }
    }
}

/// The names of protocols that [`protocol_number`] knows.
pub fn protocol_names() -> Vec<&'static str> {
    PROTOCOLS.iter().map(|(_, name)| *name).collect()
}

/// The flags of a byte, and the byte of flags: names with spaces or commas between.
pub fn flags_text(flags: u32) -> String {
    let set = FLAGS.iter().enumerate().filter(|(bit, _)| flags >> bit & 1 == 1);
    set.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}

/// The inverse of [`flags_text`]; `None`: there is no flag of this name.
pub fn flags_of(text: &str) -> Option<u32> {
    let names = text.split([' ', ',']).filter(|name| !name.is_empty());
    names.map(|name| Some(1 << FLAGS.iter().position(|known| *known == name)?)).sum()
}

/// Ranges of ports: "80, 8000-8080".
pub fn ranges_text(ranges: &[v1::PortRange]) -> String {
    let one = |it: &v1::PortRange| match it.first == it.last {
        true => it.first.to_string(),
        false => format!("{}-{}", it.first, it.last),
    };
    ranges.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The action of a rule.
pub fn action_text(action: v1::AclAction) -> &'static str {
    match action {
        v1::AclAction::AclAccept => "accept",
        v1::AclAction::AclDrop => "drop",
        v1::AclAction::AclReject => "reject",
    }
}

/// The fragments that a rule matches; "": all packets.
pub fn fragment_text(fragment: v1::AclFragment) -> &'static str {
    match fragment {
        v1::AclFragment::AnyPacket => "",
        v1::AclFragment::NoFragment => "none",
        v1::AclFragment::FirstFragment => "first",
        v1::AclFragment::LaterFragment => "later",
        v1::AclFragment::AnyFragment => "any",
    }
}

/// Prefixes: "10.0.0.0/8, 192.0.2.0/24".
pub fn prefixes_text(prefixes: &[v1::Prefix]) -> String {
    prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Protocols: "tcp, udp".
pub fn protocols_text(protocols: &[u32]) -> String {
    protocols.iter().map(|it| protocol_name(*it)).collect::<Vec<_>>().join(", ")
}

/// The values of a list of a rule, or in their place the set of this name that has them: "set web".
pub fn set_or(name: &str, values: impl FnOnce() -> String) -> String {
    if name.is_empty() { values() } else { format!("set {name}") }
}

/// How many entries of a tree a rule has for a family, [`usize::MAX`] at most.
pub fn entry_count(rule: &v1::AclRule) -> usize {
    if rule.matches_nothing {
        return 0;
    }
    let lists = [
        rule.sources.len(),
        rule.destinations.len(),
        rule.protocols.len(),
        rule.source_ports.len(),
        rule.destination_ports.len(),
    ];
    lists.into_iter().fold(1, |all, values| all.saturating_mul(values.max(1)))
}

/// The conditions of a rule: "source 10.0.0.0/8 protocol tcp destination-port set web"; "any" without conditions.
pub fn conditions_text(rule: &v1::AclRule) -> String {
    let mut words = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("{name} {value}")));
    };
    let no_sets = v1::AclRuleSets::default();
    let sets = rule.sets.as_ref().unwrap_or(&no_sets);
    // A set that has all addresses has a name, and no values.
    let list = |set: &str, is_any: bool, values: &dyn Fn() -> String| {
        (!is_any || !set.is_empty()).then(|| set_or(set, values))
    };
    let prefixes =
        |set: &str, all: &[v1::Prefix]| list(set, all.is_empty(), &|| prefixes_text(all));
    let ports = |set: &str, all: &[v1::PortRange]| list(set, all.is_empty(), &|| ranges_text(all));
    let protocols = &rule.protocols;
    let protocols = list(&sets.protocols, protocols.is_empty(), &|| protocols_text(protocols));
    let number = |value: Option<u32>| value.map(|value| value.to_string());
    let fragment = fragment_text(rule.fragment());
    add("family", (rule.family != 0).then(|| format!("IPv{}", rule.family)));
    add("source", prefixes(&sets.sources, &rule.sources));
    add("destination", prefixes(&sets.destinations, &rule.destinations));
    add("dscp", number(rule.dscp));
    add("protocol", protocols);
    add("source-port", ports(&sets.source_ports, &rule.source_ports));
    add("destination-port", ports(&sets.destination_ports, &rule.destination_ports));
    add("icmp-type", number(rule.icmp_type));
    add("icmp-code", number(rule.icmp_code));
    if rule.tcp_flags_mask != 0 {
        let clear = flags_text(rule.tcp_flags_mask & !rule.tcp_flags);
        add("tcp-flags", Some(flags_text(rule.tcp_flags)).filter(|it| !it.is_empty()));
        add("tcp-flags-clear", Some(clear).filter(|it| !it.is_empty()));
    }
    add("fragment", Some(fragment.to_owned()).filter(|it| !it.is_empty()));
    add("length", rule.length.as_ref().map(|it| ranges_text(std::slice::from_ref(it))));
    if words.is_empty() { "any".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_like_the_configuration() {
        let range = |first, last| v1::PortRange { first, last };
        let rule = v1::AclRule {
            family: 4,
            sources: vec![v1::Prefix { address: vec![10, 0, 0, 0], length: 8 }],
            protocols: vec![6],
            destination_ports: vec![range(80, 80), range(8000, 8080)],
            tcp_flags: 2,
            tcp_flags_mask: 0x12,
            ..v1::AclRule::default()
        };
        assert_eq!(
            conditions_text(&rule),
            "family IPv4 source 10.0.0.0/8 protocol tcp destination-port 80, 8000-8080 tcp-flags syn \
             tcp-flags-clear ack"
        );
        assert_eq!(conditions_text(&v1::AclRule::default()), "any");
    }

    #[test]
    fn sets_stand_for_their_values() {
        let rule = v1::AclRule {
            protocols: vec![6, 17, 253],
            destination_ports: vec![v1::PortRange { first: 80, last: 80 }],
            sets: Some(v1::AclRuleSets {
                sources: "everyone".to_owned(),
                destination_ports: "web".to_owned(),
                ..v1::AclRuleSets::default()
            }),
            ..v1::AclRule::default()
        };
        assert_eq!(
            conditions_text(&rule),
            "source set everyone protocol tcp, udp, 253 destination-port set web"
        );
    }

    #[test]
    fn entries_are_the_product_of_the_lists() {
        let prefix = v1::Prefix { address: vec![10, 0, 0, 0], length: 8 };
        let range = v1::PortRange { first: 80, last: 80 };
        let mut rule = v1::AclRule::default();
        assert_eq!(entry_count(&rule), 1);
        rule.sources = vec![prefix; 3];
        rule.protocols = vec![6, 17];
        rule.source_ports = vec![range; 5];
        assert_eq!(entry_count(&rule), 30);
        rule.matches_nothing = true;
        assert_eq!(entry_count(&rule), 0);
    }

    #[test]
    fn names_and_numbers_fit() {
        assert_eq!(protocol_number("icmp", true), Some(1));
        assert_eq!(protocol_number("icmp", false), Some(58));
        assert_eq!(protocol_number("253", true), Some(253));
        assert_eq!((protocol_number("256", true), protocol_number("x", true)), (None, None));
        assert_eq!((protocol_name(17), protocol_name(253)), ("udp".to_owned(), "253".to_owned()));
        assert_eq!(flags_of("syn,ack"), Some(0x12));
        assert_eq!((flags_of(""), flags_of("syn x")), (Some(0), None));
        assert_eq!(flags_text(0x12), "syn ack");
    }
}
