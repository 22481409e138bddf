//! Compares the table with a naive model, a map of received bytes.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn key(id: u32, source: u128) -> Key {
    Key { source, destination: 1, identification: id, protocol: 17, zone: 0 }
}

fn piece(key: Key, offset: usize, more: bool, data: &[u8]) -> FragmentView<'_> {
    FragmentView { key, head: b"head", offset, more, data, rx_if: 3 }
}

/// RFC 791 and RFC 5722, byte by byte.
#[derive(Default)]
struct Naive {
    bytes: HashMap<usize, u8>,
    end: Option<usize>,
    refused: bool,
}

impl Naive {
    fn insert(&mut self, offset: usize, more: bool, data: &[u8]) -> Option<Vec<u8>> {
        let end = offset + data.len();
        let known = (offset..end).filter_map(|at| self.bytes.get(&at)).count();
        let same = (offset..end).all(|at| self.bytes.get(&at) == Some(&data[at - offset]));
        let contradicts = match self.end {
            Some(known) => {
                if more {
                    end >= known
                } else {
                    end != known
                }
            }
            None => !more && self.bytes.keys().any(|at| *at >= end),
        };
        if self.refused || contradicts || (known > 0 && !same) {
            self.refused = true;
            return None;
        }
        if known > 0 {
            return None;
        }
        self.bytes.extend((offset..end).map(|at| (at, data[at - offset])));
        if !more {
            self.end = Some(end);
        }
        let end = self.end?;
        (self.bytes.len() == end).then(|| (0..end).map(|at| self.bytes[&at]).collect())
    }
}

/// Fragments of one packet, some of them wrong.
fn parts() -> impl Strategy<Value = Vec<(usize, bool, Vec<u8>)>> {
    let part = (0..12usize, 1..5usize, 0..10u8, 0..8usize);
    proptest::collection::vec(part, 1..24).prop_map(|parts| {
        let make = |(at, units, how, cut): (usize, usize, u8, usize)| {
            let offset = at * 8;
            let last = how < 2;
            let length = if last { (units * 8).saturating_sub(cut).max(1) } else { units * 8 };
            let spoil = u8::from(how == 9);
            let data = (offset..offset + length).map(|n| n as u8 ^ spoil).collect();
            (offset, !last, data)
        };
        parts.into_iter().map(make).collect()
    })
}

proptest! {
    #[test]
    fn it_agrees_with_the_naive_model(parts in parts()) {
        let mut table = Table::new(4);
        let mut naive = Naive::default();
        for (offset, more, data) in parts {
            let outcome = table.insert(&piece(key(1, 1), offset, more, &data), 1, (4, 4));
            let expected = naive.insert(offset, more, &data);
            match outcome {
                Outcome::Complete(at) => {
                    let (head, whole) = table.whole(at).unwrap();
                    prop_assert_eq!(head, b"head");
                    prop_assert_eq!(Some(whole.to_vec()), expected);
                    table.remove(at);
                    naive = Naive::default();
                }
                Outcome::Incomplete => prop_assert!(expected.is_none() && !naive.refused),
                Outcome::Refused(Drop::FragmentDuplicate) => prop_assert!(!naive.refused),
                Outcome::Refused(Drop::FragmentOverlap) => prop_assert!(naive.refused),
                Outcome::Refused(other) => prop_assert!(false, "{other:?}"),
            }
        }
    }
}

#[test]
fn the_oldest_packets_are_evicted() {
    let mut table = Table::new(4);
    for id in 0..10 {
        let outcome = table.insert(&piece(key(id, id.into()), 8, true, &[0; 8]), id.into(), (4, 2));
        assert_eq!(outcome, Outcome::Incomplete);
        assert!(table.len() <= 4);
    }
    assert_eq!(table.take_losses()[1], (Drop::ReassemblyFull, 6));
    // One source has at most two packets, and its own oldest is evicted.
    for id in 20..25 {
        table.insert(&piece(key(id, 99), 8, true, &[0; 8]), id.into(), (4, 2));
    }
    assert_eq!(table.take_losses()[1], (Drop::ReassemblyFull, 5));
    assert_eq!(table.len(), 4);
    let old: Vec<_> = std::iter::from_fn(|| {
        let at = table.older_than(24)?;
        let id = table.context(at).key.identification;
        table.remove(at);
        Some(id)
    })
    .collect();
    assert_eq!(old.len(), 3);
    assert!(!old.contains(&24));
    // A lower limit takes effect with the next one.
    table.insert(&piece(key(30, 7), 8, true, &[0; 8]), 30, (1, 1));
    assert_eq!(table.len(), 1);
}

