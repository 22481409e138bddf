//! The table against a naive model, and its limits under load.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeSet, HashMap};

/// Of an IPv6 source, or of an IPv4 one if it is a small number.
fn key(source: u128, identification: u32) -> Key {
    let source = if source >> 32 == 0 { 0xffff_0000_0000 | source } else { source };
    Key { vrf: 0, source, destination: 9, protocol: 17, identification }
}

fn piece(start: u16, end: u16, is_last: bool) -> Piece {
    Piece { start, end, is_last }
}

/// A packet of which fragments have come: all units that have passed, one by one.
#[derive(Default)]
struct Model {
    born: u64,
    units: BTreeSet<u16>,
    end: Option<u16>,
    value: Option<u32>,
    waiting: u8,
    is_poisoned: bool,
    completed: Option<u64>,
}

impl Model {
    fn gaps(&self) -> usize {
        self.units.iter().filter(|unit| **unit == 0 || !self.units.contains(&(**unit - 1))).count()
    }

    fn note(&mut self, piece: Piece) -> Result<(), Refusal> {
        let new: BTreeSet<u16> = (piece.start..piece.end).collect();
        let shared = new.intersection(&self.units).count();
        if self.completed.is_some() || self.is_poisoned || shared == new.len() {
            return Err(Refusal::Overlap);
        }
        if shared > 0 {
            self.is_poisoned = true;
            return Err(Refusal::Overlap);
        }
        let last = self.units.last().map_or(0, |unit| unit + 1);
        let is_beyond = self.end.is_some_and(|end| piece.end > end || piece.is_last);
        if is_beyond || piece.is_last && piece.end < last {
            self.is_poisoned = true;
            return Err(Refusal::BadRange);
        }
        self.units.extend(&new);
        if self.gaps() > RANGES {
            new.iter().for_each(|unit| assert!(self.units.remove(unit)));
            if piece.start == 0 {
                self.is_poisoned = true;
                return Err(Refusal::Overlap);
            }
            return Err(Refusal::Scattered);
        }
        self.end = if piece.is_last { Some(piece.end) } else { self.end };
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.value.is_some() && self.end.is_some_and(|end| self.units.len() == usize::from(end))
    }
}

proptest! {
    #[test]
    fn fragments_fare_as_in_a_naive_model(
        steps in prop::collection::vec((0..3_u32, 0..80_u16, 1..4_u16, any::<u8>(), 0..8_u64), 1..200),
    ) {
        // So large that nothing gives way.
        let mut table = Fragments::new(1024, 100, 60, [5, 7]);
        let mut models: HashMap<u32, Model> = HashMap::new();
        let mut now = 0;
        for (identification, start, length, chance, pause) in steps {
            now += pause / 7;
            let is_last = chance % 5 == 0;
            let piece = piece(start, start + length, is_last);
            models.retain(|_, model| match model.completed {
                Some(completed) => now - completed < 2,
                None => now - model.born < 60,
            });
            let model = models.entry(identification).or_insert(Model { born: now, ..Model::default() });
            let is_full = model.value.is_none() && !model.is_poisoned && model.waiting == WAITING_MAX;
            let noted = if is_full && start != 0 { Err(Refusal::Scattered) } else { model.note(piece) };
            let key = key(1, identification);
            if start == 0 {
                let value = u32::from(chance);
                let found = table.first(&key, piece, value, now);
                prop_assert_eq!(found.map(drop), noted);
                if noted.is_ok() {
                    (model.value, model.waiting) = (Some(value), 0);
                }
            } else {
                let expected = match (noted, model.value) {
                    (Err(reason), _) => Fate::Drop(reason),
                    (Ok(()), Some(value)) => Fate::Follow(value),
                    (Ok(()), None) => {
                        model.waiting += 1;
                        Fate::Wait { entry: 0, is_new: false }
                    }
                };
                match (table.later(&key, piece, now), expected) {
                    (Fate::Wait { .. }, Fate::Wait { .. }) => {}
                    (found, expected) => prop_assert_eq!(found, expected),
                }
            }
            if model.is_whole() && model.completed.is_none() {
                model.completed = Some(now);
            }
        }
    }

    /// Many packets of few sources in a small table: limits hold, and nothing follows a first fragment of another.
    #[test]
    fn a_full_table_stays_sound(
        steps in prop::collection::vec((0..6_u8, 0..40_u32, 0..4_u16, 0..3_u64), 1..400),
        limit in 1..12_u16,
    ) {
        let mut table = Fragments::new(16, limit, 20, [1, 2]);
        let mut firsts: HashMap<Key, BTreeSet<u32>> = HashMap::new();
        let mut now = 0;
        for (number, (source, identification, start, pause)) in (0_u32..).zip(steps) {
            now += pause;
            let key = key(source.into(), identification);
            let piece = piece(start * 2, start * 2 + 2, start == 3);
            if start == 0 {
                if table.first(&key, piece, number, now).is_ok() {
                    firsts.entry(key).or_default().insert(number);
                }
            } else if let Fate::Follow(value) = table.later(&key, piece, now) {
                prop_assert!(firsts.get(&key).is_some_and(|values| values.contains(&value)));
                prop_assert_eq!(table.known(&key, now), Some(value));
            }
            prop_assert!(table.len() <= table.capacity());
            let used = table.sources.iter().map(|count| usize::from(*count)).sum::<usize>();
            prop_assert_eq!(used, table.len());
            prop_assert!(table.sources.iter().all(|count| *count <= limit));
            table.sweep(now, 1, |_| {});
        }
        table.sweep(now + 20, 16, |_| {});
        prop_assert!(table.is_empty());
    }
}

