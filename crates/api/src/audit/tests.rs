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
        ..v1::Desired::default()
    }
}

fn tally(state: &v1::Desired) -> Tally {
    let arp = v1::PuntLimit { class: "arp".into(), rate: 10, burst: 20, total: 30 };
    desired(state, (&state.interfaces, &state.routes), &[arp], &Kind::ALL)
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
    let changes: [(Kind, &str, Change); 8] = [
        (Kind::Ports, "a", |it| it.ports[0].driver = Some(Driver::Tap(v1::Tap::default()))),
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
    assert_eq!(tally(&state()).differing(&tally(&explicit)), []);
}

#[test]
fn a_tally_survives_the_contract() {
    let before = tally(&state());
    let after = Tally::from_messages(before.clone().into_messages());
    assert_eq!(before.differing(&after), []);
    for kind in Kind::ALL {
        assert!(before.differing_keys(&after, kind).is_empty());
        assert_eq!(before.sum(kind).entries as usize, after.listed[&kind].len());
    }
    assert_eq!(before.sum(Kind::Addresses).entries, 2);
}
