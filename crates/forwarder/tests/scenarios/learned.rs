//! Learned routes: packets follow them, desired routes shadow them, stale ones are swept, and longer
//! ones win over neighbours on the link.

use std::net::{IpAddr, Ipv4Addr};

use stoa_api::v1;

use crate::harness::*;

const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const NET: &str = "192.0.2.0/24";
const EAST: (&str, &str) = ("east", "10.0.2.2");
const NORTH: (&str, &str) = ("north", "10.0.3.2");

fn net() -> (IpAddr, u8) {
    ("192.0.2.0".parse().unwrap(), 24)
}

/// The port that a packet from "west" to an address leaves by; "": it is dropped, with ICMP.
#[track_caller]
fn egress(lab: &mut Lab, to: impl Into<IpAddr>) -> &'static str {
    let to: IpAddr = to.into();
    let packet = match to {
        IpAddr::V4(to) => udp(host4(1), to, b""),
        IpAddr::V6(to) => udp(host6(1), to, b""),
    };
    lab.send("west", [packet_from(1, &packet)]);
    let left: Vec<_> = ["west", "east", "north"]
        .into_iter()
        .filter(|port| lab.parsed(port).iter().any(|parsed| parsed.icmp.is_none()))
        .collect();
    assert!(left.len() <= 1, "it left by {left:?}");
    left.first().copied().unwrap_or("")
}

#[test]
fn packets_follow_learned_routes() {
    let mut lab = Lab::new(&Setup::three_ports());
    assert_eq!(egress(&mut lab, FAR), "");
    lab.assert_dropped(&[("ip4-no-route", 1)]);
    let six = ("east", "2001:db8:2::2");
    let message = LearnedMessage::first()
        .number(7)
        .hop(1, &[EAST])
        .hop(2, &[six])
        .special(3, v1::Special::Blackhole);
    let message = message.run(1, &[NET]).run(2, &["2001:db8:ff::/48"]).run(3, &["192.0.3.0/24"]);
    let reply = lab.state().learn_routes(message.0);
    assert_eq!((reply.number, reply.refused), (7, vec![]));
    assert_eq!(egress(&mut lab, FAR), "east");
    assert_eq!(egress(&mut lab, "2001:db8:ff::9".parse::<IpAddr>().unwrap()), "east");
    assert_eq!(egress(&mut lab, [192, 0, 3, 9]), "");
    lab.assert_dropped(&[("ip4-blackhole", 1)]);
    // A changed hop moves all its routes; a run moves single ones.
    lab.learn_all(LearnedMessage::more().hop(1, &[NORTH]));
    assert_eq!(egress(&mut lab, FAR), "north");
    lab.learn_all(LearnedMessage::more().hop(4, &[EAST]).run(4, &[NET]).forget(1));
    assert_eq!(egress(&mut lab, FAR), "east");
    let state = lab.route_to("", FAR).unwrap();
    assert_eq!((state.state.as_str(), state.packets), ("active", 2));
    assert_eq!(state.route.unwrap().protocol, i32::from(v1::Protocol::Bgp));
    // Known, but without a usable path.
    lab.learn_all(LearnedMessage::more().hop(4, &[]));
    assert_eq!(egress(&mut lab, FAR), "");
    assert_eq!(lab.route_to("", FAR).unwrap().state, "link down");
    lab.assert_dropped(&[("link-down", 1)]);
    // Within a message, the last entry counts.
    lab.learn_all(LearnedMessage::more().run(3, &[NET]).run(0, &[NET]).forget(4));
    assert_eq!(egress(&mut lab, FAR), "");
    lab.assert_dropped(&[("ip4-no-route", 1)]);
}

#[test]
fn desired_routes_shadow_learned_ones() {
    let plain = Setup::three_ports();
    let desired = plain.clone().paths(net(), &[("north", Some(host4(3).into()), 1)]);
    let mut lab = Lab::new(&plain);
    lab.learn_all(LearnedMessage::first().hop(1, &[EAST]).hop(2, &[NORTH]).run(1, &[NET]));
    lab.apply(&desired).unwrap();
    assert_eq!(egress(&mut lab, FAR), "north");
    lab.apply(&plain).unwrap();
    assert_eq!(egress(&mut lab, FAR), "east");
    // Learned, changed and withdrawn while a desired one shadows it.
    lab.apply(&desired).unwrap();
    for (hop, path) in [(1, "east"), (2, "north"), (0, "")] {
        lab.learn_all(LearnedMessage::more().run(hop, &[NET]));
        assert_eq!(egress(&mut lab, FAR), "north");
        lab.apply(&plain).unwrap();
        assert_eq!(egress(&mut lab, FAR), path);
        lab.apply(&desired).unwrap();
    }
    // A hop with nothing but a shadowed route is in use.
    lab.learn_all(LearnedMessage::more().run(1, &[NET]));
    let refused = lab.learn(LearnedMessage::more().forget(1));
    assert_eq!(refused[0].reason, "1 routes still use the hop");
    lab.learn_all(LearnedMessage::more().run(0, &[NET]).forget(1).forget(2));
    // Local addresses and connected networks are desired routes, too.
    lab.learn_all(LearnedMessage::more().hop(1, &[NORTH]).run(1, &["10.0.1.1/32", "10.0.2.0/24"]));
    lab.send("west", [packet_from(1, &ping4(host4(1), our4(1), b""))]);
    assert_eq!(lab.only("west").icmp, Some((0, 0)));
    assert_eq!(egress(&mut lab, host4(2)), "east");
}