/// Packets in the order of their age, with the time of poisoning: a list with linear search.
#[derive(Default)]
struct Plain(Vec<(Key, Option<usize>)>);

impl Plain {
    fn evict(&mut self, of: Option<u128>) {
        let mut found = self.0.iter().enumerate();
        let poisoned = self.0.iter().enumerate().filter(|(_, (_, poisoned))| poisoned.is_some());
        let first = match of {
            // The first poisoned packet of the source, or its oldest.
            Some(source) => {
                let poisoned = poisoned.filter(|(_, (key, _))| key.source == source);
                let first = poisoned.min_by_key(|(_, (_, poisoned))| *poisoned);
                first.or_else(|| found.find(|(_, (key, _))| key.source == source))
            }
            // The first poisoned packet, or the oldest.
            None => poisoned.min_by_key(|(_, (_, poisoned))| *poisoned).or_else(|| found.next()),
        };
        if let Some((at, _)) = first {
            self.0.remove(at);
        }
    }
}

proptest! {
    #[test]
    fn evictions_agree_with_a_plain_list(
        steps in proptest::collection::vec((0..12u32, 0..3u128, 0..8u8), 1..200)
    ) {
        let mut table = Table::new(8);
        let mut plain = Plain::default();
        for (now, (id, source, how)) in steps.into_iter().enumerate() {
            if how == 0 {
                while let Some(at) = table.older_than(now.saturating_sub(20) as u64) {
                    prop_assert_eq!(table.context(at).key, plain.0.remove(0).0);
                    table.remove(at);
                }
                continue;
            }
            let key = key(id, source);
            // Other data at the same offset poisons the packet.
            let data = [now as u8; 8];
            let outcome = table.insert(&piece(key, 8, true, &data), now as u64, (6, 3));
            if let Some((_, poisoned)) = plain.0.iter_mut().find(|(known, _)| *known == key) {
                poisoned.get_or_insert(now);
                prop_assert_eq!(outcome, Outcome::Refused(Drop::FragmentOverlap));
            } else {
                if plain.0.iter().filter(|(known, _)| known.source == source).count() >= 3 {
                    plain.evict(Some(source));
                }
                if plain.0.len() >= 6 {
                    plain.evict(None);
                }
                plain.0.push((key, None));
                prop_assert_eq!(outcome, Outcome::Incomplete);
            }
            prop_assert_eq!(table.len(), plain.0.len());
            for (key, _) in &plain.0 {
                prop_assert!(table.find(key).is_some(), "{:?} is gone", key);
            }
        }
    }
}

#[test]
fn a_lower_limit_of_one_source_takes_effect_with_its_next_packet() {
    let mut table = Table::new(16);
    for id in 0..10 {
        table.insert(&piece(key(id, 1), 8, true, &[0; 8]), id.into(), (16, 12));
    }
    table.insert(&piece(key(50, 2), 8, true, &[0; 8]), 50, (16, 3));
    assert_eq!(table.len(), 11);
    table.insert(&piece(key(20, 1), 8, true, &[0; 8]), 20, (16, 3));
    assert_eq!(table.take_losses()[1], (Drop::ReassemblyFull, 8));
    let left: Vec<u32> = (0..64).filter(|id| table.find(&key(*id, 1)).is_some()).collect();
    assert_eq!(left, [8, 9, 20]);
    assert!(table.find(&key(50, 2)).is_some());
}

#[test]
fn a_full_table_never_allocates() {
    let mut table = Table::new(64);
    let capacities = |table: &Table| {
        (table.contexts.capacity(), table.free.capacity(), table.sources.capacity())
    };
    let before = capacities(&table);
    for id in 0..100_000 {
        table.insert(&piece(key(id, id.into()), 8, true, &[0; 8]), id.into(), (64, 4));
    }
    assert_eq!((table.len(), capacities(&table)), (64, before));
}
