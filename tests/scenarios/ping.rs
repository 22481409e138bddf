//! Ping between two hosts through the router and to the router, both families, all sizes, flood ping.

use stoa_lab::measure::ping;
use stoa_lab::{Result, Tag};
use stoa_scenarios::{Scenario, run_ping, two_sides};

#[test]
fn hosts_reach_each_other_and_the_router() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[Tag::customer(100)])?)?;
    scenario.hosts_reach_each_other()?;
    for host in scenario.topology.hosts() {
        for six in [false, true] {
            let pings = ping(host, host.gateway(six)?, 3, &[])?;
            assert!(pings.all(), "{} to its router: {pings:?}", host.label());
        }
    }
    // The router also answers on its address of the far side.
    let far = ping(scenario.host("host-a"), scenario.host("host-b").gateway(false)?, 2, &[])?;
    assert!(far.all(), "{far:?}");
    scenario.end()
}

#[test]
fn every_size_comes_back_whole() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    for (six, most) in [(false, 1472), (true, 1452)] {
        let to = b.address(six)?;
        for size in [0, 1, 17, 18, 19, 64, 512, 1024, most - 1, most] {
            // ping verifies the pattern.
            let pings = ping(a, to, 1, &["-s", &size.to_string(), "-p", "53746f6121"])?;
            assert!(pings.all(), "{size} bytes to {to}: {pings:?}");
        }
    }
    scenario.end()
}

#[test]
fn a_flood_ping_loses_nothing() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[Tag::customer(100)])?)?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    for six in [false, true] {
        let to = b.address(six)?.to_string();
        // The first ping resolves the neighbours.
        ping(a, b.address(six)?, 1, &[])?;
        let output = run_ping(a, &["-q", "-f", "-c", "1000", &to])?;
        assert!(output.stdout.contains("1000 received"), "{}", output.stdout);
    }
    scenario.end()
}

#[test]
fn an_expired_ttl_is_answered() -> Result<()> {
    let scenario = Scenario::begin(&two_sides(&[])?)?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    for (six, words) in [(false, "Time to live exceeded"), (true, "Hop limit")] {
        let (to, router) = (b.address(six)?.to_string(), a.gateway(six)?.to_string());
        let output = run_ping(a, &["-c", "1", "-W", "2", "-t", "1", &to])?;
        assert!(output.stdout.contains(words), "{}", output.stdout);
        assert!(output.stdout.contains(&router), "the router is the source: {}", output.stdout);
        let two = ping(a, b.address(six)?, 1, &["-t", "2"])?;
        assert!(two.all(), "two hops suffice: {two:?}");
    }
    scenario.end()
}
