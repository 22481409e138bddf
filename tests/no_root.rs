//! Without root: what needs a capability says which and why, what needs none just works.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::json;
use stoa_lab::{Command, Configuration, Output, Result, Scratch, stoa_binary};
use stoa_scenarios::two_sides;

const NOBODY: &str = "65534";

/// A folder and a binary that nobody may use.
fn for_nobody() -> Result<(Scratch, PathBuf)> {
    let scratch = Scratch::new()?;
    let open = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("opened");
    };
    open(scratch.path());
    let binary = scratch.file("stoa");
    std::fs::copy(stoa_binary()?, &binary).expect("copied");
    open(&binary);
    Ok((scratch, binary))
}

fn as_nobody(binary: &std::path::Path, arguments: &[&str]) -> Result<Output> {
    Command::program("/usr/bin/setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--inh-caps=-all"])
        .args([&binary.to_string_lossy()])
        .args(arguments)
        .run()
}

#[test]
fn a_packet_socket_without_root_names_the_capability() -> Result<()> {
    let (scratch, binary) = for_nobody()?;
    let mut configuration = Configuration::new(&two_sides(&[])?);
    // A device that is there everywhere: only the right is missing.
    for name in ["host-a", "host-b"] {
        configuration.interface(name)["stoa-interfaces:port"] =
            json!({ "af-packet": { "device": "lo" } });
    }
    let file = scratch.write("stoa.json", configuration.json().to_string())?;
    let socket = scratch.file("stoa.sock");
    let run = ["run", "--config", &file.to_string_lossy(), "--socket", &socket.to_string_lossy()];
    let output = as_nobody(&binary, &run)?;
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(!output.success(), "{said}");
    assert!(said.contains("CAP_NET_RAW"), "{said}");
    Ok(())
}

#[test]
fn the_demo_without_root_says_how_to_call_it() -> Result<()> {
    let (_scratch, binary) = for_nobody()?;
    let output = as_nobody(&binary, &["demo", "--once", "--json"])?;
    assert!(!output.success());
    let last = output.stdout.lines().last().unwrap_or_default();
    let report: serde_json::Value = serde_json::from_str(last).expect("JSON all the same");
    assert_eq!(report["ok"], false);
    assert!(last.contains("sudo make run"), "{last}");
    Ok(())
}
