//! Resynchronization: a restarted controller sends its complete state; unchanged objects are not
//! touched, stale ones are swept, and traffic continues.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_forwarder::control::{Limits, RouteListing};

use crate::harness::*;

const ROUTES: u32 = 50_000;

/// The time limit of a change with this many routes, in a test build on a busy machine.
const BOUND: Duration = Duration::from_secs(5);

fn limits() -> Limits {
    Limits { routes4: 2 * ROUTES as usize, ..LIMITS }
}

fn network(at: u32) -> (IpAddr, u8) {
    (IpAddr::from((0x6400_0000 + (at << 8)).to_be_bytes()), 24)
}

/// Routes starting at `from`, alternating between two gateways.
fn many(from: u32) -> Setup {
    let mut setup = Setup::three_ports();
    for at in from..from + ROUTES {
        let (name, n) = if at % 2 == 0 { ("east", 2) } else { ("north", 3) };
        setup = setup.paths(network(at), &[(name, Some(host4(n).into()), 1)]);
    }
    setup
}

fn frames(count: u32) -> Vec<Vec<u8>> {
    let to = |at: u32| IpAddr::from((0x6400_0001 + ((ROUTES / 2 + at) << 8)).to_be_bytes());
    (0..count).map(|at| packet_from(1, &udp(host4(1), to(at % 1000), b""))).collect()
}

fn counters(lab: &mut Lab) -> Vec<(String, u64, u64)> {
    let list = lab.state().list_interfaces();
    list.into_iter().map(|state| (state.name, state.rx_packets, state.tx_packets)).collect()
}

#[test]
fn fifty_thousand_routes_are_resynchronized_under_traffic() {
    let first = many(0);
    let mut lab = Lab::with(&first, limits(), |_| Wire::new(1, 8));
    // The ages of neighbours are compared, too.
    lab.state().stop_time();
    lab.send("west", frames(2000));
    assert_eq!(lab.take("east").len() + lab.take("north").len(), 2000);
    let (before, neighbors) = (counters(&mut lab), lab.state().list_neighbors());
    // The same state from a new controller: nothing is touched.
    lab.put("west", 0, frames(1500));
    let began = Instant::now();
    assert_eq!(lab.apply(&first.clone()).unwrap(), v1::Applied::default());
    assert!(began.elapsed() < BOUND);
    lab.settle();
    assert_eq!(lab.take("east").len() + lab.take("north").len(), 1500);
    assert_eq!(lab.state().list_neighbors(), neighbors);
    // A hundred routes are deleted and a hundred added, with traffic over the others.
    let next = many(100);
    lab.put("west", 0, frames(1500));
    let began = Instant::now();
    let applied = lab.apply(&next).unwrap();
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    assert_eq!((applied.routes_added, applied.routes_removed), (100, 100));
    assert_eq!((applied.ports_opened, applied.ports_closed), (0, 0));
    lab.settle();
    assert_eq!(lab.take("east").len() + lab.take("north").len(), 1500);
    lab.assert_dropped(&[]);
    // Ports, neighbours and their counters are unchanged.
    assert_eq!(lab.state().list_neighbors(), neighbors);
    let increments: u64 =
        counters(&mut lab).iter().zip(&before).map(|(now, was)| now.1 - was.1).sum();
    assert_eq!(increments, 3000);
    lab.send("west", [packet_from(1, &udp(host4(1), network(0).0, b""))]);
    lab.assert_dropped(&[("ip4-no-route", 1)]);
}

#[test]
fn a_failure_of_the_last_port_rolls_everything_back() {
    let before = (0..200).fold(Setup::three_ports(), |setup, at| {
        setup.paths(network(at), &[("east", Some(host4(2).into()), 1)])
    });
    let mut lab = Lab::new(&before);
    let routes = |lab: &mut Lab| {
        let request = v1::ListRoutesRequest { vrf: "all".to_owned(), ..Default::default() };
        let prefix = |state: v1::RouteState| state.route.map(|route| (route.prefix, route.action));
        lab.state().list_routes(&request).into_iter().map(prefix).collect::<Vec<_>>()
    };
    let (held, used) = (routes(&mut lab), lab.state().limits());
    // New ports, routes over them, an interface that moves to a new VRF, and an invalid last port.
    for n in 4..8 {
        lab.add_wire(&format!("new{n}"), Wire::new(1, 1));
    }
    let mut after = Setup::three_ports();
    for n in 4..8 {
        after = after.port(&format!("new{n}"), n);
    }
    after = after.vrf("red", &["north"]);
    for at in 100..300 {
        after = after.paths(network(at), &[("new5", Some(host4(5).into()), 1)]);
    }
    let after = after.port("zzz-ghost", 9);
    for _ in 0..3 {
        let refused = lab.apply(&after).unwrap_err();
        assert_eq!(refused.errors[0].path, "port \"zzz-ghost\"");
        lab.settle();
        lab.state().tick();
        assert!(routes(&mut lab) == held);
        lab.forget();
        lab.send("west", [packet_from(1, &udp(host4(1), network(150).0, b""))]);
        assert_eq!(lab.take("east").len(), 1);
        lab.send("north", [packet_from(3, &udp(host4(3), host4(1), b""))]);
        assert_eq!(lab.take("west").len(), 1);
        lab.assert_dropped(&[]);
    }
    assert_eq!(lab.state().limits(), used);
}

/// A long listing of routes is sent in pages, and an ARP request in between is answered before the next
/// page.
#[test]
fn arp_is_answered_while_routes_are_listed() {
    let mut lab = Lab::new(&(0..200).fold(Setup::three_ports(), |setup, at| {
        setup.paths(network(at), &[("east", Some(host4(2).into()), 1)])
    }));
    for (family, vrf) in [(0, ""), (4, "all"), (6, "all"), (0, "red")] {
        let request = v1::ListRoutesRequest { family, vrf: vrf.to_owned(), ..Default::default() };
        let all = lab.state().list_routes(&request);
        assert_eq!(all.is_empty(), vrf == "red");
        let (mut listing, mut listed) = (RouteListing::new(request), Vec::new());
        while !listing.is_done() {
            let page = lab.state().list_more_routes(&mut listing, 20);
            assert!(page.len() <= 20);
            listed.extend(page);
            lab.send("west", [arp_request(host_mac(1), host4(1), our4(1))]);
            assert_eq!(lab.take("west").len(), 1, "the router answers");
        }
        assert!(listed == all, "all routes once, in order");
    }
}
