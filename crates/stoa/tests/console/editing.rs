//! Commands that edit the candidate.

use crate::testbed::{Router, err, out};

#[test]
fn addresses_types_and_texts_are_typed_as_usual() {
    let router = Router::start();
    let shown = router.types(&[
        "configure",
        "set interfaces interface lan ipv4 address 192.0.2.1/24",
        "set interfaces interface lan description to the core",
        "set interfaces interface lan.5 sub-interface parent lan",
        "set interfaces interface lan.5 sub-interface outer vid 5",
        "set int int dmz port null",
        "show | display set",
        "commit check",
        "commit comment three interfaces more",
        "delete interfaces interface lan ipv4 address 192.0.2.1/24",
        "commit",
    ]);
    for line in [
        "set interfaces interface lan ipv4 address 192.0.2.1 prefix-length 24\n",
        "set interfaces interface lan description \"to the core\"\n",
        "set interfaces interface lan.5 type l2vlan\n",
        "set interfaces interface dmz type ethernetCsmacd\n",
        "The candidate is valid: ",
        "Committed and saved as number ",
    ] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    assert!(router.shows("show history").contains("three interfaces more"));
    assert!(!router.shows("show configuration").contains("192.0.2.1"));
}

#[test]
fn a_check_reports_errors_and_changes_nothing() {
    let router = Router::start();
    let text =
        router.fails(&["configure", "set interfaces interface x enabled true", "commit check"]);
    assert!(text.contains("interface[name='x']") && text.contains("type"), "{text}");
    assert!(!router.shows("show configuration").contains("interface x"));
    let output = router.call(&["commit", "check"]);
    assert!(!output.status.success(), "{}", out(&output));
    router.shows("discard");
    assert!(router.shows("commit check").contains("The candidate is valid: 0 changes"));
    assert!(router.shows("show history").contains("no commits yet"));
}

#[test]
fn nodes_are_copied_renamed_deactivated_and_annotated() {
    let router = Router::start();
    let shown = router.types(&[
        "configure",
        "rename interfaces interface wan to uplink",
        "set interfaces interface uplink description old",
        "copy interfaces interface uplink to spare",
        "delete interfaces interface spare ipv4",
        "annotate interfaces interface spare \"for the second provider\"",
        "deactivate interfaces interface lan ipv4",
        "commit",
        "show",
        "show interfaces interface lan",
    ]);
    assert!(shown.contains("    /* for the second provider */\n    interface spare {"), "{shown}");
    assert!(shown.contains("/* inactive: interfaces interface lan ipv4;"), "{shown}");
    assert!(!shown.contains("interface wan"), "{shown}");
    assert!(!router.shows("show routes").contains("10.1.0.1"), "it is not in effect");
    assert!(router.shows("show interfaces spare").contains("is up"));
    // What is not in effect survives in the startup file, and comes back.
    let file = std::fs::read_to_string(router.folder.path().join("stoa.json")).unwrap();
    assert!(file.contains("inactive-lines"), "{file}");
    let again = router.fails(&["configure", "deactivate interfaces interface lan ipv4"]);
    assert!(again.contains("is not configured"), "{again}");
    router.types(&["configure", "activate int int lan ipv4", "commit"]);
    assert!(router.shows("show routes").contains("10.1.0.1"));
    let none = router.fails(&["configure", "activate interfaces interface lan mtu"]);
    assert!(none.contains("there is no \"mtu\""), "{none}");
}

#[test]
fn access_lists_are_typed_as_usual() {
    let router = Router::start();
    let web = "set acls acl edge aces ace web";
    let shown = router.types(&[
        "configure",
        "set acls acl edge type ipv4-acl-type",
        &format!("{web} matches ipv4 protocol tcp"),
        &format!("{web} matches ipv4 source-ipv4-network 192.0.2.1"),
        &format!("{web} actions forwarding accept"),
        "set acls attachment-points interface lan ingress acl-sets acl-set edge",
        "show acls acl edge | display set",
        "commit",
        "run clear acl edge",
        "exit",
        "acl test interface lan direction in source 192.0.2.1 destination 10.2.0.2 protocol tcp",
    ]);
    for line in [
        "ace web matches ipv4 protocol 6\n",
        "source-ipv4-network 192.0.2.1/32\n",
        "Hits of 1 rule begin at 0",
        "accept by rule web of access list edge",
    ] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    let udp = router.fails(&["configure", &format!("{web} matches udp")]);
    assert!(udp.contains("`matches ipv4 protocol 17`"), "{udp}");
    assert!(router.fails(&["firewall"]).contains("use `show acl`"));
    assert!(router.fails(&["configure", "firewall"]).contains("use `edit acls acl NAME`"));
    assert!(err(&router.call(&["clear", "acl", "x"])).contains("there is no access list \"x\""));
}

#[test]
fn zones_are_configured_shown_and_asked() {
    let router = Router::start();
    let shown = router.types(&[
        "configure",
        "set acls acl ssh aces ace ssh matches tcp destination-port port ssh",
        "set acls acl ssh aces ace ssh actions forwarding accept",
        "set acls zones zone inside interface lan",
        "set acls zone-pairs zone-pair inside router acl-sets acl-set ssh",
        "commit",
        "exit",
        "show zones",
        "show acl ssh",
        "clear zones",
        "acl test from-zone inside to-zone router source 192.0.2.1 destination 10.2.0.2 protocol tcp \
         destination-port 22",
    ]);
    for line in [
        "none: packets are dropped",
        "FROM ZONE",
        "Counters of 1 pair of zones begin at 0",
        "accept by rule ssh of access list ssh at zones inside to router",
    ] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    assert!(router.fails(&["configure", "zone"]).contains("use `edit acls zones zone NAME`"));
    let unknown =
        router.fails(&["configure", "set acls zone-pairs zone-pair insied router", "commit"]);
    assert!(unknown.contains("Use \"inside\" or \"router\""), "{unknown}");
    assert!(unknown.contains("set acls zones zone insied interface INTERFACE"), "{unknown}");
    router.shows("discard");
    assert_eq!(router.shows("clear zones --json"), "{\"pairs\":1}\n");
}

