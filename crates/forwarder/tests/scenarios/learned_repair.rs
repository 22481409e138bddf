//! Repair of paths: when a path fails, routes switch to another at a cost that grows with the number
//! of hops, not of prefixes.

use std::net::IpAddr;
use std::time::Duration;

use stoa_forwarder::control::Limits;
use stoa_forwarder::neighbor::entry::MAX_REACHABLE_MS;

use crate::harness::*;

const EAST: (&str, &str) = ("east", "10.0.2.2");
const NORTH: (&str, &str) = ("north", "10.0.3.2");

fn limits() -> Limits {
    Limits { routes4: 200_000, ..LIMITS }
}

/// Sends a packet to each of these networks; returns the ports by which they left.
fn egress_ports(lab: &mut Lab, to: &[u32]) -> Vec<&'static str> {
    let address = |at: &u32| IpAddr::from((0x6400_0001 + (at << 8)).to_be_bytes());
    let packets = to.iter().map(|at| packet_from(1, &udp(host4(1), address(at), b"")));
    lab.send("west", packets.collect::<Vec<_>>());
    let mut left = Vec::new();
    for port in ["east", "north"] {
        let count = lab.parsed(port).iter().filter(|parsed| parsed.ports.is_some()).count();
        left.extend(std::iter::repeat_n(port, count));
    }
    left
}

/// The number of next hops that change while the link of "east" goes down and up, with `routes` routes.
fn changed_next_hops(routes: u32) -> [u64; 2] {
    let mut lab = Lab::with(&Setup::three_ports(), limits(), |_| Wire::new(1, 8));
    lab.learn_all(LearnedMessage::first().backed(1, &[EAST], &[NORTH]).many(1, 0, routes));
    let probes = [0, routes / 2, routes - 1];
    assert_eq!(egress_ports(&mut lab, &probes), ["east"; 3]);
    let mut changes = [0; 2];
    for (changes, (is_up, port)) in changes.iter_mut().zip([(false, "north"), (true, "east")]) {
        let before = lab.state().hops_changed();
        lab.plug("east", is_up);
        *changes = lab.state().hops_changed() - before;
        lab.forget();
        assert_eq!(egress_ports(&mut lab, &probes), [port; 3]);
        lab.assert_dropped(&[]);
    }
    changes
}

#[test]
fn the_cost_of_a_link_failure_does_not_grow_with_the_routes() {
    let few = changed_next_hops(10);
    assert_eq!(few, changed_next_hops(100_000));
    assert!(few.iter().all(|changes| (1..20).contains(changes)), "{few:?}");
}

#[test]
fn an_unresponsive_gateway_is_replaced_by_the_backup() {
    let mut setup = Setup::three_ports();
    setup.0.neighbors.retain(|(name, _), _| name != "east");
    let mut lab = Lab::new(&setup);
    lab.learn_all(LearnedMessage::first().backed(1, &[EAST], &[NORTH]).many(1, 0, 10));
    let answer = || arp_reply(host_mac(2), (our_mac(2), our4(2)), host4(2));
    lab.send("east", [answer()]);
    lab.forget();
    assert_eq!(egress_ports(&mut lab, &[3]), ["east"]);
    lab.pass_time(Duration::from_millis(MAX_REACHABLE_MS + 100));
    assert_eq!(egress_ports(&mut lab, &[3]), ["east"], "ARP comes first");
    lab.pass_time(Duration::from_secs(9));
    lab.forget();
    assert_eq!(egress_ports(&mut lab, &[3]), ["north"]);
    let state = lab.route_to("", [100, 0, 3, 1]).unwrap();
    assert_eq!(state.state, "partly active", "by its backup");
    // The gateway of the backup fails as well: a path with a link that is up is better than none.
    lab.plug("north", false);
    lab.forget();
    assert_eq!(egress_ports(&mut lab, &[3]), Vec::<&str>::new());
    lab.plug("north", true);
    lab.send("east", [answer()]);
    lab.forget();
    assert_eq!(egress_ports(&mut lab, &[3]), ["east"]);
    lab.assert_dropped(&[]);
}

#[test]
fn without_a_path_senders_get_icmp_errors() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.learn_all(LearnedMessage::first().hop(1, &[EAST]).backed(2, &[EAST], &[NORTH]));
    lab.learn_all(LearnedMessage::more().many(1, 0, 1).many(2, 1, 1));
    lab.plug("east", false);
    lab.forget();
    assert_eq!(egress_ports(&mut lab, &[0]), Vec::<&str>::new());
    assert_eq!(lab.only("west").icmp, Some((3, 1)));
    lab.assert_dropped(&[("link-down", 1)]);
    assert_eq!(egress_ports(&mut lab, &[1]), ["north"]);
    lab.plug("north", false);
    lab.forget();
    assert_eq!(egress_ports(&mut lab, &[1]), Vec::<&str>::new());
    lab.assert_dropped(&[("link-down", 1)]);
    // A hop that is learned while its link is down uses its backup at once.
    lab.plug("north", true);
    lab.learn_all(LearnedMessage::more().backed(3, &[EAST], &[NORTH]).many(3, 2, 1));
    assert_eq!(egress_ports(&mut lab, &[2]), ["north"]);
    lab.plug("east", true);
    assert_eq!(egress_ports(&mut lab, &[0, 1, 2]), ["east"; 3]);
}

#[test]
fn only_paths_that_are_up_are_used() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.learn_all(
        LearnedMessage::first().backed(1, &[EAST, NORTH], &[("west", "10.0.1.2")]).many(1, 0, 200),
    );
    let all: Vec<u32> = (0..200).collect();
    let both = egress_ports(&mut lab, &all);
    let east = both.iter().filter(|port| **port == "east").count();
    assert!((50..150).contains(&east) && both.len() == 200, "{east} of {} by east", both.len());
    lab.plug("east", false);
    lab.forget();
    assert_eq!(egress_ports(&mut lab, &all), ["north"; 200]);
    lab.plug("north", false);
    lab.forget();
    assert_eq!(egress_ports(&mut lab, &all), Vec::<&str>::new());
    assert_eq!(lab.take("west").len(), 200, "by the backup, which is the receiving port");
}
