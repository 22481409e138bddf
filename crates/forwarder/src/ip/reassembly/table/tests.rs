//! The table against a naive one: a map of bytes that are there.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn key(id: u32, source: u128) -> Key {
    Key { source, destination: 1, identification: id, protocol: 17, realm: 0 }
}

fn piece(key: Key, offset: usize, more: bool, data: &[u8]) -> Piece<'_> {
    Piece { key, head: b"head", offset, more, data, rx_if: 3 }
}

/// What RFC 791 and RFC 5722 say, byte by byte.
#[derive(Default)]
struct Naive {
    bytes: HashMap<usize, u8>,
    end: Option<usize>,
    refused: bool,
}

impl Naive {
    fn take(&mut self, offset: usize, more: bool, data: &[u8]) -> Option<Vec<u8>> {
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

/// Parts of one packet of `length` bytes, some of them wrong.
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
    fn it_agrees_with_the_naive_one(parts in parts()) {
        let mut table = Table::new(4);
        let mut naive = Naive::default();
        for (offset, more, data) in parts {
            let outcome = table.take(&piece(key(1, 1), offset, more, &data), 1, (4, 4));
            let expected = naive.take(offset, more, &data);
            match outcome {
                Outcome::Whole(at) => {
                    let (head, whole) = table.whole(at).unwrap();
                    prop_assert_eq!(head, b"head");
                    prop_assert_eq!(Some(whole.to_vec()), expected);
                    table.remove(at);
                    naive = Naive::default();
                }
                Outcome::Kept => prop_assert!(expected.is_none() && !naive.refused),
                Outcome::Refused(Drop::FragmentDuplicate) => prop_assert!(!naive.refused),
                Outcome::Refused(Drop::FragmentOverlap) => prop_assert!(naive.refused),
                Outcome::Refused(other) => prop_assert!(false, "{other:?}"),
            }
        }
    }
}

#[test]
fn the_oldest_make_room() {
    let mut table = Table::new(4);
    for id in 0..10 {
        let outcome = table.take(&piece(key(id, id.into()), 8, true, &[0; 8]), id.into(), (4, 2));
        assert_eq!(outcome, Outcome::Kept);
        assert!(table.len() <= 4);
    }
    assert_eq!(table.take_losses()[1], (Drop::ReassemblyFull, 6));
    // One source has two at most, and its own oldest goes.
    for id in 20..25 {
        table.take(&piece(key(id, 99), 8, true, &[0; 8]), id.into(), (4, 2));
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
    table.take(&piece(key(30, 7), 8, true, &[0; 8]), 30, (1, 1));
    assert_eq!(table.len(), 1);
}
