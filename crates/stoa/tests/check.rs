//! `stoa check` and the tables of the forwarder.

use std::process::{Command, Output};

fn stoa(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stoa")).args(arguments).output().expect("the binary starts")
}

/// What `stoa run` would refuse, `stoa check` refuses.
#[test]
fn a_check_knows_the_tables_of_the_forwarder() {
    let folder = tempfile::tempdir().unwrap();
    let check = |interfaces: usize, limits: &str| {
        let vlan = |at: usize| {
            format!(
                r#", {{"name": "lan.{at}", "type": "iana-if-type:l2vlan",
                "stoa-interfaces:sub-interface": {{"parent": "lan",
                    "outer": {{"vid": {}}}, "inner": {{"vid": {}}}}}}}"#,
                1 + at / 4000,
                1 + at % 4000
            )
        };
        let vlans: String = (0..interfaces).map(vlan).collect();
        let text = format!(
            r#"{{"stoa-system:system": {{"limits": {{{limits}}}}},
            "ietf-interfaces:interfaces": {{"interface": [
                {{"name": "lan", "type": "iana-if-type:ethernetCsmacd",
                  "stoa-interfaces:port": {{"af-packet": {{"device": "no-such-device"}}}}}}{vlans}]}}}}"#
        );
        let file = folder.path().join("stoa.json");
        std::fs::write(&file, text).unwrap();
        stoa(&["check", &file.display().to_string()])
    };
    let output = check(5000, "");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && log.is_empty(), "{log}");
    let output = check(5000, r#""adjacencies": 8192"#);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("limits/adjacencies"),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
