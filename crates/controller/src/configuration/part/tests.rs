//! What is known of the YANG modules: references between interfaces, and the leafs that are an interface's own.

use super::*;

#[test]
fn leafs_of_interfaces_are_their_own() {
    let interface = "/ietf-interfaces:interfaces/interface[name='a']";
    assert!(is_own_leaf(&format!("{interface}/description")));
    assert!(is_own_leaf(&format!("{interface}/enabled")));
    for path in [
        "/ietf-interfaces:interfaces/interface[name=']/description']",
        &format!("{interface}/ietf-ip:ipv4/enabled"),
        &format!("{interface}/ietf-ip:ipv4/neighbor[ip='10.0.0.1']/enabled"),
        "/stoa-vrf:vrfs/vrf[name='a']/description",
        interface,
    ] {
        assert!(!is_own_leaf(path), "{path}");
    }
}

/// How often a module refers to another entry: by `leafref` or `interface-ref`, and by `must` with an absolute path.
fn references(text: &str) -> (usize, usize) {
    let types = ["type leafref", "interface-ref;"];
    let musts = ["must \"/", "must '/"];
    let count = |all: [&str; 2]| all.iter().map(|it| text.matches(it).count()).sum();
    (count(types), count(musts))
}

/// A new reference between entries may reach from what a part leaves out into the part. `config::others` and
/// `dependents` must know it; then its number goes here.
#[test]
fn references_between_entries_are_known() {
    let known = [
        // Interfaces of attachment points, which are in each part, their lists, interfaces that rules
        // name, and state.
        ("ietf-access-control-list", (5, 0)),
        // The type itself, and references of state.
        ("ietf-interfaces", (4, 0)),
        // External interfaces of policies, which are in each part with the interfaces; notifications.
        ("ietf-nat", (5, 0)),
        // Outgoing interfaces of static routes; those of state.
        ("ietf-routing", (5, 0)),
        // Interfaces that a priority follows, which must have the family.
        ("ietf-vrrp", (5, 2)),
        // State.
        ("ietf-yang-library", (5, 0)),
        // Sets, flow profiles and interfaces of zones, which are in each part; the zones of pairs and limits of flows,
        // and the lists of pairs.
        ("stoa-acl", (9, 0)),
        // Interfaces of security associations, which are in each part with the associations.
        ("stoa-ipsec", (1, 0)),
        // Interfaces of port control, which are in each part as those of policies are.
        ("stoa-nat", (1, 0)),
        // Parents and cross-connects.
        ("stoa-interfaces", (2, 0)),
        // In the core.
        ("stoa-policy", (1, 0)),
        // VRFs of interfaces, instances and rules.
        ("stoa-vrf", (1, 0)),
    ];
    for (module, text) in stoa_yang::sources() {
        let name = module.split('@').next().unwrap_or(module).trim_end_matches(".yang");
        let is_known = known.iter().find(|(known, _)| *known == name).map(|(_, count)| *count);
        assert_eq!(references(text), is_known.unwrap_or_default(), "{module}");
    }
}
