//! Access lists while they change: packets in the pauses of a commit, refused commits, and lists without rules.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stoa_api::v1;
use stoa_forwarder::acl::Action;
use stoa_forwarder::control::desired::RuleOfList;
use stoa_forwarder::control::{Forwarder, ForwarderState, Limits};
use stoa_wire::protocol;

use crate::acl::{all, hit, hits, input, list, pass, to_east, to_port};
use crate::harness::*;
use crate::vrrp::{VRID, virtual4};

/// Entries that a thread of its own compiles.
const MANY: u16 = 150;

/// Adds a list that accepts UDP to port 53 and to many others, the last ones from `last` on: they are so many that a
/// change of them has the list compiled anew.
fn large(setup: Setup, acl: &str, last: u16) -> Setup {
    let names: Vec<String> = (0..MANY).map(|at| format!("r{at}")).collect();
    let port = |at: u16| if at + 30 >= MANY { last + at } else { 53 + at };
    let rules: Vec<(&str, RuleOfList)> = (0..)
        .zip(&names)
        .map(|(at, name)| (name.as_str(), to_port(port(at), Action::Accept)))
        .collect();
    list(setup, acl, &rules)
}

/// A forwarder that only tests move, with these limits, and its wires.
fn stepped(setup: &Setup, limits: Limits) -> (Forwarder, Wires) {
    let wires = Wires::default();
    for name in ["west", "east", "north"] {
        locked(&wires).insert(name.to_owned(), Wire::new(1, 8));
    }
    let mut forwarder = Forwarder::stepped(limits, wire::opener(&wires));
    forwarder.apply(setup.clone().0).unwrap();
    let state = forwarder.state().unwrap();
    state.poll();
    state.step();
    (forwarder, wires)
}

fn dropped_by_lists(state: &ForwarderState) -> u64 {
    let drops = state.list_drops().into_iter();
    drops.filter(|it| it.reason.starts_with("acl-")).map(|it| it.packets).sum()
}

/// Virtual routers become active while lists are compiled, so that their interfaces are written in between.
#[test]
fn interfaces_that_are_written_meanwhile_name_no_list_that_workers_do_not_have() {
    let with = |last: u16| {
        let setup = Setup::three_ports().with("west", |west| {
            west.ip4.virtual_routers = vec![virtual_router(VRID, 100, vec![virtual4().into()])];
        });
        let setup = setup.with("north", |north| {
            let address = IpAddr::from([10, 0, 3, 254]);
            north.ip4.virtual_routers = vec![virtual_router(VRID, 100, vec![address])];
        });
        let setup = input(large(setup, "one", last), "west", &["one"]);
        input(large(setup, "other", last), "north", &["other"])
    };
    let (mut forwarder, wires) = stepped(&with(1000), LIMITS);
    let wire = |name: &str| locked(&wires)[name].clone();
    let (west, north, east) = (wire("west"), wire("north"), wire("east"));
    let (mut compiled, sent) = (0, Arc::new(AtomicU32::new(0)));
    let count = sent.clone();
    let state = forwarder.state().unwrap();
    state.on_pause(Some(Box::new(move |state, items| {
        // Four sets: two lists, two families.
        compiled += u32::from(items == u32::from(MANY));
        match compiled {
            3 if items == u32::from(MANY) => state.skip(Duration::from_secs(4)),
            4 => {
                west.put(0, to_east(1, 53).map(|packet| packet_from(1, &packet)));
                north.put(0, to_east(3, 53).map(|packet| packet_from(3, &packet)));
                state.step();
                count.fetch_add(4, Ordering::Relaxed);
            }
            _ => {}
        }
    })));
    east.take();
    forwarder.apply(with(1001).0).unwrap();
    let state = forwarder.state().unwrap();
    state.on_pause(None);
    let active = state.list_interfaces().into_iter().flat_map(|it| it.virtual_routers);
    assert_eq!(active.map(|it| it.state).collect::<Vec<_>>(), ["master", "master"]);
    assert!(sent.load(Ordering::Relaxed) >= 4);
    assert_eq!(dropped_by_lists(state), 0);
}

/// A change that fails after interfaces name its lists: all packets meet lists while it is taken back.
#[test]
fn a_change_is_taken_back_without_a_moment_without_lists() {
    let setup = || input(large(Setup::three_ports(), "one", 1000), "west", &["one"]);
    let changed = input(large(Setup::three_ports(), "one", 1001), "west", &["one"]);
    let changed = changed.with("west", |west| west.ip4.options.directed_broadcast = true);
    let worse = (0..40).fold(changed, |setup, n| {
        setup.sub(&format!("west.{n}"), 20 + n, "west", &[(0x8100, 100 + u16::from(n))])
    });
    let (mut forwarder, wires) = stepped(&setup(), Limits { adjacencies: 24, ..LIMITS });
    let wire = |name: &str| locked(&wires)[name].clone();
    let (west, east) = (wire("west"), wire("east"));
    let counts = Arc::new(Mutex::new((0, 0)));
    let (seen, out) = (counts.clone(), east.clone());
    forwarder.state().unwrap().on_pause(Some(Box::new(move |state, _| {
        let packets = to_east(1, 53).into_iter().chain(to_east(1, 9));
        west.put(0, packets.map(|packet| packet_from(1, &packet)));
        state.step();
        let mut seen = locked(&seen);
        // UDP without payload.
        let is_ours = |frame: &&Vec<u8>| match frame[12..14] {
            [8, 0] => frame.len() == 42,
            _ => frame.len() == 62,
        };
        let ours = out.take().iter().filter(is_ours).count() as u64;
        *seen = (seen.0 + 2, seen.1 + ours);
    })));
    east.take();
    let error = forwarder.apply(worse.0).unwrap_err();
    assert!(error.is_full, "{error:?}");
    let state = forwarder.state().unwrap();
    state.on_pause(None);
    let (accepted, left) = *locked(&counts);
    assert!(accepted > 20, "{accepted}");
    assert_eq!((left, dropped_by_lists(state)), (accepted, accepted), "port 53, and port 9");
    forwarder.apply(setup().0).unwrap();
}

