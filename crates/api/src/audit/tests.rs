//! Tallies of made-up states, and one difference of each kind.

use super::*;
use crate::v1::port::Driver;

fn interface(name: &str) -> v1::Interface {
    let address = |last| v1::Address {
        address: vec![10, 0, 0, last],
        prefix_length: 24,
        ..v1::Address::default()
    };
    let ip4 = v1::Family {
        enabled: true,
        addresses: vec![address(1), address(2)],
        virtual_routers: vec![v1::VirtualRouter {
            vrid: 7,
            addresses: vec![vec![10, 0, 0, 9]],
            ..v1::VirtualRouter::default()
        }],
        ..v1::Family::default()
    };
    let session = v1::BfdSession { address: vec![10, 0, 0, 3], ..v1::BfdSession::default() };
    v1::Interface {
        name: name.to_owned(),
        ip4: Some(ip4),
        bfd: vec![session],
        ..v1::Interface::default()
    }
}

fn state() -> v1::Desired {
    let tunnel = v1::Tunnel { local: vec![10, 0, 0, 1], ..v1::Tunnel::default() };
    let port = |interface: &str, driver| v1::Port {
        interface: interface.to_owned(),
        driver: Some(driver),
        ..v1::Port::default()
    };
    let rule = |dscp| v1::Rule { family: 4, priority: 5, dscp: Some(dscp), ..v1::Rule::default() };
    v1::Desired {
        ports: vec![port("a", Driver::Null(v1::Null {})), port("t", Driver::Tunnel(tunnel))],
        interfaces: vec![interface("a"), v1::Interface { name: "t".into(), ..Default::default() }],
        rules: vec![rule(1), rule(2)],
        punts: vec![v1::PuntLimit { class: "arp".into(), ..v1::PuntLimit::default() }],
        workers: Some(v1::Workers::default()),
        limits: Some(v1::Limits::default()),
        logging: Some(v1::Logging::default()),
        reassembly: Some(v1::Reassembly::default()),
        multipath: Some(v1::Multipath::default()),
        ..v1::Desired::default()
    }
}

fn generator(it: v1::Generator) -> v1::Port {
    let driver = Some(Driver::Generator(it));
    v1::Port { interface: "g".into(), driver, ..v1::Port::default() }
}

fn tally(state: &v1::Desired) -> Tally {
    let arp = v1::PuntLimit { class: "arp".into(), rate: 10, burst: 20, total: 30 };
    let defaults = v1::Desired {
        punts: vec![arp],
        reassembly: Some(v1::Reassembly { packets: 256, per_source: 16 }),
        limits: Some(v1::Limits { neighbors: 100, ..v1::Limits::default() }),
        workers: Some(v1::Workers { kernel: "avx2".into(), buffers: 5, ..Default::default() }),
        ports: vec![generator(v1::Generator { frame: 60, ..v1::Generator::default() })],
        ..v1::Desired::default()
    };
    desired(state, (&state.interfaces, &state.routes), &defaults, &Kind::ALL)
}

#[test]
fn each_kind_has_a_name_of_its_own() {
    let names: BTreeSet<&str> = Kind::ALL.map(Kind::name).into();
    assert_eq!(names.len(), Kind::ALL.len());
    assert_eq!(Kind::ALL.map(|kind| Kind::named(kind.name())), Kind::ALL.map(Some));
}

#[test]
fn one_difference_is_found_by_kind_and_key() {
    type Change = fn(&mut v1::Desired);
    let changes: [(Kind, &str, Change); 14] = [
        (Kind::PortSettings, "a", |it| it.ports[0].mtu = 9000),
        (Kind::PortSettings, "a", |it| it.ports[0].software_rss = true),
        (Kind::Workers, "workers", |it| it.workers.as_mut().unwrap().polling = 1),
        (Kind::Limits, "limits", |it| it.limits.as_mut().unwrap().neighbors = 99),
        (Kind::Logging, "log", |it| it.logging.as_mut().unwrap().level = "debug".into()),
        (Kind::Reassembly, "reassembly", |it| it.reassembly.as_mut().unwrap().per_source = 15),
        (Kind::Multipath, "multipath", |it| it.multipath.as_mut().unwrap().hash_seed = 3),
        (Kind::Interfaces, "a", |it| it.interfaces[0].enabled = true),
        (Kind::Addresses, "a 10.0.0.2/24", |it| {
            it.interfaces[0].ip4.as_mut().unwrap().addresses.truncate(1);
        }),
        (Kind::Tunnels, "t", |it| {
            let tunnel = v1::Tunnel { local: vec![10, 0, 0, 2], ..v1::Tunnel::default() };
            it.ports[1].driver = Some(Driver::Tunnel(tunnel));
        }),
        (Kind::BfdSessions, "a 10.0.0.3", |it| it.interfaces[0].bfd.clear()),
        (Kind::VrrpGroups, "a IPv4 7", |it| {
            it.interfaces[0].ip4.as_mut().unwrap().virtual_routers[0].preempt = true;
        }),
        (Kind::PolicyRules, "IPv4 5, number 2", |it| it.rules.truncate(1)),
        (Kind::Punts, "arp", |it| it.punts[0].rate = 11),
    ];
    let before = tally(&state());
    for (kind, key, change) in changes {
        let mut other = state();
        change(&mut other);
        let other = tally(&other);
        assert_eq!(before.differing(&other), [kind]);
        let keys = before.differing_keys(&other, kind);
        assert_eq!(keys.into_iter().collect::<Vec<_>>(), [key]);
    }
    let mut other = state();
    other.ports[0].driver = Some(Driver::Tap(v1::Tap::default()));
    assert_eq!(before.differing(&tally(&other)), [Kind::Ports, Kind::PortSettings]);
}

