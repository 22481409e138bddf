//! `stoa bench`: what it measures, and options that it refuses.

use serde_json::Value;

use super::{err, out, stoa};

#[test]
fn bench_options_out_of_range_are_wrong_usage() {
    for wrong in [
        &["--routes", "0"][..],
        &["--routes", "1048577"],
        &["--workers", "17"],
        &["--seconds", "0"],
        &["--frame", "63"],
        &["--family", "ip6", "--frame", "70"],
        &["--cpus", "0,1"],
        &["--kernel", "sse"],
        &["--next-hops", "0"],
        &["--flows", "16777217"],
        &["--flows", "old"],
        &["--destinations", "0"],
        &["--destinations", "all"],
        &["--mix", "imix4"],
        &["--mix", "imix1", "--family", "ip6"],
        &["--routes", "2", "--prefixes", "synthetic:2"],
        &["--prefixes", "synthetic:x"],
        &["--routes", "7", "--update-rate", "1", "--seconds", "1"],
        &["--ports", "0"],
        &["--burst", "257"],
        &["--vlans", "4095"],
        &["--vlans", "4094", "--ports", "64"],
        &["--vlans", "8", "--vlan"],
        &["--qinq"],
        &["--vrfs", "256"],
        &["--vrfs", "4", "--vlans", "3"],
        &["--vrfs", "4", "--routes", "8", "--update-rate", "1"],
        &["--acl", "acl:131073"],
        &["--acl", "rules:9"],
        &["--rule-rate", "1"],
        &["--acl", "acl:600", "--rule-rate", "1001"],
        &["--feature", "urpf"],
        &["--feature", "urpf-strict,urpf-loose"],
        &["--feature", "urpf-strict", "--vlans", "9", "--prefixes", "synthetic:8"],
    ] {
        let output = stoa(&[&["bench", "forward"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", err(&output));
        assert!(out(&output).is_empty(), "{wrong:?}");
    }
}

#[test]
fn bench_forward_loses_no_packet() {
    let prefixes = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(prefixes.path(), "10.0.0.0/8\n10.1.0.0/16\n2001:db8::/32\n").unwrap();
    let path = prefixes.path().to_str().unwrap();
    let synthetic = ["--prefixes", "synthetic:5000", "--vlan", "--update-rate", "2000"];
    let many = ["--mix", "imix2", "--destinations", "random", "--next-hops", "3", "--flows", "99"];
    for (options, routes) in [
        (&[][..], 1),
        (&["--family", "ip6", "--prefixes", path, "--destinations", "zipf"], 1),
        (&["--mix", "imix1", "--prefixes", path, "--destinations", "5"], 2),
        (&[&synthetic[..], &many].concat(), 10_000),
    ] {
        let output = stoa(&[&["bench", "forward", "--seconds", "1", "--json"], options].concat());
        assert_eq!(output.status.code(), Some(0), "{options:?}: {}", err(&output));
        let figures: Value = serde_json::from_str(&out(&output)).unwrap();
        assert_eq!((&figures["lost"], &figures["routes"]), (&0.into(), &routes.into()));
        assert!(figures["cycles_per_packet"].as_f64().is_some_and(|cycles| cycles > 0.0));
        let updates = figures["updates_per_second"].as_f64().unwrap();
        assert_eq!(updates > 0.0, options.contains(&"--update-rate"), "{updates}");
    }
}

#[test]
fn bench_forward_mixes_ports_vlans_vrfs_and_sources() {
    let options = "bench forward --seconds 1 --json --ports 2 --burst 32 --vlans 6 --qinq --vrfs 3 --next-hops 8 \
        --prefixes synthetic:5000 --destinations random --mix campus --feature urpf-strict \
        --feature-elsewhere urpf-loose";
    let output = stoa(&options.split_whitespace().collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let figures: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&figures["lost"], &figures["routes"]), (&0.into(), &15_000.into()), "{figures}");
    let layout = ["ports", "vlans", "vrfs", "burst", "next_hops"].map(|field| &figures[field]);
    assert_eq!(layout, [2, 6, 3, 32, 8].map(Value::from).each_ref(), "{figures}");
    assert_eq!(figures["features"], serde_json::json!(["urpf-strict"]));
    let nodes = figures["nodes"].as_array().unwrap();
    assert!(nodes.iter().any(|node| node["name"] == "ip4-reverse-path"), "{figures}");
}

#[test]
fn bench_forward_changes_rules_without_loss() {
    let options = "bench forward --seconds 1 --json --acl acl:600 --rule-rate 200 --routes 100 --destinations random";
    let output = stoa(&options.split_whitespace().collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let figures: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&figures["lost"], &figures["rule_rate"]), (&0.into(), &200.into()), "{figures}");
    assert!(figures["rules_per_second"].as_f64() > Some(0.0), "{figures}");
}

#[test]
fn bench_forward_takes_tunnels_both_ways() {
    for direction in ["encapsulate", "decapsulate"] {
        let options = format!(
            "bench forward --seconds 1 --json --tunnels 500 --direction {direction} --routes 500 \
             --destinations random"
        );
        let output = stoa(&options.split_whitespace().collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let figures: Value = serde_json::from_str(&out(&output)).unwrap();
        let expected = serde_json::json!([0, 500, direction]);
        let found = ["lost", "tunnels", "direction"].map(|field| figures[field].clone());
        assert_eq!(Value::from(found.to_vec()), expected, "{figures}");
    }
}

#[test]
fn bench_table_measures_or_names_the_wrong_option() {
    let prefixes = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(prefixes.path(), "10.0.0.0/8\n10.1.0.0/16\n2001:db8::/32\n").unwrap();
    let path = prefixes.path().to_str().unwrap();
    let command = ["bench", "table", "--prefixes", path, "--rounds", "1", "--lookups", "16384"];
    let output = stoa(&[&command[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let figures: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(figures["routes"], 2);
    for field in [
        "mlps",
        "cycles_per_lookup",
        "bytes_per_route",
        "inserts_per_second",
        "deletes_per_second",
        "build_seconds",
    ] {
        assert!(figures[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {figures}");
    }
    let output = stoa(&[&command[..], &["--family", "ip6"]].concat());
    assert!(out(&output).contains("cycles per look-up"), "{}", out(&output));
    for (wrong, code) in [
        (&["--prefixes", "synthetic:0"][..], 2),
        (&["--kernel", "sse"], 2),
        (&["--rounds", "0"], 2),
        (&["--lookups", "4095"], 2),
        (&["--prefixes", "/no/such/file"], 1),
        (&["--prefixes", "synthetic:6000001"], 1),
        (&["--prefixes", path, "--keys", "/no/such/file"], 1),
    ] {
        let output = stoa(&[&["bench", "table", "--rounds", "1"], wrong].concat());
        assert_eq!(output.status.code(), Some(code), "{wrong:?}: {}", err(&output));
        assert!(out(&output).is_empty() && !err(&output).is_empty(), "{wrong:?}");
    }
}

#[test]
fn bench_flow_measures_or_names_the_wrong_option() {
    let command = ["bench", "flow", "--flows", "1000", "--rounds", "1", "--lookups", "16384"];
    let output = stoa(&[&command[..], &["--translated", "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let figures: Value = serde_json::from_str(&out(&output)).unwrap();
    for field in ["cycles_per_lookup", "creates_per_second", "bytes_per_flow"] {
        assert!(figures[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {figures}");
    }
    let output = stoa(&[&command[..], &["--family", "ip6"]].concat());
    assert!(out(&output).contains("cycles per look-up"), "{}", out(&output));
    for wrong in
        [["--flows", "0"], ["--flows", "16000001"], ["--lookups", "4095"], ["--kernel", "sse"]]
    {
        let output = stoa(&[&["bench", "flow"][..], &wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", err(&output));
        assert!(out(&output).is_empty() && !err(&output).is_empty(), "{wrong:?}");
    }
}

#[test]
fn bench_classify_measures_or_names_the_wrong_option() {
    let command = ["bench", "classify", "--rules", "firewall:100", "--distinct", "500"];
    let output = stoa(&[&command[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let figures: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&figures["rules"], &figures["set"]), (&100.into(), &"firewall:100".into()));
    for field in ["cycles_per_lookup", "bytes_per_rule"] {
        assert!(figures[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {figures}");
    }
    // The clock of some machines has ticks of 4 ms: a short time may be 0.
    for field in ["build_seconds", "update_ms"] {
        assert!(figures[field].as_f64().is_some_and(|value| value >= 0.0), "{field}: {figures}");
    }
    let output = stoa(&[&command[..], &["--family", "ip6", "--keys", "random"]].concat());
    assert!(out(&output).contains("cycles per look-up"), "{}", out(&output));
    for wrong in [
        &["--rules", "acl:0"][..],
        &["--rules", "list:5"],
        &["--keys", "all"],
        &["--distinct", "0"],
        &["--kernel", "sse"],
    ] {
        let output = stoa(&[&["bench", "classify"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", err(&output));
        assert!(out(&output).is_empty() && !err(&output).is_empty(), "{wrong:?}");
    }
}
