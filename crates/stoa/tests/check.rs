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

/// Files, sockets and settings of drivers are those that `stoa run` would accept.
#[test]
fn a_check_knows_the_folders_of_ports() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stoa.json");
    let check = |port: &str, options: &[&str]| {
        let text = format!(
            r#"{{"ietf-interfaces:interfaces": {{"interface": [{{"name": "lan",
                "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {port}}}]}}}}"#
        );
        std::fs::write(&file, text).unwrap();
        let file = file.display().to_string();
        let output = stoa(&[&["check", file.as_str()], options].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let pcap = r#"{"pcap": {"output": "/srv/captures/out.pcap"}}"#;
    let named = r#"{"pcap": {"output": "out.pcap"}}"#;
    assert_eq!(check(named, &[]), (Some(0), String::new()));
    assert_eq!(check(pcap, &["--pcap-folder", "/srv/captures"]), (Some(0), String::new()));
    for options in [&["--pcap-folder", "/var/lib/stoa/pcap"][..], &[]] {
        let (code, errors) = check(pcap, options);
        let is_refused = errors.contains("is not in the folder of capture files");
        assert!(code == Some(1) && is_refused, "{errors}");
    }
    let memif = r#"{"memif": {"socket": "/run/other/memif.sock", "role": "master", "id": 1}}"#;
    let (code, errors) = check(memif, &["--memif-folder", "/run/stoa/memif"]);
    assert!(
        code == Some(1) && errors.contains("is not in the folder of memif sockets"),
        "{errors}"
    );
}
