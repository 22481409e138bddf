//! What another process reads of a table, against the model, and any words in its place.

use core::sync::atomic::Ordering::Relaxed;

use super::super::line::{LIVE, VERDICT};
use super::super::memory::{LINE_WORDS, OWNERS_MAX};
use super::*;

type Words = [Vec<u32>; 4];

fn words(table: &FlowTable) -> Words {
    table.arrays().map(|array| array.iter().map(|word| word.load(Relaxed)).collect())
}

fn read(words: &Words, capacity: &FlowCapacity) -> Vec<Reading> {
    let (former, mut all) = (FormerTable::of(capacity).unwrap(), Vec::new());
    assert!(former.words().iter().zip(words).all(|(count, words)| *count <= words.len() as u64));
    let copy = |array: usize, first: u64, into: &mut [u32]| {
        into.copy_from_slice(&words[array][first as usize..][..into.len()]);
        true
    };
    assert!(former.read(0..u32::MAX, copy, |reading| all.push(reading)));
    all
}

fn flows(readings: &[Reading]) -> Vec<FormerFlow> {
    let flow = |reading: &Reading| match reading {
        Reading::Flow(flow) => Some(*flow),
        Reading::Damaged => None,
    };
    readings.iter().filter_map(flow).collect()
}

/// Adopts flows in a table with other secrets and other room; the ids of those that it has.
fn adopt(all: &[FormerFlow], (now, shift): (u32, u32)) -> (FlowTable, FlowOwner, Vec<u32>) {
    let capacity = FlowCapacity { ip4: 5, translated_ip4: 9, ip6: 9, translated_ip6: 9 };
    let mut table = FlowTable::new(&capacity, &secret(200)).unwrap();
    // Flows beyond a limit stay.
    table.limit_sources(1);
    let mut owner = table.owner(9, now).unwrap();
    let mut ids = Vec::new();
    for flow in all {
        let new = NewFlow {
            class: flow.class,
            flags: flow.flags,
            zone_pair: flow.zone_pair,
            tcp: flow.tcp,
            ..NewFlow::new(flow.key, flow.reply_key)
        };
        let Past { start, seen, counters, rule } = flow.past;
        let past = Past {
            start: start.wrapping_add(shift),
            seen: seen.wrapping_add(shift),
            counters,
            rule,
        };
        if let Ok(Created::New(id)) = owner.adopt(&new, &past, now.wrapping_add(5)) {
            ids.push(id);
            let entry = owner.entry(id);
            assert_eq!(
                (entry.key(), entry.start(), entry.seen()),
                (flow.key, past.start, past.seen)
            );
            let counters = [Direction::Original, Direction::Reply].map(|it| entry.counters(it));
            assert_eq!((counters, entry.tcp()), (flow.past.counters, flow.tcp));
            assert_eq!((entry.class(), entry.owner()), (flow.class, 9));
            assert_eq!(entry.zone_pair(), flow.zone_pair);
        }
    }
    assert_eq!(table.live(), ids.len() as u64);
    assert_eq!(table.counted_by_source(), ids.len() as u64);
    (table, owner, ids)
}