#[test]
fn what_is_not_configured_is_the_default() {
    let mut explicit = state();
    let session = &mut explicit.interfaces[0].bfd[0];
    (session.desired_min_tx_us, session.required_min_rx_us, session.multiplier) =
        (300_000, 300_000, 3);
    explicit.interfaces[0].ip6 = Some(v1::Family::default());
    explicit.interfaces[0].description = "not in force anywhere".to_owned();
    (explicit.punts[0].rate, explicit.punts[0].burst, explicit.punts[0].total) = (10, 20, 30);
    let Some(Driver::Tunnel(tunnel)) = &mut explicit.ports[1].driver else { panic!("a tunnel") };
    tunnel.hop_limit = 64;
    let workers = v1::Workers { kernel: "avx2".into(), count: 1, buffers: 5, ..Default::default() };
    explicit.workers = Some(workers);
    explicit.limits.as_mut().unwrap().neighbors = 100;
    explicit.reassembly = Some(v1::Reassembly { packets: 256, per_source: 16 });
    assert_eq!(tally(&state()).differing(&tally(&explicit)), []);
}

#[test]
fn a_tally_survives_the_contract() {
    let before = tally(&state());
    let after = Tally::from_messages(before.clone().into_messages(), SAME);
    assert_eq!(before.differing(&after), []);
    for kind in Kind::ALL {
        assert!(before.differing_keys(&after, kind).is_empty());
        assert_eq!(before.sum(kind).entries as usize, after.listed[&kind].len());
    }
    assert_eq!(before.sum(Kind::Addresses).entries, 2);
}

#[test]
fn ports_are_opened_with_the_same_settings() {
    let digest = |port: v1::Port| {
        let mut state = state();
        state.ports[0] = v1::Port { interface: "a".into(), ..port };
        tally(&state).sum(Kind::PortSettings)
    };
    let memif = |secret: &str| {
        let memif = v1::Memif { secret: secret.into(), ..v1::Memif::default() };
        digest(v1::Port { driver: Some(Driver::Memif(memif)), ..v1::Port::default() })
    };
    assert_eq!(memif("one"), memif("other"), "nothing can be guessed from the digest");
    assert_ne!(memif("one"), memif(""));
    let frame = |frame| digest(generator(v1::Generator { frame, ..v1::Generator::default() }));
    assert_eq!(frame(0), frame(60), "the default of the forwarder");
    assert_ne!(frame(0), frame(61));
    let tap = |rx_queues, tx_queues| {
        let driver = Some(Driver::Tap(v1::Tap::default()));
        digest(v1::Port { driver, rx_queues, tx_queues, ..v1::Port::default() })
    };
    assert_eq!(tap(2, 1), tap(0, 2), "as many of both");
    assert_ne!(tap(1, 1), tap(0, 2));
}

const SAME: &str = env!("CARGO_PKG_VERSION");

/// The messages of a side without some kinds.
fn without(kinds: &[&str]) -> Vec<v1::KindState> {
    let mut messages = tally(&state()).into_messages();
    messages.retain(|kind| !kinds.contains(&kind.name.as_str()));
    messages.push(v1::KindState { name: "of a newer version".into(), ..Default::default() });
    messages
}

/// It has lost them, or somebody hides them.
#[test]
fn a_kind_that_the_same_version_omits_differs() {
    let ours = tally(&state());
    let theirs = Tally::from_messages(without(&["workers", "addresses", "vrfs"]), SAME);
    // There are no VRFs: none that are desired, and none that are told.
    let omitted = [Kind::Workers, Kind::Vrfs, Kind::Addresses];
    assert_eq!(ours.sum(Kind::Vrfs), Sum::default());
    assert_eq!(
        (ours.differing(&theirs), theirs.differing(&ours)),
        (omitted.into(), omitted.into())
    );
    assert!(theirs.counts(Kind::Workers));
    assert_eq!(ours.differing_keys(&theirs, Kind::Addresses).len(), 2);
}

/// A controller that is newer than its forwarder must not take what that one does not count for lost.
#[test]
fn kinds_that_the_other_side_does_not_know_are_not_compared() {
    let ours = tally(&state());
    let theirs = Tally::from_messages(without(&["workers", "addresses"]), "0.0.9");
    assert_eq!((ours.differing(&theirs), theirs.differing(&ours)), (vec![], vec![]));
    assert!(!theirs.counts(Kind::Workers) && theirs.counts(Kind::Tunnels));
    let mut other = state();
    other.rules.clear();
    assert_eq!(tally(&other).differing(&theirs), [Kind::PolicyRules]);
}
