//! From the bytes of a daemon to runs of prefixes: the accumulated runs match a naive model of the same paths.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

use proptest::prelude::*;
use stoa_bgp::{Rib, Run, Selection};

use crate::daemon::{attributes, established, update};

fn hop(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

/// The accumulated runs.
#[derive(Debug, Default)]
struct RoutingTable(BTreeMap<(u32, u8), Selection>);

impl RoutingTable {
    fn apply(&mut self, runs: Vec<Run>) {
        for run in runs {
            for prefix in run.ip4 {
                match run.selection {
                    Selection::Unreachable => self.0.remove(&prefix),
                    _ => self.0.insert(prefix, run.selection.clone()),
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
fn without_add_path_the_daemons_best_paths_are_relayed_in_order() {
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
    let run = |selection, numbers: &[u8]| Run {
        selection,
        ip4: numbers.iter().map(|number| key(*number)).collect(),
        ip6: Vec::new(),
    };
    let expected = [
        run(Selection::Single(hop(1), None), &[1, 2, 3]),
        run(Selection::Single(hop(2), None), &[1]),
        run(Selection::Unreachable, &[2]),
    ];
    assert_eq!(runs, expected);
    assert_eq!((rib.pending(), rib.counts().paths), (0, 0));
}

#[test]
fn with_add_path_the_second_path_is_the_backup_and_takes_over() {
    let (now, mut rib) = (Instant::now(), Rib::new(1, None));
    let mut session = established(true, now, &mut rib);
    let mut table = RoutingTable::default();
    let mut send = |bytes: Vec<u8>, rib: &mut Rib| {
        session.receive(&bytes, now, rib).expect("read");
        table.apply(rib.drain());
        table.0.get(&key(1)).cloned()
    };
    let first = update(&[], &attributes(1, 100), &prefix(Some(7), 1));
    assert_eq!(send(first.clone(), &mut rib), Some(Selection::Single(hop(1), None)));
    let second = update(&[], &attributes(2, 90), &prefix(Some(8), 1));
    assert_eq!(send(second, &mut rib), Some(Selection::Single(hop(1), Some(hop(2)))));
    assert_eq!((rib.counts().paths, rib.counts().prefixes), (2, 1));
    // A repeated announcement changes nothing.
    assert_no_change(&first, &mut rib);
    let withdraw = update(&prefix(Some(7), 1), &[], &[]);
    assert_eq!(send(withdraw, &mut rib), Some(Selection::Single(hop(2), None)));
    let withdraw = update(&prefix(Some(8), 1), &[], &[]);
    assert_eq!(send(withdraw, &mut rib), None);
    assert_eq!((rib.counts().paths, rib.counts().sets), (0, 0));
}

fn assert_no_change(bytes: &[u8], rib: &mut Rib) {
    let now = Instant::now();
    let mut session = established(true, now, rib);
    session.receive(bytes, now, rib).expect("read");
    assert_eq!(rib.drain(), []);
}

#[test]
fn unusable_next_hops_are_counted() {
    let now = Instant::now();
    for add_paths in [false, true] {
        let mut rib = Rib::new(1, Some(hop(9)));
        let mut session = established(add_paths, now, &mut rib);
        let id = add_paths.then_some(1);
        let mut nowhere = attributes(1, 100);
        // NEXT_HOP 224.0.2.1 is a multicast address.
        let at = nowhere.windows(2).position(|part| part == [192, 0]).expect("the next hop");
        nowhere[at] = 224;
        let bytes = [
            update(&[], &attributes(1, 100), &prefix(id, 1)),
            update(&[], &nowhere, &[prefix(id, 1), prefix(id, 2)].concat()),
        ];
        session.receive(&bytes.concat(), now, &mut rib).expect("read");
        let mut table = RoutingTable::default();
        table.apply(rib.drain());
        assert!(table.0.is_empty(), "{table:?}");
        let counts = rib.counts();
        assert_eq!(
            (counts.unusable_next_hops, counts.last_unusable_next_hop),
            (2, Some([224, 0, 2, 1].into()))
        );
    }
}

#[test]
fn the_daemons_own_routes_are_not_imported() {
    let now = Instant::now();
    for add_paths in [false, true] {
        let mut rib = Rib::new(1, Some(hop(9)));
        let mut session = established(add_paths, now, &mut rib);
        let (mut table, id) = (RoutingTable::default(), add_paths.then_some(1));
        let bytes = [
            update(&[], &attributes(1, 100), &[prefix(id, 1), prefix(id, 2)].concat()),
            update(&[], &attributes(9, 100), &prefix(id, 1)),
        ];
        session.receive(&bytes.concat(), now, &mut rib).expect("read");
        table.apply(rib.drain());
        assert_eq!(table.0.into_keys().collect::<Vec<_>>(), [key(2)]);
        assert_eq!(rib.counts().unusable_next_hops, 0, "own routes are not errors");
    }
}

/// Announces a path with that next hop and local preference, or withdraws it.
type PathChange = (u8, u32, Option<(u8, u32)>);

proptest! {
    #[test]
    fn accumulated_runs_match_the_naive_model(
        changes in prop::collection::vec((0_u8..4, 1_u32..4, prop::option::of((1_u8..5, 100_u32..102))), 1..60),
        drains in prop::collection::vec(any::<bool>(), 60),
        multipath in 1_u8..3,
    ) {
        let (now, mut rib) = (Instant::now(), Rib::new(multipath, None));
        let mut session = established(true, now, &mut rib);
        let mut table = RoutingTable::default();
        let mut model = BTreeMap::<u8, BTreeMap<u32, (u8, u32)>>::new();
        for ((number, id, path), drain) in changes.iter().copied().zip(drains) {
            let change: PathChange = (number, id, path);
            session.receive(&update_for(change), now, &mut rib).expect("read");
            match path {
                Some(path) => model.entry(number).or_default().insert(id, path),
                None => model.entry(number).or_default().remove(&id),
            };
            if drain {
                table.apply(rib.drain());
            }
        }
        table.apply(rib.drain());
        for number in 0..4 {
            let expected = expected_selection(model.get(&number), usize::from(multipath));
            prop_assert_eq!(table.0.get(&key(number)), expected.as_ref(), "{}", number);
        }
        let paths: usize = model.values().map(BTreeMap::len).sum();
        prop_assert_eq!(rib.counts().paths, paths);
    }
}

fn update_for((number, id, path): PathChange) -> Vec<u8> {
    match path {
        Some((hop, preference)) => {
            update(&[], &attributes(hop, preference), &prefix(Some(id), number))
        }
        None => update(&prefix(Some(id), number), &[], &[]),
    }
}

/// Sorted by preference, then next hop: up to `multipath` next hops of the best preference, and the next one as
/// backup.
fn expected_selection(
    paths: Option<&BTreeMap<u32, (u8, u32)>>,
    multipath: usize,
) -> Option<Selection> {
    let mut hops: Vec<(u8, u32)> = paths?.values().copied().collect();
    hops.sort_by_key(|(hop, preference)| (std::cmp::Reverse(*preference), *hop));
    let best = hops.first()?.1;
    let mut next_hops: Vec<u8> = Vec::new();
    for (hop, preference) in &hops {
        if *preference == best && !next_hops.contains(hop) && next_hops.len() < multipath {
            next_hops.push(*hop);
        }
    }
    let backup = hops.iter().find(|(hop, _)| !next_hops.contains(hop)).map(|(last, _)| hop(*last));
    Some(match next_hops.as_slice() {
        [one] => Selection::Single(hop(*one), backup),
        many => Selection::Multipath(many.iter().map(|last| hop(*last)).collect(), backup),
    })
}
