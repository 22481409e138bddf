//! Every table has a limit: a refusal names the limit and how to raise it, and the running state is
//! unaffected.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_forwarder::control::{LimitOverrides, LimitState, Limits, Table};
use stoa_forwarder::punt::{Class, Limit, streamed};

use crate::harness::*;

fn gateways(count: u8) -> Setup {
    (0..count).fold(Setup::three_ports(), |setup, at| {
        let gateway = IpAddr::from([10, 0, 2, 10 + at]);
        setup.paths((IpAddr::from([192, 0, 2, at]), 32), &[("east", Some(gateway), 1)])
    })
}

fn networks(count: u8, vrf: &str) -> Setup {
    let path = [("east", Some(host4(2).into()), 1)];
    let setup = Setup::three_ports().vrf("red", &["west", "east"]);
    (0..count).fold(setup, |setup, at| {
        let network = (IpAddr::from([192, 0, at, 0]), 24);
        if vrf.is_empty() {
            setup.paths(network, &path)
        } else {
            setup.paths_in(vrf, network, &path)
        }
    })
}

fn limit_of(lab: &mut Lab, table: Table) -> LimitState {
    let limits = lab.state().limits();
    limits.into_iter().find(|limit| limit.name == table.name()).expect("it is listed")
}

/// Exceeds a limit twice, then applies the plain state again.
#[track_caller]
fn assert_refused(limits: Limits, plain: &Setup, greedy: &Setup, table: Table) {
    let mut lab = Lab::with(plain, limits, |_| Wire::new(1, 1));
    let before = limit_of(&mut lab, table);
    assert!(before.used <= before.limit);
    for turn in 1..=2 {
        let refused = lab.apply(greedy).unwrap_err();
        assert!(refused.is_full, "{refused:?}");
        let fix = &refused.errors[0].fix;
        assert!(fix.contains(&format!("/stoa-system:system/limits/{}", table.name())), "{fix}");
        assert!(limit_of(&mut lab, table).refused >= before.refused + turn);
        lab.settle();
        lab.forget();
        for (from, n, to, m) in [("west", 1, "east", 2), ("east", 2, "west", 1)] {
            lab.send(from, [packet_from(n, &udp(host4(n), host4(m), b""))]);
            assert_eq!(lab.take(to).len(), 1);
        }
        lab.assert_dropped(&[]);
    }
    // Unused gateways are deleted when they do not reply.
    lab.pass_time(Duration::from_secs(10));
    assert_eq!(limit_of(&mut lab, table).used, before.used, "all entries are freed");
    assert_eq!(lab.apply(plain).unwrap(), v1::Applied::default());
}

#[test]
fn each_table_names_its_limit() {
    let three = Setup::three_ports();
    assert_refused(Limits { neighbors: 12, ..LIMITS }, &three, &gateways(20), Table::Neighbors);
    assert_refused(Limits { next_hops: 40, ..LIMITS }, &three, &gateways(40), Table::NextHops);
    assert_refused(Limits { adjacencies: 24, ..LIMITS }, &three, &gateways(40), Table::Adjacencies);
    assert_refused(Limits { routes4: 30, ..LIMITS }, &three, &gateways(40), Table::Ip4Routes);
    let limits = Limits { vrf_routes: 40, ..LIMITS };
    assert_refused(limits, &networks(2, "red"), &networks(60, "red"), Table::VrfRoutes);
    // The default VRF has its own limit.
    Lab::with(&networks(60, ""), limits, |_| Wire::new(1, 1));
}

