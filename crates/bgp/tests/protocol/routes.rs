//! From the bytes of a daemon to runs of prefixes: what the runs add up to is what a naive model of the same paths says.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

use proptest::prelude::*;
use stoa_bgp::{Choice, Rib, Run};

use crate::daemon::{attributes, established, update};

fn hop(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

/// What is told, added up.
#[derive(Debug, Default)]
struct Told(BTreeMap<(u32, u8), Choice>);

impl Told {
    fn take(&mut self, runs: Vec<Run>) {
        for run in runs {
            for prefix in run.ip4 {
                match run.choice {
                    Choice::Nothing => self.0.remove(&prefix),
                    _ => self.0.insert(prefix, run.choice.clone()),
                };
            }
        }
    }
}

/// 10.N.0.0/16, with a path identifier or none.
fn prefix(id: Option<u32>, number: u8) -> Vec<u8> {
    let mut bytes = id.map(|id| id.to_be_bytes().to_vec()).unwrap_or_default();
    bytes.extend([16, 10, number]);
    bytes
}

fn key(number: u8) -> (u32, u8) {
    (10 << 24 | u32::from(number) << 16, 16)
}

#[test]
fn without_add_path_the_choice_of_the_daemon_is_passed_on_in_order() {
    let (now, mut rib) = (Instant::now(), Rib::new(1, None));
    let mut session = established(false, now, &mut rib);
    let bytes = [
        update(&[], &attributes(1, 100), &[prefix(None, 1), prefix(None, 2)].concat()),
        update(&[], &attributes(1, 100), &prefix(None, 3)),
        update(&[], &attributes(2, 100), &prefix(None, 1)),
        update(&prefix(None, 2), &[], &[]),
    ]
    .concat();
    session.receive(&bytes, now, &mut rib).expect("read");
    assert_eq!(rib.pending(), 5);
    let runs = rib.drain();
    let run = |choice, numbers: &[u8]| Run {
        choice,
        ip4: numbers.iter().map(|number| key(*number)).collect(),
        ip6: Vec::new(),
    };
    let wanted = [
        run(Choice::One(hop(1), None), &[1, 2, 3]),
        run(Choice::One(hop(2), None), &[1]),
        run(Choice::Nothing, &[2]),
    ];
    assert_eq!(runs, wanted);
    assert_eq!((rib.pending(), rib.counts().paths), (0, 0));
    // One prefix went; another one was announced twice.
    assert_eq!(rib.prefixes(), 3);
}

#[test]
fn with_add_path_the_second_path_is_the_backup_and_takes_over() {
    let (now, mut rib) = (Instant::now(), Rib::new(1, None));
    let mut session = established(true, now, &mut rib);
    let mut told = Told::default();
    let mut say = |bytes: Vec<u8>, rib: &mut Rib| {
        session.receive(&bytes, now, rib).expect("read");
        told.take(rib.drain());
        told.0.get(&key(1)).cloned()
    };
    let first = update(&[], &attributes(1, 100), &prefix(Some(7), 1));
    assert_eq!(say(first.clone(), &mut rib), Some(Choice::One(hop(1), None)));
    let second = update(&[], &attributes(2, 90), &prefix(Some(8), 1));
    assert_eq!(say(second, &mut rib), Some(Choice::One(hop(1), Some(hop(2)))));
    assert_eq!((rib.counts().paths, rib.prefixes()), (2, 1));
    // Said again, nothing changes and nothing is told.
    session_says_nothing(&first, &mut rib);
    let gone = update(&prefix(Some(7), 1), &[], &[]);
    assert_eq!(say(gone, &mut rib), Some(Choice::One(hop(2), None)));
    let gone = update(&prefix(Some(8), 1), &[], &[]);
    assert_eq!(say(gone, &mut rib), None);
    assert_eq!((rib.counts().paths, rib.counts().sets), (0, 0));
}

fn session_says_nothing(bytes: &[u8], rib: &mut Rib) {
    let now = Instant::now();
    let mut session = established(true, now, rib);
    session.receive(bytes, now, rib).expect("read");
    assert_eq!(rib.drain(), []);
}

#[test]
fn paths_that_lead_nowhere_are_counted() {
    let now = Instant::now();
    for add_paths in [false, true] {
        let mut rib = Rib::new(1, Some(hop(9)));
        let mut session = established(add_paths, now, &mut rib);
        let id = add_paths.then_some(1);
        let mut nowhere = attributes(1, 100);
        // NEXT_HOP 224.0.2.1 is a group.
        let at = nowhere.windows(2).position(|part| part == [192, 0]).expect("the next hop");
        nowhere[at] = 224;
        let bytes = [
            update(&[], &attributes(1, 100), &prefix(id, 1)),
            update(&[], &nowhere, &[prefix(id, 1), prefix(id, 2)].concat()),
        ];
        session.receive(&bytes.concat(), now, &mut rib).expect("read");
        let mut told = Told::default();
        told.take(rib.drain());
        assert!(told.0.is_empty(), "{told:?}");
        let counts = rib.counts();
        assert_eq!((counts.unusable, counts.last_unusable), (2, Some([224, 0, 2, 1].into())));
    }
}

#[test]
fn the_daemons_own_routes_are_no_routes() {
    let now = Instant::now();
    for add_paths in [false, true] {
        let mut rib = Rib::new(1, Some(hop(9)));
        let mut session = established(add_paths, now, &mut rib);
        let (mut told, id) = (Told::default(), add_paths.then_some(1));
        let bytes = [
            update(&[], &attributes(1, 100), &[prefix(id, 1), prefix(id, 2)].concat()),
            update(&[], &attributes(9, 100), &prefix(id, 1)),
        ];
        session.receive(&bytes.concat(), now, &mut rib).expect("read");
        told.take(rib.drain());
        assert_eq!(told.0.into_keys().collect::<Vec<_>>(), [key(2)]);
        assert_eq!(rib.counts().unusable, 0, "nothing is wrong with them");
    }
}

/// The daemon's word: add a path with that next hop and preference, or take it away.
type Word = (u8, u32, Option<(u8, u32)>);

proptest! {
    #[test]
    fn what_is_told_is_what_the_paths_say(
        words in prop::collection::vec((0_u8..4, 1_u32..4, prop::option::of((1_u8..5, 100_u32..102))), 1..60),
        drains in prop::collection::vec(any::<bool>(), 60),
        multipath in 1_u8..3,
    ) {
        let (now, mut rib) = (Instant::now(), Rib::new(multipath, None));
        let mut session = established(true, now, &mut rib);
        let mut told = Told::default();
        let mut model = BTreeMap::<u8, BTreeMap<u32, (u8, u32)>>::new();
        for ((number, id, path), drain) in words.iter().copied().zip(drains) {
            let word: Word = (number, id, path);
            session.receive(&bytes_of(word), now, &mut rib).expect("read");
            match path {
                Some(path) => model.entry(number).or_default().insert(id, path),
                None => model.entry(number).or_default().remove(&id),
            };
            if drain {
                told.take(rib.drain());
            }
        }
        told.take(rib.drain());
        for number in 0..4 {
            let wanted = expected(model.get(&number), usize::from(multipath));
            prop_assert_eq!(told.0.get(&key(number)), wanted.as_ref(), "{}", number);
        }
        let paths: usize = model.values().map(BTreeMap::len).sum();
        prop_assert_eq!(rib.counts().paths, paths);
    }
}

fn bytes_of((number, id, path): Word) -> Vec<u8> {
    match path {
        Some((hop, preference)) => {
            update(&[], &attributes(hop, preference), &prefix(Some(id), number))
        }
        None => update(&prefix(Some(id), number), &[], &[]),
    }
}

/// Best by preference, then by next hop; as many next hops as `multipath` of the same preference; the next best as backup.
fn expected(paths: Option<&BTreeMap<u32, (u8, u32)>>, multipath: usize) -> Option<Choice> {
    let mut hops: Vec<(u8, u32)> = paths?.values().copied().collect();
    hops.sort_by_key(|(hop, preference)| (std::cmp::Reverse(*preference), *hop));
    let best = hops.first()?.1;
    let mut ways: Vec<u8> = Vec::new();
    for (hop, preference) in &hops {
        if *preference == best && !ways.contains(hop) && ways.len() < multipath {
            ways.push(*hop);
        }
    }
    let backup = hops.iter().find(|(hop, _)| !ways.contains(hop)).map(|(last, _)| hop(*last));
    Some(match ways.as_slice() {
        [one] => Choice::One(hop(*one), backup),
        many => Choice::Many(many.iter().map(|last| hop(*last)).collect(), backup),
    })
}
