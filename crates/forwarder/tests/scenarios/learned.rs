//! Learned routes beside desired ones: packets follow them, desired routes go before them, what is not
//! said again goes, and neighbours on the link give way.

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
fn way(lab: &mut Lab, to: impl Into<IpAddr>) -> &'static str {
    let to: IpAddr = to.into();
    let packet = match to {
        IpAddr::V4(to) => udp(host4(1), to, b""),
        IpAddr::V6(to) => udp(host6(1), to, b""),
    };
    lab.send("west", [packet_from(1, &packet)]);
    let left: Vec<_> = ["west", "east", "north"]
        .into_iter()
        .filter(|port| lab.seen(port).iter().any(|seen| seen.icmp.is_none()))
        .collect();
    assert!(left.len() <= 1, "it left by {left:?}");
    left.first().copied().unwrap_or("")
}

#[test]
fn packets_follow_what_is_learned() {
    let mut lab = Lab::new(&World::three_ports());
    assert_eq!(way(&mut lab, FAR), "");
    lab.assert_dropped(&[("ip4-no-route", 1)]);
    let six = ("east", "2001:db8:2::2");
    let said =
        Said::anew().number(7).hop(1, &[EAST]).hop(2, &[six]).special(3, v1::Special::Blackhole);
    let said = said.run(1, &[NET]).run(2, &["2001:db8:ff::/48"]).run(3, &["192.0.3.0/24"]);
    let reply = lab.state().learn_routes(said.0);
    assert_eq!((reply.number, reply.refused), (7, vec![]));
    assert_eq!(way(&mut lab, FAR), "east");
    assert_eq!(way(&mut lab, "2001:db8:ff::9".parse::<IpAddr>().unwrap()), "east");
    assert_eq!(way(&mut lab, [192, 0, 3, 9]), "");
    lab.assert_dropped(&[("ip4-blackhole", 1)]);
    // A hop that changes takes its routes along; a run changes them one by one.
    lab.learn_all(Said::more().hop(1, &[NORTH]));
    assert_eq!(way(&mut lab, FAR), "north");
    lab.learn_all(Said::more().hop(4, &[EAST]).run(4, &[NET]).forget(1));
    assert_eq!(way(&mut lab, FAR), "east");
    let state = lab.route_to("", FAR).unwrap();
    assert_eq!((state.state.as_str(), state.packets), ("active", 2));
    assert_eq!(state.route.unwrap().protocol, i32::from(v1::Protocol::Bgp));
    // Known, and leading nowhere.
    lab.learn_all(Said::more().hop(4, &[]));
    assert_eq!(way(&mut lab, FAR), "");
    assert_eq!(lab.route_to("", FAR).unwrap().state, "link down");
    lab.assert_dropped(&[("link-down", 1)]);
    // The later word of one message counts.
    lab.learn_all(Said::more().run(3, &[NET]).run(0, &[NET]).forget(4));
    assert_eq!(way(&mut lab, FAR), "");
    lab.assert_dropped(&[("ip4-no-route", 1)]);
}

#[test]
fn desired_routes_go_before_learned_ones_which_come_back() {
    let plain = World::three_ports();
    let desired = plain.clone().paths(net(), &[("north", Some(host4(3).into()), 1)]);
    let mut lab = Lab::new(&plain);
    lab.learn_all(Said::anew().hop(1, &[EAST]).hop(2, &[NORTH]).run(1, &[NET]));
    lab.apply(&desired).unwrap();
    assert_eq!(way(&mut lab, FAR), "north");
    lab.apply(&plain).unwrap();
    assert_eq!(way(&mut lab, FAR), "east");
    // Learned, changed and taken back behind a desired one.
    lab.apply(&desired).unwrap();
    for (hop, way_back) in [(1, "east"), (2, "north"), (0, "")] {
        lab.learn_all(Said::more().run(hop, &[NET]));
        assert_eq!(way(&mut lab, FAR), "north");
        lab.apply(&plain).unwrap();
        assert_eq!(way(&mut lab, FAR), way_back);
        lab.apply(&desired).unwrap();
    }
    // A hop with nothing but a shadowed route is in use.
    lab.learn_all(Said::more().run(1, &[NET]));
    let refused = lab.learn(Said::more().forget(1));
    assert_eq!(refused[0].reason, "1 routes still lead to the hop");
    lab.learn_all(Said::more().run(0, &[NET]).forget(1).forget(2));
    // Our own addresses and networks are desired routes too.
    lab.learn_all(Said::more().hop(1, &[NORTH]).run(1, &["10.0.1.1/32", "10.0.2.0/24"]));
    lab.send("west", [packet_from(1, &ping4(host4(1), our4(1), b""))]);
    assert_eq!(lab.only("west").icmp, Some((0, 0)));
    assert_eq!(way(&mut lab, host4(2)), "east");
}

