//! Control-plane policers: a flood on one interface or of one class does not affect the others.

use std::net::{IpAddr, Ipv4Addr};

use stoa_forwarder::control::desired::DesiredState;
use stoa_forwarder::punt::{Class, Limit};
use stoa_wire::ethernet::Mac;
use stoa_wire::{ipv4, ipv6, protocol};

use crate::harness::*;

const OTHER_MAC: [u8; 6] = [2, 0xbb, 0, 0, 0, 9];
const FLOOD: usize = 1500;

/// No neighbours behind "east" and "north"; policers whose buckets do not refill during the test on a
/// slow machine.
fn setup() -> Setup {
    let mut setup = Setup::new().port("west", 1).port("east", 2).port("north", 3).host("west", 1);
    policers(&mut setup.0, 100);
    setup
}

fn policers(desired: &mut DesiredState, rate: u32) {
    let limit = Limit { rate, burst: 100, total: 5000 };
    desired.punts = Class::ALL.map(|class| (class, limit)).into();
}

/// Packets of a class passed and dropped at an interface.
fn counters(lab: &mut Lab, class: Class, interface: &str) -> (u64, u64) {
    let rows = lab.state().list_punts();
    let row = rows.iter().find(|row| row.class == class.name() && row.interface == interface);
    row.map_or((0, 0), |row| (row.passed, row.dropped))
}

/// Floods of all classes from "west".
fn floods() -> Vec<(Class, Vec<u8>)> {
    let group = ipv6::solicited_node(our6(1));
    let to = Mac::of_ip6_group(group).0;
    let expired =
        ipv4::Builder { time_to_live: 1, ..ipv4::Builder::new(host4(1), host4(3), protocol::UDP) };
    let nowhere = IpAddr::V4(Ipv4Addr::new(10, 0, 2, 200));
    vec![
        (Class::Arp, arp_request(host_mac(1), host4(1), our4(1))),
        (Class::Nd, solicitation((host_mac(1), to), (host6(1), group), our6(1), Some(host_mac(1)))),
        (Class::Error, packet_from(1, &ip4(&expired, &[0; 16]))),
        (Class::Resolve, packet_from(1, &udp(host4(1), nowhere, b""))),
        (Class::Echo, packet_from(1, &ping4(host4(1), our4(1), b""))),
    ]
}

#[test]
fn a_flood_does_not_affect_other_interfaces() {
    let mut lab = Lab::new(&setup());
    for (class, frame) in floods() {
        lab.send("west", (0..FLOOD).map(|_| frame.clone()));
        let (passed, dropped) = counters(&mut lab, class, "west");
        assert_eq!(passed + dropped, FLOOD as u64, "{class:?}");
        assert!((100..FLOOD as u64 / 2).contains(&passed), "{class:?}: {passed} passed");
        assert_eq!(counters(&mut lab, class, ""), (passed, dropped));
        assert_eq!(counters(&mut lab, class, "east"), (0, 0));
    }
    lab.forget();
    // At the same time on other interfaces: a request, a ping, and packets to an unresolved neighbour.
    lab.put("west", 0, floods().into_iter().flat_map(|(_, frame)| vec![frame; 200]));
    lab.put("east", 0, [arp_request(host_mac(2), host4(2), our4(2))]);
    lab.send("east", [packet_from(2, &ping4(host4(2), our4(2), b"abc"))]);
    let frames = lab.take("east");
    assert_eq!(frames.iter().filter(|frame| frame[..6] == host_mac(2)).count(), 2, "{frames:?}");
    lab.put("west", 0, floods().into_iter().flat_map(|(_, frame)| vec![frame; 200]));
    lab.send("east", [packet_from(2, &udp(host4(2), host4(3), &[7]))]);
    lab.send("north", [arp_reply(host_mac(3), (our_mac(3), our4(3)), host4(3))]);
    let parsed = lab.take("north").iter().map(|frame| parse(frame)).collect::<Vec<_>>();
    assert!(parsed.iter().any(|parsed| parsed.payload == [7]), "{parsed:?}");
    let (passed, dropped) = counters(&mut lab, Class::Resolve, "east");
    assert!(passed > 0 && dropped == 0, "{passed} passed, {dropped} dropped");
    assert_eq!(counters(&mut lab, Class::ArpReply, "north"), (1, 0));
}

#[test]
fn replies_to_own_requests_survive_a_flood_of_requests() {
    let mut lab = Lab::new(&setup());
    lab.send("west", [packet_from(1, &udp(host4(1), host4(2), &[1]))]);
    lab.forget();
    let question = arp_request(OTHER_MAC, Ipv4Addr::new(10, 0, 2, 9), our4(2));
    // Unsolicited replies are in the same class as requests.
    let unasked = arp_reply(OTHER_MAC, (our_mac(2), our4(2)), Ipv4Addr::new(10, 0, 2, 10));
    let flood = (0..FLOOD).flat_map(|_| [question.clone(), unasked.clone()]);
    let reply = arp_reply(host_mac(2), (our_mac(2), our4(2)), host4(2));
    lab.send("east", flood.chain([reply]));
    assert_eq!(lab.neighbor(host4(2)).unwrap().state, "reachable");
    assert_eq!(counters(&mut lab, Class::ArpReply, "east"), (1, 0));
    let (passed, dropped) = counters(&mut lab, Class::Arp, "east");
    assert_eq!(passed + dropped, 2 * FLOOD as u64);
    let limited = lab.dropped().into_iter().find(|(reason, _)| reason == "arp-limited");
    assert_eq!(limited, Some(("arp-limited".to_owned(), dropped)));
}

#[test]
fn policers_can_be_changed_and_new_interfaces_start_at_zero() {
    let mut lab = Lab::new(&setup());
    let (class, frame) = floods().remove(0);
    lab.send("west", (0..FLOOD).map(|_| frame.clone()));
    assert_ne!(counters(&mut lab, class, "west").1, 0);
    let before = counters(&mut lab, class, "west");
    let mut wide = setup();
    policers(&mut wide.0, 1_000_000);
    wide.0.punts.insert(class, Limit { rate: 100_000, burst: 10_000, total: 100_000 });
    lab.apply(&wide).unwrap();
    lab.send("west", (0..500).map(|_| frame.clone()));
    assert_eq!(counters(&mut lab, class, "west"), (before.0 + 500, before.1));
    let row = |row: &stoa_api::v1::PuntState| row.class == class.name() && row.interface == "west";
    let rows = lab.state().list_punts();
    let row = rows.iter().find(|it| row(it)).unwrap();
    assert_eq!((row.rate, row.burst, row.urgent), (100_000, 10_000, false));
    // A new interface with the same index does not inherit the counters.
    lab.apply(&Setup::new().port("east", 2)).unwrap();
    lab.apply(&Setup::new().port("west", 1)).unwrap();
    assert_eq!(counters(&mut lab, class, "west"), (0, 0));
}