#[test]
fn stale_routes_are_swept_at_the_end() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.learn_all(
        LearnedMessage::first().hop(1, &[EAST]).run(1, &[NET, "192.0.3.0/24"]).completes(),
    );
    assert_eq!((egress(&mut lab, FAR), egress(&mut lab, [192, 0, 3, 9])), ("east", "east"));
    // Another controller: id 1 has a new meaning, and existing routes stay.
    lab.learn_all(LearnedMessage::first().hop(1, &[NORTH]));
    assert_eq!((egress(&mut lab, FAR), egress(&mut lab, [192, 0, 3, 9])), ("east", "east"));
    lab.learn_all(LearnedMessage::more().run(1, &[NET]));
    assert_eq!((egress(&mut lab, FAR), egress(&mut lab, [192, 0, 3, 9])), ("north", "east"));
    lab.learn_all(LearnedMessage::more().completes());
    assert_eq!((egress(&mut lab, FAR), egress(&mut lab, [192, 0, 3, 9])), ("north", ""));
    // Shadowed ones, too.
    let desired = Setup::three_ports().paths(net(), &[("east", Some(host4(2).into()), 1)]);
    lab.apply(&desired).unwrap();
    lab.learn_all(LearnedMessage::first().completes());
    lab.apply(&Setup::three_ports()).unwrap();
    assert_eq!(egress(&mut lab, FAR), "");
    let before = lab.state().limits().into_iter().find(|it| it.name == "next-hops").unwrap();
    // Repeated starts without completion leave no stale routes.
    for _ in 0..100 {
        lab.learn_all(
            LearnedMessage::first().hop(1, &[EAST]).hop(9, &[NORTH, EAST]).run(1, &[NET]),
        );
    }
    lab.learn_all(LearnedMessage::first().completes());
    lab.state().tick();
    let after = lab.state().limits().into_iter().find(|it| it.name == "next-hops").unwrap();
    assert_eq!(after.used, before.used);
}

#[test]
fn longer_learned_routes_win_over_host_routes_of_neighbours() {
    let mut lab = Lab::new(&Setup::three_ports());
    assert_eq!(egress(&mut lab, host4(2)), "east");
    let here = ("10.0.2.2/32", "10.0.2.0/25");
    for prefix in [here.0, here.1] {
        lab.learn_all(LearnedMessage::first().hop(1, &[NORTH]).run(1, &[prefix]));
        assert_eq!(egress(&mut lab, host4(2)), "north", "{prefix}");
        // An unrelated new desired state changes nothing.
        let other = Setup::three_ports().paths(net(), &[("east", Some(host4(2).into()), 1)]);
        lab.apply(&other).unwrap();
        assert_eq!(egress(&mut lab, host4(2)), "north", "{prefix}");
        lab.learn_all(LearnedMessage::more().run(0, &[prefix]));
        assert_eq!(egress(&mut lab, host4(2)), "east", "{prefix}");
        // Withdrawing an unknown route does not affect the neighbour.
        lab.learn_all(LearnedMessage::more().run(0, &[prefix]));
        assert_eq!(egress(&mut lab, host4(2)), "east", "{prefix}");
        lab.apply(&Setup::three_ports()).unwrap();
    }
    // The same when the neighbour appears later.
    lab.learn_all(LearnedMessage::first().hop(1, &[NORTH]).run(1, &["10.0.2.8/32"]));
    let frame = arp_reply(host_mac(8), (our_mac(2), our4(2)), [10, 0, 2, 8].into());
    lab.send("east", [frame]);
    assert_eq!(egress(&mut lab, [10, 0, 2, 8]), "north");
    lab.learn_all(LearnedMessage::first().completes());
    // A learned network on the link: its hosts are neighbours.
    lab.learn_all(LearnedMessage::first().hop(1, &[("east", "")]).run(1, &[NET]));
    lab.send("west", [packet_from(1, &udp(host4(1), FAR, b""))]);
    let requests = lab.take("east");
    assert_eq!(requests, [arp_request(our_mac(2), our4(2), FAR)], "an ARP request");
    lab.send("east", [arp_reply(host_mac(9), (our_mac(2), our4(2)), FAR)]);
    assert_eq!(lab.take("east").len(), 1, "the queued packet leaves");
    assert_eq!(egress(&mut lab, FAR), "east");
}