#[test]
fn nat_is_configured_shown_and_asked() {
    let router = Router::start();
    let mapping = "set nat instances instance 1 mapping-table mapping-entry 1";
    let shown = router.types(&[
        "configure",
        "set nat instances instance 1 policy 1 external-realm external-interface lan",
        &format!("{mapping} transport-protocol tcp"),
        &format!("{mapping} external-src-address 203.0.113.5/32"),
        &format!("{mapping} external-src-port start-port-number https"),
        &format!("{mapping} internal-src-address 10.9.0.8/32"),
        &format!("{mapping} internal-src-port start-port-number 8443"),
        "commit",
        "exit",
        "show nat",
        "show nat mappings protocol tcp",
        "nat whois 203.0.113.5 https",
        "show flows",
    ]);
    for line in [
        "203.0.113.5:443",
        "its address",
        "No dynamic mapping.",
        "10.9.0.8 port 8443: static mapping 1 of instance 1",
    ] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    let masquerade = router.fails(&["configure", "masquerade"]);
    assert!(
        masquerade.contains("edit nat instances instance NUMBER policy NUMBER"),
        "{masquerade}"
    );
    let usual = router.fails(&["show ip nat translations"]);
    assert!(usual.contains("show nat mappings"), "{usual}");
}

#[test]
fn rules_are_placed_and_come_back_to_their_place() {
    let router = Router::start();
    let rule = |name: &str| format!("set acls acl edge aces ace {name} actions forwarding drop");
    let aces = "acls acl edge aces ace";
    let order = |lines: &[&str]| {
        let shown = router.types(&[&["configure"], lines, &["show acls | match ace"]].concat());
        let names = shown.lines().filter_map(|it| it.trim().strip_prefix("ace "));
        names.map(|it| it.trim_end_matches([' ', '{']).to_owned()).collect::<Vec<_>>().join(" ")
    };
    let rules = ["a", "b", "c", "d"].map(rule);
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    assert_eq!(order(&rules), "a b c d");
    assert_eq!(order(&[&format!("insert {aces} d before b")]), "a d b c");
    assert_eq!(order(&["edit acls acl edge aces", "insert ace a last", "top"]), "d b c a");
    let [down, up] = ["deactivate", "activate"].map(|verb| format!("{verb} {aces}"));
    assert_eq!(order(&[&format!("{down} b"), &format!("{down} c")]), "d a");
    assert_eq!(order(&[&format!("{up} c"), &format!("{up} b")]), "d b c a");
    assert_eq!(order(&[&format!("{down} d"), "commit", &format!("{up} d")]), "d b c a");
    let none = router.fails(&["configure", &format!("insert {aces} x first")]);
    assert!(none.contains("there is no such entry"), "{none}");
}

#[test]
fn a_rename_follows_references() {
    let router = Router::start();
    let shown = router.types(&[
        "configure",
        "set vrfs vrf red",
        "set interfaces interface wan vrf red",
        "rename vrfs vrf red to blue",
        "commit",
        "show interfaces interface wan | match vrf",
    ]);
    assert!(shown.contains("Renamed, also in 1 reference.\n"), "{shown}");
    assert!(shown.contains("Committed and saved") && shown.ends_with("vrf blue;\n"), "{shown}");
    let again = router.call(&["rename", "vrfs", "vrf", "red", "to", "green"]);
    assert!(err(&again).contains("`vrfs vrf red` is not configured"), "{}", err(&again));
}

#[test]
fn lines_are_loaded_from_the_terminal() {
    let router = Router::start();
    let shown = router.types(&[
        "configure",
        "load merge terminal",
        "set interfaces interface lan description one",
        "# a comment",
        ".",
        "show interfaces interface lan | match description",
        "load replace terminal",
        "set interfaces interface only port null",
        ".",
        "show | count",
    ]);
    assert!(shown.starts_with("description one;\n"), "{shown}");
    assert!(shown.contains("8 lines"), "{shown}");
    let wrong = router.fails(&["configure", "load merge terminal", "nonsense", "."]);
    assert!(wrong.contains("line 1: \"nonsense\" is unknown"), "{wrong}");
}

#[test]
fn users_are_made_in_the_console() {
    let router = Router::start();
    router.types(&["configure", "user add ann group noc", "correct horse battery", "commit"]);
    let list = router.shows("user list");
    assert!(list.contains("ann") && list.contains("noc"), "{list}");
    let shown = router.types(&["user add bob --admin", "staple the battery to it"]);
    assert!(shown.contains("Added the administrator bob."), "{shown}");
    let again = router.console(&["user add bob", "x"]);
    assert!(err(&again).contains("there is a user \"bob\" already"), "{}", err(&again));
    let file = std::fs::read_to_string(router.folder.path().join("stoa.json")).unwrap();
    assert!(!file.contains("horse") && !file.contains("staple"), "{file}");
}
