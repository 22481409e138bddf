//! Identities that we know what to do with, by the leaf that names them: of all that modules define, only these are worth
//! offering.

use yang5::schema::{SchemaNode, SchemaNodeKind};

/// One of them: module, name, and what it is.
pub type Identity = (&'static str, &'static str, &'static str);

const INTERFACE_TYPES: &[Identity] = &[
    ("iana-if-type", "ethernetCsmacd", "a port with Ethernet frames"),
    ("iana-if-type", "l2vlan", "a VLAN of a port"),
    ("iana-if-type", "tunnel", "a tunnel over IP"),
];
const PROTOCOL_TYPES: &[Identity] = &[
    ("ietf-routing", "static", "static routes"),
    ("stoa-routing", "fpm", "a route source: zebra of FRR tells its routes"),
    ("stoa-routing", "netlink", "a route source: routes of a table of Linux"),
    ("stoa-routing", "bgp", "a route source: a daemon tells its routes by BGP"),
];
const VRRP_VERSIONS: &[Identity] = &[
    ("ietf-vrrp", "vrrp-v3", "IPv4 and IPv6 (RFC 9568)"),
    ("ietf-vrrp", "vrrp-v2", "IPv4 alone (RFC 3768)"),
];

/// What a leaf may name; none: we do not know.
#[must_use]
pub fn of(leaf: &SchemaNode<'_>) -> &'static [Identity] {
    let list = leaf.ancestors().find(|node| node.kind() == SchemaNodeKind::List);
    match (list.as_ref().map(SchemaNode::name), leaf.name()) {
        (Some("interface"), "type") => INTERFACE_TYPES,
        (Some("control-plane-protocol"), "type") => PROTOCOL_TYPES,
        (Some("vrrp-instance"), "version") => VRRP_VERSIONS,
        _ => &[],
    }
}

/// What to write where something stands that is no identity, or not one of those that the leaf may name.
pub(crate) fn to_write(leaf: Option<&SchemaNode<'_>>) -> String {
    let known = leaf.map_or(&[][..], of).iter();
    let names: Vec<String> = known.map(|(module, name, _)| format!("{module}:{name}")).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("Write {} or {last}.", others.join(", "))
        }
        _ => "Write MODULE:NAME of an identity that the module defines.".into(),
    }
}

/// What to do about a node whose `when` does not hold: what is asked for is mostly the type of what it stands in.
pub(crate) fn misplaced(message: &str) -> &'static str {
    match message.contains("stoa-rt:fpm") {
        true => {
            "Remove it, or make the protocol a route source: its type is stoa-routing:fpm, stoa-routing:netlink or \
             stoa-routing:bgp."
        }
        false => "Remove it: it has no meaning where it stands.",
    }
}

#[cfg(test)]
mod tests {
    use crate::yang;

    #[test]
    fn the_modules_define_them() {
        let all = [super::INTERFACE_TYPES, super::PROTOCOL_TYPES, super::VRRP_VERSIONS].concat();
        for (module, name, _) in all {
            let (_, text) = yang::sources().find(|it| it.0 == module).expect(module);
            let is_it = |line: &str| {
                line.trim().strip_prefix("identity ").is_some_and(|it| {
                    it.trim_end_matches(['{', ' ', ';']).trim_matches('"') == name
                })
            };
            assert!(text.lines().any(is_it), "{module}:{name}");
        }
    }
}
