//! Kills at every point of a write, in memory of this process, so that Miri can run them.

use proptest::prelude::*;

use super::*;
use crate::record::Record;

crate::record! {
    /// Not a multiple of eight bytes.
    struct Value {
        sequence: u32,
        rest: [u8; 24],
    }
}

struct Test;

impl State for Test {
    const NAME: &'static str = "test";
    const VERSION: u32 = 1;
    type Key = [u8; 6];
    type Value = Value;

    fn is_valid(_: &[u8; 6], _: &Value) -> bool {
        true
    }
}

const SHAPE: Shape = Shape::of::<Test>();
const INDEX: usize = 3;
const KEY: [u8; 6] = *b"abcdef";

type Words = Vec<u64>;
type Entry = Option<Value>;

fn value(sequence: u32) -> Value {
    Value { sequence, rest: [sequence as u8; 24] }
}

fn read_words(words: &Words) -> Reading<[u8; 6], Value> {
    let memory: Vec<AtomicU64> = words.iter().copied().map(AtomicU64::new).collect();
    read::<Test>(&memory, INDEX, &mut Vec::new())
}

/// The stores of a write.
fn stores(generation: u64, entry: &Entry) -> Vec<(usize, u64)> {
    let mut stores = Vec::new();
    let entry = entry.as_ref().map(|value| (&KEY, value));
    write::<Test>(INDEX, generation, entry, |at, word| stores.push((at, word)));
    stores
}

fn apply(words: &mut Words, stores: &[(usize, u64)]) {
    stores.iter().for_each(|(at, word)| words[*at] = *word);
}

/// A slot after these writes.
fn written(entries: &[Entry]) -> Words {
    let mut words = vec![0; SHAPE.slot];
    for (before, entry) in entries.iter().enumerate() {
        apply(&mut words, &stores(before as u64 + 1, entry));
    }
    words
}

fn content(entry: &Entry) -> Content<[u8; 6], Value> {
    entry.map_or(Content::Free, |value| Content::Entry(KEY, value))
}

#[test]
fn a_slot_has_whole_cache_lines_and_few_words() {
    assert_eq!((SHAPE.key, SHAPE.copy, SHAPE.slot), (1, 2 + 1 + 4, 16));
    assert_eq!(Value::FIELDS, "sequence: u32, rest: [u8; 24], ");
}

#[test]
fn a_kill_after_any_store_leaves_the_old_or_the_new_value() {
    let histories: [&[Entry]; 4] =
        [&[], &[Some(value(1))], &[Some(value(1)), None], &[Some(value(1)), None, Some(value(3))]];
    for history in histories {
        for next in [Some(value(9)), None] {
            let old = written(history);
            let before = history.last().unwrap_or(&None);
            let stores = stores(history.len() as u64 + 1, &next);
            for done in 0..=stores.len() {
                let mut words = old.clone();
                apply(&mut words, &stores[..done]);
                let reading = read_words(&words);
                let is_done = done == stores.len();
                let expected = if is_done { &next } else { before };
                assert_eq!(reading.content, content(expected), "{history:?}, {done} stores");
                assert_eq!(reading.is_torn, !is_done && done > 0);
                assert_eq!(reading.generation, (history.len() + usize::from(is_done)) as u64);
            }
        }
    }
}

#[test]
fn a_write_after_a_kill_continues() {
    let mut words = written(&[Some(value(1)), Some(value(2))]);
    apply(&mut words, &stores(3, &Some(value(3)))[..4]);
    let reading = read_words(&words);
    assert_eq!((reading.generation, reading.is_torn), (2, true));
    apply(&mut words, &stores(reading.generation + 1, &Some(value(4))));
    assert_eq!(read_words(&words).content, content(&Some(value(4))));
}

#[test]
fn an_entry_of_another_slot_is_damaged() {
    let words = written(&[Some(value(1)), Some(value(2))]);
    let memory: Vec<AtomicU64> = words.into_iter().map(AtomicU64::new).collect();
    let reading = read::<Test>(&memory, INDEX + 1, &mut Vec::new());
    assert_eq!(reading.content, Content::Damaged);
}

#[test]
fn removed_values_are_gone_from_both_copies() {
    let words = written(&[Some(value(1)), Some(value(2)), None, None]);
    for (at, word) in words.iter().enumerate() {
        assert!(at % SHAPE.copy < FRONT || *word == 0, "word {at} is {word:x}");
    }
}

fn an_entry() -> impl Strategy<Value = Entry> {
    proptest::option::of((0..1000_u32).prop_map(value))
}

proptest! {
    /// A processor or a compiler that reorders the stores between the two stamps changes nothing.
    #[test]
    fn any_part_of_a_write_is_recognised(
        history in proptest::collection::vec(an_entry(), 0..6),
        next in an_entry(),
        kept: u64,
    ) {
        let stores = stores(history.len() as u64 + 1, &next);
        let mut words = written(&history);
        let kept: Vec<_> = stores[..stores.len() - 1]
            .iter()
            .enumerate()
            .filter(|(at, _)| *at == 0 || kept >> at & 1 == 1)
            .map(|(_, store)| *store)
            .collect();
        apply(&mut words, &kept);
        let before = history.last().copied().flatten();
        prop_assert_eq!(read_words(&words).content, content(&before));
    }

    /// A changed bit is noticed, or it is in a write that was not finished, in padding, or where nothing is read. It
    /// never brings an older value back.
    #[test]
    fn changed_bits_never_bring_an_old_value_back(
        history in proptest::collection::vec((0..1000_u32).prop_map(value), 1..6),
        bits in proptest::collection::vec(0..SHAPE.slot * 64, 1..4),
    ) {
        let entries: Vec<Entry> = history.into_iter().map(Some).collect();
        let mut words = written(&entries);
        for bit in bits {
            words[bit / 64] ^= 1 << (bit % 64);
        }
        let found = read_words(&words).content;
        let latest = content(entries.last().unwrap());
        prop_assert!(found == latest || found == Content::Damaged, "{found:?}");
    }

    #[test]
    fn any_words_are_read(words in proptest::collection::vec(any::<u64>(), SHAPE.slot)) {
        prop_assert_eq!(read_words(&words).content, Content::Damaged);
    }
}
