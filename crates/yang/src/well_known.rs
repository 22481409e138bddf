//! Well-known names of numbers: protocols, code points of differentiated services, and ports.

use stoa_api::acl::protocol_number;
use yang5::schema::{DataValueType, SchemaNode, SchemaPathFormat};

/// A name and its number.
pub type Name = (&'static str, u32);

/// Protocols. That of ICMP is the one of the family.
const PROTOCOLS: [&str; 8] = ["icmp", "tcp", "udp", "gre", "esp", "ospf", "vrrp", "sctp"];

/// Code points (RFC 2474, 2597, 3246, 5865, 8622).
const CODE_POINTS: &[Name] = &[
    ("default", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("voice-admit", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

/// Ports of services, by their names at IANA.
const PORTS: &[Name] = &[
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("http", 80),
    ("pop3", 110),
    ("ntp", 123),
    ("imap", 143),
    ("snmp", 161),
    ("snmptrap", 162),
    ("bgp", 179),
    ("ldap", 389),
    ("https", 443),
    ("submission", 587),
    ("ldaps", 636),
    ("imaps", 993),
    ("pptp", 1723),
    ("radius", 1812),
    ("radius-acct", 1813),
    ("bfd-control", 3784),
    ("bfd-echo", 3785),
    ("sip", 5060),
    ("syslog", 514),
    ("isakmp", 500),
    ("ipsec-nat-t", 4500),
];

/// Whether a leaf has the number of a protocol.
fn is_protocol(leaf: &SchemaNode<'_>) -> bool {
    let base = leaf.leaf_type().map(|it| it.base_type());
    let is_number = matches!(base, Some(DataValueType::Uint8 | DataValueType::Uint32));
    matches!(leaf.name(), "protocol" | "transport-protocol") && is_number
}

/// Whether a leaf is about IPv6: below a container of this name.
fn is_ip6(leaf: &SchemaNode<'_>) -> bool {
    leaf.ancestors().next().is_some_and(|above| above.name() == "ipv6")
}

/// The names of the numbers of a leaf; none for other leaves.
pub fn names(leaf: &SchemaNode<'_>) -> Vec<Name> {
    if is_protocol(leaf) {
        let number = |name| Some((name, protocol_number(name, !is_ip6(leaf))?));
        return PROTOCOLS.into_iter().filter_map(number).collect();
    }
    let kind = leaf.leaf_type().and_then(|it| it.typedef_name()).unwrap_or_default();
    match kind.rsplit(':').next() {
        Some("dscp") => CODE_POINTS.to_vec(),
        Some("port-number" | "port-or-range") => PORTS.to_vec(),
        _ => Vec::new(),
    }
}

/// The number that a name means as the value of a leaf.
pub fn number(leaf: &SchemaNode<'_>, name: &str) -> Option<u32> {
    let name = name.to_ascii_lowercase();
    if is_protocol(leaf) {
        return protocol_number(&name, !is_ip6(leaf)).filter(|_| name.parse::<u32>().is_err());
    }
    names(leaf).into_iter().find(|(known, _)| *known == name).map(|(_, number)| number)
}

/// Names that a text may have, where others mean nothing: application level gateways of a NAT policy.
pub fn texts(leaf: &SchemaNode<'_>) -> &'static [&'static str] {
    match leaf.path(SchemaPathFormat::DATA).as_str() {
        "/ietf-nat:nat/instances/instance/policy/algs/name" => &["ftp", "pptp", "sip", "tftp"],
        _ => &[],
    }
}

/// The number of the port of a service.
pub fn port(service: &str) -> Option<u32> {
    PORTS.iter().find(|(known, _)| *known == service).map(|(_, number)| *number)
}

/// The services whose ports have names.
pub fn services() -> Vec<&'static str> {
    PORTS.iter().map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    #[test]
    fn names_are_those_of_the_kind_of_number() {
        let matches = "/ietf-access-control-list:acls/acl/aces/ace/matches";
        let of = |path: &str, name: &str| {
            let leaf = schema().context().find_path(&format!("{matches}/{path}")).unwrap();
            number(&leaf, name)
        };
        assert_eq!(of("ipv4/protocol", "tcp"), Some(6));
        assert_eq!(of("ipv4/protocol", "ICMP"), Some(1));
        assert_eq!(of("ipv6/protocol", "icmp"), Some(58));
        assert_eq!(of("ipv4/protocol", "17"), None, "it is a number already");
        assert_eq!(of("ipv6/dscp", "ef"), Some(46));
        assert_eq!(of("ipv6/dscp", "ssh"), None);
        assert_eq!(of("stoa-acl:fragment", "tcp"), None);
        let sets = "/ietf-access-control-list:acls/stoa-acl:defined-sets";
        let of_set = |path: &str, name: &str| {
            number(&schema().context().find_path(&format!("{sets}/{path}")).unwrap(), name)
        };
        assert_eq!(of_set("port-sets/port-set/port", "https"), Some(443));
        assert_eq!(of_set("protocol-sets/protocol-set/protocol", "esp"), Some(50));
        let policy = "/ietf-routing:routing/stoa-policy:policy/rule/match/protocol";
        assert_eq!(number(&schema().context().find_path(policy).unwrap(), "udp"), Some(17));
        let https = "/stoa-management:management/https/port";
        assert_eq!(number(&schema().context().find_path(https).unwrap(), "https"), Some(443));
    }

    #[test]
    fn assured_forwarding_has_classes_and_drop_precedences() {
        for (name, number) in CODE_POINTS.iter().filter(|(name, _)| name.starts_with("af")) {
            let [class, drop] = [2, 3].map(|at| name[at..=at].parse::<u32>().unwrap());
            assert_eq!(*number, 8 * class + 2 * drop, "{name}");
        }
    }
}
