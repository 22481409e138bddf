//! Rows at the edges of a stream: those that are too long, and those that were in force before it.
#![allow(missing_docs)]

use std::collections::BTreeMap;

use stoa_delta::codec::{KEY_BYTES, ROW_BYTES};
use stoa_delta::{Receiver, Refusal, Sender, Store, Table, TooLong, Update, Window};

/// A capability that keeps rows in a map.
#[derive(Default)]
struct Rows(BTreeMap<u64, u64>);

impl Store for Rows {
    type Key = u64;
    type Row = u64;
    type Context = ();

    fn set(&mut self, (): &mut (), key: &u64, row: u64) -> Result<(), Refusal> {
        self.0.insert(*key, row);
        Ok(())
    }

    fn remove(&mut self, (): &mut (), key: &u64) {
        self.0.remove(key);
    }

    fn get(&self, (): &(), key: &u64) -> Option<u64> {
        self.0.get(key).copied()
    }

    fn rows(&self, (): &()) -> u64 {
        self.0.len() as u64
    }

    fn room(&self, (): &()) -> u64 {
        u64::MAX
    }
}

/// Sends everything that waits.
fn settle(sender: &mut Sender<u64, u64>, receiver: &mut Receiver<Rows>) {
    while let Some(message) = sender.next_message() {
        let mut update = Update::new(1, message).unwrap();
        while !receiver.step(&mut (), &mut update).unwrap() {}
        sender.acknowledge(&update.into_reply()).unwrap();
    }
}

#[test]
fn rows_that_survived_a_restart_are_swept_unless_they_are_sent_again() {
    // In force before this process: an equal row, a different one, one that is removed, one that nobody wants.
    let survived = Rows([(1, 10), (2, 99), (3, 30), (4, 40)].into());
    let mut receiver = Receiver::new(survived);
    receiver.adopt(&(), [1, 2, 3, 4, 5, 1]);
    assert_eq!((receiver.summary().rows, receiver.summary().stale), (4, 0));
    let mut sender = Sender::new(Window::default());
    for key in 1..=3 {
        sender.set(key, key * 10).unwrap();
    }
    sender.connect();
    settle(&mut sender, &mut receiver);
    assert_eq!(receiver.store().0, [(1, 10), (2, 20), (3, 30), (4, 40)].into());
    assert_eq!(receiver.summary().stale, 1, "swept only when the sender is complete");
    sender.remove(&3);
    settle(&mut sender, &mut receiver);
    sender.complete();
    settle(&mut sender, &mut receiver);
    assert_eq!(receiver.store().0, [(1, 10), (2, 20)].into());
    let summary = receiver.summary();
    assert_eq!((summary.rows, summary.stale, summary.is_complete), (2, 0, true));
    assert_eq!(summary.digest, sender.expected().total(), "an audit finds both sides equal");
}

#[test]
fn rows_that_no_message_can_carry_are_refused() {
    let mut sender = Sender::<Vec<u8>, Vec<u8>>::new(Window::default());
    let [key, row] = [vec![0; KEY_BYTES], vec![0; ROW_BYTES]];
    assert_eq!(sender.set(key.clone(), row.clone()), Ok(()));
    let too_long = TooLong { key: KEY_BYTES + 1, row: ROW_BYTES };
    assert_eq!(sender.set(vec![0; KEY_BYTES + 1], row.clone()), Err(too_long));
    let too_long = TooLong { key: KEY_BYTES, row: ROW_BYTES + 1 };
    assert_eq!(sender.set(key.clone(), vec![0; ROW_BYTES + 1]), Err(too_long));
    assert_eq!((sender.changes(), sender.get(&key)), (1, Some(&row)));
    // The longest ones arrive.
    sender.connect();
    let messages = std::iter::from_fn(|| sender.next_message());
    let bytes = messages.map(|message| {
        let bytes = message.changes.len();
        Update::new(1, message).expect("well-formed");
        bytes
    });
    assert!(bytes.max().is_some_and(|bytes| bytes > KEY_BYTES + ROW_BYTES));
}
