//! memif with DPDK's driver as the peer, in both roles: host-a, the router, memif, dpdk-testpmd, host-b.
//!
//! testpmd connects its `net_memif` port to the far host's link, so that every packet between the hosts passes
//! through the shared memory: ping of all sizes and TCP. Then either side is stopped or killed `STOA_LIVES` (4)
//! times, the forwarder at most 8 times (`memif_library.rs` kills the library more often).

use std::time::{Duration, Instant};

use serde_json::json;
use stoa_lab::measure::{Load, iperf, ping};
use stoa_lab::{Command, Configuration, Result, Router, Topology, stoa_binary, wait_until};
use stoa_scenarios::{PATIENT, Resources, Scenario, Testpmd, two_sides};

/// A leaked link would be several megabytes for each restart.
const MEMORY_KB: u64 = 12 << 10;

/// The router and its peer.
struct Pair {
    /// Declared before the topology, which it uses.
    peer: Testpmd,
    scenario: Scenario,
    /// The role of the router.
    role: &'static str,
}

fn configuration(socket: &str, role: &str, enabled: bool) -> Result<Configuration> {
    let mut made = Configuration::new(&two_sides(&[])?);
    let interface = made.interface("host-b");
    interface["stoa-interfaces:port"] =
        json!({ "memif": { "socket": socket, "id": 7, "role": role } });
    interface["enabled"] = json!(enabled);
    Ok(made)
}

impl Pair {
    /// Starts both and waits until the far host answers. A slave starts before its master.
    fn start(role: &'static str, theirs: &'static str) -> Result<Self> {
        let [a, b] = two_sides(&[])?;
        let topology = Topology::new(&[a, b.without_offloads()])?;
        let peer = Testpmd::new(theirs, 7, &["--forward-mode=io"])?;
        let json = configuration(&peer.socket(), role, true)?.json();
        let router = Router::start(&stoa_binary()?, Some(topology.router()), &json)?;
        let mut pair = Self { peer, scenario: Scenario { router, topology }, role };
        pair.peer.start(&pair.scenario.topology)?;
        pair.reach()?;
        Ok(pair)
    }

    /// Waits until the far host answers; a crashed testpmd is restarted.
    fn reach(&mut self) -> Result<()> {
        let Self { peer, scenario, .. } = self;
        let to = scenario.host("host-b").address(false)?;
        wait_until("the far host answers through memif", Duration::from_secs(30), || {
            peer.survive(&scenario.topology).map_err(|error| error.to_string())?;
            match ping(scenario.host("host-a"), to, 1, &["-W", "0.2"]) {
                Ok(pings) if pings.all() => Ok(()),
                other => {
                    Err(format!("{other:?}; {:?}; {}", scenario.router.interfaces(), peer.log()))
                }
            }
        })
    }

    fn wait_down(&self) -> Result<()> {
        wait_until("memif is down", Duration::from_secs(10), || {
            let list = self.scenario.router.interfaces().map_err(|error| error.to_string())?;
            let is_up = list.iter().any(|one| one.name == "host-b" && one.up);
            if is_up { Err(format!("{list:?}")) } else { Ok(()) }
        })
    }

    fn wait_listening(&self) -> Result<()> {
        wait_until("memif listens", Duration::from_secs(20), || {
            let list = self.scenario.router.interfaces().map_err(|error| error.to_string())?;
            let waits = |detail: &str| detail.starts_with("waits for a slave");
            let is = list.iter().any(|one| one.name == "host-b" && waits(&one.detail));
            if is { Ok(()) } else { Err(format!("{list:?}")) }
        })
    }

    fn enable(&self, enabled: bool) -> Result<()> {
        let made = configuration(&self.peer.socket(), self.role, enabled)?;
        self.scenario.router.reload(&made.json())?.ok()?;
        Ok(())
    }

    /// The operator disables the interface, which ends the link, and enables it again.
    fn rest(&mut self) -> Result<()> {
        self.enable(false)?;
        self.wait_down()?;
        self.enable(true)?;
        self.reach()
    }

    fn peer_stops(&mut self) -> Result<()> {
        self.peer.stop()?;
        self.restart_peer()
    }

    fn peer_dies(&mut self) -> Result<()> {
        self.peer.kill()?;
        self.restart_peer()
    }

