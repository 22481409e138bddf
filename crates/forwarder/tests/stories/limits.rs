//! Every table has a limit: reaching it is a refusal that says which one and how to raise it,
//! and what runs goes on.

use std::net::IpAddr;
use std::time::Duration;

use stoa_api::v1;
use stoa_forwarder::control::{Asked, LimitState, Limits, Table};

use crate::harness::*;

fn gateways(count: u8) -> World {
    (0..count).fold(World::three_ports(), |world, at| {
        let gateway = IpAddr::from([10, 0, 2, 10 + at]);
        world.paths((IpAddr::from([192, 0, 2, at]), 32), &[("east", Some(gateway), 1)])
    })
}

fn networks(count: u8, vrf: &str) -> World {
    let path = [("east", Some(host4(2).into()), 1)];
    let world = World::three_ports().vrf("red", &["west", "east"]);
    (0..count).fold(world, |world, at| {
        let network = (IpAddr::from([192, 0, at, 0]), 24);
        if vrf.is_empty() {
            world.paths(network, &path)
        } else {
            world.paths_in(vrf, network, &path)
        }
    })
}

fn of(lab: &mut Lab, table: Table) -> LimitState {
    let limits = lab.plane().limits();
    limits.into_iter().find(|limit| limit.name == table.name()).expect("it is listed")
}

/// Asks for too much under tight limits, twice, and for nothing new after it.
#[track_caller]
fn assert_refused(limits: Limits, plain: &World, greedy: &World, table: Table) {
    let mut lab = Lab::with(plain, limits, |_| Wire::new(1, 1));
    let before = of(&mut lab, table);
    assert!(before.used <= before.limit);
    for turn in 1..=2 {
        let refused = lab.apply(greedy).unwrap_err();
        assert!(refused.is_full, "{refused:?}");
        let mend = &refused.reasons[0].mend;
        assert!(mend.contains(&format!("/stoa-system:system/limits/{}", table.name())), "{mend}");
        assert!(of(&mut lab, table).refused >= before.refused + turn);
        lab.settle();
        lab.forget();
        for (from, n, to, m) in [("west", 1, "east", 2), ("east", 2, "west", 1)] {
            lab.send(from, [packet_from(n, &udp(host4(n), host4(m), b""))]);
            assert_eq!(lab.take(to).len(), 1);
        }
        lab.assert_dropped(&[]);
    }
    // Gateways that nobody needs any more are forgotten when they do not answer.
    lab.pass_time(Duration::from_secs(10));
    assert_eq!(of(&mut lab, table).used, before.used, "all was given back");
    assert_eq!(lab.apply(plain).unwrap(), v1::Applied::default());
}

#[test]
fn each_table_says_its_name() {
    let three = World::three_ports();
    assert_refused(Limits { neighbors: 12, ..LIMITS }, &three, &gateways(20), Table::Neighbors);
    assert_refused(Limits { next_hops: 40, ..LIMITS }, &three, &gateways(40), Table::NextHops);
    assert_refused(Limits { adjacencies: 24, ..LIMITS }, &three, &gateways(40), Table::Adjacencies);
    assert_refused(Limits { routes4: 30, ..LIMITS }, &three, &gateways(40), Table::Ip4Routes);
    let limits = Limits { vrf_routes: 40, ..LIMITS };
    assert_refused(limits, &networks(2, "red"), &networks(60, "red"), Table::VrfRoutes);
    // The default VRF has a limit of its own.
    Lab::with(&networks(60, ""), limits, |_| Wire::new(1, 1));
}

#[test]
fn limits_are_settings_and_fixed_while_running() {
    let with = |limits: Asked| {
        let mut world = World::three_ports();
        world.0.limits = limits;
        world
    };
    let asked = Asked { routes4: 100, neighbors: 20, ..Asked::default() };
    let mut lab = Lab::new(&with(asked));
    assert_eq!(of(&mut lab, Table::Ip4Routes).limit, 100);
    assert_eq!(of(&mut lab, Table::Neighbors).limit, 20);
    assert_eq!(of(&mut lab, Table::Ip6Routes).limit, LIMITS.routes6 as u64);
    let refused = lab.apply(&with(Asked { routes4: 200, ..asked })).unwrap_err();
    assert_eq!(refused.reasons[0].place, "limits");
    assert_eq!(refused.reasons[0].mend, "Restart Stoa to change them.");
    assert_eq!(lab.apply(&with(asked)).unwrap(), v1::Applied::default());
}

#[test]
fn all_limits_are_listed_with_what_is_used() {
    let mut lab = Lab::new(&World::three_ports());
    let limits = lab.plane().limits();
    let names: Vec<&str> = limits.iter().map(|limit| limit.name.as_str()).collect();
    for name in ["ipv4-routes", "next-hops", "neighbors", "interfaces", "vrfs", "buffers"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(limits.iter().all(|limit| limit.used <= limit.limit && !limit.mend.is_empty()));
    assert_eq!(of(&mut lab, Table::Neighbors).used, 6);
    assert_eq!(of(&mut lab, Table::Interfaces).used, 3);
}