#[test]
fn neighbours_on_a_learned_link_follow_a_hop_that_changes() {
    let mut lab = Lab::new(&Setup::three_ports());
    let onto = |link: &'static str| LearnedMessage::more().hop(1, &[(link, "")]);
    lab.learn_all(LearnedMessage::first().hop(1, &[("east", "")]).run(1, &[NET]));
    lab.send("east", [arp_reply(host_mac(9), (our_mac(2), our4(2)), FAR)]);
    lab.send("west", [packet_from(1, &udp(host4(1), FAR, b""))]);
    lab.send("east", [arp_reply(host_mac(9), (our_mac(2), our4(2)), FAR)]);
    lab.forget();
    assert_eq!(egress(&mut lab, FAR), "east");
    lab.learn_all(LearnedMessage::more().hop(1, &[NORTH]));
    assert_eq!(egress(&mut lab, FAR), "north", "it is behind a gateway now");
    lab.learn_all(onto("east"));
    assert_eq!(egress(&mut lab, FAR), "east");
    lab.learn_all(onto("north"));
    lab.send("west", [packet_from(1, &udp(host4(1), FAR, b""))]);
    assert_eq!(lab.take("north"), [arp_request(our_mac(3), our4(3), FAR)]);
    assert_eq!(lab.take("east"), Vec::<Vec<u8>>::new());
    lab.assert_dropped(&[]);
}

#[test]
fn deleting_a_vrf_deletes_its_learned_routes() {
    let plain = Setup::three_ports();
    let red = plain.clone().vrf("red", &["west", "east"]);
    let mut lab = Lab::new(&plain);
    let message = LearnedMessage::first().hop(1, &[EAST]);
    let refused = lab.learn(message.clone().run_in("red", 1, &[NET]).run(1, &[NET]));
    assert_eq!((refused.len(), refused[0].reason.as_str()), (1, "there is no VRF \"red\""));
    let run = refused[0].run.clone().unwrap();
    assert_eq!((run.vrf.as_str(), run.hop, run.ip4), ("red", 1, vec![192, 0, 2, 0, 24]));
    for turn in 0..3 {
        lab.apply(&red).unwrap();
        lab.settle();
        lab.forget();
        assert_eq!(egress(&mut lab, FAR), "", "round {turn}: no routes of the previous VRF");
        lab.learn_all(LearnedMessage::more().run_in("red", 1, &[NET]));
        assert_eq!(egress(&mut lab, FAR), "east");
        assert!(lab.route_to("red", FAR).is_some());
        lab.apply(&plain).unwrap();
    }
    lab.learn_all(LearnedMessage::more().run(0, &[NET]).forget(1));
    assert_eq!(
        lab.state()
            .audit_routes(&v1::AuditRoutesRequest { family: 4, ..Default::default() })
            .unwrap()
            .routes,
        0
    );
}

#[test]
fn learned_routes_follow_added_and_deleted_interfaces() {
    let full = Setup::three_ports();
    let without = Setup::new().port("west", 1).host("west", 1).port("north", 3).host("north", 3);
    let mut lab = Lab::new(&without);
    lab.add_wire("east", Wire::new(1, 8));
    // Routes for a missing interface.
    lab.learn_all(LearnedMessage::first().hop(1, &[EAST]).hop(2, &[EAST, NORTH]).run(1, &[NET]));
    lab.learn_all(LearnedMessage::more().run(2, &["192.0.3.0/24"]));
    for _ in 0..3 {
        assert_eq!(egress(&mut lab, FAR), "");
        lab.assert_dropped(&[("link-down", 1)]);
        assert_eq!(lab.route_to("", FAR).unwrap().state, "link down");
        assert_eq!(egress(&mut lab, [192, 0, 3, 9]), "north");
        assert_eq!(lab.route_to("", [192, 0, 3, 9]).unwrap().state, "partly active");
        lab.apply(&full).unwrap();
        lab.settle();
        lab.forget();
        assert_eq!(egress(&mut lab, FAR), "east");
        assert_ne!(egress(&mut lab, [192, 0, 3, 9]), "");
        assert_eq!(lab.route_to("", [192, 0, 3, 9]).unwrap().state, "active");
        lab.assert_dropped(&[]);
        lab.apply(&without).unwrap();
        lab.settle();
        lab.forget();
    }
    assert_eq!(lab.neighbor(host4(2)), None, "the gateway is not pinned");
}

#[test]
fn neighbours_on_a_learned_link_follow_an_interface_that_is_added() {
    let plain = Setup::three_ports();
    let mut with_sub = plain.clone().sub("north.7", 7, "north", &[(0x8100, 7)]);
    with_sub.0.neighbors.insert(("north.7".to_owned(), FAR.into()), host_mac(9));
    let mut lab = Lab::new(&plain);
    lab.learn_all(LearnedMessage::first().hop(1, &[("north.7", "")]).run(1, &[NET]));
    for _ in 0..2 {
        assert_eq!(egress(&mut lab, FAR), "");
        lab.assert_dropped(&[("link-down", 1)]);
        lab.apply(&with_sub).unwrap();
        lab.settle();
        lab.forget();
        lab.send("west", [packet_from(1, &udp(host4(1), FAR, b""))]);
        assert_eq!(lab.only("north").destination, host_mac(9));
        let by_glean = |(name, _): &(String, u64)| name.starts_with("neighbor-");
        assert!(!lab.node_counts().iter().any(by_glean), "it has a host route");
        lab.apply(&plain).unwrap();
        lab.settle();
        lab.forget();
    }
}
