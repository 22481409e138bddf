//! The demo without a terminal: its last line is a JSON object, and every step succeeds.

use std::time::Duration;

use serde_json::Value;
use stoa_lab::{Command, Result, stoa_binary};

#[test]
fn every_step_succeeds() -> Result<()> {
    let output = Command::program(stoa_binary()?)
        .args(["demo", "--once", "--json"])
        .deadline(Duration::from_secs(180))
        .run()?;
    let last = output.stdout.lines().last().unwrap_or_default();
    let report: Value = serde_json::from_str(last).unwrap_or_else(|error| {
        panic!("the last line is not JSON ({error}): {}\n{}", output.stdout, output.stderr)
    });
    let steps = report["steps"].as_array().expect("steps");
    for step in steps {
        println!("{}: {}", step["name"], step["detail"]);
        assert_eq!(step["ok"], true, "{step}");
        assert!(step["name"].is_string() && step["detail"].is_string(), "{step}");
    }
    assert_eq!(report["ok"], true);
    assert!(output.success());
    let expected =
        ["ping4", "ping6", "traceroute4", "traceroute6", "TCP, IPv4", "TCP, IPv6", "UDP", "Linux"];
    let behind = ["stateful rule", "NAT44", "flow record by IPFIX", "conserved", "clean up"];
    for word in expected.into_iter().chain(behind) {
        let is_present =
            steps.iter().any(|step| step["name"].as_str().is_some_and(|name| name.contains(word)));
        assert!(is_present, "no step contains {word}");
    }
    Ok(())
}
