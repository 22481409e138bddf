//! Equal and unequal cost paths: flows are distributed by weight, each flow stays on one path, a removed path carries
//! none.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use stoa_lab::{Configuration, NextHop, Result, Side, wait_until};
use stoa_scenarios::{Scenario, side};

/// The destination of the flows, behind both next hops.
const FAR: [&str; 2] = ["198.18.99.9", "2001:db8:99::9"];
const FAR_NETS: [&str; 2] = ["198.18.99.0/24", "2001:db8:99::/48"];
const FLOWS: u16 = 400;

fn sides() -> Result<[Side; 3]> {
    Ok([side("host-a", 1)?, side("host-b", 2)?, side("host-c", 3)?])
}

fn configuration(sides: &[Side], weights: [u16; 2]) -> Configuration {
    let four = [("198.18.2.2", weights[0]), ("198.18.3.2", weights[1])];
    let six = [("2001:db8:2::2", weights[0]), ("2001:db8:3::2", weights[1])];
    Configuration::new(sides)
        .route(FAR_NETS[0], NextHop::Among(&four))
        .route(FAR_NETS[1], NextHop::Among(&six))
}

/// Packets sent towards b and c.
fn sent(scenario: &Scenario) -> Result<[u64; 2]> {
    let list = scenario.router.interfaces()?;
    let of = |name| list.iter().find(|one| one.name == name).map_or(0, |one| one.tx_packets);
    Ok([of("host-b"), of("host-c")])
}

/// Sends `repeat` datagrams of each flow and returns how many left towards b and c.
fn send_flows(scenario: &Scenario, six: bool, flows: u16, repeat: u16) -> Result<[u64; 2]> {
    let before = sent(scenario)?;
    let to: IpAddr = FAR[usize::from(six)].parse().expect("an address");
    let any: IpAddr = if six { "::".parse() } else { "0.0.0.0".parse() }.expect("an address");
    let a = scenario.host("host-a").namespace();
    a.enter(|| {
        for flow in 0..flows {
            let socket = UdpSocket::bind(SocketAddr::new(any, 20_000 + flow)).expect("a free port");
            for _ in 0..repeat {
                socket.send_to(b"flow", SocketAddr::new(to, 9_999)).expect("it is sent");
            }
        }
    })?;
    let expected = u64::from(flows) * u64::from(repeat);
    wait_until("all flows left", Duration::from_secs(5), || {
        let now = sent(scenario).map_err(|error| error.to_string())?;
        let moved = [now[0] - before[0], now[1] - before[1]];
        if moved[0] + moved[1] >= expected { Ok(moved) } else { Err(format!("{moved:?}")) }
    })
}

/// Both next hops accept packets for the far address and send no ICMP errors.
fn begin(weights: [u16; 2]) -> Result<Scenario> {
    let sides = sides()?;
    let scenario = Scenario::with(&sides, &configuration(&sides, weights))?;
    for label in ["host-b", "host-c"] {
        let namespace = scenario.host(label).namespace();
        for far in FAR {
            let length = if far.contains(':') { 128 } else { 32 };
            namespace.ip(&["addr", "add", &format!("{far}/{length}"), "dev", "lo"])?;
        }
        // Resolve the next hops before the count begins.
        for six in [false, true] {
            let host = scenario.host(label);
            let pings = stoa_lab::measure::ping(host, host.gateway(six)?, 1, &[])?;
            assert!(pings.all(), "{label}: {pings:?}");
            let pings =
                stoa_lab::measure::ping(scenario.host("host-a"), host.address(six)?, 1, &[])?;
            assert!(pings.all(), "to {label}: {pings:?}");
        }
        namespace.sysctl("ipv4/icmp_ratemask", "0")?;
    }
    Ok(scenario)
}

#[test]
fn flows_are_balanced_and_keep_their_path() -> Result<()> {
    let scenario = begin([1, 1])?;
    for six in [false, true] {
        let [b, c] = send_flows(&scenario, six, FLOWS, 1)?;
        assert!(b > 120 && c > 120, "about half each: {b} and {c}");
        // 100 packets of one flow take one path; a few other packets (neighbour discovery) may be counted as well.
        let [b, c] = send_flows(&scenario, six, 1, 100)?;
        assert!(b.min(c) < 20 && b.max(c) >= 100, "one flow, one path: {b} and {c}");
    }
    scenario.end()
}

#[test]
fn weights_are_shares() -> Result<()> {
    let scenario = begin([3, 1])?;
    for six in [false, true] {
        let [b, c] = send_flows(&scenario, six, FLOWS, 1)?;
        assert!(b > 2 * c && c > 40, "about three to one: {b} and {c}");
    }
    scenario.end()
}

#[test]
fn removing_a_path_loses_no_flow() -> Result<()> {
    let scenario = begin([1, 1])?;
    let sides = sides()?;
    let only_c = Configuration::new(&sides)
        .route(FAR_NETS[0], NextHop::Via("198.18.3.2"))
        .route(FAR_NETS[1], NextHop::Via("2001:db8:3::2"));
    let output = scenario.router.reload(&only_c.json())?;
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    for six in [false, true] {
        let [b, c] = send_flows(&scenario, six, FLOWS, 1)?;
        assert!(b < 20 && c >= u64::from(FLOWS), "all to the remaining one: {b} and {c}");
    }
    scenario.end()
}