#[test]
fn a_refused_change_keeps_counters() {
    let dns = to_port(53, Action::Accept);
    let with = |rule: &RuleOfList| {
        input(list(Setup::three_ports(), "edge", &[("dns", rule.clone())]), "west", &["edge"])
    };
    let limits = Limits { next_hops: 40, ..LIMITS };
    let mut lab = Lab::with(&with(&dns), limits, |_| Wire::new(1, 8));
    assert_eq!(pass(&mut lab, to_east(1, 53)), 2);
    let dropped = RuleOfList { action: Action::Drop, ..dns.clone() };
    // Its routes do not fit: they come behind lists.
    let worse = (0..40).fold(with(&dropped), |setup, at| {
        let gateway = IpAddr::from([10, 0, 2, 10 + at]);
        setup.paths((IpAddr::from([192, 0, 2, at]), 32), &[("east", Some(gateway), 1)])
    });
    for _ in 0..2 {
        assert!(lab.apply(&worse).unwrap_err().is_full);
        assert_eq!(hits(&mut lab), [hit("dns", 2, 76)]);
    }
    lab.settle();
    assert_eq!(pass(&mut lab, to_east(1, 53)), 2);
    assert_eq!(hits(&mut lab), [hit("dns", 4, 152)]);
    // A change that is not refused begins at 0, also if the rule comes back later.
    for rule in [&dropped, &dns] {
        lab.apply(&with(rule)).unwrap();
        assert_eq!(hits(&mut lab), [hit("dns", 0, 0)]);
    }
}

#[test]
fn lists_without_rules_count_and_drop() {
    let six = RuleOfList { family: 6, ..all(Action::Accept) };
    let setup = input(list(Setup::three_ports(), "six", &[("all", six)]), "west", &["six"]);
    let setup = input(setup, "north", &["none"]);
    let mut lab = Lab::new(&setup);
    let limits = lab.state().list_limits();
    let limit = limits.iter().find(|it| it.name == "acl-rules-compiled").unwrap();
    assert_eq!(limit.used, Some(4), "one for each of two rows and families");
    assert_eq!(pass(&mut lab, to_east(1, 53)), 1);
    lab.send("north", to_east(3, 53).map(|packet| packet_from(3, &packet)));
    assert_eq!(lab.take("east").len(), 0);
    lab.assert_dropped(&[("acl-input", 3)]);
}

#[test]
fn a_range_of_all_ports_matches_no_later_fragments() {
    let ports = RuleOfList { destination_ports: vec![(0, u16::MAX)], ..to_port(0, Action::Accept) };
    let setup = list(Setup::three_ports(), "edge", &[("ports", ports)]);
    let mut lab = Lab::new(&input(setup, "west", &["edge"]));
    let header = datagram(host4(1).into(), host4(2).into(), (1, 2000), &[0; 16]);
    let parts = [
        crate::acl::fragment(0, true, &header, protocol::UDP),
        crate::acl::fragment(3, false, &[0; 16], protocol::UDP),
    ];
    assert_eq!(pass(&mut lab, parts), 1);
    lab.assert_dropped(&[("acl-input", 1)]);
    assert_eq!(hits(&mut lab), [hit("ports", 1, 44)]);
}

#[test]
fn packets_without_a_rule_are_counted_by_row() {
    let with = |port| {
        let setup = list(Setup::three_ports(), "edge", &[("one", to_port(port, Action::Accept))]);
        let setup = list(setup, "rest", &[]);
        input(input(setup, "west", &["edge", "rest"]), "north", &["rest"])
    };
    let mut lab = Lab::new(&with(53));
    let rows = |lab: &mut Lab, only: &str| -> Vec<(u32, String, u64, u64)> {
        let (rows, next) = lab.state().list_acl_rows(only, None);
        assert!(next.is_none());
        let row = |it: v1::AclRuleState| {
            let row = it.row.unwrap();
            (row.family, row.acls.join(" "), it.packets, it.bytes)
        };
        rows.into_iter().map(row).collect()
    };
    let row = |family, lists: &str, packets, bytes| (family, lists.to_owned(), packets, bytes);
    assert_eq!(pass(&mut lab, to_east(1, 53).into_iter().chain(to_east(1, 80))), 2);
    assert_eq!(rows(&mut lab, "edge"), [row(6, "edge rest", 1, 48), row(4, "edge rest", 1, 28)]);
    // Other rules of the same lists.
    lab.apply(&with(80)).unwrap();
    assert_eq!(pass(&mut lab, to_east(1, 53).into_iter().chain(to_east(1, 80))), 2);
    lab.send("north", to_east(3, 53).map(|packet| packet_from(3, &packet)));
    assert_eq!(
        rows(&mut lab, ""),
        [
            row(6, "edge rest", 2, 96),
            row(6, "rest", 1, 48),
            row(4, "edge rest", 2, 56),
            row(4, "rest", 1, 28),
        ]
    );
    assert!(rows(&mut lab, "other").is_empty());
    // A page goes on behind a row.
    let behind = Some((false, vec!["rest".to_owned()]));
    assert_eq!(lab.state().list_acl_rows("", behind).0.len(), 2);
}
