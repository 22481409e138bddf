//! Changes of the contract that are refused, with the object and the cause.

use stoa_api::v1;
use stoa_forwarder::control::ChangeError;
use stoa_forwarder::control::desired::DesiredChange;

use crate::harness::*;

/// A change of the contract from what the forwarder holds.
fn send(lab: &mut Lab, message: &v1::DesiredChange) -> Result<v1::Applied, Vec<String>> {
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
