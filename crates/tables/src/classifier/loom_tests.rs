//! Models of the publication: readers load a root that the writer swaps, and memory is used again behind a grace
//! period. A reader looks up one packet as workers do.

use loom::sync::Arc;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};
use loom::sync::atomic::{AtomicU64, fence};
use loom::thread;

use super::{
    Classifier, ClassifierCapacity, ClassifierError, ClassifierReader, FlowState, Fragment,
    Ip4Columns, Key, LANES, NO_RULE, Prefix, Rule,
};
use crate::grace::Reclaim;

/// Memory of one rule: a line for each word of its block, and that of its entries.
const LINES: usize = 5;
/// The protocol of the packet.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A classifier with room for two rules, and the first one.
fn classifier() -> Classifier {
    let capacity = ClassifierCapacity { rules: 2, lookup_bytes: 2 * LINES * 64 };
    let mut classifier = Classifier::new(capacity).expect("memory");
    replace(&mut classifier, 1, TCP).expect("room");
    classifier
}

/// Shows one rule in place of all others.
fn replace(classifier: &mut Classifier, id: u32, protocol: u8) -> Result<(), ClassifierError> {
    let destination = Some(Prefix::Ip4 { address: 0x0a00_0000, len: 8 });
    let rule = Rule { destination, protocol: Some(protocol), ..Rule::default() };
    classifier.replace_all([(id, id, rule)])?;
    classifier.publish();
    Ok(())
}

/// The rule that a packet meets.
fn look_up(reader: &ClassifierReader) -> u32 {
    let mut keys = Ip4Columns::default();
    let key = Key {
        source: 1,
        destination: 0x0a00_0002,
        protocol: TCP,
        source_port: 3,
        destination_port: 4,
        tcp_flags: 0,
        dscp: 0,
        fragment: Fragment::No,
        length: 40,
        interface: 0,
        output: 0,
        vlan: 0,
        state: FlowState::New,
    };
    keys.set(0, &key);
    let mut ids = [NO_RULE; LANES];
    reader.lookup_ip4(&keys, 1, &mut ids);
    ids[0]
}

/// A rule is seen whole, and a reader that has seen the new one does not see the old one afterwards.
#[test]
fn a_publication_is_seen_whole_or_not_at_all() {
    loom::model(|| {
        let mut classifier = classifier();
        let reader = classifier.reader();
        let thread = thread::spawn(move || {
            let seen = [look_up(&reader), look_up(&reader)];
            assert!(matches!(seen, [1, 1] | [1, 2] | [2, 2]), "{seen:?}");
        });
        replace(&mut classifier, 2, TCP).expect("room");
        thread.join().expect("no panic");
    });
}

/// The third rule takes the memory of the first one once the reader has passed a quiescent point behind the second one.
/// The packet does not meet it: whoever still reads there would find its id at the words of the first one.
#[test]
fn memory_is_used_again_behind_readers() {
    loom::model(|| {
        let mut classifier = classifier();
        // Memory waits as long as anybody has a reader.
        let _reader = classifier.reader();
        let (epoch, observed) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(1)));
        let reader = classifier.reader();
        let thread = thread::spawn({
            let (epoch, observed) = (Arc::clone(&epoch), Arc::clone(&observed));
            move || {
                assert!(matches!(look_up(&reader), 1 | 2));
                // As workers do, see `stoa_engine::quiescence`.
                let now = epoch.load(Acquire);
                observed.store(now, Release);
                let seen = look_up(&reader);
                assert!(matches!((now, seen), (1, 1 | 2) | (2, 2 | NO_RULE)), "{now}: {seen}");
            }
        });
        replace(&mut classifier, 2, TCP).expect("room");
        let now = epoch.fetch_add(1, AcqRel) + 1;
        classifier.retire_mark(now);
        fence(SeqCst);
        let safe = observed.load(Acquire);
        classifier.reclaim(safe);
        assert_eq!(replace(&mut classifier, 3, UDP).is_ok(), safe >= now);
        thread.join().expect("no panic");
    });
}
