//! A state with entries of each kind, of which one is lost.

mod tables;

use std::sync::Arc;

use stoa_api::v1::port::Driver;
use stoa_api::v1::route::Action;
use stoa_ports::{NullConfig, PortConfig};

use super::*;
use crate::control::Limits;
use crate::punt::Class;

fn prefix(address: &[u8], length: u32) -> v1::Prefix {
    v1::Prefix { address: address.to_vec(), length }
}

fn port(interface: &str, driver: Driver) -> v1::Port {
    let (interface, driver) = (interface.to_owned(), Some(driver));
    v1::Port { interface, driver, ..v1::Port::default() }
}

fn address(address: &[u8], prefix_length: u32) -> v1::Address {
    v1::Address { address: address.to_vec(), prefix_length, ..v1::Address::default() }
}

const LOCAL6: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
const GLOBAL6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// IPv4 with everything that it has.
fn ip4() -> v1::Family {
    let router = v1::VirtualRouter {
        vrid: 7,
        version: 2,
        priority: 120,
        hold_s: 3,
        interval_cs: 100,
        addresses: vec![vec![10, 0, 0, 99]],
        tracked: vec![v1::TrackedInterface { interface: "b".into(), decrement: 20 }],
        networks: vec![v1::TrackedNetwork {
            prefix: Some(prefix(&[10, 9, 0, 0], 16)),
            decrement: 30,
        }],
        ..v1::VirtualRouter::default()
    };
    v1::Family {
        enabled: true,
        forwarding: true,
        mtu: 1400,
        addresses: vec![address(&[10, 0, 0, 1], 24), address(&[10, 1, 0, 1], 24)],
        reverse_path: v1::ReversePath::Loose.into(),
        proxy: true,
        discovery: Some(v1::RouterDiscovery {
            max_interval_s: 600,
            min_interval_s: 450,
            lifetime_s: 1800,
            preference: -5,
            ..v1::RouterDiscovery::default()
        }),
        virtual_routers: vec![router],
        options: Some(v1::FamilyOptions {
            directed_broadcast: true,
            redirects: true,
            ..v1::FamilyOptions::default()
        }),
        ..v1::Family::default()
    }
}

/// The same of IPv6.
fn ip6() -> v1::Family {
    let advertised = v1::AdvertisedPrefix {
        prefix: Some(prefix(&[GLOBAL6[..8].to_vec(), vec![0; 8]].concat(), 64)),
        on_link: true,
        valid_s: 900,
        preferred_s: 800,
        ..v1::AdvertisedPrefix::default()
    };
    let advertising = v1::RouterAdvertising {
        max_interval_s: 600,
        min_interval_s: 200,
        managed: true,
        hop_limit: 63,
        lifetime_s: 1800,
        preference: v1::RouterPreference::Low.into(),
        prefixes: vec![advertised],
        name_servers: vec![GLOBAL6.to_vec()],
        name_servers_s: 70,
        search: vec!["example.net".into()],
        search_s: 60,
        ..v1::RouterAdvertising::default()
    };
    v1::Family {
        enabled: true,
        forwarding: true,
        addresses: vec![address(&GLOBAL6, 64)],
        advertising: Some(advertising),
        virtual_routers: vec![v1::VirtualRouter {
            vrid: 7,
            version: 3,
            priority: 100,
            preempt: true,
            accept: true,
            interval_cs: 50,
            addresses: vec![LOCAL6.to_vec()],
            log: true,
            ..v1::VirtualRouter::default()
        }],
        ..v1::Family::default()
    }
}

