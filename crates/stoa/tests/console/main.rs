//! Sessions in the console and the same commands of the shell, with a router whose ports are in memory.

mod editing;
mod errors;
mod guide;
mod terminal;
mod testbed;
mod views;

use std::path::Path;

use testbed::{Router, err, out, stoa};

#[test]
fn commands_are_abbreviated_and_have_synonyms() {
    for abbreviated in [&["sh", "int"][..], &["show", "neigh"], &["stat"]] {
        let output = stoa(Path::new("/nowhere"), abbreviated).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        assert!(err(&output).contains("no router runs on /nowhere"), "{}", err(&output));
    }
    for (usual, here) in [(&["show", "vlans"][..], "show interfaces"), (&["tcpdump"], "capture")] {
        let output = stoa(Path::new("/nowhere"), usual).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        assert!(err(&output).contains(&format!("use `stoa {here}`")), "{}", err(&output));
    }
}

#[test]
fn words_are_abbreviated_and_explained_in_the_console() {
    let router = Router::start();
    let shown =
        router.types(&["sh int", "conf", "set int int lan desc office", "sh | comp", "disc", "ex"]);
    assert!(shown.contains("10.1.0.1/24"), "{shown}");
    assert!(shown.contains("+ interfaces interface lan description office"), "{shown}");
    let help = router.types(&["?", "show ?", "configure", "set interfaces interface ?"]);
    assert!(help.contains("  traceroute") && help.contains("  neighbors "), "{help}");
    assert!(help.contains("  lan ") && help.contains("  <name>"), "{help}");
    let ambiguous = router.fails(&["configure", "co"]);
    assert!(ambiguous.contains("it is ambiguous: use commit or compare"), "{ambiguous}");
    let unknown = router.fails(&["configure", "no description"]);
    assert!(unknown.contains("use `delete`"), "{unknown}");
    let unknown = router.fails(&["show vlans"]);
    assert!(unknown.contains("use `show interfaces`"), "{unknown}");
    for line in ["show inventory", "ping 10.1.0.2 repeat 5"] {
        let text = router.fails(&[line]);
        assert!(!text.contains("Usage:") && text.contains("?` lists"), "{text}");
    }
    let elsewhere = router.fails(&["set interfaces interface lan enabled false"]);
    assert!(elsewhere.contains("use `configure` and then `set`"), "{elsewhere}");
    let stopped = router.console(&["show interface eth7", "configure"]);
    assert!(!stopped.status.success(), "the lines go on after one that failed");
    assert!(out(&router.console(&["tcpdump"])).is_empty());
}

#[test]
fn commands_have_their_usual_names() {
    let router = Router::start();
    let all = router.shows("show interfaces lan");
    for part in
        ["Interface lan is up", "10.1.0.1/24", "MTU             1500", "Received        0 packets"]
    {
        assert!(all.contains(part), "{part} in\n{all}");
    }
    let output = router.call(&["show", "interface", "eth7"]);
    assert!(err(&output).contains("no interface \"eth7\": use lan, wan"), "{}", err(&output));
    let routes = router.shows("show ip route");
    assert!(routes.contains("10.1.0.0/24") && !router.shows("show ipv6 route").contains("10.1.0"));
    let one = router.shows("show ip route 10.1.0.0/24 summary");
    assert!(one.contains("default   IPv4     direct"), "{one}");
    let summary = router.shows("show ip route summary --json");
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["counts"][0]["protocol"], "direct", "{summary}");
    assert!(summary["counts"][0]["routes"].as_u64() >= Some(4), "{summary}");
    assert!(router.shows("show arp").contains("No neighbours yet"));
    assert!(router.shows("show version").starts_with(concat!("Stoa ", env!("CARGO_PKG_VERSION"))));
    assert!(router.shows("show run").contains("interface lan {"));
    assert!(router.shows("show log --lines 100").contains("lan"), "the log is the file of stderr");
    let same = router.types(&["sh int lan", "sh ip ro", "sh ver", "show route 10.1.0.1"]);
    assert!(same.contains("Interface lan is up") && same.contains("10.1.0.0/24"), "{same}");
    assert!(router.shows("show ip interface brief").contains("10.1.0.1/24"));
    let of_vrf = router.types(&["show ip route vrf default protocol direct"]);
    assert!(of_vrf.contains("10.1.0.0/24"), "{of_vrf}");
}

#[test]
fn formats_of_a_configuration_are_filters_in_both_modes() {
    let router = Router::start();
    let set = "set interfaces interface lan type ethernetCsmacd\n";
    for line in ["show configuration | display set", "sh run interfaces | set"] {
        let shown = router.types(&[line]);
        assert!(shown.contains(set), "{line}: {shown}");
        let same = router.types(&["configure", &format!("run {line}")]);
        assert_eq!(same, shown, "{line}");
    }
    assert!(router.types(&["show configuration | display xml"]).contains("<interfaces xmlns"));
    let change = "set interfaces interface lan description office";
    let compared = router.types(&["configure", change, "exit", "show configuration | compare"]);
    assert!(compared.contains("+ interfaces interface lan description office"), "{compared}");
    let refused = router.fails(&["show interfaces | display set"]);
    assert!(refused.contains("`| set` is for configurations"), "{refused}");
}

/// The sum of a counter of the interfaces in the metrics.
fn metric(router: &Router, name: &str) -> u64 {
    let text = router.shows("show metrics");
    let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<u64>().ok());
    let of = text.lines().filter(|line| line.starts_with(name));
    of.filter_map(value).sum()
}

#[test]
fn counters_are_cleared_in_views_but_not_in_metrics() {
    let router = Router::start();
    let generator = "set interfaces interface wan port generator";
    router.types(&[
        "configure",
        &format!("{generator} source 10.2.0.2"),
        &format!("{generator} destination 10.1.0.2"),
        "set interfaces interface lan ipv4 neighbor 10.1.0.2 link-layer-address 02:00:00:00:00:02",
        &format!("{generator} count 500"),
        &format!("{generator} rate 100000"),
        "commit",
    ]);
    let received = |router: &Router| {
        let shown = router.shows("show interfaces wan --json");
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        shown["interfaces"][0]["rx_packets"].as_u64().unwrap()
    };
    let begun = std::time::Instant::now();
    while received(&router) < 500 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{}", received(&router));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let before = metric(&router, "stoa_interface_receive_packets_total");
    assert!(before >= 500, "{before}");
    // They went to a neighbour of the connected subnet.
    let route = router.shows("show routes 10.1.0.0/24 --json");
    let route: serde_json::Value = serde_json::from_str(&route).unwrap();
    let connected =
        route["routes"].as_array().unwrap().iter().find(|it| it["prefix"] == "10.1.0.0/24");
    assert_eq!(connected.unwrap()["packets"], 500, "{route}");
    assert!(router.shows("clear counters wan").contains("Counters of 1 interface begin at 0"));
    assert_eq!(received(&router), 0);
    assert!(router.shows("sh int wan").contains("Counters        cleared"));
    assert!(!router.shows("sh int lan").contains("cleared"));
    assert!(metric(&router, "stoa_interface_receive_packets_total") >= before, "metrics only grow");
    let state =
        router.shows("show state /ietf-interfaces:interfaces/interface[name='wan']/statistics");
    assert!(state.contains("\"500\""), "{state}");
    let output = router.call(&["clear", "counters", "eth7"]);
    assert!(err(&output).contains("no interface \"eth7\""), "{}", err(&output));
}
