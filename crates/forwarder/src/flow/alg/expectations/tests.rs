//! Expectations: once, between two hosts, in time, and within their limits.

use proptest::prelude::*;

use stoa_tables::flow_table::{Direction, Secret};

use super::*;
use crate::flow::alg::Alg;
use crate::nat::mappings::End;
use crate::nat::quotas::Quotas;

fn key(source: u32, destination: u32, port: u16) -> ExpectedKey {
    ExpectedKey {
        source: source.into(),
        destination: destination.into(),
        is_ip6: false,
        port,
        protocol: 6,
        vrf: 0,
    }
}

fn expectation(key: ExpectedKey, control: u32, until: u32) -> Expectation {
    let control = Control { id: control, start: 0 };
    Expectation {
        key,
        becomes: None,
        alg: Alg::Ftp,
        kind: Expected::Data,
        rule: 7,
        profile: 1,
        control,
        until,
        epoch: 0,
        is_unanswered: false,
        origin: Origin::default(),
        mapping: None,
    }
}

fn mappings() -> Arc<Mappings> {
    Arc::new(Mappings::new(64, Quotas::new(64, [1, 2]), &Secret([7; 64])).unwrap())
}

fn prepared() -> Expectations {
    let all = Expectations::new(5, mappings());
    assert!(all.expect(&expectation(key(1, 2, 3), 1, 9), 0).is_err(), "there is no memory yet");
    assert!(all.prepare() && !all.is_any());
    all
}

#[test]
fn an_expectation_is_met_once_and_between_its_hosts() {
    let all = prepared();
    let it = expectation(key(1, 2, 5000), 1, 60);
    all.expect(&it, 0).unwrap();
    for other in [key(3, 2, 5000), key(1, 3, 5000), key(1, 2, 5001), key(2, 1, 5000)] {
        assert_eq!(all.take(&other, 0), None);
    }
    for other in [
        ExpectedKey { protocol: 17, ..it.key },
        ExpectedKey { vrf: 1, ..it.key },
        ExpectedKey { is_ip6: true, ..it.key },
    ] {
        assert_eq!(all.take(&other, 0), None);
    }
    assert_eq!((all.find(&it.key, 0), all.live()), (Some(it), 1));
    assert_eq!(all.take(&it.key, 59), Some(it));
    assert_eq!((all.take(&it.key, 59), all.live()), (None, 0));
    let sums = all.counts().sums();
    assert_eq!((sums.expected, sums.begun, sums.expired), (1, 0, 0), "the caller counts");
    // Its first packet has begun no flow.
    all.put(&it, 0).unwrap();
    assert_eq!((all.take(&it.key, 59), all.counts().sums().expected), (Some(it), 1));
}

#[test]
fn an_expectation_ends_with_its_time() {
    let all = prepared();
    let it = expectation(key(1, 2, 5000), 1, 60);
    all.expect(&it, 0).unwrap();
    assert_eq!((all.find(&it.key, 60), all.take(&it.key, 60)), (None, None));
    assert!(!all.is_any());
    all.expect(&it, 0).unwrap();
    all.sweep(59, Some(0));
    assert!(all.is_any());
    all.sweep(60, Some(0));
    assert!(!all.is_any());
    assert_eq!(all.counts().sums().expired, 2);
}

#[test]
fn a_new_announcement_takes_the_place_of_the_last_one() {
    let all = prepared();
    let first = expectation(key(1, 2, 5000), 1, 60);
    all.expect(&first, 0).unwrap();
    all.expect(&first, 0).unwrap();
    assert_eq!(all.live(), 1);
    all.forget(&first.key, Control { id: 2, start: 0 });
    assert_eq!(all.live(), 1, "another control connection");
    all.forget(&first.key, first.control);
    all.expect(&expectation(key(1, 2, 5001), 1, 60), 0).unwrap();
    assert_eq!((all.live(), all.find(&key(1, 2, 5000), 0)), (1, None));
    // Another control connection does not get what is expected already.
    assert_eq!(all.expect(&expectation(key(1, 2, 5001), 2, 60), 0), Err(Full::All));
    assert_eq!(all.find(&key(1, 2, 5001), 0).map(|it| it.control.id), Some(1));
}

