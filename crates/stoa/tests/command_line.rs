//! The command line: arguments, output, exit codes, JSON.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn stoa(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stoa"))
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env_remove("STOA_SOCKET")
        .output()
        .expect("the binary starts")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const GOOD: &str = "examples/two-hosts.json";
const BAD: &str = "crates/controller/tests/cases/wrong-gateways/config.json";

#[test]
fn a_good_configuration_has_a_summary() {
    let output = stoa(&["check", GOOD]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).starts_with("examples/two-hosts.json is good: 2 ports, 1 sub-interface"));
    assert!(out(&output).contains("CAP_NET_RAW"));
    let answer: Value = serde_json::from_slice(&stoa(&["check", GOOD, "--json"]).stdout).unwrap();
    assert_eq!(answer["ok"], true);
}

#[test]
fn each_error_has_path_cause_and_fix() {
    let output = stoa(&["check", BAD]);
    assert_eq!(output.status.code(), Some(1));
    for word in ["destination-prefix='10.21.0.0/16'", "cause: ", "fix: ", "10.1.0.1"] {
        assert!(err(&output).contains(word), "{word} in {}", err(&output));
    }
    let output = stoa(&["check", BAD, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["ok"], false);
    assert!(answer["errors"].as_array().unwrap().len() > 5);
    for key in ["path", "cause", "fix"] {
        assert!(answer["errors"][0][key].is_string(), "{key} in {answer}");
    }
}

#[test]
fn an_unknown_log_level_is_refused() {
    let mut check = Command::new(env!("CARGO_BIN_EXE_stoa"));
    let output = check.args(["check", "nowhere.json"]).env("STOA_LOG", "nonsense").output();
    let output = output.expect("the binary starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("STOA_LOG=nonsense"), "{}", err(&output));
}

#[test]
fn the_systemd_unit_fits_the_command() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/stoa.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let value = |key: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {key}"))
    };
    assert_eq!((value("Restart"), value("KillMode")), ("always", "mixed"));
    for key in ["ExecStart", "ExecReload"] {
        let mut words = value(key).split_whitespace().skip(1);
        let help = out(&stoa(&[words.next().unwrap(), "--help"]));
        for option in words.filter(|word| word.starts_with("--")) {
            assert!(help.contains(option), "{option} in {help}");
        }
    }
    let help = out(&stoa(&["run", "--help"]));
    for right in ["CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_BPF", "CAP_SYS_ADMIN"] {
        assert!(help.contains(right), "{right} in {help}");
        assert!(value("CapabilityBoundingSet").contains(right), "{right}");
    }
}

#[test]
fn a_missing_file_is_named() {
    for arguments in [&["check", "nowhere.json"][..], &["run", "--config", "nowhere.json"]] {
        let output = stoa(arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(err(&output).contains("nowhere.json"), "{}", err(&output));
    }
}

#[test]
fn without_a_router_the_message_says_how_to_start_one() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("stoa.sock").display().to_string();
    for what in [&["status"][..], &["reload"], &["show", "interfaces"], &["show", "routes"]] {
        let output = stoa(&[what, &["--socket", &socket]].concat());
        assert_eq!(output.status.code(), Some(1), "{what:?}");
        assert!(err(&output).contains("stoa run --config"), "{}", err(&output));
        assert!(err(&output).contains(&socket), "{}", err(&output));
        assert!(out(&output).is_empty(), "{}", out(&output));
    }
    for what in [
        &["status"][..],
        &["reload"],
        &["show", "interfaces"],
        &["show", "routes"],
        &["show", "limits"],
        &["trace", "show"],
        &["top", "--once"],
    ] {
        let output = stoa(&[what, &["--json", "--socket", &socket]].concat());
        assert_eq!(output.status.code(), Some(1), "{what:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(error.contains("stoa run --config") && error.contains(&socket), "{answer}");
    }
}

#[test]
fn the_error_of_a_bad_address_names_its_interface() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.json");
    let address = |ip: &str, family: &str, length| {
        let address = serde_json::json!([{ "ip": ip, "prefix-length": length }]);
        serde_json::json!({ format!("ietf-ip:{family}"): { "address": address } })
    };
    for (family, ip, example) in
        [("ipv4", "10.1.0.300", "10.0.0.1"), ("ipv6", "fd00::g", "fd00::1")]
    {
        let mut interface = address(ip, family, 24);
        interface["name"] = "left".into();
        interface["type"] = "iana-if-type:ethernetCsmacd".into();
        interface["stoa-interfaces:port"] = serde_json::json!({ "null": {} });
        let configuration =
            serde_json::json!({ "ietf-interfaces:interfaces": { "interface": [interface] } });
        std::fs::write(&file, configuration.to_string()).unwrap();
        let error = err(&stoa(&["check", &file.display().to_string()]));
        let path = format!("interface[name='left']/ietf-ip:{family}/address/ip");
        assert!(error.contains(&path) && error.contains(example), "{error}");
    }
}

