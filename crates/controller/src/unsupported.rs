//! What the standard modules offer and Stoa does not do yet: said, not ignored.

use crate::error::ValidationErrors;

/// Schema path of a node, and why it is refused. What stands below is meant too.
const NODES: &[(&str, &str)] = &[
    (
        "/ietf-routing:routing/ribs/rib",
        "routing tables have no settings; for several of them see stoa-vrf:vrfs",
    ),
    (
        "/ietf-interfaces:interfaces/interface/link-up-down-trap-enable",
        "there is no SNMP agent to send traps",
    ),
    (
        "/ietf-interfaces:interfaces/interface/ietf-ip:ipv6/autoconf",
        "a router takes no addresses from router advertisements",
    ),
];

/// Whether a node of this name may be one of them.
pub fn is_named(name: &str) -> bool {
    NODES.iter().any(|(node, _)| node.rsplit(['/', ':']).next() == Some(name))
}

/// Finds the given nodes (data path, schema path) that are not supported.
pub fn check(given: &[(String, String)], errors: &mut ValidationErrors) {
    let mut last = String::new();
    for (data, schema) in given {
        if !last.is_empty() && data.starts_with(&last) {
            continue;
        }
        let refused = NODES.iter().find(|(node, _)| {
            schema.strip_prefix(node).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        if let Some((_, reason)) = refused {
            errors.add(data, *reason, "Remove it.");
            last = format!("{data}/");
        }
    }
}