#[test]
fn hosts_and_pairs_of_hosts_have_limits() {
    let all = prepared();
    let made = (0..100)
        .filter(|at| all.expect(&expectation(key(1, 2, 5000 + *at as u16), *at, 60), 0).is_ok());
    assert_eq!(made.count(), usize::from(OF_PAIR.others));
    let all = prepared();
    let made =
        (0..1000).filter(|at| all.expect(&expectation(key(9 + *at, 2, 5000), *at, 60), 0).is_ok());
    assert_eq!(made.count(), usize::from(OF_HOST.others));
    // What is over does not count.
    all.sweep(60, Some(0));
    all.expect(&expectation(key(1, 2, 5000), 1, 120), 60).unwrap();
    assert!(all.live() == 1);
}

/// Many hosts have one external address: each is limited by its own one.
#[test]
fn hosts_behind_translation_have_limits_of_their_own() {
    let all = prepared();
    let of = |host: u32, port: u16| {
        let becomes = Becomes { source: 1, destination: host, port, vrf: 0, number: 1 };
        let it = expectation(key(1, 2, port), u32::from(port), 60);
        Expectation { becomes: Some(becomes), ..it }
    };
    let made = (0..100).filter(|at| all.expect(&of(9, 5000 + at), 0).is_ok());
    assert_eq!(made.count(), usize::from(OF_PAIR.others));
    let made = (0..200).filter(|at| all.expect(&of(10 + u32::from(*at), 6000 + at), 0).is_ok());
    assert_eq!(made.count(), 200);
    all.sweep(60, Some(0));
    assert_nothing_is_counted(&all);
}

fn assert_nothing_is_counted(all: &Expectations) {
    let hosts = all.hosts.iter().chain(&all.peers[..]).chain(&all.pairs[..]);
    assert!(hosts.into_iter().all(|it| it.load(Ordering::Relaxed) == 0));
    for it in [&all.live, &all.of_sip, &all.unanswered] {
        assert_eq!(it.load(Ordering::Relaxed), 0);
    }
}

/// Whoever forges addresses announces as much as he wants: others still find room.
#[test]
fn a_part_of_the_table_is_kept_for_others() {
    let all = prepared();
    let of = |at: u32, is_unanswered: bool| {
        let key = key(1_000 + at, 2_000_000 + at, 5000);
        let it = Expectation { alg: Alg::Sip, is_unanswered, ..expectation(key, at, 60) };
        it.of(Expected::Media)
    };
    let made = |from: u32, is_unanswered: bool| {
        let all_of =
            (from..from + 20_000).filter(|at| all.expect(&of(*at, is_unanswered), 0).is_ok());
        all_of.count()
    };
    assert_eq!(made(0, true), UNANSWERED as usize);
    made(100_000, false);
    assert_eq!(all.live(), OF_SIP);
    let made = (0..100)
        .filter(|at| all.expect(&expectation(key(*at, 5_000 + at, 20), *at, 60), 0).is_ok());
    assert!(made.count() > 80);
    all.sweep(60, Some(0));
    assert_nothing_is_counted(&all);
}

/// Who sends media meets the one, and who is sent them the other.
#[test]
fn media_are_expected_from_both_ends() {
    let (server, client, outside) = (9, 1, 7);
    let becomes = Becomes { source: server, destination: client, port: 8000, vrf: 2, number: 5 };
    let key = key(server, outside, 30_000);
    let key = ExpectedKey { protocol: 17, vrf: 3, ..key };
    for becomes in [Some(becomes), None] {
        let it = Expectation { key, becomes, ..expectation(key, 1, 60) }.of(Expected::Media);
        let other = it.sibling();
        assert_eq!(other.sibling(), it);
        assert!(other.key.is_of_sender() && other.key.destination == server.into());
        let end = if becomes.is_some() { (client, 8000, 2) } else { (outside, 30_000, 3) };
        assert_eq!((other.key.source, other.key.port, other.key.vrf), (end.0.into(), end.1, end.2));
        if let Some(becomes) = other.becomes {
            assert_eq!((becomes.source, becomes.destination), (outside, server));
            assert_eq!((becomes.port, becomes.vrf), (30_000, 3));
        }
        assert_eq!(it.counters(5), other.counters(5));
    }
}

