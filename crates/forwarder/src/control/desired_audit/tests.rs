//! A state with entries of each kind, of which one is lost.

mod associations;
mod state;
mod tables;

use std::sync::Arc;

use stoa_api::v1::route::Action;
use stoa_engine::worker::Polling;
use stoa_ports::{NullConfig, PortConfig, TapConfig};

use self::state::{address, everything, prefix};
use super::*;
use crate::control::Limits;
use crate::punt::Class;

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
        &settings::defaults(&Limits::default()),
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
    let cases: [(Kind, &str, Lose); 35] = [
        (Kind::Workers, "workers", |state| {
            state.worker_pool.workers[0].set_polling(Polling::Always);
        }),
        (Kind::Logging, "log", |state| state.lose_logging()),
        (Kind::PortSettings, "g", |state| {
            let PortConfig::Generator(config) = &mut state.ports.get_mut("g").unwrap().config
            else {
                panic!("a generator");
            };
            config.rate = 9;
        }),
        (Kind::PortSettings, "a", |state| {
            state.rx_queues.software_rss.insert("a".into());
        }),
        (Kind::Ports, "b", |state| {
            let config = PortConfig::Tap(TapConfig::default());
            state.ports.get_mut("b").unwrap().config = config;
        }),
        (Kind::Interfaces, "b.5", |state| state.lose_tags(state.index_of("b.5").unwrap())),
        (Kind::Interfaces, "a", |state| state.lose_host_interface("a")),
        (Kind::Reassembly, "reassembly", |state| state.shared.reassembly.set(0, 19)),
        (Kind::Multipath, "multipath", |state| state.shared.seeds.set(8)),
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
        (Kind::AclRules, "edge between", |state| state.lose_last_acl_rules()),
        (Kind::AclRules, "edge between", |state| state.lose_acl_interface("a", (9, 0))),
        (Kind::AclRules, "edge between", |state| state.lose_acl_interface("b.5", (0, 5))),
        (Kind::Interfaces, "b", |state| state.lose_acl_interface("b", (0, 7))),
        (Kind::ZonePairs, "lan to router", |state| state.lose_zone_pairs()),
        (Kind::Interfaces, "b.5", |state| state.lose_zone("b.5")),
        (Kind::Interfaces, "b.5", |state| state.lose_zone_input("b.5")),
        (Kind::NatPolicies, "1/2, number 2", |state| state.lose_nat_policy()),
        (Kind::NatMappings, "1/3", |state| state.lose_nat_mapping()),
        (Kind::NptPrefixes, "fd00::/48 of b", |state| state.lose_npt_prefix()),
        (Kind::SiitPolicies, "7/1", |state| state.lose_siit(true)),
        (Kind::SiitMappings, "192.0.2.8/30 of 7/1", |state| state.lose_siit(false)),
        (Kind::Ipfix, "ipfix", |state| state.lose_export()),
        (Kind::FlowSync, "flow-sync", |state| state.lose_flow_sync()),
        (Kind::SecurityAssociations, "in", |state| state.lose_association(0x2002)),
        (Kind::FlowLimits, "flow-limits", |state| state.lose_flow_limits()),
        (Kind::ExistingFlows, "existing-flows", |state| state.capabilities.acl.lose_kept_flows()),
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
        // Another driver has other settings, too.
        let is_other =
            |name: &str| name != kind.name() && (kind, name) != (Kind::Ports, "port-settings");
        assert!(!found.iter().any(|(name, _)| is_other(name)), "{kind:?}: {found:?}");
        let generation = forwarder.generation();
        let another = forwarder.repair(generation + 1, &[kind].into());
        assert!(matches!(another, Err(ChangeError::Generation { held }) if held == generation));
        let applied = forwarder.repair(generation, &[kind].into()).unwrap();
        assert_eq!(applied.generation, generation, "the desired state is the same");
        assert_eq!(differences(&forwarder, &desired), [], "{kind:?}");
    }
    // What no case loses: plugins are not in this process, VRFs have tests of their own, and limits are fixed.
    let missing = Kind::ALL.into_iter().filter(|kind| cases.iter().all(|case| case.0 != *kind));
    assert_eq!(missing.collect::<Vec<_>>(), [Kind::Limits, Kind::Vrfs, Kind::Plugins]);
}

/// Limits and most settings of workers cannot be repaired: the operator learns what to do.
#[test]
fn what_is_fixed_is_found_and_needs_a_restart() {
    let desired = everything();
    type Lose = fn(&mut ForwarderState);
    let cases: [(Kind, &str, Lose); 2] = [
        (Kind::Limits, "limits", |state| state.limits.neighbors = 7),
        (Kind::Workers, "workers", |state| state.workers.buffers = 7),
    ];
    for (kind, key, lose) in cases {
        let mut forwarder = forwarder(&desired);
        lose(forwarder.state().unwrap());
        assert_eq!(differences(&forwarder, &desired), [(kind.name(), key.to_owned())]);
        let refused = forwarder.repair(forwarder.generation(), &[kind].into());
        let Err(ChangeError::Refused(error)) = refused else {
            panic!("{kind:?} cannot be repaired")
        };
        assert_eq!(error.errors[0].fix, "Restart Stoa to change them.");
        // What else differs is repaired all the same.
        forwarder.state().unwrap().shared.seeds.set(77);
        let kinds = [kind, Kind::Multipath].into();
        assert!(forwarder.repair(forwarder.generation(), &kinds).is_err());
        assert_eq!(differences(&forwarder, &desired), [(kind.name(), key.to_owned())]);
    }
    assert_eq!(differences(&forwarder(&desired), &desired), []);
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
    desired.interfaces[3].ip4 = Some(v1::Family {
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