#[test]
fn packets_wait_for_the_first_fragment() {
    let mut table = Fragments::new(8, 10, 60, [3, 4]);
    let waits = table.later(&key(1, 1), piece(10, 20, true), 0);
    let Fate::Wait { entry, is_new: true } = waits else { panic!("{waits:?}") };
    assert_eq!(
        table.later(&key(1, 1), piece(5, 10, false), 0),
        Fate::Wait { entry, is_new: false }
    );
    let first = table.first(&key(1, 1), piece(0, 5, false), 'a', 1);
    assert_eq!(first, Ok(entry));
    assert!(table.is_empty(), "all has passed");
    // Another version of a part, which the receiver might take for a lost one; and after a while a new packet.
    let drop = Fate::Drop(Refusal::Overlap);
    assert_eq!(table.later(&key(1, 1), piece(5, 10, false), 2), drop);
    assert_eq!(table.first(&key(1, 1), piece(0, 6, false), 'b', 2), Err(Refusal::Overlap));
    let next = table.first(&key(1, 1), piece(0, 6, false), 'c', 3);
    assert_eq!(next, Ok(entry));
    assert_eq!(table.later(&key(1, 1), piece(6, 9, true), 3), Fate::Follow('c'));
    // Its time is over: packets that were kept are of no use.
    table.later(&key(1, 2), piece(10, 20, true), 100);
    let mut expired = Vec::new();
    table.sweep(159, 8, |entry| expired.push(entry));
    table.sweep(160, 8, |entry| expired.push(entry));
    assert_eq!(expired.len(), 1);
}

#[test]
fn few_wait_for_one_and_less_long_than_packets_are_known() {
    let mut table = Fragments::new(8, 10, 60, [3, 4]).with_patience(2);
    // From behind, so that there is one gap.
    for at in (1..=u16::from(WAITING_MAX)).rev() {
        let waits = table.later(&key(1, 1), piece(at, at + 1, false), 0);
        assert!(matches!(waits, Fate::Wait { .. }), "{at}: {waits:?}");
    }
    let more = piece(u16::from(WAITING_MAX) + 1, u16::from(WAITING_MAX) + 2, true);
    assert_eq!(table.later(&key(1, 1), more, 0), Fate::Drop(Refusal::Scattered));
    let mut expired = Vec::new();
    table.sweep(1, 8, |entry| expired.push(entry));
    assert!(expired.is_empty());
    table.sweep(2, 8, |entry| expired.push(entry));
    assert_eq!(expired.len(), 1);
    assert!(table.first(&key(1, 1), piece(0, 1, false), 'a', 2).is_ok());
    table.sweep(59, 8, |_| panic!("known for longer"));
    assert_eq!(table.known(&key(1, 1), 59), Some('a'));
    assert_eq!(table.poisoned(&key(1, 1)), None);
    assert_eq!(table.later(&key(1, 1), piece(0, 2, false), 59), Fate::Drop(Refusal::Overlap));
    assert!(table.poisoned(&key(1, 1)).is_some());
}

