//! Rules of access lists in words, for operators.

use crate::v1;

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

/// The conditions of a rule: "source 10.0.0.0/8 protocol tcp destination-port 80"; "any" without conditions.
pub fn conditions_text(rule: &v1::AclRule) -> String {
    let mut words = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("{name} {value}")));
    };
    let ports = |ranges: &[v1::PortRange]| (!ranges.is_empty()).then(|| ranges_text(ranges));
    let number = |value: Option<u32>| value.map(|value| value.to_string());
    let fragment = fragment_text(rule.fragment());
    add("family", (rule.family != 0).then(|| format!("IPv{}", rule.family)));
    add("source", rule.source.as_ref().map(ToString::to_string));
    add("destination", rule.destination.as_ref().map(ToString::to_string));
    add("dscp", number(rule.dscp));
    add("protocol", rule.protocol.map(protocol_name));
    add("source-port", ports(&rule.source_ports));
    add("destination-port", ports(&rule.destination_ports));
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
            source: Some(v1::Prefix { address: vec![10, 0, 0, 0], length: 8 }),
            protocol: Some(6),
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
