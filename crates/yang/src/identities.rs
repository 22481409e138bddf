//! The identities that Stoa supports, by leaf. The modules define more.

use yang5::schema::{SchemaNode, SchemaNodeKind};

/// Module, name and short help of an identity.
pub type Identity = (&'static str, &'static str, &'static str);

const INTERFACE_TYPES: &[Identity] = &[
    ("iana-if-type", "ethernetCsmacd", "a port with Ethernet frames"),
    ("iana-if-type", "l2vlan", "a VLAN of a port"),
    ("iana-if-type", "tunnel", "a tunnel over IP"),
];
const PROTOCOL_TYPES: &[Identity] = &[
    ("ietf-routing", "static", "static routes"),
    ("stoa-routing", "fpm", "a route source: zebra of FRR"),
    ("stoa-routing", "netlink", "a route source: a routing table of Linux"),
    ("stoa-routing", "bgp", "a route source: an internal BGP session"),
];
const ACL_TYPES: &[Identity] = &[
    ("ietf-access-control-list", "ipv4-acl-type", "rules for IPv4 packets"),
    ("ietf-access-control-list", "ipv6-acl-type", "rules for IPv6 packets"),
];
const ACL_ACTIONS: &[Identity] = &[
    ("ietf-access-control-list", "accept", "the packet passes"),
    ("ietf-access-control-list", "drop", "the packet is dropped silently"),
    ("ietf-access-control-list", "reject", "the packet is dropped, and its sender gets an error"),
];
const ACL_LOGS: &[Identity] = &[
    ("ietf-access-control-list", "log-syslog", "packets that match are written to the log"),
    ("ietf-access-control-list", "log-none", "packets that match are not logged"),
];
const NAT_TYPES: &[Identity] = &[
    ("ietf-nat", "napt44", "sources get an external address and port"),
    ("ietf-nat", "basic-nat44", "only the static mappings of addresses translate"),
    ("ietf-nat", "nat64", "IPv6 hosts reach IPv4 servers by external ports"),
    ("ietf-nat", "siit", "IPv4 and IPv6 addresses stand for each other, without state"),
    ("ietf-nat", "eam", "the same as siit: by explicit mappings"),
    ("ietf-nat", "nptv6", "IPv6 prefixes stand for each other, without state"),
];
const VRRP_VERSIONS: &[Identity] = &[
    ("ietf-vrrp", "vrrp-v3", "IPv4 and IPv6 (RFC 9568)"),
    ("ietf-vrrp", "vrrp-v2", "IPv4 alone (RFC 3768)"),
];

/// The supported identities of a leaf; empty for other leafs.
#[must_use]
pub fn of(leaf: &SchemaNode<'_>) -> &'static [Identity] {
    let list = leaf.ancestors().find(|node| node.kind() == SchemaNodeKind::List);
    match (list.as_ref().map(SchemaNode::name), leaf.name()) {
        (Some("interface"), "type") => INTERFACE_TYPES,
        (Some("control-plane-protocol"), "type") => PROTOCOL_TYPES,
        (Some("acl"), "type") => ACL_TYPES,
        (Some("ace"), "forwarding") => ACL_ACTIONS,
        (Some("ace"), "logging") => ACL_LOGS,
        (Some("instance"), "type") => NAT_TYPES,
        (Some("vrrp-instance"), "version") => VRRP_VERSIONS,
        _ => &[],
    }
}

/// The fix for a value that is not an identity of the leaf.
pub(crate) fn fix(leaf: Option<&SchemaNode<'_>>) -> String {
    let known = leaf.map_or(&[][..], of).iter();
    let names: Vec<String> = known.map(|(module, name, _)| format!("{module}:{name}")).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("Write {} or {last}.", others.join(", "))
        }
        _ => "Write MODULE:NAME of an identity that the module defines.".into(),
    }
}

/// The fix for a node whose `when` does not hold, usually since its parent has another type.
pub(crate) fn when_fix(message: &str, path: &str) -> String {
    if message.contains("stoa-rt:fpm") {
        return "Remove it, or make the protocol a route source: its type is stoa-routing:fpm, stoa-routing:netlink or \
                stoa-routing:bgp."
            .into();
    }
    if message.contains("port-allocation-type") {
        return "Set port-allocation-type of the policy to port-range-allocation, or remove it."
            .into();
    }
    let of_list = message.split_once("'acl:").and_then(|(_, kind)| kind.split_once('\''));
    match of_list.zip(path.split_once("/aces/")) {
        Some(((kind, _), (list, _))) => {
            format!("Set {list}/type to {kind}, or move the rule to a list of this type.")
        }
        None => "Remove it: it does not apply here.".into(),
    }
}

#[cfg(test)]
mod tests {
    use crate::sources;

    #[test]
    fn the_modules_define_them() {
        let all = [
            super::INTERFACE_TYPES,
            super::PROTOCOL_TYPES,
            super::ACL_TYPES,
            super::ACL_ACTIONS,
            super::ACL_LOGS,
            super::NAT_TYPES,
            super::VRRP_VERSIONS,
        ];
        let all = all.concat();
        for (module, name, _) in all {
            let (_, text) = sources().find(|it| it.0 == module).expect(module);
            let is_it = |line: &str| {
                line.trim().strip_prefix("identity ").is_some_and(|it| {
                    it.trim_end_matches(['{', ' ', ';']).trim_matches('"') == name
                })
            };
            assert!(text.lines().any(is_it), "{module}:{name}");
        }
    }
}