fn any_expectation() -> impl Strategy<Value = Expectation> {
    let becomes = any::<(u32, u32, u16, u16, u32)>();
    let becomes = becomes.prop_map(|(source, destination, port, vrf, number)| Becomes {
        source,
        destination,
        port,
        vrf,
        number,
    });
    let key = any::<(u128, u128, bool, u16, u8, u16)>();
    let of = any::<(u32, u8, u32, u32, u32)>();
    let alg = prop::sample::select(Alg::ALL.to_vec());
    let kind = prop::sample::select(Expected::ALL.to_vec());
    let alg = (alg, kind);
    (key, prop::option::of(becomes), of, alg).prop_map(|(key, becomes, of, alg)| Expectation {
        key: ExpectedKey {
            source: key.0,
            destination: key.1,
            is_ip6: key.2,
            port: key.3,
            protocol: key.4,
            vrf: key.5,
        },
        becomes,
        alg: alg.0,
        kind: alg.1,
        rule: of.0,
        profile: of.1,
        control: Control { id: of.2, start: of.3 },
        until: of.4,
        epoch: of.4 as u16,
        is_unanswered: of.1 & 1 != 0,
        origin: Origin::of_call(of.3, of.2, Direction::Original),
        mapping: of.0.checked_sub(1),
    })
}

proptest! {
    #[test]
    fn words_hold_an_expectation(it in any_expectation()) {
        prop_assert_eq!(Expectation::of_words(&it.words()), Some(it));
    }
}

#[test]
fn one_of_many_workers_gets_an_expected_connection() {
    let all = prepared();
    for round in 0..200 {
        let it = expectation(key(1, 2, 5000), round, 60);
        all.expect(&it, 0).unwrap();
        let taken = std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..4).map(|_| scope.spawn(|| all.take(&it.key, 0).is_some())).collect();
            workers.into_iter().map(|it| it.join().unwrap()).filter(|it| *it).count()
        });
        assert_eq!((taken, all.live()), (1, 0));
    }
}

#[test]
fn the_end_of_a_call_ends_what_it_expects() {
    let all = prepared();
    let call =
        |name: &[u8], request| Origin::of_call(all.number_of(name), request, Direction::Original);
    let expect = |port, control, origin| {
        let it = expectation(key(1, 2, port), control, 60).of(Expected::Media);
        all.expect(&Expectation { alg: Alg::Sip, origin, ..it }, 0).unwrap();
    };
    let ports = || {
        let mut ports: Vec<_> = all.listed().map(|it| it.key.port).collect();
        ports.sort_unstable();
        ports
    };
    expect(1, 7, call(b"one", 1));
    expect(2, 7, call(b"one", 2));
    expect(3, 7, call(b"one", 1));
    expect(4, 8, call(b"one", 1));
    expect(5, 7, call(b"other", 1));
    let control = Control { id: 7, start: 0 };
    let one = call(b"one", 1);
    all.forget_call(control, one.name, Some(one.request));
    assert_eq!(ports(), [2, 4, 5]);
    all.forget_call(Control { start: 1, ..control }, one.name, None);
    all.forget_call(control, one.name, None);
    assert_eq!((ports(), all.live()), (vec![4, 5], 2));
    // Its slot has what another call announces.
    expect(2, 7, call(b"other", 1));
    all.forget_call(control, one.name, None);
    assert_eq!(ports(), [2, 4, 5]);
    let numbers =
        [&b""[..], b"a", b"b", b"ab", b"abcd", b"abcde", b"\0"].map(|it| all.number_of(it));
    assert!(numbers.iter().all(|it| *it != 0));
    assert_eq!(std::collections::HashSet::from(numbers).len(), numbers.len());
}

