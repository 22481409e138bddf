//! Static routes that direct ones hide: no list of routes has them, and yet they need their interfaces.

use super::*;

/// An interface without an address, by which nothing but a hidden route leaves.
#[test]
fn the_interface_of_a_hidden_route_is_not_removed_by_a_part() {
    let own = interface("lan.2");
    let hidden = [
        set(format!("{own}/ietf-ip:ipv4/enabled"), "true"),
        set(format!("{}/next-hop/outgoing-interface", route("s", "10.1.0.0/24")), "lan.2"),
    ];
    let tree = edit::apply(&Running::new().tree, &hidden).unwrap();
    let configuration = whole(&tree).unwrap_or_else(|errors| panic!("{errors:#?}"));
    assert!(configuration.has_hidden);
    let running = Running { tree: Arc::new(tree), configuration: Arc::new(configuration) };
    for bulk in BULKS {
        for (edit, is_valid) in [
            (delete(own.clone()), false),
            (delete(format!("{own}/ietf-ip:ipv4")), false),
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
