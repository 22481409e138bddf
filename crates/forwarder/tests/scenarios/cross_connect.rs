//! Cross-connects: two ports as one cable, with routing on other ports.

use stoa_api::v1;
use stoa_forwarder::control::desired::Family;

use crate::harness::*;

/// West and east are cross-connected; far is routed.
fn cable() -> Setup {
    let plain = Setup::new().port("west", 1).port("east", 2).port("far", 3).host("far", 3);
    [("west", "east"), ("east", "west")].into_iter().fold(plain, |setup, (one, other)| {
        setup.with(one, |interface| {
            interface.cross_connect = Some(other.to_owned());
            (interface.ip4, interface.ip6) = (Family::default(), Family::default());
        })
    })
}

/// Frames that a router would drop, answer or change.
fn all_kinds() -> Vec<Vec<u8>> {
    let routed = packet_from(1, &udp(host4(1), host4(2), b"routed"));
    let mut tagged = routed.clone();
    tagged.splice(12..12, [0x88, 0xa8, 0, 9, 0x81, 0, 0, 7]);
    let mut foreign = routed.clone();
    foreign[..6].copy_from_slice(&[2, 7, 7, 7, 7, 7]);
    let mut broadcast = routed.clone();
    broadcast[..6].fill(0xff);
    let mut bridge = vec![0x01, 0x80, 0xc2, 0, 0, 0, 2, 0, 0, 0, 0, 9, 0, 38];
    bridge.resize(60, 0x42);
    vec![routed, tagged, foreign, broadcast, bridge, vec![9; 14], vec![1; 5]]
}

#[test]
fn frames_leave_unchanged() {
    let mut lab = Lab::new(&cable());
    for (from, to) in [("west", "east"), ("east", "west")] {
        lab.send(from, all_kinds());
        assert_eq!(lab.take(to), all_kinds());
    }
    lab.assert_dropped(&[]);
    lab.assert_silent();
    // Other ports still route.
    lab.send("far", [packet_from(3, &ping4(host4(3), our4(3), b""))]);
    assert_eq!(lab.only("far").icmp, Some((0, 0)));
    let list = lab.state().list_interfaces();
    let west = list.iter().find(|one| one.name == "west").unwrap();
    let bytes = all_kinds().iter().map(Vec::len).sum::<usize>() as u64;
    assert_eq!((west.rx_packets, west.rx_bytes), (7, bytes));
    assert_eq!((west.tx_packets, west.tx_bytes), (7, bytes));
    assert_eq!(west.cross_connect, "east");
}

#[test]
fn a_trace_shows_the_cross_connected_interface() {
    let mut lab = Lab::new(&cable());
    lab.trace("west", 1);
    lab.send("west", [packet_from(1, &udp(host4(1), host4(2), b""))]);
    let steps = lab.only_traced().steps;
    let step = steps.iter().find(|step| step.node == "cross-connect").unwrap();
    assert_eq!((step.adjacency.as_str(), step.tx_interface.as_str()), ("", "east"));
    assert_eq!(steps.last().unwrap().what, "sent on east");
}

#[test]
fn a_disabled_end_stops_the_cross_connect() {
    let mut lab = Lab::new(&cable());
    lab.apply(&cable().with("east", |east| east.enabled = false)).unwrap();
    lab.send("west", all_kinds());
    lab.send("east", all_kinds());
    lab.assert_dropped(&[("interface-down", 14)]);
    lab.assert_silent();
    // One direction only: east routes again.
    let one_way = cable().with("east", |east| east.cross_connect = None);
    assert_ne!(lab.apply(&one_way).unwrap(), v1::Applied::default());
    lab.forget();
    lab.send("west", all_kinds());
    assert_eq!(lab.take("east").len(), 7);
    lab.send("east", [packet_from(2, &udp(host4(2), host4(1), b""))]);
    assert_eq!(lab.take("west").len(), 0);
}
