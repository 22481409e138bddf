//! Undeliverable packets: each reason causes its own ICMP error; a blackhole causes none.

use stoa_lab::{Configuration, NextHop, Result};
use stoa_scenarios::{Scenario, run_ping, two_sides};

const SPECIAL: [(&str, &str, &str); 3] = [
    ("blackhole", "198.18.11.0/24", "2001:db8:11::/48"),
    ("unreachable", "198.18.12.0/24", "2001:db8:12::/48"),
    ("prohibit", "198.18.13.0/24", "2001:db8:13::/48"),
];

fn begin() -> Result<Scenario> {
    let sides = two_sides(&[])?;
    let mut configuration = Configuration::new(&sides);
    for (what, four, six) in SPECIAL {
        configuration =
            configuration.route(four, NextHop::Special(what)).route(six, NextHop::Special(what));
    }
    Scenario::with(&sides, &configuration)
}

/// The output of a ping of the first host that fails.
fn ping_output(scenario: &Scenario, to: &str, wait_s: &str) -> Result<String> {
    let output = run_ping(scenario.host("host-a"), &["-c", "1", "-W", wait_s, to])?;
    assert!(!output.success(), "{to} does not exist: {}", output.stdout);
    Ok(output.stdout)
}

fn answers(to: &str, words: &str, reason: &str) -> Result<()> {
    let scenario = begin()?;
    let printed = ping_output(&scenario, to, "3")?;
    assert!(printed.contains(words), "expected `{words}`: {printed}");
    let router = scenario.host("host-a").gateway(to.contains(':'))?.to_string();
    assert!(printed.contains(&router), "the router is the source: {printed}");
    assert_eq!(scenario.router.dropped(reason)?, 1, "{reason}: {:?}", scenario.router.drops()?);
    scenario.hosts_reach_each_other()?;
    scenario.end()
}

#[test]
fn no_route() -> Result<()> {
    // RFC 1812, Section 5.2.7.1: network unreachable when there is no route at all.
    answers("203.0.113.9", "Destination Net Unreachable", "ip4-no-route")
}

#[test]
fn no_route_6() -> Result<()> {
    // RFC 4443, Section 3.1, code 0.
    answers("2001:db8:ffff::9", "No route", "ip6-no-route")
}

#[test]
fn unreachable_by_configuration() -> Result<()> {
    answers("198.18.12.9", "Destination Host Unreachable", "ip4-unreachable")
}

#[test]
fn unreachable_by_configuration_6() -> Result<()> {
    // RFC 4443, Section 3.1, code 6: a reject route. ping prints it as a number.
    answers("2001:db8:12::9", "code 6", "ip6-unreachable")
}

#[test]
fn prohibited_by_configuration() -> Result<()> {
    // Code 13, communication administratively prohibited (RFC 1812, Section 5.2.7.1).
    answers("198.18.13.9", "Packet filtered", "ip4-prohibited")
}

#[test]
fn prohibited_by_configuration_6() -> Result<()> {
    answers("2001:db8:13::9", "Administratively prohibited", "ip6-prohibited")
}

#[test]
fn a_black_hole_is_silent() -> Result<()> {
    let scenario = begin()?;
    for (to, reason) in [("198.18.11.9", "ip4-blackhole"), ("2001:db8:11::9", "ip6-blackhole")] {
        let printed = ping_output(&scenario, to, "1")?;
        assert!(
            !printed.contains("nreachable") && !printed.contains("From"),
            "no ICMP error: {printed}"
        );
        assert_eq!(scenario.router.dropped(reason)?, 1, "the drop is counted");
    }
    scenario.end()
}

#[test]
fn a_neighbour_that_never_answers() -> Result<()> {
    let scenario = begin()?;
    for (to, words) in
        [("198.18.2.77", "Destination Host Unreachable"), ("2001:db8:2::77", "Address unreachable")]
    {
        // Three attempts at intervals of one second (RFC 4861, Section 7.2.2) come before the answer.
        let printed = ping_output(&scenario, to, "8")?;
        assert!(printed.contains(words), "expected `{words}`: {printed}");
        let failed = scenario.router.dropped("neighbor-failed")?;
        assert!(failed >= 1, "{:?}", scenario.router.drops()?);
    }
    scenario.hosts_reach_each_other()?;
    scenario.end()
}
