//! MTU: an oversized packet is answered with the MTU, and path MTU discovery works.

use serde_json::json;
use stoa_lab::measure::{Load, iperf, ping};
use stoa_lab::{Configuration, Result, Tag, interface_name};
use stoa_scenarios::{Scenario, run_ping, two_sides};

/// The far side carries packets of at most 1,400 bytes.
fn begin() -> Result<Scenario> {
    let sides = two_sides(&[Tag::customer(100)])?;
    let mut configuration = Configuration::new(&sides);
    let far = configuration.interface(&interface_name(&sides[1]));
    for family in ["ietf-ip:ipv4", "ietf-ip:ipv6"] {
        far[family]["mtu"] = json!(1400);
    }
    Scenario::with(&sides, &configuration)
}

#[test]
fn oversized_packets_are_answered_with_the_mtu() -> Result<()> {
    let scenario = begin()?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    for (six, size, words) in [(false, "1472", "mtu = 1400"), (true, "1452", "mtu=1400")] {
        let (to, router) = (b.address(six)?.to_string(), a.gateway(six)?.to_string());
        let output = run_ping(a, &["-M", "do", "-c", "1", "-W", "2", "-s", size, &to])?;
        let printed = format!("{}{}", output.stdout, output.stderr);
        assert!(printed.contains(words), "{printed}");
        assert!(printed.contains(&router), "the router is the source: {printed}");
    }
    scenario.end()
}

#[test]
fn packets_of_exactly_the_mtu_pass() -> Result<()> {
    let scenario = begin()?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    for (six, size) in [(false, "1372"), (true, "1352")] {
        let pings = ping(a, b.address(six)?, 2, &["-M", "do", "-s", size])?;
        assert!(pings.all(), "IPv{}: {pings:?}", if six { 6 } else { 4 });
    }
    scenario.end()
}

#[test]
fn tcp_discovers_the_path_mtu() -> Result<()> {
    let scenario = begin()?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    for six in [false, true] {
        // The far host also starts with 1,500 bytes: both ends must learn the MTU.
        let rate = iperf(a, b, six, Load::Tcp, 1)?;
        assert!(rate.bits_per_second > 1e5, "{rate:?}");
        let family = if six { "-6" } else { "-4" };
        let to = b.address(six)?.to_string();
        let route = a.namespace().ip(&[family, "route", "get", &to])?;
        assert!(route.contains("mtu 1400"), "the host has learned the MTU: {route}");
    }
    scenario.end()
}

#[test]
fn jumbo_packets_pass_unfragmented() -> Result<()> {
    let [a, b] = two_sides(&[])?;
    let scenario = Scenario::begin(&[a.mtu(9000), b.mtu(9000)])?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    // Packets of 1,500 to 9,000 bytes; also replies of the router itself.
    for (six, headers) in [(false, 28), (true, 48)] {
        for size in [1500, 2090, 2091, 4096, 9000] {
            let size = (size - headers).to_string();
            for to in [b.address(six)?, a.gateway(six)?] {
                let pings = ping(a, to, 2, &["-M", "do", "-s", &size])?;
                assert!(pings.all(), "{to}, {size} bytes: {pings:?}");
            }
        }
    }
    // TCP with super-frames, which the driver segments.
    let rate = iperf(a, b, false, Load::Tcp, 1)?;
    println!("TCP at MTU 9000: {:.2} Gbit/s", rate.bits_per_second / 1e9);
    assert!(rate.bits_per_second > 1e6, "{rate:?}");
    scenario.end()
}
