//! The command line: arguments, output, exit codes, JSON.

mod bench;

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
