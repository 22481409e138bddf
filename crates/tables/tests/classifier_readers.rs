//! Readers against the writer of a classifier: each batch sees the rules of one publication, while freed
//! memory is used again and again after its grace period.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use stoa_tables::Reclaim;
use stoa_tables::classifier::{
    Classifier, ClassifierCapacity, ClassifierReader, FlowState, Fragment, Ip4Columns, Key, LANES,
    Prefix, Rule,
};

const READERS: usize = 2;
const ROUNDS: u32 = if cfg!(miri) { 12 } else { 3000 };
/// Rules of one generation; all of them change together.
const RULES: u32 = if cfg!(miri) { 10 } else { 40 };

/// What an engine does: readers store the epoch that they have seen, the writer frees up to the smallest.
struct Epochs {
    current: AtomicU64,
    observed: [AtomicU64; READERS],
    stop: AtomicBool,
}

/// Lets the writer go on, and readers end, when a thread panics.
struct AtEnd<'a>(&'a Epochs, Option<usize>);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        match self.1 {
            Some(reader) => self.0.observed[reader].store(u64::MAX, Ordering::SeqCst),
            None => self.0.stop.store(true, Ordering::SeqCst),
        }
    }
}

/// Rule `at` is for destinations in 10.0.`at`.0/24.
fn rule(at: u32) -> Rule {
    Rule {
        destination: Some(Prefix::Ip4 { address: 0x0a00_0000 | at << 8, len: 24 }),
        ..Rule::default()
    }
}

fn keys() -> Ip4Columns {
    let mut keys = Ip4Columns::default();
    for lane in 0..LANES {
        let destination = 0x0a00_0000 | (lane as u32 % RULES) << 8 | 5;
        keys.set(
            lane,
            &Key {
                source: 1,
                destination,
                protocol: 6,
                source_port: 1,
                destination_port: 2,
                tcp_flags: 0,
                dscp: 0,
                fragment: Fragment::No,
                length: 40,
                interface: 0,
                output: 0,
                vlan: 0,
                state: FlowState::New,
            },
        );
    }
    keys
}

fn read(reader: &ClassifierReader, epochs: &Epochs, number: usize) {
    let _end = AtEnd(epochs, Some(number));
    let keys = keys();
    let mut ids = [0; LANES];
    while !epochs.stop.load(Ordering::SeqCst) {
        epochs.observed[number].store(epochs.current.load(Ordering::SeqCst), Ordering::SeqCst);
        reader.lookup_ip4(&keys, LANES, &mut ids);
        // Ids are the generation and the place of a rule: all of one generation.
        let generation = ids[0] / 1000;
        for (lane, id) in ids.iter().enumerate() {
            assert_eq!((id / 1000, id % 1000), (generation, lane as u32 % RULES), "{ids:?}");
        }
    }
}

#[test]
fn readers_see_whole_publications() {
    let mut classifier = Classifier::new(ClassifierCapacity::for_rules(200)).unwrap();
    let epochs = Epochs {
        current: AtomicU64::new(0),
        observed: [const { AtomicU64::new(0) }; READERS],
        stop: AtomicBool::new(false),
    };
    for at in 0..RULES {
        classifier.insert(1000 + at, at, &rule(at)).unwrap();
    }
    classifier.publish();
    thread::scope(|scope| {
        let end = AtEnd(&epochs, None);
        for number in 0..READERS {
            let (reader, epochs) = (classifier.reader(), &epochs);
            scope.spawn(move || read(&reader, epochs, number));
        }
        for round in 1..=ROUNDS {
            let generation = 1 + round % 1000;
            let former = 1 + (round - 1) % 1000;
            if round % 5 == 0 {
                let rules = (0..RULES).map(|at| (generation * 1000 + at, at, rule(at)));
                classifier.replace_all(rules).unwrap();
            } else {
                for at in 0..RULES {
                    classifier.insert(generation * 1000 + at, at, &rule(at)).unwrap();
                    classifier.remove(former * 1000 + at).unwrap();
                }
            }
            classifier.publish();
            let epoch = epochs.current.fetch_add(1, Ordering::SeqCst) + 1;
            classifier.retire_mark(epoch);
            while classifier.pending() > 300 {
                let seen = epochs.observed.iter().map(|seen| seen.load(Ordering::SeqCst)).min();
                classifier.reclaim(seen.unwrap_or(0));
                thread::yield_now();
            }
        }
        drop(end);
    });
}