/// A state with several entries of each kind.
fn everything() -> v1::Desired {
    let session = |last: u8, multiplier| v1::BfdSession {
        address: vec![10, 0, 0, last],
        multiplier,
        ..v1::BfdSession::default()
    };
    let interface =
        |name: &str| v1::Interface { name: name.into(), enabled: true, ..v1::Interface::default() };
    let acls = v1::AclSets { in4: vec!["edge".into()], ..v1::AclSets::default() };
    let lan = v1::Interface {
        mac: vec![2, 0, 0, 0, 0, 1],
        ip4: Some(ip4()),
        ip6: Some(ip6()),
        bfd: vec![session(2, 0), session(3, 5)],
        acls: Some(acls),
        description: "not in force".into(),
        ..interface("a")
    };
    let tagged = v1::Interface {
        parent: "b".into(),
        outer: Some(v1::Tag { tpid: 0x88a8, vid: 5 }),
        inner: Some(v1::Tag { tpid: 0x8100, vid: 6 }),
        vrf: "red".into(),
        ..interface("b.5")
    };
    let ends = v1::Tunnel {
        local: vec![10, 0, 0, 1],
        remote: vec![192, 0, 2, 1],
        encapsulation: v1::Encapsulation::Gre.into(),
        hop_limit: 0,
    };
    let neighbor = |last: u8| v1::Neighbor {
        interface: "a".into(),
        address: vec![10, 0, 0, last],
        mac: vec![2, 0, 0, 0, 0, last],
    };
    let path =
        |last: u8| v1::Path { interface: "a".into(), next_hop: vec![10, 0, 0, last], weight: 0 };
    let route = |second: u8, vrf: &str, action| v1::Route {
        prefix: Some(prefix(&[172, second, 0, 0], 16)),
        protocol: v1::Protocol::Static.into(),
        action: Some(action),
        vrf: vrf.into(),
    };
    let two_paths = Action::Paths(v1::Paths { paths: vec![path(3), path(2)] });
    let rule = |priority, action| v1::Rule {
        family: 4,
        priority,
        from: Some(prefix(&[10, 0, 0, 0], 8)),
        dscp: Some(0),
        source_ports: Some(v1::PortRange { first: 1, last: 9 }),
        action: Some(action),
        ..v1::Rule::default()
    };
    let table = v1::RuleTable { vrf: "red".into(), suppress_default: true };
    let acl_rule = |name: &str, after: &str| v1::AclRule {
        acl: "edge".into(),
        name: name.into(),
        after: after.into(),
        family: 4,
        source: Some(prefix(&[10, 0, 0, 0], 8)),
        protocol: Some(6),
        destination_ports: vec![v1::PortRange { first: 0, last: 9 }],
        tcp_flags: 2,
        tcp_flags_mask: 18,
        fragment: v1::AclFragment::NoFragment.into(),
        length: Some(v1::PortRange { first: 40, last: 1500 }),
        action: v1::AclAction::AclReject.into(),
        ..v1::AclRule::default()
    };
    let punt =
        |class: &str, rate| v1::PuntLimit { class: class.into(), rate, ..v1::PuntLimit::default() };
    v1::Desired {
        ports: vec![
            port("a", Driver::Null(v1::Null {})),
            port("b", Driver::Null(v1::Null {})),
            port("t", Driver::Tunnel(ends)),
        ],
        interfaces: vec![lan, interface("b"), tagged, interface("t")],
        vrfs: vec![v1::Vrf { name: "red".into(), ..v1::Vrf::default() }],
        neighbors: vec![neighbor(2), neighbor(4)],
        routes: vec![
            route(16, "", two_paths),
            route(17, "", Action::Special(v1::Special::Prohibit.into())),
            route(18, "red", Action::Special(v1::Special::Blackhole.into())),
        ],
        rules: vec![
            rule(9, v1::rule::Action::Table(table)),
            rule(5, v1::rule::Action::GotoPriority(9)),
            rule(5, v1::rule::Action::Special(v1::Special::Unreachable.into())),
        ],
        acl_rules: vec![acl_rule("last", "first"), acl_rule("first", "")],
        punts: vec![punt("arp", 100), punt("nd", 0)],
        ..v1::Desired::default()
    }
}

fn forwarder(desired: &v1::Desired) -> Forwarder {
    let open = |config: &PortConfig, pool| match config {
        PortConfig::Tunnel(_) => stoa_ports::open(config, pool),
        _ => {
            let null = NullConfig { tx_queues: 1, mtu: 1500, mac: None };
            stoa_ports::open(&PortConfig::Null(null), pool)
        }
    };
    let mut forwarder = Forwarder::stepped(Limits::default(), Arc::new(open));
    forwarder.apply(DesiredState::parse(desired).unwrap()).unwrap();
    forwarder
}

fn desired_tally(desired: &v1::Desired) -> Tally {
    audit::desired(
        desired,
        (&desired.interfaces, &desired.routes),
        &call::punt_defaults(),
        &Kind::ALL,
    )
}

/// What differs, by kind and key.
fn differences(forwarder: &Forwarder, desired: &v1::Desired) -> Vec<(&'static str, String)> {
    let (held, desired) = (forwarder.audit_desired(&Kind::ALL), desired_tally(desired));
    let keys = |kind: &Kind| {
        let keys = desired.differing_keys(&held, *kind).into_iter();
        keys.map(|key| (kind.name(), key)).collect::<Vec<_>>()
    };
    desired.differing(&held).iter().flat_map(keys).collect()
}

#[test]
fn what_was_applied_is_in_force() {
    let desired = everything();
    let forwarder = forwarder(&desired);
    assert_eq!(differences(&forwarder, &desired), []);
    let tally = forwarder.audit_desired(&[]);
    let empty = Kind::ALL.into_iter().filter(|kind| tally.sum(*kind).entries == 0);
    assert_eq!(empty.collect::<Vec<_>>(), [Kind::Plugins], "there are some of each kind");
}