/// Eight ports take 16 of 24 adjacencies: less is free than a change of all ports replaces, and than its
/// rollback needs.
#[test]
fn a_refused_change_is_taken_back_in_a_tight_table() {
    const PORTS: [&str; 8] = ["one", "two", "three", "four", "five", "six", "seven", "eight"];
    let with = |mtu: u16, gateways: u8| {
        let ports = (1..).zip(PORTS).fold(Setup::new(), |setup, (n, name)| {
            setup.port(name, n).with(name, |port| (port.ip4.mtu, port.ip6.mtu) = (mtu, mtu))
        });
        (0..gateways).fold(ports.host("one", 1).host("two", 2), |setup, at| {
            let gateway = IpAddr::from([10, 0, 2, 10 + at]);
            setup.paths((IpAddr::from([192, 0, 2, at]), 32), &[("two", Some(gateway), 1)])
        })
    };
    let listed = |lab: &mut Lab| {
        let all = lab.state().list_interfaces().into_iter();
        // Listener reports are sent meanwhile.
        let all = all.map(|it| v1::InterfaceState { tx_packets: 0, tx_bytes: 0, ..it });
        (all.collect::<Vec<_>>(), limit_of(lab, Table::Adjacencies).used)
    };
    let limits = Limits { adjacencies: 24, ..LIMITS };
    let mut lab = Lab::with(&with(1500, 0), limits, |_| Wire::new(1, 1));
    let before = listed(&mut lab);
    assert_eq!(before.1, 20);
    assert!(lab.apply(&with(1400, 40)).unwrap_err().is_full);
    assert_eq!(listed(&mut lab).0, before.0);
    // Gateways of refused routes are deleted when they do not reply.
    lab.pass_time(Duration::from_secs(10));
    lab.settle();
    lab.forget();
    assert_eq!(listed(&mut lab), before);
    let long = || [packet_from(1, &udp(host4(1), host4(2), &[0; 1450]))];
    lab.send("one", long());
    assert_eq!(lab.take("two").len(), 1);
    // Without the gateways, it is accepted: 20 adjacencies are replaced with four to spare.
    lab.apply(&with(1400, 0)).unwrap();
    lab.settle();
    lab.send("one", long());
    assert_eq!(lab.take("two").len(), 2, "two fragments");
    assert_eq!(limit_of(&mut lab, Table::Adjacencies).used, before.1);
}

/// A next hop beyond the limit is retried after the others: that counts as one refusal.
#[test]
fn a_route_beyond_the_limit_is_refused_once() {
    let mut lab =
        Lab::with(&Setup::three_ports(), Limits { next_hops: 40, ..LIMITS }, |_| Wire::new(1, 1));
    lab.apply(&gateways(40)).unwrap_err();
    assert_eq!(limit_of(&mut lab, Table::NextHops).refused, 1);
}

#[test]
fn limits_cannot_change_while_running() {
    let with = |limits: LimitOverrides| {
        let mut setup = Setup::three_ports();
        setup.0.limits = limits;
        setup
    };
    let overrides = LimitOverrides { routes4: 100, neighbors: 20, ..LimitOverrides::default() };
    let mut lab = Lab::new(&with(overrides));
    assert_eq!(limit_of(&mut lab, Table::Ip4Routes).limit, 100);
    assert_eq!(limit_of(&mut lab, Table::Neighbors).limit, 20);
    assert_eq!(limit_of(&mut lab, Table::Ip6Routes).limit, LIMITS.routes6 as u64);
    let refused = lab.apply(&with(LimitOverrides { routes4: 200, ..overrides })).unwrap_err();
    assert_eq!(refused.errors[0].path, "limits");
    assert_eq!(refused.errors[0].fix, "Restart Stoa to change them.");
    assert_eq!(lab.apply(&with(overrides)).unwrap(), v1::Applied::default());
}

fn row(lab: &mut Lab, name: &str) -> v1::LimitState {
    let limits = lab.state().list_limits();
    limits.into_iter().find(|limit| limit.name == name).expect("it is listed")
}

#[test]
fn all_limits_are_listed_with_their_use() {
    let mut lab = Lab::new(&Setup::three_ports());
    let limits = lab.state().list_limits();
    let names: Vec<&str> = limits.iter().map(|limit| limit.name.as_str()).collect();
    let tables = ["ipv4-routes", "ipv6-routes", "vrf-routes", "next-hops", "adjacencies"];
    let neighbors = ["neighbors", "neighbors-unresolved", "neighbors-fullest", "neighbor-packets"];
    let others = ["interfaces", "vrfs", "workers", "buffers", "jumbo-buffers", "ipv4-reassembly"];
    let rings = ["ipv6-reassembly", "punt-urgent", "punt-usual", "handoff-rings", "captures"];
    let trace_capture = ["capture-bytes", "traced-packets", "traced-steps", "transmit-queues"];
    for name in tables.iter().chain(&neighbors).chain(&others).chain(&rings).chain(&trace_capture) {
        assert!(names.contains(name), "{name} is not among {names:?}");
    }
    for class in Class::ALL.into_iter().filter(|class| !streamed::is_hidden(*class)) {
        assert!(names.contains(&format!("policer-{}", class.name()).as_str()), "{class:?}");
    }
    for limit in &limits {
        assert!(limit.limit == 0 || limit.used.unwrap_or(0) <= limit.limit, "{limit:?}");
        assert!(!limit.description.is_empty(), "{limit:?}");
        assert_eq!(names.iter().filter(|name| **name == limit.name).count(), 1, "{limit:?}");
    }
    assert_eq!(limit_of(&mut lab, Table::Neighbors).used, 6);
    assert_eq!(limit_of(&mut lab, Table::Interfaces).used, 3);
}