#[test]
fn what_is_not_said_again_goes_once_all_was_said() {
    let mut lab = Lab::new(&World::three_ports());
    lab.learn_all(Said::anew().hop(1, &[EAST]).run(1, &[NET, "192.0.3.0/24"]).completes());
    assert_eq!((way(&mut lab, FAR), way(&mut lab, [192, 0, 3, 9])), ("east", "east"));
    // Another controller: id 1 is something else now, and what is held goes on as it did.
    lab.learn_all(Said::anew().hop(1, &[NORTH]));
    assert_eq!((way(&mut lab, FAR), way(&mut lab, [192, 0, 3, 9])), ("east", "east"));
    lab.learn_all(Said::more().run(1, &[NET]));
    assert_eq!((way(&mut lab, FAR), way(&mut lab, [192, 0, 3, 9])), ("north", "east"));
    lab.learn_all(Said::more().completes());
    assert_eq!((way(&mut lab, FAR), way(&mut lab, [192, 0, 3, 9])), ("north", ""));
    // Shadowed ones as well.
    let desired = World::three_ports().paths(net(), &[("east", Some(host4(2).into()), 1)]);
    lab.apply(&desired).unwrap();
    lab.learn_all(Said::anew().completes());
    lab.apply(&World::three_ports()).unwrap();
    assert_eq!(way(&mut lab, FAR), "");
    let before = lab.state().limits().into_iter().find(|it| it.name == "next-hops").unwrap();
    // Beginnings without end leave nothing behind.
    for _ in 0..100 {
        lab.learn_all(Said::anew().hop(1, &[EAST]).hop(9, &[NORTH, EAST]).run(1, &[NET]));
    }
    lab.learn_all(Said::anew().completes());
    lab.state().tick();
    let after = lab.state().limits().into_iter().find(|it| it.name == "next-hops").unwrap();
    assert_eq!(after.used, before.used);
}

#[test]
fn neighbours_on_the_link_give_way_to_longer_learned_routes() {
    let mut lab = Lab::new(&World::three_ports());
    assert_eq!(way(&mut lab, host4(2)), "east");
    let here = ("10.0.2.2/32", "10.0.2.0/25");
    for prefix in [here.0, here.1] {
        lab.learn_all(Said::anew().hop(1, &[NORTH]).run(1, &[prefix]));
        assert_eq!(way(&mut lab, host4(2)), "north", "{prefix}");
        // A desired state that changes nothing of it leaves it so.
        let other = World::three_ports().paths(net(), &[("east", Some(host4(2).into()), 1)]);
        lab.apply(&other).unwrap();
        assert_eq!(way(&mut lab, host4(2)), "north", "{prefix}");
        lab.learn_all(Said::more().run(0, &[prefix]));
        assert_eq!(way(&mut lab, host4(2)), "east", "{prefix}");
        // To take out what is not there leaves the neighbour alone.
        lab.learn_all(Said::more().run(0, &[prefix]));
        assert_eq!(way(&mut lab, host4(2)), "east", "{prefix}");
        lab.apply(&World::three_ports()).unwrap();
    }
    // The same when the neighbour comes later.
    lab.learn_all(Said::anew().hop(1, &[NORTH]).run(1, &["10.0.2.8/32"]));
    let frame = arp_reply(host_mac(8), (our_mac(2), our4(2)), [10, 0, 2, 8].into());
    lab.send("east", [frame]);
    assert_eq!(way(&mut lab, [10, 0, 2, 8]), "north");
    lab.learn_all(Said::anew().completes());
    // A learned network on the link: who answers there is a neighbour.
    lab.learn_all(Said::anew().hop(1, &[("east", "")]).run(1, &[NET]));
    lab.send("west", [packet_from(1, &udp(host4(1), FAR, b""))]);
    let asked = lab.take("east");
    assert_eq!(asked, [arp_request(our_mac(2), our4(2), FAR)], "it is asked for");
    lab.send("east", [arp_reply(host_mac(9), (our_mac(2), our4(2)), FAR)]);
    assert_eq!(lab.take("east").len(), 1, "what waited goes");
    assert_eq!(way(&mut lab, FAR), "east");
}

