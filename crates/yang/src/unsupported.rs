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
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/ipv4/ecn",
        "access lists do not match ECN",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/ipv4/length",
        "stoa-acl:packet-length matches ranges of the length of both families",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/ipv4/ttl",
        "an option of the interface drops packets with a small TTL or hop limit",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/ipv6/ecn",
        "access lists do not match ECN",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/ipv6/length",
        "stoa-acl:packet-length matches ranges of the length of both families",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/ipv6/ttl",
        "an option of the interface drops packets with a small TTL or hop limit",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/ipv4/ihl",
        "access lists do not match the length of the IPv4 header",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/ipv4/flags",
        "stoa-acl:fragment matches fragments",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/ipv4/offset",
        "stoa-acl:fragment matches fragments",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/ipv4/identification",
        "access lists do not match the identification",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/ipv6/flow-label",
        "access lists do not match the flow label",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/tcp/sequence-number",
        "access lists do not match sequence numbers",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/tcp/acknowledgement-number",
        "access lists do not match sequence numbers",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/tcp/data-offset",
        "access lists do not match the length of the TCP header",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/tcp/reserved",
        "access lists do not match reserved bits",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/tcp/flags",
        "RFC 8519 does not say whether other flags may be set; stoa-acl:tcp-flags does",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/tcp/window-size",
        "access lists do not match the window",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/tcp/urgent-pointer",
        "access lists do not match the urgent pointer",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/tcp/options",
        "access lists do not match TCP options",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/udp/length",
        "stoa-acl:packet-length matches ranges of the length of the IP packet",
    ),
    (
        "/ietf-access-control-list:acls/acl/aces/ace/matches/icmp/rest-of-header",
        "access lists match the type and the code of ICMP only",
    ),
    (
        "/ietf-nat:nat/instances/instance/per-interface-binding",
        "NAT44 binds a mapping to a VRF, not to an interface",
    ),
    (
        "/ietf-nat:nat/instances/instance/policy/port-set-restrict/psid-offset",
        "port sets by PSID are those of MAP-E, which Stoa does not have",
    ),
    (
        "/ietf-nat:nat/instances/instance/policy/port-set-restrict/psid-len",
        "port sets by PSID are those of MAP-E, which Stoa does not have",
    ),
    (
        "/ietf-nat:nat/instances/instance/policy/port-set-restrict/psid",
        "port sets by PSID are those of MAP-E, which Stoa does not have",
    ),
    (
        "/ietf-nat:nat/instances/instance/policy/dst-nat-enable",
        "entries of mapping-table translate destinations",
    ),
    (
        "/ietf-nat:nat/instances/instance/policy/transport-protocols",
        "all protocols are translated: those without ports by their addresses",
    ),
    ("/ietf-nat:nat/instances/instance/policy/subscriber-mask-v6", "NAT44 has no IPv6 subscribers"),
    (
        "/ietf-nat:nat/instances/instance/policy/timers",
        "a flow profile of the rule that accepts a flow has its timeouts (stoa-acl:flow-profile)",
    ),
    (
        "/ietf-nat:nat/instances/instance/policy/fragments-limit",
        "stoa-ip:reassembly limits the fragments that wait",
    ),
    (
        "/ietf-nat:nat/instances/instance/policy/algs/src-transport-port",
        "application level gateways know a control connection by the port of its server",
    ),
    (
        "/ietf-nat:nat/instances/instance/policy/all-algs-enable",
        "only gateways that algs names are on",
    ),
    (
        "/ietf-nat:nat/instances/instance/policy/notify-pool-usage",
        "metrics have the use of pools; there are no notifications of it",
    ),
    (
        "/ietf-nat:nat/instances/instance/mapping-limits",
        "limits of flows bound mappings as well (stoa-system:system/limits)",
    ),
    (
        "/ietf-nat:nat/instances/instance/connection-limits",
        "port-quota limits what a subscriber has, the rate-limit of an access list entry its new flows",
    ),
    (
        "/ietf-nat:nat/instances/instance/notification-limits",
        "metrics have the use of pools; there are no notifications of it",
    ),
    (
        "/ietf-nat:nat/instances/instance/mapping-table/mapping-entry/external-dst-address",
        "internal-dst-address gives all sources outside another address inside: it depends on no destination",
    ),
    (
        "/ietf-nat:nat/instances/instance/mapping-table/mapping-entry/external-dst-port",
        "internal-dst-address gives all sources outside another address inside: it depends on no destination",
    ),
    (
        "/ietf-nat:nat/instances/instance/mapping-table/mapping-entry/lifetime",
        "a static mapping lasts until it is removed",
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