#[test]
fn overlaps_and_bad_ranges_are_refused() {
    let mut table = Fragments::new(8, 10, 60, [3, 4]);
    let drop = |reason| Fate::Drop(reason);
    assert!(table.first(&key(1, 1), piece(0, 10, false), 'a', 0).is_ok());
    assert_eq!(table.later(&key(1, 1), piece(2, 8, false), 0), drop(Refusal::Overlap));
    assert_eq!(table.later(&key(1, 1), piece(10, 12, false), 0), Fate::Follow('a'), "a repetition");
    assert_eq!(table.later(&key(1, 1), piece(11, 13, false), 0), drop(Refusal::Overlap));
    assert_eq!(
        table.later(&key(1, 1), piece(20, 30, false), 0),
        drop(Refusal::Overlap),
        "poisoned"
    );
    for bad in [piece(5, 5, true), piece(8_190, 8_193, true)] {
        assert_eq!(table.later(&key(1, 2), bad, 0), drop(Refusal::BadRange));
    }
}

/// An expired entry with packets that wait, whose key comes again while other entries of its set are free.
#[test]
fn whoever_waits_for_an_expired_entry_is_reported() {
    let mut table = Fragments::<char>::new(8, 1, 60, [3, 4]);
    // The first entry of the set is free again, so that it would be chosen before the second one.
    assert!(table.first(&key(2, 1), piece(0, 5, false), 'a', 0).is_ok());
    let Fate::Wait { entry, is_new: true } = table.later(&key(1, 1), piece(10, 20, true), 1) else {
        panic!("no entry");
    };
    table.sweep(60, 8, |at| assert_ne!(at, entry));
    let again = table.later(&key(1, 1), piece(10, 20, true), 61);
    assert_eq!(again, Fate::Wait { entry, is_new: true });
    table.sweep(61, 8, |_| panic!("its packets were reported by `is_new`"));
}

/// One host may have all addresses of its /64.
#[test]
fn a_host_with_many_addresses_has_the_places_of_one() {
    let prefix = 0x2001_0db8_0001_0002_u128 << 64;
    let mut table =
        Fragments::<char>::new(64, 4, 60, [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03]);
    let mut later = |source| table.later(&key(source, 1), piece(10, 20, true), 0);
    for host in 0..4 {
        assert!(matches!(later(prefix + host), Fate::Wait { .. }));
    }
    assert_eq!(later(prefix + 4), Fate::Drop(Refusal::SourceLimit));
    assert!(matches!(later(prefix + (1 << 64)), Fate::Wait { .. }), "the next /64");
    for host in 1..5 {
        assert!(matches!(later(host), Fate::Wait { .. }), "IPv4 hosts have no prefix");
    }
}

#[test]
fn what_only_follows_takes_no_place() {
    let mut table = Fragments::new(8, 10, 60, [3, 4]);
    assert_eq!(table.follow(&key(1, 1), piece(10, 20, true), 0), None);
    assert!(table.is_empty());
    assert!(table.first(&key(1, 1), piece(0, 5, false), 'a', 0).is_ok());
    assert_eq!(table.follow(&key(1, 1), piece(10, 20, true), 1), Some(Fate::Follow('a')));
    assert_eq!(table.follow(&key(1, 1), piece(5, 10, false), 60), None, "its time is over");
    table.forget(&key(1, 1));
    assert!(table.is_empty());
}

/// Otherwise those behind it could overlap it unseen.
#[test]
fn nothing_passes_behind_a_first_fragment_that_cannot_be_noted() {
    let mut table = Fragments::new(8, 10, 60, [3, 4]);
    for gap in 1..=RANGES as u16 {
        let waits = table.later(&key(1, 1), piece(gap * 4, gap * 4 + 1, false), 0);
        assert!(matches!(waits, Fate::Wait { .. }), "{gap}: {waits:?}");
    }
    let more = table.later(&key(1, 1), piece(1000, 1001, false), 0);
    assert_eq!(more, Fate::Drop(Refusal::Scattered));
    assert_eq!(table.first(&key(1, 1), piece(0, 2, false), 'a', 0), Err(Refusal::Overlap));
    assert!(table.poisoned(&key(1, 1)).is_some());
    assert_eq!(table.later(&key(1, 1), piece(1, 3, false), 0), Fate::Drop(Refusal::Overlap));
}
