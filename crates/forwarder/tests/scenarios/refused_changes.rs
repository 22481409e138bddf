//! Changes of the contract that are refused, with the object and the cause.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use stoa_api::v1;
use stoa_engine::worker::Polling;
use stoa_forwarder::control::desired::{DesiredChange, Family};
use stoa_forwarder::control::{ChangeError, Limits};

use crate::harness::*;

/// A change of the contract from what the forwarder holds.
pub fn send(lab: &mut Lab, message: &v1::DesiredChange) -> Result<v1::Applied, Vec<String>> {
    let texts = |errors: Vec<v1::ValidationError>| {
        errors.into_iter().map(|error| format!("{} {}", error.path, error.cause)).collect()
    };
    let change = DesiredChange::parse(message).map_err(texts)?;
    let generation = lab.forwarder.generation();
    lab.forwarder.change(generation, change).map_err(|error| match error {
        ChangeError::Invalid(errors) => texts(errors),
        ChangeError::Refused(refused) => texts(refused.errors),
        ChangeError::Generation { held } => vec![format!("it holds {held}")],
    })
}

fn route_by(vrf: &str, interface: &str) -> v1::Route {
    let path = v1::Path { interface: interface.to_owned(), ..v1::Path::default() };
    v1::Route {
        vrf: vrf.to_owned(),
        prefix: Some(v1::Prefix { address: vec![192, 0, 2, 0], length: 24 }),
        action: Some(v1::route::Action::Paths(v1::Paths { paths: vec![path] })),
        ..v1::Route::default()
    }
}

#[test]
fn a_bad_change_is_refused_and_named() {
    let setup = Setup::three_ports().sub("sub", 5, "west", &[(0x8100, 5)]);
    let mut lab = Lab::new(&setup);
    let before = lab.forwarder.desired().cloned();
    let sub = |name: &str, parent: &str, vid| v1::Interface {
        name: name.to_owned(),
        parent: parent.to_owned(),
        outer: Some(v1::Tag { tpid: 0x8100, vid }),
        ..v1::Interface::default()
    };
    let none = v1::DesiredChange::default;
    let interface = |one| v1::DesiredChange { interfaces: vec![one], ..none() };
    let route = |one| v1::DesiredChange { routes: vec![one], ..none() };
    let cases = [
        (interface(sub("a", "nowhere", 6)), "\"nowhere\", which is not a port"),
        (interface(sub("a", "west", 5)), "has the same tags as \"sub\" on \"west\""),
        (interface(sub("a", "west", 5000)), "has the VLAN tag"),
        (interface(v1::Interface { vrf: "red".into(), ..sub("a", "west", 6) }), "VRF \"red\""),
        (route(route_by("", "nowhere")), "leads through \"nowhere\", which does not exist"),
        (route(route_by("red", "west")), "is in the VRF \"red\", which does not exist"),
        (v1::DesiredChange { removed_ports: vec!["west".into()], ..none() }, "is not a port"),
        (
            v1::DesiredChange { removed_interfaces: vec!["sub".into()], ..none() },
            "leads through \"sub\", which does not exist",
        ),
        (
            v1::DesiredChange {
                removed_interfaces: vec!["a".into()],
                ..interface(sub("a", "west", 6))
            },
            "interface \"a\" is configured twice",
        ),
    ];
    for (message, cause) in cases {
        let refused = send(&mut lab, &message).unwrap_err().join("; ");
        assert!(refused.contains(cause), "{refused}");
        assert_eq!(lab.forwarder.desired().cloned(), before);
    }
    // A valid change of all kinds, and back.
    let vrf = v1::Vrf { name: "red".into(), ..v1::Vrf::default() };
    let (name, address) = ("west".to_owned(), vec![10, 0, 1, 77]);
    let mac = vec![2, 0, 0, 0, 0, 7];
    let neighbor = v1::Neighbor { interface: name.clone(), address: address.clone(), mac };
    let punt = v1::PuntLimit { class: "arp".into(), rate: 5, ..v1::PuntLimit::default() };
    let there = v1::DesiredChange {
        interfaces: vec![v1::Interface { vrf: "red".into(), ..sub("a", "west", 6) }],
        routes: vec![route_by("red", "a")],
        vrfs: vec![vrf],
        neighbors: vec![neighbor],
        punts: vec![punt],
        ..none()
    };
    send(&mut lab, &there).unwrap();
    assert!(lab.forwarder.desired().unwrap().vrfs.contains_key("red"));
    let prefix = route_by("red", "a").prefix;
    let back = v1::DesiredChange {
        removed_interfaces: vec!["a".into()],
        removed_routes: vec![v1::RouteKey { vrf: "red".into(), prefix }],
        removed_vrfs: vec!["red".into()],
        removed_neighbors: vec![v1::NeighborKey { interface: name, address }],
        removed_punts: vec!["arp".into()],
        ..none()
    };
    send(&mut lab, &back).unwrap();
    assert_eq!(lab.forwarder.desired().cloned(), before);
}

