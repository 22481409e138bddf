//! Readers against a writer: every answer is one that was right at some moment of the look-up,
//! while freed memory is used again and again after its grace period.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use stoa_tables::Reclaim;
use stoa_tables::adjacency::{Adjacencies, Adjacency, AdjacencyKind};
use stoa_tables::lpm::{Kernel, Key, Lpm, LpmCapacity, LpmError};
use stoa_tables::next_hop::{Member, NextHop, NextHopCapacity, NextHops, Resolved};

const READERS: usize = 3;
const CHANGES: u64 = if cfg!(miri) { 60 } else { 100_000 };
/// Changed batches that each reader must observe before the writer stops.
const MIN_CHANGES: u64 = 10;

/// What an engine does: readers publish the epoch that they have observed, the writer frees up to the
/// smallest of them.
struct Epochs {
    current: AtomicU64,
    observed: [AtomicU64; READERS],
    /// Batches whose answers differ from those of the batch before.
    changes: [AtomicU64; READERS],
    stop: AtomicBool,
}

impl Epochs {
    fn new() -> Self {
        Self {
            current: AtomicU64::new(0),
            observed: [const { AtomicU64::new(0) }; READERS],
            changes: [const { AtomicU64::new(0) }; READERS],
            stop: AtomicBool::new(false),
        }
    }

    /// A reader between two batches: it holds nothing.
    fn quiesce(&self, reader: usize) -> bool {
        let current = self.current.load(Ordering::SeqCst);
        self.observed[reader].store(current, Ordering::SeqCst);
        !self.stop.load(Ordering::SeqCst)
    }

    /// Whether each reader has observed enough changes for the test to be meaningful.
    fn have_changed(&self) -> bool {
        self.changes.iter().all(|changes| changes.load(Ordering::SeqCst) >= MIN_CHANGES)
    }

    /// The writer after some changes.
    fn advance(&self, tables: &mut [&mut dyn Reclaim]) {
        let epoch = self.current.fetch_add(1, Ordering::SeqCst) + 1;
        tables.iter_mut().for_each(|table| table.retire_mark(epoch));
        let safe = self.observed.iter().map(|observed| observed.load(Ordering::SeqCst)).min();
        tables.iter_mut().for_each(|table| table.reclaim(safe.unwrap_or(0)));
    }
}

/// Stops the readers even when the writer panics, so that a failure is a failure and no hang.
struct StopAtEnd<'a>(&'a Epochs);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
    }
}

/// Lets the writer go on when a reader panics.
struct GoneAtEnd<'a>(&'a Epochs, usize);

impl Drop for GoneAtEnd<'_> {
    fn drop(&mut self) {
        self.0.observed[self.1].store(u64::MAX, Ordering::SeqCst);
        self.0.changes[self.1].store(u64::MAX, Ordering::SeqCst);
    }
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// `routes[0]` covers all of `keys` and stays; the others come and go. The value of route `n` is
/// `n + 1`, so an answer names its prefix.
fn routes_come_and_go<K: Key + 'static>(
    routes: &[(K, u8)],
    keys: &[K],
    covers: impl Fn((K, u8), K) -> bool + Sync,
) {
    let capacity =
        LpmCapacity { routes: 64, lookup_words: 64 * 40, nodes: 512, bookkeeping_words: 64 * 64 };
    let mut lpm = Lpm::<K>::new(capacity).expect("memory");
    let kernels: [Kernel; READERS] = [Kernel::Scalar, Kernel::Avx2.or_narrower(), Kernel::detect()];
    let epochs = Epochs::new();
    lpm.insert(routes[0].0, routes[0].1, 1).expect("space");
    thread::scope(|scope| {
        let stop = StopAtEnd(&epochs);
        for (id, kernel) in kernels.into_iter().enumerate() {
            let (reader, epochs, covers) = (lpm.reader(), &epochs, &covers);
            let reader = reader.with_kernel(kernel).expect("detected");
            scope.spawn(move || {
                let _gone = GoneAtEnd(epochs, id);
                let (mut out, mut before) = (vec![0; keys.len()], vec![0; keys.len()]);
                while epochs.quiesce(id) {
                    before.copy_from_slice(&out);
                    reader.lookup_batch(keys, &mut out);
                    for (&key, &value) in keys.iter().zip(&out) {
                        let route = routes.get((value as usize).wrapping_sub(1));
                        assert!(
                            route.is_some_and(|&route| covers(route, key)),
                            "{key:x} got {value}: {route:x?}"
                        );
                    }
                    let is_change = u64::from(out != before);
                    epochs.changes[id].fetch_add(is_change, Ordering::SeqCst);
                }
            });
        }
        let mut state = 0x1234_5678_9abc_def1;
        let (mut is_in, mut done) = (vec![false; routes.len()], 0);
        while done < CHANGES || !epochs.have_changed() {
            let at = 1 + random(&mut state) as usize % (routes.len() - 1);
            // One goes, or some come together.
            let many = 1 + random(&mut state) as usize % 4;
            let mut come: Vec<usize> =
                (at..routes.len()).take(many).filter(|at| !is_in[*at]).collect();
            come.sort_by_key(|at| routes[*at]);
            let (changed, error) = if is_in[at] {
                let done = lpm.remove(routes[at].0, routes[at].1);
                (if done.is_ok() { vec![at] } else { Vec::new() }, done.err())
            } else {
                let all = come.iter().map(|at| (routes[*at].0, routes[*at].1, *at as u32 + 1));
                let refused = lpm.insert_all(all).err();
                come.truncate(refused.map_or(come.len(), |refused| refused.inserted));
                (come, refused.map(|refused| refused.error))
            };
            done += changed.len() as u64;
            changed.into_iter().for_each(|at| is_in[at] = !is_in[at]);
            match error {
                None => {}
                // The readers are slower than the changes: go on when they have moved.
                Some(LpmError::Full(_)) => thread::yield_now(),
                Some(other) => panic!("{other}"),
            }
            epochs.advance(&mut [&mut lpm]);
        }
        drop(stop);
    });
}

