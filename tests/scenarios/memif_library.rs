//! The memif library's examples with DPDK's driver as the peer: dpdk-testpmd between an example and a host.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stoa_lab::measure::ping;
use stoa_lab::{Command, Result, Topology, wait_until};
use stoa_scenarios::{Testpmd, two_sides};

/// An example of `stoa-memif`: from the folder that `make test` sets, or built now.
fn example(name: &str) -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("STOA_BUILT_EXAMPLES") {
        return Ok(PathBuf::from(folder).join(name));
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    Command::program(cargo)
        .args(["build", "--quiet", "--locked", "--package", "stoa-memif", "--example", name])
        .args(["--manifest-path", &workspace.to_string_lossy()])
        .deadline(Duration::from_secs(300))
        .run()?
        .ok()?;
    // The path is target/PROFILE/deps/scenarios-HASH.
    let here = std::env::current_exe().expect("a test has a path");
    let profile = here.parent().and_then(Path::parent).expect("it lies in two folders");
    Ok(profile.join("examples").join(name))
}

fn answers_pings(ours: &[&str], theirs: &'static str) -> Result<()> {
    let [a, b] = two_sides(&[])?;
    let topology = Topology::new(&[a, b.without_offloads()])?;
    let mut peer = Testpmd::new(theirs, 0, &["--forward-mode=io"])?;
    let socket = peer.socket();
    let responder = example("icmp_responder")?;
    let _responder =
        Command::program(&responder).args([&socket, "198.18.2.77"]).args(ours).spawn()?;
    peer.start(&topology)?;
    let host = topology.host("host-b");
    wait_until("the responder answers", Duration::from_secs(30), || {
        match ping(host, IpAddr::from([198, 18, 2, 77]), 1, &["-W", "0.5"]) {
            Ok(pings) if pings.all() => Ok(()),
            other => Err(format!("{other:?}; testpmd: {}", peer.log())),
        }
    })?;
    for size in ["0", "1", "56", "1472"] {
        // ping does not wait for the last replies as long as a busy processor may delay testpmd: it tries again.
        wait_until("the responder answers all", Duration::from_secs(30), || {
            let pings = ping(host, IpAddr::from([198, 18, 2, 77]), 20, &["-i", "0.1", "-s", size]);
            match pings {
                Ok(pings) if pings.all() => Ok(()),
                other => Err(format!("{size} bytes: {other:?}")),
            }
        })?;
    }
    Ok(())
}

#[test]
fn the_responder_listens_and_testpmd_connects() -> Result<()> {
    answers_pings(&["master"], "client")
}

#[test]
fn testpmd_listens_and_the_responder_connects() -> Result<()> {
    answers_pings(&[], "server")
}

/// A network function is killed `STOA_LIVES` (4) times, and each new one connects to its peer.
#[test]
fn a_killed_responder_reconnects() -> Result<()> {
    let lives = std::env::var("STOA_LIVES").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let [a, b] = two_sides(&[])?;
    let topology = Topology::new(&[a, b.without_offloads()])?;
    let mut peer = Testpmd::new("server", 0, &["--forward-mode=io"])?;
    let responder = example("icmp_responder")?;
    peer.start(&topology)?;
    for life in 0..lives {
        let one = Command::program(&responder).args([&peer.socket(), "198.18.2.77"]).spawn()?;
        wait_until("the responder answers", Duration::from_secs(30), || {
            peer.survive(&topology).map_err(|error| error.to_string())?;
            let to = IpAddr::from([198, 18, 2, 77]);
            match ping(topology.host("host-b"), to, 1, &["-W", "0.2"]) {
                Ok(pings) if pings.all() => Ok(()),
                other => Err(format!("life {life}: {other:?}; testpmd: {}", peer.log())),
            }
        })?;
        Command::program("/bin/kill").args(["-KILL", &one.pid().to_string()]).run()?.ok()?;
    }
    println!("{lives} lives; testpmd crashed {} times by itself", peer.crashes());
    Ok(())
}

#[test]
fn the_counter_counts_what_testpmd_sends() -> Result<()> {
    let topology = Topology::new(&two_sides(&[])?)?;
    // 256-byte frames from both ports; packets from the link to host-b do not count.
    let mut peer = Testpmd::new("client", 0, &["--forward-mode=txonly", "--txpkts=256"])?;
    let counter = example("packet_counter")?;
    let counter = Command::program(counter).args([&peer.socket(), "master"]).spawn()?;
    peer.start(&topology)?;
    wait_until("a second with packets", Duration::from_secs(30), || {
        let log = counter.log();
        let counts = |line: &str| {
            let (packets, bytes) = line.rsplit_once(": ")?.1.split_once(" packets, ")?;
            let bytes = bytes.strip_suffix(" bytes")?;
            Some((packets.parse::<u64>().ok()?, bytes.parse::<u64>().ok()?))
        };
        let seen = log.lines().filter_map(counts).find(|(packets, _)| *packets > 0);
        match seen {
            Some((packets, bytes)) if bytes == 256 * packets => Ok(()),
            _ => Err(format!("{seen:?}: {log}; testpmd: {}", peer.log())),
        }
    })?;
    let (printed, _, _) = counter.stop()?;
    println!("{}", printed.lines().last().unwrap_or_default());
    Ok(())
}
