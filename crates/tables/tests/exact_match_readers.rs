//! Readers against the writer of an exact-match table: an entry that is not removed is found at any
//! moment, wherever others drive it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use stoa_tables::exact_match::{ABSENT, ExactMatch, ExactMatchReader};

const READERS: u64 = 2;
/// Batches of each reader.
const BATCHES: u64 = if cfg!(miri) { 20 } else { 20_000 };
const STABLE: u64 = if cfg!(miri) { 10 } else { 150 };
const CHANGING: u64 = STABLE / 2;

/// Adds and removes other keys until all readers are done.
fn write(table: &mut ExactMatch, published: &Mutex<ExactMatchReader>, done: &AtomicU64) {
    let mut round = 0;
    while done.load(Ordering::Acquire) < READERS {
        let key = (1 << 40) | (round % (2 * CHANGING));
        if table.remove(key).is_none() {
            table.insert(key, (round % 1000) as u32).unwrap();
        }
        // In place, too.
        table.insert(round % STABLE, (round % STABLE) as u32).unwrap();
        if !published.lock().unwrap().is_current(table) {
            *published.lock().unwrap() = table.reader();
        }
        round += 1;
    }
}

fn read(published: &Mutex<ExactMatchReader>, stop: &AtomicBool) {
    let keys: Vec<u64> = (0..STABLE).collect();
    let mut values = vec![0; keys.len()];
    for _ in 0..BATCHES {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let reader = published.lock().unwrap().clone();
        reader.lookup_batch(&keys, &mut values);
        for (key, value) in keys.iter().zip(&values) {
            assert!(u64::from(*value) == *key || *value == ABSENT);
            assert_eq!(reader.get(*key).map(u64::from), Some(*key));
        }
    }
}

/// Counts a reader as done even when it panics, so that a failure is a failure and no hang.
struct Done<'a>(&'a AtomicU64);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

#[test]
fn an_entry_is_found_while_others_drive_it_away() {
    let mut table = ExactMatch::default();
    for key in 0..STABLE {
        table.insert(key, key as u32).unwrap();
    }
    let published = Mutex::new(table.reader());
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let _done = Done(&done);
                read(&published, &stop);
            });
        }
        write(&mut table, &published, &done);
        stop.store(true, Ordering::Relaxed);
    });
}
