//! Faults in the forwarding tables themselves: entries too much, missing, or leading elsewhere.

use std::net::IpAddr;
use std::sync::Mutex;

use super::*;
use crate::control::desired::Prefix;
use crate::control::fib::host;
use crate::shared::SpecialNextHop;

fn at(address: &str, length: u8) -> Prefix {
    (address.parse().unwrap(), length)
}

/// A state with connected networks, whose forwarder has a host route of a neighbour.
fn begin() -> (v1::Desired, Forwarder) {
    let mut desired = everything();
    desired.routes.extend([0, 1].map(|second| {
        let path = v1::Path { interface: "a".into(), ..v1::Path::default() };
        v1::Route {
            prefix: Some(prefix(&[10, second, 0, 0], 24)),
            protocol: v1::Protocol::Direct.into(),
            action: Some(Action::Paths(v1::Paths { paths: vec![path] })),
            ..v1::Route::default()
        }
    }));
    let mut forwarder = forwarder(&desired);
    let state = forwarder.state().unwrap();
    assert!(state.fib.get(0, at("10.0.0.2", 32)).is_some(), "a neighbour has a host route");
    assert!(state.fib.get(0, at("10.1.0.0", 32)).is_some(), "a broadcast address has a route");
    assert_eq!(differences(&forwarder, &desired), []);
    (desired, forwarder)
}

/// The routes that differ.
fn different(forwarder: &Forwarder, desired: &v1::Desired) -> Vec<String> {
    let found = differences(forwarder, desired).into_iter();
    found
        .map(|(kind, key)| {
            assert_eq!(kind, "static-routes");
            key
        })
        .collect()
}

fn repair(forwarder: &mut Forwarder) {
    let generation = forwarder.generation();
    forwarder.repair(generation, &[Kind::StaticRoutes].into()).unwrap();
}

#[test]
fn an_entry_that_nothing_wants_is_found_in_all_tables_and_removed() {
    let (desired, mut forwarder) = begin();
    let state = forwarder.state().unwrap();
    let red = state.vrfs.slot_of("red").unwrap();
    let strange = [
        (0, at("203.0.113.0", 24)),
        (0, at("10.0.0.77", 32)),
        (0, at("2001:db8:f::", 48)),
        (red, at("198.51.100.7", 32)),
        (red, at("::", 0)),
    ];
    let hop = state.fib.special(SpecialNextHop::Blackhole);
    for (slot, prefix) in strange {
        state.fib.insert(slot, prefix, hop).unwrap();
    }
    let found = different(&forwarder, &desired);
    let expected = [
        "10.0.0.77/32",
        "198.51.100.7/32 of VRF red",
        "2001:db8:f::/48",
        "203.0.113.0/24",
        "::/0 of VRF red",
    ];
    assert_eq!(found, expected);
    let held = forwarder.audit_desired(&[]).sum(Kind::StaticRoutes).entries;
    assert_eq!(held, desired_tally(&desired).sum(Kind::StaticRoutes).entries + 5);
    repair(&mut forwarder);
    assert_eq!(different(&forwarder, &desired), Vec::<String>::new());
    let state = forwarder.state().unwrap();
    for (slot, prefix) in strange {
        assert_eq!(state.fib.get(slot, prefix), None, "{prefix:?}");
    }
}

#[test]
fn an_entry_that_only_the_table_lacks_or_has_otherwise_is_set_again() {
    let (desired, mut forwarder) = begin();
    let state = forwarder.state().unwrap();
    let red = state.vrfs.slot_of("red").unwrap();
    let [elsewhere, lost, neighbor] =
        [(0, at("172.16.0.0", 16)), (red, at("172.18.0.0", 16)), (0, at("10.0.0.2", 32))];
    let broadcast = (0, at("10.1.0.0", 32));
    let places = [elsewhere, lost, neighbor, broadcast];
    let before = places.map(|(slot, prefix)| state.fib.get(slot, prefix).unwrap());
    let local = state.fib.special(SpecialNextHop::Local);
    state.fib.insert(0, elsewhere.1, local).unwrap();
    state.fib.remove(red, lost.1);
    state.fib.remove(0, broadcast.1);
    state.fib.insert(0, neighbor.1, local).unwrap();
    let found = different(&forwarder, &desired);
    let expected = ["10.0.0.2/32", "10.1.0.0/32", "172.16.0.0/16", "172.18.0.0/16 of VRF red"];
    assert_eq!(found, expected);
    repair(&mut forwarder);
    assert_eq!(different(&forwarder, &desired), Vec::<String>::new());
    let state = forwarder.state().unwrap();
    let after = places.map(|(slot, prefix)| state.fib.get(slot, prefix).unwrap());
    assert_eq!(after, before);
}

