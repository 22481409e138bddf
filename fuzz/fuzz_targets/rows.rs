//! Messages of rows to a receiver: malformed blocks change nothing, and whatever the size of batches, the counted
//! digest is that of the rows in force.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use stoa_delta::{Message, Receiver, Refusal, Store, Table, Update, codec};

#[derive(Arbitrary, Debug)]
struct Input {
    begins: bool,
    completes: bool,
    changes: Vec<u8>,
}

#[derive(Default)]
struct Rows(BTreeMap<Vec<u8>, Vec<u8>>);

impl Store for Rows {
    type Key = Vec<u8>;
    type Row = Vec<u8>;
    type Context = ();

    fn set(&mut self, (): &mut (), key: &Vec<u8>, row: Vec<u8>) -> Result<(), Refusal> {
        if row.first() == Some(&0xff) || self.0.len() >= 64 && !self.0.contains_key(key) {
            return Err(Refusal { is_full: row.first() != Some(&0xff), ..Refusal::default() });
        }
        self.0.insert(key.clone(), row);
        Ok(())
    }

    fn remove(&mut self, (): &mut (), key: &Vec<u8>) {
        assert!(self.0.remove(key).is_some());
    }

    fn get(&self, (): &(), key: &Vec<u8>) -> Option<Vec<u8>> {
        self.0.get(key).cloned()
    }

    fn rows(&self, (): &()) -> u64 {
        self.0.len() as u64
    }

    fn room(&self, (): &()) -> u64 {
        64 - self.0.len() as u64
    }
}

fn apply(receiver: &mut Receiver<Rows>, input: &Input) {
    let Input { begins, completes, changes } = input;
    let (begins, completes, changes) = (*begins, *completes, changes.clone());
    let before = receiver.summary();
    let well_formed = codec::check(&changes);
    match Update::new(1, Message { number: 7, begins, changes, completes }) {
        Ok(mut update) => {
            while !receiver.step(&mut (), &mut update).unwrap() {}
            let reply = update.into_reply();
            assert!(well_formed.is_ok() && reply.number == 7);
        }
        Err(malformed) => {
            assert_eq!(Err(malformed), well_formed);
            assert_eq!(receiver.summary(), before);
        }
    }
}

fuzz_target!(|inputs: Vec<Input>| {
    let mut large = Receiver::new(Rows::default());
    let mut small = Receiver::new(Rows::default()).with_batches_of(1);
    for input in inputs.iter().take(16) {
        apply(&mut large, input);
        apply(&mut small, input);
        let summary = large.summary();
        assert_eq!((summary, &large.store().0), (small.summary(), &small.store().0));
        assert_eq!(summary.rows, large.store().0.len() as u64);
        assert!(summary.stale <= summary.rows && !(summary.is_complete && summary.stale > 0));
        let mut audit = large.begin_audit(&[]);
        while !large.audit_step(&(), &mut audit) {}
        let audited = audit.into_result();
        assert_eq!((audited.digests.total(), audited.unknown), (summary.digest, 0));
    }
});