    /// Starts a new peer after the previous one ended.
    fn restart_peer(&mut self) -> Result<()> {
        self.wait_down()?;
        self.peer.start(&self.scenario.topology)?;
        self.reach()
    }

    /// Waits until the router uses no more than before: the connection of the last command may not be closed yet.
    fn nothing_leaked(&self, before: &Resources) -> Result<()> {
        wait_until("nothing has leaked", Duration::from_secs(20), || {
            let now = Resources::of(&self.scenario.router, &self.scenario.topology);
            let grown = now.map_err(|error| error.to_string())?.grown_since(before, MEMORY_KB);
            if grown.is_empty() { Ok(()) } else { Err(grown.join("; ")) }
        })
    }

    /// Kills the forwarder and waits until a new one has connected to the peer.
    fn forwarder_dies(&mut self) -> Result<()> {
        let pid = self.scenario.router.status()?["forwarder_pid"].as_u64().unwrap_or(0);
        assert_ne!(pid, 0);
        Command::program("/bin/kill").args(["-KILL", &pid.to_string()]).run()?.ok()?;
        let killed = Instant::now();
        if self.role == "master" {
            // A DPDK client connects to its master once, when it starts.
            self.peer.kill()?;
            self.wait_listening()?;
            self.peer.start(&self.scenario.topology)?;
        }
        self.reach()?;
        let (silent, role) = (killed.elapsed().as_secs_f64(), self.role);
        println!("memif {role} is back {silent:.3} s after kill -9 of the forwarder");
        Ok(())
    }
}

fn lives() -> u32 {
    std::env::var("STOA_LIVES").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

fn all_sizes_pass(role: &'static str, theirs: &'static str) -> Result<()> {
    let pair = Pair::start(role, theirs)?;
    let scenario = &pair.scenario;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    // Frames of 64 to 1,514 bytes, each compared by ping.
    for size in [22, 23, 64, 86, 214, 470, 982, 1238, 1472] {
        let size = size.to_string();
        let arguments = [PATIENT, &["-s", &size, "-p", "6d656d6966"]].concat();
        let pings = ping(a, b.address(false)?, 2, &arguments)?;
        assert!(pings.all(), "{size}: {pings:?}");
    }
    scenario.hosts_reach_each_other()?;
    for (from, to) in [(a, b), (b, a)] {
        let rate = iperf(from, to, false, Load::Tcp, 1)?;
        let (from, rate) = (from.label(), rate.bits_per_second);
        println!("memif {role}, TCP from {from}: {:.2} Gbit/s", rate / 1e9);
        assert!(rate > 1e5, "{rate}");
    }
    let Pair { mut peer, scenario, .. } = pair;
    peer.stop()?;
    scenario.end()
}

/// Either side is stopped and killed repeatedly: each link recovers, and nothing leaks.
fn either_side_restarts(role: &'static str, theirs: &'static str) -> Result<()> {
    let mut pair = Pair::start(role, theirs)?;
    // The first connection allocates memory that stays.
    pair.peer_stops()?;
    let first = Resources::of(&pair.scenario.router, &pair.scenario.topology)?;
    let lives = lives();
    for life in 0..lives {
        if role == "slave" {
            // A DPDK client would not reconnect.
            pair.rest()?;
        }
        if life % 2 == 0 {
            pair.peer_dies()?
        } else {
            pair.peer_stops()?
        };
    }
    pair.nothing_leaked(&first)?;
    // After too many exits the supervisor delays each start by ten seconds.
    for _ in 0..lives.min(8) {
        pair.forwarder_dies()?;
    }
    // Stop the peer first: the router must still balance.
    pair.peer.stop()?;
    pair.wait_down()?;
    let Pair { peer, scenario, .. } = pair;
    let a = scenario.host("host-a");
    assert!(ping(a, a.gateway(false)?, 2, &[])?.all());
    println!("memif {role}: {lives} lives; testpmd crashed {} times by itself", peer.crashes());
    scenario.end()
}

#[test]
fn all_sizes_pass_as_master() -> Result<()> {
    all_sizes_pass("master", "client")
}

#[test]
fn all_sizes_pass_as_slave() -> Result<()> {
    all_sizes_pass("slave", "server")
}

#[test]
fn a_master_survives_restarts_on_either_side() -> Result<()> {
    either_side_restarts("master", "client")
}

#[test]
fn a_slave_survives_restarts_on_either_side() -> Result<()> {
    either_side_restarts("slave", "server")
}
