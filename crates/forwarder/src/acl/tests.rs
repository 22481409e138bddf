//! Matchers against a linear walk over rules, and what passes without a rule.

use proptest::prelude::*;
use stoa_wire::protocol;

use super::essential::is_essential;
use super::fields::{Family, Fields, Part};
use super::matcher::{Conditions, Fragments, MISS, Matcher};
use super::*;

/// Few values, so that rules and packets meet.
fn address() -> impl Strategy<Value = u32> {
    prop_oneof![0..4_u32, (0..4_u32).prop_map(|it| it << 30)]
}

fn range(most: u16) -> impl Strategy<Value = (u16, u16)> {
    prop_oneof![Just((0, u16::MAX)), (0..most, 0..most).prop_map(|(a, b)| (a.min(b), a.max(b))),]
}

fn network() -> impl Strategy<Value = (u32, u32)> {
    let masks = prop_oneof![Just(0), Just(1 << 31), Just(3 << 30), Just(u32::MAX)];
    (address(), masks).prop_map(|(ip, mask)| (ip & mask, mask))
}

fn conditions() -> impl Strategy<Value = Conditions<u32>> {
    let fragments = prop_oneof![
        4 => Just(Fragments::Any),
        1 => Just(Fragments::None),
        1 => Just(Fragments::First),
        1 => Just(Fragments::Later),
        1 => Just(Fragments::All),
    ];
    let upper = (prop::option::of(0..3_u8), range(4), range(4), (0..4_u8, 0..4_u8));
    let rest = (prop::option::of(0..2_u8), fragments, range(3));
    (network(), network(), upper, rest).prop_map(|(source, destination, upper, rest)| Conditions {
        source,
        destination,
        dscp: rest.0,
        protocol: upper.0,
        source_ports: upper.1,
        destination_ports: upper.2,
        tcp_flags: (upper.3.0 & upper.3.1, upper.3.1),
        fragments: rest.1,
        length: rest.2,
    })
}

fn fields() -> impl Strategy<Value = Fields<u32>> {
    let part = prop_oneof![3 => Just(Part::Whole), 1 => Just(Part::First), 1 => Just(Part::Later)];
    let upper = (0..3_u16, (0..4_u16, 0..4_u16), 0..4_u8, part, prop::bool::weighted(0.1));
    (address(), address(), 0..2_u8, upper, 0..3_u16).prop_map(
        |(source, destination, dscp, upper, length)| Fields {
            source,
            destination,
            dscp,
            hop_limit: 64,
            protocol: upper.0,
            part: upper.3,
            is_cut: upper.4,
            ports: upper.1,
            tcp_flags: upper.2,
            length,
        },
    )
}

proptest! {
    #[test]
    fn the_first_rule_that_matches_is_found(
        rules in prop::collection::vec(conditions(), 0..20),
        packets in prop::collection::vec(fields(), 1..40),
    ) {
        let entries = rules.iter().cloned().zip(0..).collect();
        let matcher = Matcher::new(entries);
        let lanes: Vec<u8> = (0..packets.len() as u8).collect();
        let mut found = vec![MISS; packets.len()];
        matcher.classify(&lanes, &packets, &mut found);
        for (packet, found) in packets.iter().zip(found) {
            let first = rules.iter().position(|rule| rule.matches(packet));
            prop_assert_eq!(found, first.map_or(MISS, |at| at as u32));
            prop_assert_eq!(matcher.first(packet), found);
        }
    }
}

#[test]
fn links_and_paths_work_without_rules() {
    let message = |kind: u16, code: u16, hop_limit: u8| Fields::<u128> {
        protocol: protocol::ICMP6.into(),
        ports: (kind, code),
        hop_limit,
        ..Fields::default()
    };
    for kind in 0..=255 {
        let always = matches!(kind, 1..=4);
        let from_link = matches!(kind, 133..=137);
        let listener = matches!(kind, 130..=132 | 143);
        assert_eq!(is_essential(&message(kind, 0, 64)), always, "{kind}");
        assert_eq!(is_essential(&message(kind, 0, 255)), always || from_link, "{kind}");
        assert_eq!(is_essential(&message(kind, 0, 1)), always || listener, "{kind}");
    }
    let later = Fields { part: Part::Later, ..message(135, 0, 255) };
    assert!(!is_essential(&later));
    let of4 = |protocol: u8, kind: u16, code: u16| Fields::<u32> {
        protocol: protocol.into(),
        ports: (kind, code),
        ..Fields::default()
    };
    assert!(is_essential(&of4(protocol::ICMP4, 3, 4)));
    assert!(!is_essential(&of4(protocol::ICMP4, 3, 1)));
    assert!(!is_essential(&of4(protocol::UDP, 3, 4)));
    assert!(!is_essential(&of4(protocol::ICMP6, 2, 0)), "IPv4 does not carry ICMPv6");
}

#[test]
fn ports_do_not_match_what_has_none() {
    let port = Conditions::<u32> { destination_ports: (0, 80), ..Conditions::default() };
    let whole = Fields::default();
    assert!(port.matches(&whole));
    assert!(!port.matches(&Fields { part: Part::Later, ..whole }));
    let all = Conditions::<u32>::default();
    assert!(all.matches(&Fields { part: Part::Later, ..whole }));
    assert!(u32::IS_IP4 && !u128::IS_IP4);
}

#[test]
fn classifiers_are_found_by_id() {
    let one = |id: u32| {
        Arc::new(Classifier::<u32> { id, matcher: Matcher::new(Vec::new()), rules: Vec::new() })
    };
    let all = Classifiers::of(vec![one(7), one(3), one(9)]);
    for id in 0..12 {
        assert_eq!(all.get(id).map(|it| it.id), [3, 7, 9].contains(&id).then_some(id));
    }
}

#[test]
fn hits_of_workers_are_added() {
    let hits = Hits::new(2);
    hits.add(0, 2, 100, 5);
    hits.add(1, 3, 50, 4);
    hits.add(2, 1, 1, 9);
    assert_eq!(hits.sum(), HitSum { packets: 5, bytes: 150, last: 5 });
}