/// A configuration may be for another machine, so that missing processors are a warning and no error.
#[test]
fn missing_processors_are_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pinned.json");
    let with = |cpus: &[u32]| {
        let configuration =
            serde_json::json!({ "stoa-system:system": { "workers": { "cpus": cpus } } });
        std::fs::write(&file, configuration.to_string()).unwrap();
        let output = stoa(&["check", &file.display().to_string()]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        out(&output)
    };
    assert!(with(&[1023]).contains("Warning: this machine has no CPU 1023"), "{}", with(&[1023]));
    assert!(!with(&[]).contains("Warning:"), "{}", with(&[]));
}

#[test]
fn wrong_usage_is_code_2() {
    for wrong in [
        &["fly"][..],
        &["check"],
        &["show", "nothing"],
        &["show", "nodes", "--watch", "0"],
        &["show", "routes", "--family", "5"],
    ] {
        assert_eq!(stoa(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

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
        &["--flows", "1048577"],
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
    let command = ["bench", "table", "--prefixes", path, "--rounds", "1"];
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
    let command = ["bench", "flow", "--flows", "1000", "--rounds", "1"];
    let output = stoa(&[&command[..], &["--translated", "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let figures: Value = serde_json::from_str(&out(&output)).unwrap();
    for field in ["cycles_per_lookup", "creates_per_second", "bytes_per_flow"] {
        assert!(figures[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {figures}");
    }
    let output = stoa(&[&command[..], &["--family", "ip6"]].concat());
    assert!(out(&output).contains("cycles per look-up"), "{}", out(&output));
    for wrong in [["--flows", "0"], ["--flows", "16000001"], ["--kernel", "sse"]] {
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
    for field in ["cycles_per_lookup", "build_seconds", "update_ms", "bytes_per_rule"] {
        assert!(figures[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {figures}");
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

#[test]
fn help_has_examples() {
    for command in ["run", "check", "reload", "status", "show", "completions"] {
        let output = stoa(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0));
        assert!(out(&output).contains("Examples:\n"), "{command}: {}", out(&output));
    }
    let output = stoa(&["--help"]);
    assert!(out(&output).contains("Exit codes"));
    assert!(!out(&output).contains("--forwarder-socket"), "internal commands are hidden");
}

#[test]
fn shells_get_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let output = stoa(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(out(&output).contains("interfaces"), "{shell}");
    }
}

#[test]
fn traffic_runs_over_its_own_link() {
    let socket = format!("memif:@stoa-command-line-{}", std::process::id());
    let (one, other) = (format!("a={socket}"), format!("b={socket},role=master"));
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.html");
    let both = ["traffic", "run", "--port", &one, "--port", &other, "--rate", "1kpps"];
    let json = ["--seconds", "0.2", "--json", "--report", report.to_str().unwrap()];
    let output = stoa(&[&both[..], &json].concat());
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results["total"]["lost"], 0, "{}", err(&output));
    assert_eq!(results["total"]["sent"], results["total"]["received"]);
    assert!(std::fs::read_to_string(report).unwrap().contains("<svg"));
    let output = stoa(&[&both[..], &["--seconds", "0.2"]].concat());
    assert!(out(&output).contains("a > b") && out(&output).contains("JITTER"), "{}", out(&output));
}

#[test]
fn an_impossible_traffic_run_is_refused() {
    let output = stoa(&[
        "traffic",
        "run",
        "--port",
        "a=discard",
        "--port",
        "b=discard",
        "--size",
        "9",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(answer["error"].as_str().unwrap().contains("streams.a-b.size: 9 bytes"), "{answer}");
    for wrong in [&["traffic", "run"][..], &["traffic", "run", "--port", "a=x:y"]] {
        assert_eq!(stoa(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

/// The text that a command writes at a terminal, and its exit code.
fn at_a_terminal(arguments: &str) -> (String, Option<i32>) {
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_stoa"));
    // util-linux is on every Debian.
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .expect("script starts");
    (out(&output), output.status.code())
}

#[test]
fn pcapng_is_refused_on_a_terminal_before_the_router_is_asked() {
    for file in ["-", "/dev/stdout", "/dev/tty"] {
        let (text, code) = at_a_terminal(&format!("capture eth0 --write {file} --socket /nowhere"));
        assert_eq!(code, Some(2), "{file}: {text}");
        assert!(text.contains(&format!("--write {file}: pcapng is binary")), "{text}");
        assert!(text.contains("pipe the output") && !text.contains("/nowhere"), "{text}");
    }
    // Text lines are fine there: the command goes on to the router.
    let (text, code) = at_a_terminal("capture eth0 --socket /nowhere");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("no router runs on /nowhere"), "{text}");
}