#[test]
fn neighbours_on_a_learned_link_follow_a_hop_that_changes() {
    let mut lab = Lab::new(&World::three_ports());
    let onto = |link: &'static str| Said::more().hop(1, &[(link, "")]);
    lab.learn_all(Said::anew().hop(1, &[("east", "")]).run(1, &[NET]));
    lab.send("east", [arp_reply(host_mac(9), (our_mac(2), our4(2)), FAR)]);
    lab.send("west", [packet_from(1, &udp(host4(1), FAR, b""))]);
    lab.send("east", [arp_reply(host_mac(9), (our_mac(2), our4(2)), FAR)]);
    lab.forget();
    assert_eq!(way(&mut lab, FAR), "east");
    lab.learn_all(Said::more().hop(1, &[NORTH]));
    assert_eq!(way(&mut lab, FAR), "north", "it is behind a gateway now");
    lab.learn_all(onto("east"));
    assert_eq!(way(&mut lab, FAR), "east");
    lab.learn_all(onto("north"));
    lab.send("west", [packet_from(1, &udp(host4(1), FAR, b""))]);
    assert_eq!(lab.take("north"), [arp_request(our_mac(3), our4(3), FAR)]);
    assert_eq!(lab.take("east"), Vec::<Vec<u8>>::new());
    lab.assert_dropped(&[]);
}

#[test]
fn a_vrf_takes_its_learned_routes_along() {
    let plain = World::three_ports();
    let red = plain.clone().vrf("red", &["west", "east"]);
    let mut lab = Lab::new(&plain);
    let said = Said::anew().hop(1, &[EAST]);
    let refused = lab.learn(said.clone().run_in("red", 1, &[NET]).run(1, &[NET]));
    assert_eq!((refused.len(), refused[0].reason.as_str()), (1, "there is no VRF \"red\""));
    let run = refused[0].run.clone().unwrap();
    assert_eq!((run.vrf.as_str(), run.hop, run.ip4), ("red", 1, vec![192, 0, 2, 0, 24]));
    for turn in 0..3 {
        lab.apply(&red).unwrap();
        lab.settle();
        lab.forget();
        assert_eq!(way(&mut lab, FAR), "", "turn {turn}: nothing of the VRF before is left");
        lab.learn_all(Said::more().run_in("red", 1, &[NET]));
        assert_eq!(way(&mut lab, FAR), "east");
        assert!(lab.route_to("red", FAR).is_some());
        lab.apply(&plain).unwrap();
    }
    lab.learn_all(Said::more().run(0, &[NET]).forget(1));
    assert_eq!(
        lab.state()
            .audit_routes(&v1::AuditRoutesRequest { family: 4, ..Default::default() })
            .unwrap()
            .routes,
        0
    );
}

#[test]
fn interfaces_come_and_go_beneath_learned_routes() {
    let full = World::three_ports();
    let without = World::new().port("west", 1).host("west", 1).port("north", 3).host("north", 3);
    let mut lab = Lab::new(&without);
    lab.add_wire("east", Wire::new(1, 8));
    // Named before it is there.
    lab.learn_all(Said::anew().hop(1, &[EAST]).hop(2, &[EAST, NORTH]).run(1, &[NET]));
    lab.learn_all(Said::more().run(2, &["192.0.3.0/24"]));
    for _ in 0..3 {
        assert_eq!(way(&mut lab, FAR), "");
        lab.assert_dropped(&[("link-down", 1)]);
        assert_eq!(lab.route_to("", FAR).unwrap().state, "link down");
        assert_eq!(way(&mut lab, [192, 0, 3, 9]), "north");
        assert_eq!(lab.route_to("", [192, 0, 3, 9]).unwrap().state, "partly active");
        lab.apply(&full).unwrap();
        lab.settle();
        lab.forget();
        assert_eq!(way(&mut lab, FAR), "east");
        assert_ne!(way(&mut lab, [192, 0, 3, 9]), "");
        assert_eq!(lab.route_to("", [192, 0, 3, 9]).unwrap().state, "active");
        lab.assert_dropped(&[]);
        lab.apply(&without).unwrap();
        lab.settle();
        lab.forget();
    }
    assert_eq!(lab.neighbor(host4(2)), None, "nobody keeps the gateway");
}