impl Model {
    /// Another process reads all flows as they are, and goes on with those for which it has room.
    fn check_former(&self) {
        let found = read(&words(&self.table), &CAPACITY);
        assert_eq!(found.len(), self.flows.len());
        let all = flows(&found);
        assert_eq!(all.len(), found.len(), "{found:?}");
        for expected in self.flows.values() {
            let flow = all.iter().find(|flow| flow.key == expected.key).unwrap();
            assert_eq!((flow.reply_key, flow.class), (expected.reply_key, expected.class));
            assert_eq!(Eviction::of(flow.flags), expected.eviction);
            assert_eq!((flow.owner, flow.zone_pair, flow.past.seen), (3, 99, expected.seen));
            assert_eq!(flow.past.rule, 70_000);
            let bytes = Counters { packets: expected.packets, bytes: expected.bytes };
            assert_eq!(flow.past.counters, [Counters::default(), bytes]);
        }
        let (table, ..) = adopt(&all, (self.now.wrapping_add(77), 77));
        let reader = table.reader();
        let fits = all.iter().filter(|it| !it.key.is_ip6() && it.reply_key.is_none());
        assert!(table.live() + 1 >= all.len() as u64, "one of 6 IPv4 flows at most has no room");
        assert!(fits.count() >= 6 || all.iter().all(|flow| reader.find(&flow.key).is_some()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 256 }))]
    #[test]
    fn another_process_reads_what_a_naive_model_has(steps in steps(), seed: u8, now: u32) {
        let mut model = Model::new(seed, now, u32::MAX);
        for (number, step) in steps.into_iter().enumerate() {
            model.step(step);
            if number % 8 == 0 && !cfg!(miri) {
                model.check_former();
            }
        }
        model.check_former();
    }

    /// A process that is killed while it writes a line has stored some of the words that it changes, but the one with
    /// the flag of live flows last, or first when the flow ends.
    #[test]
    #[cfg_attr(miri, ignore)]
    fn a_line_in_the_making_is_no_flow(steps in steps(), seed: u8, stored: u64, number: u8) {
        let mut model = Model::new(seed, 0, u32::MAX);
        steps.into_iter().for_each(|step| model.step(step));
        let (before, expected) = (words(&model.table), model.flows.len());
        let flow = NewFlow { class: 3, ..NewFlow::new(many(number.into()), Some(key(number))) };
        if let Ok(Created::New(_)) = model.owner.create(&flow, 1, 9) {
            let after = words(&model.table);
            let mut killed = before.clone();
            let mut bit = 0;
            for (array, words) in after.iter().enumerate() {
                for (at, word) in words.iter().enumerate().filter(|(at, word)| before[array][*at] != **word) {
                    bit += 1;
                    if array == 0 && at % LINE_WORDS == VERDICT || stored >> (bit % 64) & 1 == 0 {
                        continue;
                    }
                    killed[array][at] = *word;
                }
            }
            prop_assert_eq!(read(&killed, &CAPACITY).len(), expected);
            prop_assert_eq!(read(&after, &CAPACITY).len(), expected + 1);
        }
    }

    /// Whatever is in the memory, what is believed makes a table that is right in itself.
    #[test]
    #[cfg_attr(miri, ignore)]
    fn any_words_are_survived(
        steps in steps(), changes in prop::collection::vec((0..4_usize, any::<u16>(), any::<u32>()), 0..40),
        lives in any::<[bool; 18]>(), now: u32,
    ) {
        let mut model = Model::new(1, now, u32::MAX);
        steps.into_iter().for_each(|step| model.step(step));
        let mut words = words(&model.table);
        let former = FormerTable::of(&CAPACITY).unwrap();
        for (array, at, word) in changes {
            let count = former.words()[array] as usize;
            words[array][usize::from(at) % count] = word;
        }
        for (line, _) in lives.into_iter().enumerate().filter(|(_, is_live)| *is_live) {
            words[0][line * LINE_WORDS + VERDICT] |= u32::from(LIVE);
        }
        let all = flows(&read(&words, &CAPACITY));
        let (table, mut owner, ids) = adopt(&all, (now, 3));
        let reader = table.reader();
        for id in &ids {
            let entry = owner.entry(*id);
            prop_assert_eq!(reader.find(&entry.key()).id(), Some(*id));
            prop_assert_eq!(reader.find(&entry.reply_key()).id(), Some(*id));
        }
        for id in ids {
            owner.remove(id).unwrap();
        }
        prop_assert_eq!((table.live(), table.evictable(), table.counted_by_source()), (0, 0, 0));
    }
}

#[test]
fn what_cannot_be_read_ends_the_reading() {
    let former = FormerTable::of(&CAPACITY).unwrap();
    assert!(!former.read(0..1, |_, _, _| false, |_| panic!("nothing was read")));
    assert!(former.read(18..20, |_, _, _| false, |_| panic!("there is nothing")));
    let too_many = FlowCapacity { ip4: 1 << 30, ..FlowCapacity::default() };
    assert!(FormerTable::of(&too_many).is_none());
    assert!(usize::from(u8::MAX) < OWNERS_MAX);
}