#[test]
fn a_lost_entry_is_found_by_kind_and_key_and_repaired() {
    type Lose = fn(&mut ForwarderState);
    let cases: [(Kind, &str, Lose); 10] = [
        (Kind::Addresses, "a 10.1.0.1/24", |state| {
            let index = state.index_of("a").unwrap();
            let mut own = state.addresses.of(index).unwrap().clone();
            own.ip4.truncate(1);
            state.addresses.set(index, Some(own));
        }),
        (Kind::StaticNeighbors, "a 10.0.0.4", |state| state.lose_static_neighbor("10.0.0.4")),
        (Kind::Tunnels, "t", |state| state.lose_tunnels()),
        (Kind::BfdSessions, "a 10.0.0.3", |state| state.lose_bfd_session("10.0.0.3")),
        (Kind::VrrpGroups, "a IPv6 7", |state| state.lose_virtual_router(true)),
        (Kind::RouterAdvertisements, "a IPv4", |state| state.lose_advertiser(false)),
        (Kind::PolicyRules, "IPv4 9, number 3", |state| state.lose_last_rule()),
        (Kind::AclRules, "edge last", |state| state.lose_last_acl_rules()),
        (Kind::Punts, "arp", |state| state.lose_punt_limit(Class::Arp)),
        (Kind::StaticRoutes, "172.17.0.0/16", |state| {
            state.remove_route(0, ("172.17.0.0".parse().unwrap(), 16));
        }),
    ];
    let desired = everything();
    for (kind, key, lose) in cases {
        let mut forwarder = forwarder(&desired);
        lose(forwarder.state().unwrap());
        let found = differences(&forwarder, &desired);
        assert!(found.contains(&(kind.name(), key.to_owned())), "{kind:?}: {found:?}");
        assert!(found.iter().all(|(name, _)| *name == kind.name()), "{kind:?}: {found:?}");
        let generation = forwarder.generation();
        let another = forwarder.repair(generation + 1, &[kind].into());
        assert!(matches!(another, Err(ChangeError::Generation { held }) if held == generation));
        let applied = forwarder.repair(generation, &[kind].into()).unwrap();
        assert_eq!(applied.generation, generation, "the desired state is the same");
        assert_eq!(differences(&forwarder, &desired), [], "{kind:?}");
    }
}

#[test]
fn an_entry_too_much_is_found_and_removed() {
    let desired = everything();
    let mut forwarder = forwarder(&desired);
    let mut other = everything();
    other.neighbors.push(v1::Neighbor {
        interface: "a".into(),
        address: vec![10, 0, 0, 5],
        mac: vec![2, 0, 0, 0, 0, 5],
    });
    other.interfaces[0].bfd.truncate(1);
    forwarder.apply(DesiredState::parse(&other).unwrap()).unwrap();
    let found = differences(&forwarder, &desired);
    let expected = [("static-neighbors", "a 10.0.0.5"), ("bfd-sessions", "a 10.0.0.3")];
    assert_eq!(found, expected.map(|(kind, key)| (kind, key.to_owned())));
}

/// Each own address is looked up by itself, not among all duplicates. It may be one in another VRF.
#[test]
fn a_duplicate_address_is_not_lost_and_concerns_its_vrf_only() {
    let mut desired = everything();
    let own = [10, 0, 0, 1];
    desired.interfaces[2].ip4 = Some(v1::Family {
        enabled: true,
        addresses: vec![address(&own, 24)],
        ..v1::Family::default()
    });
    desired.routes.extend(["", "red"].map(|vrf| v1::Route {
        prefix: Some(prefix(&own, 32)),
        protocol: v1::Protocol::Direct.into(),
        action: Some(Action::Special(v1::Special::Local.into())),
        vrf: vrf.into(),
    }));
    let mut forwarder = forwarder(&desired);
    let state = forwarder.state().unwrap();
    let [lan, tagged] = ["a", "b.5"].map(|name| state.index_of(name).unwrap());
    let own = IpAddr::from(own);
    state.mark_duplicate((lan, own), "");
    assert!(state.is_duplicate((lan, own)) && !state.is_duplicate((tagged, own)));
    assert_eq!(state.with_duplicate(own).collect::<Vec<_>>(), [lan]);
    assert_eq!(state.with_duplicate([10, 1, 0, 1].into()).next(), None);
    assert_eq!(differences(&forwarder, &desired), []);
}

#[test]
fn an_audit_of_many_entries_has_many_slices() {
    let mut desired = everything();
    let route = |number: u32| v1::Route {
        prefix: Some(prefix(&[20, (number >> 8) as u8, number as u8, 0], 24)),
        action: Some(Action::Special(v1::Special::Blackhole.into())),
        ..v1::Route::default()
    };
    desired.routes.extend((0..3_000).map(route));
    let outer = |vid| Some(v1::Tag { tpid: 0x8100, vid });
    desired.interfaces.extend((1..=300).map(|vid| v1::Interface {
        name: format!("b.{vid}x"),
        parent: "b".into(),
        outer: outer(vid),
        ..v1::Interface::default()
    }));
    let forwarder = forwarder(&desired);
    let (mut audit, mut slices) = (DesiredAudit::listing(&[]), 1);
    while !forwarder.audit_desired_step(&mut audit) {
        slices += 1;
    }
    assert!(slices >= 6, "{slices} slices");
    assert_eq!(differences(&forwarder, &desired), []);
}