/// Single and jumbo buffers have separate pools, and each counts its allocation failures.
#[test]
fn exhausted_buffers_are_counted_by_kind() {
    let mut setup = Setup::three_ports();
    setup.0.workers.buffers = 512;
    setup.0.punts.insert(Class::Resolve, Limit { rate: 100_000, burst: 10_000, total: 100_000 });
    let limits = Limits { neighbors: 1024, ..LIMITS };
    let mut lab = Lab::with(&setup, limits, |_| Wire::new(1, 8));
    assert_eq!((row(&mut lab, "buffers").limit, row(&mut lab, "jumbo-buffers").limit), (512, 1024));
    assert_eq!((row(&mut lab, "buffers").refused, row(&mut lab, "jumbo-buffers").refused), (0, 0));
    // While the control thread does nothing, the ring to it holds all of them.
    let silent = |at: u16| IpAddr::from([10, 0, 2, 100 + (at % 40) as u8]);
    lab.put("west", 0, (0..640).map(|at| packet_from(1, &udp(host4(1), silent(at), b""))));
    let deadline = Instant::now() + Duration::from_secs(10);
    while row(&mut lab, "buffers").refused == 0 {
        assert!(Instant::now() < deadline, "{:?}", row(&mut lab, "buffers"));
    }
    let buffers = row(&mut lab, "buffers");
    assert!(buffers.refused > 0, "{buffers:?}");
    // Packets can still be on the way to the control thread.
    let deadline = Instant::now() + Duration::from_secs(10);
    while row(&mut lab, "neighbor-packets").used == Some(0) {
        lab.state().poll();
        assert!(Instant::now() < deadline, "no packet is queued for its neighbour");
    }
    assert_eq!(row(&mut lab, "jumbo-buffers").refused, 0);
    assert_eq!(row(&mut lab, "jumbo-buffers").used, Some(0));
}

#[test]
fn refusals_are_counted_at_their_limit() {
    let mut setup = Setup::three_ports();
    setup.0.punts.insert(Class::Echo, Limit { rate: 1, burst: 2, total: 10 });
    let mut lab = Lab::new(&setup);
    lab.send("west", vec![packet_from(1, &ping4(host4(1), our4(1), b"")); 50]);
    let budget = row(&mut lab, "policer-echo");
    assert_eq!((budget.limit, budget.used), (10, None));
    assert!((40..50).contains(&budget.refused), "{budget:?}");
    assert_eq!(row(&mut lab, "policer-arp").refused, 0);
    let request = v1::CaptureRequest { interface: "any".to_owned(), ..Default::default() };
    let readers: Vec<_> = (0..5).map(|_| lab.state().start_capture(&request).ok()).collect();
    assert_eq!(readers.iter().flatten().count(), 4);
    let captures = row(&mut lab, "captures");
    assert_eq!((captures.used, captures.limit, captures.refused), (Some(4), 4, 1));
    assert!(row(&mut lab, "capture-bytes").limit > 0);
}

/// A scan evicts unresolved neighbours, which is counted.
#[test]
fn evicted_neighbours_are_counted() {
    let setup = Setup::new().port("west", 1).port("east", 2).host("west", 1);
    let mut lab = Lab::new(&setup);
    for last in 100..200 {
        lab.send("west", [packet_from(1, &udp(host4(1), [10, 0, 2, last], b""))]);
    }
    let row = row(&mut lab, "neighbors-unresolved");
    assert!(row.refused > 0 && row.used <= Some(row.limit), "{row:?}");
}
