//! Two hosts on one network, cross-connected by Stoa: their ARP, neighbour discovery, pings and TCP pass.

use std::time::Duration;

use serde_json::json;
use stoa_lab::measure::{Load, iperf, ping};
use stoa_lab::{Configuration, Result, Side, wait_until};
use stoa_scenarios::Scenario;

/// Two hosts of one network; the router's address is not used.
fn sides() -> Result<[Side; 2]> {
    let host = |label: &str, last: u8| {
        let (four, six) = (format!("198.18.1.{last}/24"), format!("2001:db8:1::{last}/64"));
        Side::new(label, &[(&four, "198.18.1.1/24"), (&six, "2001:db8:1::1/64")])
    };
    Ok([host("host-a", 2)?, host("host-b", 3)?])
}

fn cross_connect(sides: &[Side]) -> Configuration {
    let mut made = Configuration::new(sides);
    for (one, other) in [("host-a", "host-b"), ("host-b", "host-a")] {
        let interface = made.interface(one);
        interface["stoa-interfaces:cross-connect"] = json!(other);
        if let Some(fields) = interface.as_object_mut() {
            fields.remove("ietf-ip:ipv4");
            fields.remove("ietf-ip:ipv6");
        }
    }
    made
}

#[test]
fn two_hosts_share_a_network() -> Result<()> {
    let sides = sides()?;
    let scenario = Scenario::with(&sides, &cross_connect(&sides))?;
    let (a, b) = (scenario.host("host-a"), scenario.host("host-b"));
    wait_until("the hosts reach each other", Duration::from_secs(20), || {
        match ping(a, b.address(false).map_err(|error| error.to_string())?, 1, &["-W", "0.5"]) {
            Ok(pings) if pings.all() => Ok(()),
            other => Err(format!("{other:?}; {:?}", scenario.router.drops())),
        }
    })?;
    for six in [false, true] {
        // A router would decrement the TTL.
        let pings = ping(a, b.address(six)?, 3, &["-t", "1"])?;
        assert!(pings.all(), "{pings:?}");
    }
    let rate = iperf(a, b, false, Load::Tcp, 1)?;
    println!("TCP over the cross-connect: {:.2} Gbit/s", rate.bits_per_second / 1e9);
    assert!(rate.bits_per_second > 1e5, "{rate:?}");
    scenario.end()
}
