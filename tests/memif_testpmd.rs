//! memif with DPDK's own driver as the peer, in both roles: host-a, the router, memif, dpdk-testpmd, host-b.
//!
//! testpmd joins its `net_memif` port to the far host's link, so that every packet between the hosts crosses the shared
//! memory both ways: real ping of all sizes and real TCP.

use std::time::{Duration, Instant};

use serde_json::json;
use stoa_lab::measure::{Load, iperf, ping};
use stoa_lab::{
    Background, Command, Configuration, Result, Router, Scratch, Tool, Topology, stoa_binary,
    wait_until,
};
use stoa_scenarios::{Story, two_sides};

/// testpmd with a memif port and the link to host-b, joined.
fn testpmd(topology: &Topology, scratch: &Scratch, role: &str) -> Result<Background> {
    let socket = scratch.file("memif.sock").to_string_lossy().into_owned();
    let memif = format!("net_memif0,role={role},id=7,socket={socket},socket-abstract=no");
    let runtime = scratch.path().to_string_lossy().into_owned();
    topology
        .router()
        .command(Tool::TESTPMD)?
        // Without huge pages, as on a bare machine.
        .args(["--lcores", "(0,1)@0", "--no-pci", "--no-huge", "--no-shconf", "-m", "256"])
        .args(["--no-telemetry", "--vdev", &memif])
        .args(["--vdev", "net_af_packet1,iface=host-b", "--"])
        .args(["--total-num-mbufs=8192", "--stats-period", "1", "--auto-start"])
        .args(["--forward-mode=io", "--no-lsc-interrupt"])
        .env("XDG_RUNTIME_DIR", &runtime)
        .spawn()
}

fn configuration(scratch: &Scratch, role: &str) -> Result<Configuration> {
    let sides = two_sides(&[])?;
    let mut made = Configuration::new(&sides);
    let socket = scratch.file("memif.sock").to_string_lossy().into_owned();
    made.interface("host-b")["stoa-interfaces:port"] =
        json!({ "memif": { "socket": socket, "id": 7, "role": role } });
    Ok(made)
}

fn story(ours: &str, theirs: &str) -> Result<()> {
    let [a, b] = two_sides(&[])?;
    // testpmd's packet socket knows nothing of unfinished checksums.
    let topology = Topology::new(&[a, b.without_offloads()])?;
    // Made before and dropped after the router's own folder: testpmd keeps its files here.
    let scratch = Scratch::new()?;
    let json = configuration(&scratch, ours)?.json();
    let (router, peer);
    if ours == "master" {
        router = Router::start(&stoa_binary()?, Some(topology.router()), &json)?;
        peer = testpmd(&topology, &scratch, theirs)?;
    } else {
        // We look for it before it is there.
        router = Router::start(&stoa_binary()?, Some(topology.router()), &json)?;
        peer = testpmd(&topology, &scratch, theirs)?;
    }
    wait_until("memif is up", Duration::from_secs(30), || {
        let list = router.interfaces().map_err(|error| error.to_string())?;
        let up = list.iter().any(|one| one.name == "host-b" && one.up);
        if up && peer.is_running() {
            Ok(())
        } else {
            Err(format!("{list:?}; testpmd: {}", peer.log()))
        }
    })?;
    let story = Story { router, topology };
    wait_until("the far host answers", Duration::from_secs(20), || {
        let (a, b) = (story.host("host-a"), story.host("host-b"));
        let to = b.address(false).map_err(|error| error.to_string())?;
        match ping(a, to, 1, &[]) {
            Ok(pings) if pings.all() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })?;
    let (a, b) = (story.host("host-a"), story.host("host-b"));
    // Frames of 64 to 1,514 bytes, each compared by ping.
    for size in [22, 23, 64, 86, 214, 470, 982, 1238, 1472] {
        let pings = ping(a, b.address(false)?, 2, &["-s", &size.to_string(), "-p", "6d656d6966"])?;
        assert!(pings.all(), "{size}: {pings:?}");
    }
    story.hosts_reach_each_other()?;
    for (from, to) in [(a, b), (b, a)] {
        let rate = iperf(from, to, false, Load::Tcp, 1)?;
        println!(
            "memif {ours}, TCP from {}: {:.2} Gbit/s",
            from.label(),
            rate.bits_per_second / 1e9
        );
        assert!(rate.bits_per_second > 1e5, "{rate:?}");
    }
    if ours == "slave" {
        // A DPDK client would not come again by itself.
        rest_and_go_on(&story, &scratch, ours)?;
        outlive_a_forwarder(&story)?;
    }
    // The peer goes and the router stays; the books are those of the router.
    drop(peer);
    wait_until("memif is down", Duration::from_secs(10), || {
        let list = story.router.interfaces().map_err(|error| error.to_string())?;
        let up = list.iter().any(|one| one.name == "host-b" && one.up);
        if up { Err(format!("{list:?}")) } else { Ok(()) }
    })?;
    assert!(ping(a, a.gateway(false)?, 2, &[])?.all());
    story.end()
}

/// The operator disables the interface, which ends the link, and enables it again.
fn rest_and_go_on(story: &Story, scratch: &Scratch, role: &str) -> Result<()> {
    for enabled in [false, true] {
        let mut made = configuration(scratch, role)?;
        made.interface("host-b")["enabled"] = json!(enabled);
        let output = story.router.reload(&made.json())?;
        assert!(output.success(), "{}{}", output.stdout, output.stderr);
        wait_until("memif does as it was told", Duration::from_secs(20), || {
            let list = story.router.interfaces().map_err(|error| error.to_string())?;
            let up = list.iter().any(|one| one.name == "host-b" && one.up);
            if up == enabled { Ok(()) } else { Err(format!("{list:?}")) }
        })?;
    }
    let (a, b) = (story.host("host-a"), story.host("host-b"));
    wait_until("the far host answers again", Duration::from_secs(20), || {
        let to = b.address(false).map_err(|error| error.to_string())?;
        match ping(a, to, 1, &[]) {
            Ok(pings) if pings.all() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
}

/// The forwarder is killed, and a new one finds its peer again.
fn outlive_a_forwarder(story: &Story) -> Result<()> {
    let (a, b) = (story.host("host-a"), story.host("host-b"));
    let to = b.address(false)?;
    let pid = story.router.status()?["forwarder_pid"].as_u64().unwrap_or(0);
    assert_ne!(pid, 0);
    Command::program("/bin/kill").args(["-KILL", &pid.to_string()]).run()?.ok()?;
    let killed = Instant::now();
    wait_until("the far host answers through a new forwarder", Duration::from_secs(20), || {
        match ping(a, to, 1, &["-W", "0.2"]) {
            Ok(pings) if pings.all() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })?;
    let silent = killed.elapsed().as_secs_f64();
    println!("memif is back {silent:.3} s after kill -9 of the forwarder");
    Ok(())
}

#[test]
fn stoa_listens_and_testpmd_connects() -> Result<()> {
    story("master", "client")
}

#[test]
fn testpmd_listens_and_stoa_connects() -> Result<()> {
    story("slave", "server")
}
