//! A keyed delta stream between two processes: the controller's half here, the forwarder in a process of its own.

use std::process::Command;

use serde_json::Value;

#[test]
fn rows_are_equal_after_changes_and_restarts_of_both_halves() {
    let output = Command::new(env!("CARGO_BIN_EXE_stoa"))
        .args(["bench", "delta", "--rows", "100000", "--json"])
        .output()
        .expect("the binary starts");
    // Each figure is the time of an audit that found both sides equal: without one, it fails.
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&figures["audit"], &figures["rows"]), (&"equal".into(), &100_000.into()));
    for step in ["all_s", "changed_s", "controller_s", "forwarder_s"] {
        assert!(figures[step].as_f64().is_some_and(|seconds| seconds > 0.0), "{step}: {figures}");
    }
}
