//! Errors, warnings and differences, as operators read them.

use crate::testbed::Router;

const ROUTE: &str = "set routing control-plane-protocols control-plane-protocol static main static-routes ipv4 route \
                     203.0.113.0/24 next-hop outgoing-interface wan";

#[test]
fn an_error_names_the_node_that_was_changed() {
    let router = Router::start();
    router.types(&["configure", ROUTE, "commit"]);
    let text = router.fails(&["configure", "delete interfaces interface wan", "commit"]);
    let path = text.lines().find(|line| line.starts_with('/')).unwrap_or_default();
    assert!(path.starts_with("/ietf-interfaces:interfaces/interface[name='wan']"), "{text}");
    assert!(text.contains("this change conflicts with /ietf-routing:routing/"), "{text}");
    assert!(text.contains("there is no interface \"wan\""), "{text}");
    router.shows("discard");
    // The same address: `wan` comes later in the list, but `lan` was changed.
    let text =
        router.fails(&["configure", "set int int lan ipv4 address 10.2.0.1/24", "commit check"]);
    let path = text.lines().find(|line| line.starts_with('/')).unwrap_or_default();
    assert!(path.contains("interface[name='lan']"), "{text}");
}

#[test]
fn no_text_of_libyang_reaches_a_person() {
    let router = Router::start();
    let wrong = [
        "set interfaces interface lan ipv4 address 10.1.0.300/24",
        "set interfaces interface lan enabled perhaps",
        "set interfaces interface lan port pcap output ../x.pcap",
        "set interfaces interface lan ipv4 mtu 1",
        "set vrfs vrf default",
    ];
    for line in wrong {
        let text = router.fails(&["configure", line]);
        for raw in ["libyang", "Unsatisfied", "Invalid ", "Failed to", "conform"] {
            assert!(!text.contains(raw), "{line}: {text}");
        }
        assert!(text.contains("cause: ") && text.contains("fix: "), "{line}: {text}");
    }
    let text = router.fails(&["configure", wrong[2]]);
    assert!(text.contains("the name of a file in the folder of capture files"), "{text}");
}

#[test]
fn a_change_is_shown_and_counted_once() {
    let router = Router::start();
    let shown = router.types(&[
        "configure",
        "set interfaces interface lan ipv4 address 192.0.2.1/24",
        "show | compare",
        "commit",
        "delete interfaces interface lan ipv4 address 192.0.2.1",
        "compare",
    ]);
    let words = "interfaces interface lan ipv4 address 192.0.2.1";
    let lines: Vec<&str> = shown.lines().filter(|line| line.contains(words)).collect();
    assert_eq!(lines, [format!("+ {words} prefix-length 24"), format!("- {words}")], "{shown}");
    assert!(shown.contains(": 1 change."), "{shown}");
}

#[test]
fn overlapping_subnets_and_large_mtus_are_warnings() {
    let router = Router::start();
    let shown = router.types(&[
        "configure",
        "set interfaces interface wan ipv4 address 10.1.0.129/25",
        "set interfaces interface lan ipv4 mtu 9000",
        "commit",
    ]);
    let overlap =
        "Warning: interface wan: its subnet 10.1.0.128/25 is part of 10.1.0.0/24 of interface lan";
    assert!(shown.contains(overlap), "{shown}");
    let mtu =
        "Warning: interface lan: the MTU 9000 is above that of its device, which limits it to 1500";
    assert!(shown.contains(mtu), "{shown}");
    assert!(shown.contains("Committed and saved"), "{shown}");
    // Another commit does not repeat them, but a check does.
    let again = router.types(&[
        "configure",
        "set interfaces interface dmz port null",
        "commit",
        "commit check",
    ]);
    assert!(again.contains("Committed and saved"), "{again}");
    assert_eq!(again.matches(overlap).count(), 1, "{again}");
    let reloaded = router.shows("reload");
    assert!(reloaded.contains(overlap) && reloaded.contains(mtu), "{reloaded}");
}

#[test]
fn lists_are_ordered_by_number_and_name_other_vrfs() {
    let router = Router::start();
    router.types(&[
        "configure",
        "set vrfs vrf red",
        "set interfaces interface p10 port null",
        "set interfaces interface p9 port null",
        "set interfaces interface p9 vrf red",
        "set interfaces interface p9 ipv4 address 10.9.0.1/24",
        "commit",
    ]);
    let names = router.shows("show interfaces");
    assert!(names.find("p9 ") < names.find("p10 "), "{names}");
    let configuration = router.shows("show configuration interfaces");
    assert!(configuration.find("interface p9 ") < configuration.find("interface p10 "));
    let routes = router.shows("show routes");
    assert!(routes.contains("These VRFs have routes, too: red."), "{routes}");
    assert!(router.shows("show routes --vrf red").contains("too: default."));
    let seed = router.shows("show state /stoa-forwarder:forwarder");
    assert!(seed.contains("flow-hash-seed"), "{seed}");
    let log = router.shows("show log");
    assert!(!log.contains("number=0"), "{log}");
}