#[test]
fn a_binding_holds_its_mapping() {
    let mappings = mappings();
    let all = Expectations::new(5, Arc::clone(&mappings));
    assert!(all.prepare());
    let mut owner = mappings.owner(0, 0).unwrap();
    let end = |port| End { address: 1, port, protocol: 17, vrf: 0 };
    let id = owner.create(&mappings, (end(1), end(2)), (3, None), 0).unwrap();
    let flows = || mappings.of_internal(end(1), 3).map(|it| it.flows);
    let it = expectation(key(1, 2, 5060), 1, 60).of(Expected::Bound);
    let it = Expectation { mapping: Some(id), ..it };
    all.expect(&it, 0).unwrap();
    assert_eq!(flows(), Some(1));
    // What it meets does not take it away.
    assert_eq!((all.take(&it.key, 1), all.live()), (Some(it), 1));
    // It is renewed, and the new one holds the mapping as well.
    assert!(mappings.hold(id));
    all.put(&it.until(90), 1).unwrap();
    assert_eq!((flows(), all.live()), (Some(1), 1));
    all.sweep(89, Some(0));
    assert_eq!(flows(), Some(1));
    all.sweep(90, Some(0));
    assert_eq!((flows(), all.live()), (Some(0), 0));
    // Other rules end it, but no older ones.
    assert!(mappings.hold(id));
    all.put(&Expectation { epoch: 5, ..it }, 1).unwrap();
    for (tick, epoch, live) in [(2, Some(4), 1), (3, Some(5), 1), (4, Some(6), 0)] {
        all.sweep(tick, epoch);
        assert_eq!(all.live(), live, "{epoch:?}");
    }
    assert_eq!(flows(), Some(0));
}

#[test]
fn two_hosts_without_room_are_known() {
    let all = prepared();
    assert_eq!(all.take_full_pair(), None);
    for port in 0..OF_PAIR.others {
        all.expect(&expectation(key(1, 2, port), 1, 60), 0).unwrap();
    }
    let more = |port| all.expect(&expectation(key(1, 2, port), 1, 60), 0);
    assert_eq!([more(1_000), more(1_001)], [Err(Full::Pair); 2]);
    // The first one, and no other before somebody has looked.
    assert_eq!(all.take_full_pair().map(|it| (it.key.port, it.hosts())), Some((1_000, (2, 1))));
    assert_eq!(all.take_full_pair(), None);
    assert_eq!(more(1_002), Err(Full::Pair));
    assert_eq!(all.take_full_pair().map(|it| it.key.port), Some(1_002));
}

/// Whoever has bots and a registrar gets no more, and others' calls have room.
#[test]
fn bindings_have_a_share_of_their_own() {
    let all = prepared();
    let bind = |host: u32, port| {
        let it = expectation(key(1_000_000 + host, host, port), 1, 3_600).of(Expected::Bound);
        all.expect(&Expectation { alg: Alg::Sip, ..it }, 0)
    };
    for port in 0..BOUND_OF_HOST {
        bind(1, port).unwrap();
    }
    assert_eq!(bind(1, BOUND_OF_HOST), Err(Full::All));
    let mut host = 1;
    while all.live() < BOUND {
        host += 1;
        // Its bucket may be full.
        let _ = bind(host, 5060);
        assert!(host < 2 * BOUND);
    }
    let more = (0..200).filter(|at| bind(10_000 + at, 5060).is_ok()).count();
    assert_eq!((more, all.live()), (0, BOUND));
    let media = |host: u32| {
        let it = expectation(key(1, host, 8_000), 1, 60).of(Expected::Media);
        all.expect(&Expectation { alg: Alg::Sip, ..it }, 0).is_ok()
    };
    assert!((20_000..20_050).filter(|host| media(*host)).count() > 40);
    // One that ends makes room, for its host and for all.
    all.forget(&key(1_000_001, 1, 3), Control { id: 1, start: 0 });
    bind(1, BOUND_OF_HOST).unwrap();
    assert_eq!(bind(1, 3), Err(Full::All));
}
