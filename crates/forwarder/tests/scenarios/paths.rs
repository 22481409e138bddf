//! Several paths to one destination: flows keep their path, are balanced evenly, and move only when
//! their path fails.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use stoa_forwarder::neighbor::entry::MAX_REACHABLE_MS;

use crate::harness::*;

const FLOWS: u16 = 900;

fn setup() -> Setup {
    let gateways = |n: u8| (IpAddr::V4(host4(n)), IpAddr::V6(host6(n)));
    let names = [("east", 2), ("north", 3), ("south", 4)];
    let (four, six): (Vec<_>, Vec<_>) = names
        .iter()
        .map(|(name, n)| {
            let (four, six) = gateways(*n);
            ((*name, Some(four), 1), (*name, Some(six), 1))
        })
        .unzip();
    Setup::three_ports()
        .port("south", 4)
        .host("south", 4)
        .paths(("192.0.2.0".parse().unwrap(), 24), &four)
        .paths(("2001:db8:ff::".parse().unwrap(), 48), &six)
}

/// Sends one packet of each flow; returns the egress port by flow.
fn flows_by_port(lab: &mut Lab, to: &str) -> BTreeMap<u16, &'static str> {
    let from: IpAddr = if to.contains(':') { host6(1).into() } else { host4(1).into() };
    let to: IpAddr = to.parse().unwrap();
    let packet = |flow| packet_from(1, &udp_ports(from, to, (flow, 80), b""));
    lab.send("west", (1..=FLOWS).map(packet));
    let mut by_flow = BTreeMap::new();
    for port in ["east", "north", "south"] {
        for parsed in lab.parsed(port).into_iter().filter(|parsed| parsed.ports.is_some()) {
            assert_eq!(by_flow.insert(parsed.ports.unwrap().0, port), None);
        }
    }
    assert_eq!(by_flow.len(), usize::from(FLOWS));
    by_flow
}

#[test]
fn flows_are_balanced_and_move_only_with_their_path() {
    let mut lab = Lab::new(&setup());
    for to in ["192.0.2.9", "2001:db8:ff::9"] {
        let before = flows_by_port(&mut lab, to);
        assert!(flows_by_port(&mut lab, to) == before, "a flow moved");
        for port in ["east", "north", "south"] {
            let share = before.values().filter(|other| **other == port).count();
            assert!((200..400).contains(&share), "{share} of {FLOWS} flows by {port}");
        }
        lab.plug("north", false);
        let without = flows_by_port(&mut lab, to);
        for (flow, port) in &before {
            if *port == "north" {
                assert_ne!(without[flow], "north");
            } else {
                assert_eq!(without[flow], *port, "flow {flow} moved without reason");
            }
        }
        lab.plug("north", true);
        lab.forget();
        let again = flows_by_port(&mut lab, to);
        for (flow, port) in &again {
            assert!(*port == "north" || *port == without[flow], "flow {flow} moved without reason");
        }
        let share = again.values().filter(|port| **port == "north").count();
        assert!((200..400).contains(&share), "{share} of {FLOWS} flows by the path that came back");
        lab.assert_dropped(&[]);
    }
}

#[test]
fn with_all_paths_down_senders_get_icmp_errors() {
    let mut lab = Lab::new(&setup());
    for port in ["east", "north", "south"] {
        lab.plug(port, false);
    }
    for (packet, icmp) in [
        (udp(host4(1), "192.0.2.9".parse::<IpAddr>().unwrap(), b""), (3, 1)),
        (udp(host6(1), "2001:db8:ff::9".parse::<IpAddr>().unwrap(), b""), (1, 3)),
    ] {
        lab.send("west", [packet_from(1, &packet)]);
        assert_eq!(lab.only("west").icmp, Some(icmp));
        lab.assert_dropped(&[("link-down", 1)]);
    }
    lab.plug("south", true);
    lab.forget();
    assert!(flows_by_port(&mut lab, "192.0.2.9").values().all(|port| *port == "south"));
}

#[test]
fn an_unresponsive_gateway_loses_its_flows_until_it_replies() {
    let mut setup = setup();
    setup.0.neighbors.retain(|(name, _), _| name != "north");
    let mut lab = Lab::new(&setup);
    let reply = || arp_reply(host_mac(3), (our_mac(3), our4(3)), host4(3));
    lab.send("north", [reply()]);
    lab.forget();
    let before = flows_by_port(&mut lab, "192.0.2.9");
    assert!(before.values().any(|port| *port == "north"));
    // Its link stays up, but it stops replying: stale, delay, probe, failed.
    lab.pass_time(Duration::from_millis(MAX_REACHABLE_MS + 100));
    assert!(flows_by_port(&mut lab, "192.0.2.9") == before);
    lab.pass_time(Duration::from_secs(9));
    lab.forget();
    let without = flows_by_port(&mut lab, "192.0.2.9");
    for (flow, port) in &before {
        assert!(without[flow] != "north" && (*port == "north" || without[flow] == *port));
    }
    lab.assert_dropped(&[]);
    lab.pass_time(Duration::from_secs(30));
    assert!(
        flows_by_port(&mut lab, "192.0.2.9") == without,
        "it is solicited and not used meanwhile"
    );
    lab.send("north", [reply()]);
    lab.forget();
    assert!(flows_by_port(&mut lab, "192.0.2.9").values().any(|port| *port == "north"));
    lab.assert_dropped(&[]);
}

#[test]
fn weights_apply() {
    let network = ("192.0.2.0".parse().unwrap(), 24);
    let paths = [("east", Some(host4(2).into()), 3), ("north", Some(host4(3).into()), 1)];
    let mut lab = Lab::new(&setup().paths(network, &paths));
    let flows = flows_by_port(&mut lab, "192.0.2.9");
    let east = flows.values().filter(|port| **port == "east").count();
    assert!((585..765).contains(&east), "{east} of {FLOWS} flows by the path of weight 3 of 4");
}
