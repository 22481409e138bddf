//! Nodes of the standard modules that Stoa does not support: errors instead of being ignored.

use crate::error::ValidationErrors;

/// Schema path of a node, which includes its descendants, and why it is refused.
const NODES: &[(&str, &str)] = &[
    (
        "/ietf-routing:routing/ribs/rib",
        "RIBs have no settings; stoa-vrf:vrfs configures several of them",
    ),
    (
        "/ietf-interfaces:interfaces/interface/link-up-down-trap-enable",
        "there is no SNMP agent to send traps",
    ),
    (
        "/ietf-interfaces:interfaces/interface/ietf-ip:ipv6/autoconf",
        "a router does not configure addresses from router advertisements",
    ),
];

/// Whether a node of this name may be unsupported.
pub fn is_named(name: &str) -> bool {
    NODES.iter().any(|(node, _)| node.rsplit(['/', ':']).next() == Some(name))
}

/// Adds an error for each given node (data path, schema path) that is not supported.
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