#[test]
fn a_sub_interface_below_a_cross_connected_interface_is_refused() {
    let across = |setup: Setup, name: &str, other: &str| {
        setup.with(name, |interface| {
            interface.cross_connect = Some(other.to_owned());
            (interface.ip4, interface.ip6) = (Family::default(), Family::default());
        })
    };
    let mut lab = Lab::new(&across(across(Setup::three_ports(), "west", "east"), "east", "west"));
    let before = lab.forwarder.desired().cloned();
    let sub = v1::Interface {
        name: "sub".into(),
        parent: "west".into(),
        outer: Some(v1::Tag { tpid: 0x8100, vid: 7 }),
        ..v1::Interface::default()
    };
    let change = v1::DesiredChange { interfaces: vec![sub], ..v1::DesiredChange::default() };
    let refused = send(&mut lab, &change).unwrap_err();
    assert_eq!(refused, ["interface \"west\" is cross-connected, but has sub-interfaces"]);
    assert_eq!(lab.forwarder.desired().cloned(), before);
}

#[test]
fn a_change_of_workers_and_limits_is_what_a_whole_state_is() {
    let mut lab = Lab::new(&Setup::three_ports());
    let before = lab.forwarder.desired().cloned().unwrap();
    let kernel = before.workers.kernel.name().to_owned();
    let running = v1::Workers {
        count: before.workers.count as u32,
        buffers: before.workers.buffers,
        kernel,
        huge_pages: v1::HugePages::Never.into(),
        polling: v1::Polling::Interrupt.into(),
        ..v1::Workers::default()
    };
    let workers = |workers| v1::DesiredChange { workers: Some(workers), ..Default::default() };
    let more = v1::Workers { count: running.count + 1, ..running.clone() };
    let refused = send(&mut lab, &workers(more)).unwrap_err();
    assert!(refused[0].contains("fixed while the forwarder runs"), "{refused:?}");
    let limits = Some(v1::Limits { neighbors: 77, ..v1::Limits::default() });
    let refused = send(&mut lab, &v1::DesiredChange { limits, ..Default::default() }).unwrap_err();
    assert!(refused[0].contains("fixed while the forwarder runs"), "{refused:?}");
    assert_eq!(lab.forwarder.desired(), Some(&before));
    // Polling is not fixed.
    let polling = v1::Polling::Polling.into();
    let applied = send(&mut lab, &workers(v1::Workers { polling, ..running.clone() })).unwrap();
    assert!(applied.changed);
    assert_eq!(lab.forwarder.desired().unwrap().workers.polling, Polling::Always);
    assert!(lab.state().list_workers().iter().all(|it| it.polling == Polling::Always.name()));
    // An absent one is unchanged.
    send(&mut lab, &v1::DesiredChange::default()).unwrap();
    assert_eq!(lab.forwarder.desired().unwrap().workers.polling, Polling::Always);
}

/// The routes through several removed interfaces are named: of each at most 16, found by one walk with pauses.
#[test]
fn removals_are_refused_with_the_routes_of_each_interface() {
    const ROUTES: u32 = 10_000;
    let names = ["one", "other"];
    let subs = (5..).zip(names).fold(Setup::three_ports(), |setup, (n, name)| {
        setup.sub(name, n, "west", &[(0x8100, n.into())])
    });
    let setup = (0..ROUTES).fold(subs, |setup, n| {
        let to = std::net::Ipv4Addr::from(20 << 24 | n << 8);
        setup.paths((to.into(), 24), &[("north", Some(host4(3).into()), 1)])
    });
    let setup = (0..40).fold(setup, |setup, n| {
        let to = std::net::Ipv4Addr::from([30, 0, n, 0]);
        setup.paths((to.into(), 24), &[(names[usize::from(n % 2)], None, 1)])
    });
    let limits = Limits { routes4: 1 << 15, ..LIMITS };
    let mut lab = Lab::with(&setup, limits, |_| Wire::new(1, 8));
    let walked = Arc::new(AtomicU32::new(0));
    let counted = walked.clone();
    lab.state().on_pause(Some(Box::new(move |_, items| {
        counted.fetch_add(items, Ordering::Relaxed);
    })));
    let removed_interfaces = names.map(str::to_owned).into();
    let change = v1::DesiredChange { removed_interfaces, ..v1::DesiredChange::default() };
    let refused = send(&mut lab, &change).unwrap_err();
    for name in names {
        let of_it = refused.iter().filter(|it| it.contains(&format!("through {name:?}, which")));
        assert_eq!(of_it.count(), 16, "{name}");
    }
    let walked = walked.load(Ordering::Relaxed);
    assert!((ROUTES * 9 / 10..ROUTES * 3 / 2).contains(&walked), "{walked} routes in one walk");
}

/// Before a rollback, workers must have released what the refused change has removed. One that gets no processor does
/// not keep the control thread from urgent work meanwhile.
#[test]
fn urgent_work_runs_while_a_rollback_waits_for_the_workers() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.state().stop_time();
    // Urgent work is served once by the stopped clock.
    lab.state().skip(Duration::from_millis(10));
    let mut is_first = true;
    lab.state().wait_while(|_| std::mem::take(&mut is_first));
    let (pauses, mut asked) = (Arc::new(AtomicU32::new(0)), 0);
    let counted = pauses.clone();
    lab.state().on_pause(Some(Box::new(move |state, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        state.skip(Duration::from_millis(1));
    })));
    lab.state().wait_while(|_| {
        asked += 1;
        asked <= 20
    });
    assert_eq!(pauses.load(Ordering::Relaxed), 20, "it ends with the condition");
    assert_eq!(lab.state().longest_slice(), 5_000, "us without urgent work");
    // Workers that do not run hold nothing: a rollback waits for none.
    assert!(lab.apply(&Setup::three_ports().port("ghost", 9)).is_err());
    lab.state().on_pause(None);
}
