//! VRFs: two customers with the same addresses, on ports and on VLANs, are isolated; one of them uses a shared service.

use std::time::Duration;

use stoa_lab::measure::ping;
use stoa_lab::{Configuration, NextHop, Result, Side, Tag, wait_until};
use stoa_scenarios::{Scenario, run_ping, side};

/// Customer red has networks 1, 2 and 3 on ports of its own; customer blue has 1 and 2 again, on VLAN 100 of other
/// ports; the shared service is in network 9 of the default VRF.
fn sides() -> Result<[Side; 6]> {
    let vlan = [Tag::customer(100)];
    Ok([
        side("red-a", 1)?,
        side("red-b", 2)?,
        side("red-c", 3)?,
        side("blue-a", 1)?.tagged(&vlan),
        side("blue-b", 2)?.tagged(&vlan),
        side("shared", 9)?,
    ])
}

fn begin() -> Result<Scenario> {
    let sides = sides()?;
    // The service is leaked into red, and one network of red into the default VRF for the reverse path.
    let configuration = Configuration::new(&sides)
        .vrf("red", &["red-a", "red-b", "red-c"])
        .vrf("blue", &["blue-a.100", "blue-b.100"])
        .route_in("red", "198.18.9.0/24", NextHop::Link("shared"))
        .route_in("red", "2001:db8:9::/64", NextHop::Link("shared"))
        .route("198.18.3.0/24", NextHop::Link("red-c"))
        .route("2001:db8:3::/64", NextHop::Link("red-c"));
    Scenario::with(&sides, &configuration)
}

#[test]
fn customers_with_the_same_addresses_never_meet() -> Result<()> {
    let scenario = begin()?;
    for six in [false, true] {
        for customer in ["red", "blue"] {
            let [a, b] = ["a", "b"].map(|end| scenario.host(&format!("{customer}-{end}")));
            for (from, to) in [(a, b), (b, a)] {
                let pings = ping(from, to.address(six)?, 2, &[])?;
                assert!(pings.all(), "{customer}: {pings:?}");
            }
        }
        // Blue cannot reach a network of red: its own gateway sends an ICMP error.
        let red = scenario.host("red-c").address(six)?.to_string();
        let printed =
            run_ping(scenario.host("blue-a"), &["-c", "2", "-i", "0.2", "-W", "1", &red])?;
        let unreachable = if six { "No route" } else { "Net Unreachable" };
        assert!(printed.stdout.contains(unreachable), "{}", printed.stdout);
        assert!(printed.stdout.contains(&scenario.host("blue-a").gateway(six)?.to_string()));
    }
    scenario.end()
}

#[test]
fn a_shared_service_is_leaked_to_one_customer() -> Result<()> {
    let scenario = begin()?;
    for six in [false, true] {
        let (shared, red) = (scenario.host("shared"), scenario.host("red-c"));
        for (from, to) in [(red, shared), (shared, red)] {
            let pings = ping(from, to.address(six)?, 2, &[])?;
            assert!(pings.all(), "{pings:?}");
        }
        // It is not leaked into blue.
        let pings = ping(scenario.host("blue-a"), shared.address(six)?, 2, &["-W", "1"])?;
        assert_eq!(pings.received, 0, "{pings:?}");
    }
    scenario.end()
}

/// Resident memory of the forwarder, KiB.
fn resident(scenario: &Scenario) -> Result<u64> {
    let pid = scenario.router.status()?["forwarder_pid"].as_u64().unwrap_or(0);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    Ok(line.trim().trim_end_matches("kB").trim().parse().expect("a number"))
}

#[test]
fn vrfs_use_little_memory_and_release_it() -> Result<()> {
    const VRFS: u64 = 200;
    let sides = [side("host-a", 1)?, side("host-b", 2)?];
    let plain = Configuration::new(&sides);
    let many =
        (0..VRFS).fold(plain.clone(), |made, at| {
            let name = format!("vrf{at}");
            made.vrf(&name, &[])
                .route_in(&name, "0.0.0.0/0", NextHop::Special("blackhole"))
                .route_in(&name, "::/0", NextHop::Special("blackhole"))
        });
    let scenario = Scenario::with(&sides, &plain)?;
    let before = resident(&scenario)?;
    for _ in 0..3 {
        scenario.router.reload(&many.json())?.ok()?;
        let cost = resident(&scenario)?.saturating_sub(before) / VRFS;
        assert!(cost < 200, "{cost} KiB for each VRF");
        scenario.router.reload(&plain.json())?.ok()?;
    }
    wait_until("the memory is released", Duration::from_secs(5), || {
        let more = resident(&scenario).map_err(|error| error.to_string())?.saturating_sub(before);
        if more < 20 * 1024 { Ok(()) } else { Err(format!("{more} KiB more than before")) }
    })?;
    scenario.hosts_reach_each_other()?;
    scenario.end()
}
