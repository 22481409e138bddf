//! Without root: ports that need a capability name it in the error, ports in memory work.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use stoa_lab::{Command, Configuration, Output, Result, Router, Scratch, stoa_binary, wait_until};

const NOBODY: &str = "65534";
const AS_NOBODY: [&str; 6] =
    ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--inh-caps=-all"];

/// A folder and a binary that the user nobody can access.
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
        .args(AS_NOBODY)
        .args([&binary.to_string_lossy()])
        .args(arguments)
        .run()
}

#[test]
fn a_packet_socket_without_root_names_the_capability() -> Result<()> {
    let (scratch, binary) = for_nobody()?;
    // A device that always exists: only the capability is missing.
    let configuration = Configuration::new(&[]).port("lo", json!({ "af-packet": {} }));
    let file = scratch.write("stoa.json", configuration.json().to_string())?;
    let socket = scratch.file("stoa.sock");
    let run = ["run", "--config", &file.to_string_lossy(), "--socket", &socket.to_string_lossy()];
    let output = as_nobody(&binary, &run)?;
    let printed = format!("{}{}", output.stdout, output.stderr);
    assert!(!output.success(), "{printed}");
    assert!(printed.contains("CAP_NET_RAW"), "{printed}");
    Ok(())
}

#[test]
fn the_demo_without_root_names_the_command() -> Result<()> {
    let (_scratch, binary) = for_nobody()?;
    let output = as_nobody(&binary, &["demo", "--once", "--json"])?;
    assert!(!output.success());
    let last = output.stdout.lines().last().unwrap_or_default();
    let report: serde_json::Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(report["ok"], false);
    assert!(last.contains("sudo make run"), "{last}");
    Ok(())
}

#[test]
fn ports_in_memory_need_no_root() -> Result<()> {
    let (scratch, binary) = for_nobody()?;
    // The router binary is replaced by a wrapper that runs it as nobody.
    let wrapper = scratch.file("as-nobody");
    let line = format!(
        "#!/bin/sh\nexec /usr/bin/setpriv {} {} \"$@\"\n",
        AS_NOBODY.join(" "),
        binary.display()
    );
    std::fs::write(&wrapper, line).expect("written");
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).expect("opened");
    let generator = json!({ "generator": {
        "count": "1000", "rate": "20000", "source": "198.18.1.2", "destination": "198.18.2.2",
    } });
    let address = |text: &str| text.parse().expect("an address");
    let mut configuration = Configuration::new(&[])
        .port("in", generator)
        .port("out", json!({ "null": {} }))
        .addresses("in", &[address("198.18.1.1/24")])
        .addresses("out", &[address("198.18.2.1/24")]);
    configuration.interface("out")["ietf-ip:ipv4"]["neighbor"] =
        json!([{ "ip": "198.18.2.2", "link-layer-address": "02:00:00:00:02:02" }]);
    let router = Router::start_in(scratch, &wrapper, None, &configuration.json())?;
    wait_until("a thousand packets are sent", Duration::from_secs(10), || {
        let list = router.interfaces().map_err(|error| error.to_string())?;
        let out = list.iter().find(|one| one.name == "out").map_or(0, |one| one.tx_packets);
        // The router also announces its own address.
        if out >= 1000 { Ok(()) } else { Err(format!("{list:?}")) }
    })?;
    let accounting = router.conservation()?;
    assert!(accounting["received"].as_u64() >= Some(1000), "{accounting}");
    router.stop()
}
