//! Time until every worker uses a new neighbour behind all prefixes of a table.
//!
//! All next hops of the table use one adjacency. Readers, one for each processor but the writer's,
//! look up and resolve vectors of addresses in a loop, as the graph does. The writer replaces the
//! adjacency and waits until each reader has resolved a whole vector to the new one only.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stoa_engine::VECTOR;
use stoa_tables::lpm::{Lpm, LpmReader};
use stoa_tables::next_hop::{NextHop, NextHopCapacity, NextHopReader, NextHops};

use super::{TableError, Workload};
use crate::prefixes::Family;
use crate::random::Random;

/// The most timed changes.
const CHANGES_MAX: u32 = 1000;
/// Look-ups of a pass for each timed change.
const LOOKUPS_PER_CHANGE: u32 = 1 << 10;
/// The most addresses that each reader looks up.
const KEYS_MAX: usize = 1 << 16;
/// The most readers: the maximum number of workers.
const READERS_MAX: usize = 64;
/// A reader that misses a change for this long has lost its processor.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest pause between two changes, so that they hit the readers at random points of their
/// loop.
const PAUSE_US: usize = 20;

/// Times from before a change until every reader uses it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Redirect {
    /// Median in microseconds.
    pub(super) median_us: f64,
    /// Maximum in microseconds.
    pub(super) most_us: f64,
    /// Number of readers.
    pub(super) readers: usize,
}

/// Stops the readers when the writer returns or panics.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Measures on a table with the values of the workload.
pub(super) fn measure<K: Family>(
    lpm: &Lpm<K>,
    workload: &Workload,
    routes: &[(K, u8, u32)],
    random: &mut Random,
) -> Result<Redirect, TableError> {
    let (values, lookups) = (workload.values, workload.lookups);
    let capacity = NextHopCapacity { objects: values as usize, buckets: 0 };
    let mut next_hops = NextHops::new(capacity).ok_or(TableError::Memory(routes.len()))?;
    for _ in 0..values {
        // The table has capacity for all, and ids count from 1 as the values do.
        next_hops.add(&NextHop::Adjacency(0)).map_err(|_| TableError::Memory(routes.len()))?;
    }
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let readers = cpus.saturating_sub(1).clamp(1, READERS_MAX);
    let mut keys = || {
        let (prefix, len, _) = routes[random.below(routes.len())];
        prefix.inside(len, random)
    };
    let count = (lookups as usize).min(KEYS_MAX).next_multiple_of(VECTOR);
    let keys: Vec<Vec<K>> = (0..readers).map(|_| (0..count).map(|_| keys()).collect()).collect();
    let changes = (lookups / LOOKUPS_PER_CHANGE).clamp(1, CHANGES_MAX);
    let seen: Vec<AtomicU32> = (0..readers).map(|_| AtomicU32::new(0)).collect();
    let stop = AtomicBool::new(false);
    let mut times = thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        for (keys, seen) in keys.iter().zip(&seen) {
            let (lpm, hops, stop) = (lpm.reader(), next_hops.reader(), &stop);
            scope.spawn(move || read(&lpm, &hops, keys, seen, stop));
        }
        let mut pause = Random::new(11);
        let mut change = |number: u32| {
            let wait = Instant::now();
            let pause = Duration::from_micros(pause.below(PAUSE_US) as u64);
            while wait.elapsed() < pause {
                thread::yield_now();
            }
            let start = Instant::now();
            next_hops.replace_adjacency(number, number + 1);
            while seen.iter().any(|seen| seen.load(Ordering::Acquire) <= number)
                && start.elapsed() < PATIENCE
            {
                thread::yield_now();
            }
            start.elapsed().as_secs_f64() * 1e6
        };
        // The first change waits for the readers to start.
        change(0);
        (1..=changes).map(change).collect::<Vec<f64>>()
    });
    times.sort_by(f64::total_cmp);
    let most_us = times.last().copied().unwrap_or(0.0);
    Ok(Redirect { median_us: times[times.len() / 2], most_us, readers })
}

/// Looks up and resolves until stopped; publishes the oldest adjacency of each vector.
fn read<K: Family>(
    lpm: &LpmReader<K>,
    hops: &NextHopReader,
    keys: &[K],
    seen: &AtomicU32,
    stop: &AtomicBool,
) {
    let (mut ids, mut adjacencies) = ([0; VECTOR], [0; VECTOR]);
    for vector in keys.chunks_exact(VECTOR).cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        lpm.lookup_batch(vector, &mut ids);
        hops.resolve_batch(lpm.kernel(), &ids, &mut adjacencies);
        seen.store(adjacencies.iter().copied().min().unwrap_or(0), Ordering::Release);
    }
}
