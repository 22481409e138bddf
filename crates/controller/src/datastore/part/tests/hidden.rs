//! Static routes that direct ones hide: no list of routes has them, and yet they need their interfaces.

use super::*;

/// An interface without an address, by which nothing but a hidden route leaves.
#[test]
fn the_interface_of_a_hidden_route_is_not_removed_by_a_part() {
    let (own, other) = (interface("lan.2"), format!("{}/ietf-ip:ipv6", interface("lan.1")));
    // The subnet-router anycast address of the other interface: its route is a direct one.
    let anycast = route("s", "2001:db8:1::/128");
    let hidden = [
        set(format!("{other}/forwarding"), "true"),
        set(format!("{other}/address[ip='2001:db8:1::1']/prefix-length"), "64"),
        set(format!("{own}/ietf-ip:ipv6/enabled"), "true"),
        set(format!("{anycast}/next-hop/outgoing-interface"), "lan.2"),
    ];
    let tree = edit::apply(&Running::new().tree, &hidden).unwrap();
    let configuration = whole(&tree).unwrap_or_else(|errors| panic!("{errors:#?}"));
    assert!(configuration.has_hidden);
    let running = Running { tree: Arc::new(tree), configuration: Arc::new(configuration) };
    for bulk in BULKS {
        for (edit, is_valid) in [
            (delete(own.clone()), false),
            (delete(format!("{own}/ietf-ip:ipv6")), false),
            (set(format!("{own}/description"), "text"), true),
        ] {
            let edits = [edit];
            let part = running.part(bulk, &edits).unwrap_or_else(|| panic!("{bulk:?}: {edits:?}"));
            let tree = with_changes(&running.tree, &part.before, &part.after.tree).unwrap();
            assert_eq!(whole(&tree).is_ok(), is_valid, "{edits:?}");
            let made = running.with_part(bulk, &part);
            assert!(is_valid || made.is_none(), "{bulk:?}: {edits:?} is accepted");
        }
    }
}