#[test]
fn ip4_readers_see_only_what_was_right() {
    let base = 0x0a00_0000u32;
    let mut routes = vec![(base, 8)];
    for len in 9..=32 {
        routes.push((base | (1 << (32 - len)), len));
        routes.push((base | 0x00ff_00ff >> (32 - len) << (32 - len), len));
    }
    routes.dedup();
    let keys: Vec<u32> = (0..32u32)
        .flat_map(|bit| {
            [base | (1u32 << bit) & 0x00ff_ffff, base | 0x00ff_00ff ^ (1 << (bit % 24))]
        })
        .collect();
    routes_come_and_go(&routes, &keys, |(prefix, len), key| (key ^ prefix) >> (32 - len) == 0);
}

#[test]
fn ip6_readers_see_only_what_was_right() {
    let base = 0x2001_0db8u128 << 96;
    let mut routes = vec![(base, 32)];
    for len in (33..=128).step_by(3) {
        routes.push((base | 1 << (128 - len), len));
    }
    // What covers a prefix that is often alone comes and goes, too.
    routes.extend([36, 40, 44, 47, 48, 50].map(|len| (base, len)));
    // The first bits of the routes above, and, but for Miri, which takes a second for some hundred
    // look-ups, all others.
    let every = if cfg!(miri) { 3 } else { 1 };
    let keys: Vec<u128> = (2..96).step_by(every).map(|bit| base | 1 << bit).collect();
    routes_come_and_go(&routes, &keys, |(prefix, len), key| (key ^ prefix) >> (128 - len) == 0);
}

#[test]
fn an_adjacency_is_never_seen_half_written() {
    let adjacency = |mark: u32| Adjacency {
        interface: mark,
        mtu: 1500,
        kind: AdjacencyKind::Complete,
        has_output_features: false,
        context: u64::from(mark),
        rewrite: vec![mark as u8; 14],
    };
    let mut adjacencies = Adjacencies::new(512);
    let mut next_hops =
        NextHops::new(NextHopCapacity { objects: 4, buckets: 256 }).expect("memory");
    let epochs = Epochs::new();
    let mut current = adjacencies.add(&adjacency(0)).expect("space");
    let single = next_hops.add(&NextHop::Adjacency(current)).expect("space");
    let other = adjacencies.add(&adjacency(1 << 30)).expect("space");
    let member = |adjacency| Member { adjacency, weight: 1 };
    let pair = NextHop::Group(vec![member(current), member(other)]);
    let group = next_hops.add(&pair).expect("space");
    thread::scope(|scope| {
        let stop = StopAtEnd(&epochs);
        for id in 0..READERS {
            let (lines, objects, epochs) = (adjacencies.reader(), next_hops.reader(), &epochs);
            scope.spawn(move || {
                let _gone = GoneAtEnd(epochs, id);
                let mut hash = id as u32;
                while epochs.quiesce(id) {
                    for next_hop in [single, group] {
                        hash = hash.wrapping_mul(0x9e37_79b1).wrapping_add(1);
                        let Resolved::Adjacency(found) = objects.resolve(next_hop, hash) else {
                            panic!("next hop {next_hop} is lost");
                        };
                        if hash.is_multiple_of(64) {
                            thread::yield_now(); // time for the writer to do harm
                        }
                        let line = lines.get(found).expect("in the table");
                        let (mark, bytes) = (line.head().interface(), line.rewrite_bytes());
                        assert!(line.head().is_complete());
                        assert_eq!(line.context(), u64::from(mark));
                        assert_eq!(bytes[18..], [mark as u8; 14]);
                    }
                }
            });
        }
        let mut mark = 0;
        while u64::from(mark) < CHANGES / 10 {
            if let Ok(new) = adjacencies.add(&adjacency(mark + 1)) {
                mark += 1;
                assert_eq!(next_hops.replace_adjacency(current, new), 2);
                adjacencies.retire(current).expect("in use");
                current = new;
            } else {
                thread::yield_now();
            }
            epochs.advance(&mut [&mut adjacencies, &mut next_hops]);
        }
        drop(stop);
    });
}