/// Nothing else has the prefix: only the neighbour knows that there was a route.
#[test]
fn a_lost_host_route_of_a_neighbour_is_found_and_set_again() {
    let (desired, mut forwarder) = begin();
    let lost = [at("10.0.0.2", 32), at("10.0.0.4", 32)];
    let state = forwarder.state().unwrap();
    let before = lost.map(|prefix| state.fib.get(0, prefix).unwrap());
    for prefix in lost {
        state.fib.remove(0, prefix);
    }
    assert_eq!(different(&forwarder, &desired), ["10.0.0.2/32", "10.0.0.4/32"]);
    repair(&mut forwarder);
    assert_eq!(different(&forwarder, &desired), Vec::<String>::new());
    let state = forwarder.state().unwrap();
    assert_eq!(lost.map(|prefix| state.fib.get(0, prefix).unwrap()), before);
    // While the link is down, it is not lost.
    let index = state.index_of("a").unwrap();
    state.drop_host_routes(index);
    assert!(lost.iter().all(|prefix| state.fib.get(0, *prefix).is_none()));
    assert_eq!(different(&forwarder, &desired), Vec::<String>::new());
}

#[test]
fn a_running_route_that_is_not_desired_is_found_and_removed() {
    let (desired, mut forwarder) = begin();
    let other = crate::control::desired::Route {
        protocol: v1::Protocol::Static.into(),
        action: crate::control::desired::Action::Special(SpecialNextHop::Blackhole),
    };
    let unwanted = host("192.0.2.99".parse::<IpAddr>().unwrap());
    forwarder.state().unwrap().set_route(0, unwanted, &other).unwrap();
    assert_eq!(different(&forwarder, &desired), ["192.0.2.99/32"]);
    repair(&mut forwarder);
    assert_eq!(different(&forwarder, &desired), Vec::<String>::new());
    assert_eq!(forwarder.state().unwrap().fib.get(0, unwanted), None);
}

#[test]
fn a_repair_of_many_routes_pauses_between_slices() {
    let (_, mut forwarder) = begin();
    let state = forwarder.state().unwrap();
    let hop = state.fib.special(SpecialNextHop::Blackhole);
    for number in 0..4_000_u32 {
        state
            .fib
            .insert(0, (IpAddr::from((0x1600_0000 + (number << 8)).to_be_bytes()), 24), hop)
            .unwrap();
    }
    let pauses = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&pauses);
    state.on_pause(Some(Box::new(move |_, items| seen.lock().unwrap().push(items))));
    repair(&mut forwarder);
    let pauses = pauses.lock().unwrap();
    assert!(pauses.iter().all(|items| *items <= 512), "{pauses:?}");
    assert!(pauses.iter().sum::<u32>() >= 4_000, "{pauses:?}");
}

#[test]
fn withdrawn_routes_are_audited_in_slices() {
    let (mut desired, _) = begin();
    let place = |number: u32| (0x1600_0000 + (number << 8)).to_be_bytes();
    let route = |number| v1::Route {
        prefix: Some(prefix(&place(number), 24)),
        action: Some(Action::Special(v1::Special::Blackhole.into())),
        ..v1::Route::default()
    };
    desired.routes.extend((0..3_000).map(route));
    let mut forwarder = forwarder(&desired);
    for number in 0..3_000 {
        forwarder.state().unwrap().withdraw(0, (place(number).into(), 24));
    }
    let (mut audit, mut slices) = (DesiredAudit::listing(&[]), 1);
    while !forwarder.audit_desired_step(&mut audit) {
        slices += 1;
    }
    assert!(slices >= 4, "{slices} slices");
    assert_eq!(differences(&forwarder, &desired), []);
    // One that is not desired would come back with its gateway.
    let kept = desired.routes.len() - 1;
    desired.routes.truncate(kept);
    assert_eq!(different(&forwarder, &desired), ["22.11.183.0/24"]);
}
