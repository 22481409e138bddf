//! Closed output pipes, as in `| head` and `2>&1 | head`: a command ends and does not panic.

use std::path::Path;
use std::process::{Command, Stdio};

/// The exit code of a command whose standard output and standard error are closed pipes.
fn exit_code(arguments: &[&str]) -> Option<i32> {
    let closed = || {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        Stdio::from(writer)
    };
    let status = Command::new(env!("CARGO_BIN_EXE_stoa"))
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("STOA_LOG", "trace")
        .stdout(closed())
        .stderr(closed())
        .status();
    status.expect("the binary starts").code()
}

#[test]
fn a_success_stays_a_success() {
    for arguments in [
        &["--help"][..],
        &["check", "examples/two-hosts.json"],
        &["check", "examples/two-hosts.json", "--json"],
        &["completions", "bash"],
        &["doctor"],
        &["doctor", "--json"],
        &["bench", "table", "--prefixes", "synthetic:100", "--rounds", "1"],
        &["bench", "forward", "--seconds", "1", "--json"],
    ] {
        assert_eq!(exit_code(arguments), Some(0), "{arguments:?}");
    }
}

#[test]
fn a_failure_keeps_its_code() {
    let bad = "crates/controller/tests/cases/wrong-gateways/config.json";
    for (arguments, code) in [
        (&["check", bad][..], 1),
        (&["check", "nowhere.json"], 1),
        (&["show", "interfaces", "--socket", "/nowhere"], 1),
        (&["capture", "eth0", "--socket", "/nowhere"], 1),
        (&["nonsense"], 2),
    ] {
        assert_eq!(exit_code(arguments), Some(code), "{arguments:?}");
    }
}
