//! How often rules have matched: counters of all rules side by side for each worker, so that a vector of packets that
//! match many rules touches few lines.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use stoa_engine::Vector;
use stoa_engine::counters::{Counter, OutOfMemory, zeroed};
use stoa_tables::classifier::NO_RULE;
use zerocopy::FromZeros;

use super::{Classifier, RULES};
use crate::drops::Drop as DropReason;

/// What counts at most: the rules of now, of a change, and those that wait for workers, with as many lists and pairs.
pub const COUNTED: usize = 4 * RULES;

/// The place of counters for which there was no room: it is not shown.
const NOWHERE: u32 = 0;

/// What matched a rule, on one worker. It never crosses a cache line.
#[derive(Default, FromZeros)]
#[repr(C, align(32))]
pub struct HitCell {
    packets: Counter,
    bytes: Counter,
    /// The time stamp counter at the last match; 0: none.
    last: Counter,
}

/// The hit counters of all workers, by place.
pub struct HitTable {
    workers: Box<[Box<[HitCell]>]>,
    places: Mutex<Places>,
}

/// Places that no rule has.
struct Places {
    free: Vec<u32>,
    /// No place from here on was ever in use.
    next: u32,
}

impl HitTable {
    /// Places for so many rules and others that count. Memory is touched when it is used.
    ///
    /// # Errors
    /// The system refuses the memory.
    pub fn new(workers: usize, capacity: usize) -> Result<Arc<Self>, OutOfMemory> {
        let workers = (0..workers).map(|_| zeroed(capacity + 1)).collect::<Result<_, _>>()?;
        let places = Mutex::new(Places { free: Vec::new(), next: NOWHERE + 1 });
        Ok(Arc::new(Self { workers, places }))
    }

    /// The counters of a worker, by [`Hits::place`].
    #[inline(always)]
    pub fn of_worker(&self, worker: usize) -> &[HitCell] {
        self.workers.get(worker).map_or(&[], |cells| cells)
    }

    fn take(&self) -> u32 {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.free.pop() {
            return place;
        }
        let capacity = self.workers.first().map_or(0, |cells| cells.len());
        if places.next as usize >= capacity {
            return NOWHERE;
        }
        places.next += 1;
        places.next - 1
    }

    fn give_back(&self, place: u32) {
        if place != NOWHERE {
            self.places.lock().unwrap_or_else(PoisonError::into_inner).free.push(place);
        }
    }

    fn sum(&self, place: u32) -> HitSum {
        let cells = self.workers.iter().filter_map(|cells| cells.get(place as usize));
        cells.fold(HitSum::default(), |sum, cell| HitSum {
            packets: sum.packets.wrapping_add(cell.packets.get()),
            bytes: sum.bytes.wrapping_add(cell.bytes.get()),
            last: sum.last.max(cell.last.get()),
        })
    }
}

impl HitCell {
    /// Adds to the counters; only the worker that they belong to calls it.
    #[inline(always)]
    pub(super) fn add(&self, packets: u64, bytes: u64, now: u64) {
        self.packets.add(packets);
        self.bytes.add(bytes);
        self.last.set(now);
    }
}

/// Hits of all workers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HitSum {
    /// Packets.
    pub packets: u64,
    /// Bytes of these IP packets.
    pub bytes: u64,
    /// The time stamp counter at the last one; 0: none.
    pub last: u64,
}

/// The hit counters of a rule. Their place is free when the last one that knows them goes: workers no longer use a
/// classifier then.
pub struct Hits {
    table: Arc<HitTable>,
    place: u32,
    /// What a former rule has left at the place.
    before: HitSum,
}

impl Hits {
    /// Counters that begin at zero. Without room they stay there.
    pub fn new(table: &Arc<HitTable>) -> Self {
        let place = table.take();
        Self { table: Arc::clone(table), place, before: table.sum(place) }
    }

    /// Where they are in [`HitTable::of_worker`], below 2^24.
    pub fn place(&self) -> u32 {
        self.place
    }

    /// Adds to the counters of a worker; only this worker calls it.
    #[inline]
    pub(super) fn add(&self, worker: usize, packets: u64, bytes: u64, now: u64) {
        if let Some(cell) = self.table.of_worker(worker).get(self.place as usize) {
            cell.add(packets, bytes, now);
        }
    }

    /// All workers together.
    pub fn sum(&self) -> HitSum {
        if self.place == NOWHERE {
            return HitSum::default();
        }
        let (now, before) = (self.table.sum(self.place), self.before);
        HitSum {
            packets: now.packets.wrapping_sub(before.packets),
            bytes: now.bytes.wrapping_sub(before.bytes),
            last: if now.last == before.last { 0 } else { now.last },
        }
    }
}

impl Drop for Hits {
    fn drop(&mut self) {
        self.table.give_back(self.place);
    }
}

impl fmt::Debug for Hits {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.sum())
    }
}

/// Counts the hits of lanes; those in a row with the same rule together.
#[inline]
pub(super) fn count(
    classifier: &Classifier,
    (lanes, found): (&[u8], &[u32]),
    vector: &Vector,
    (hits, now): (&[HitCell], u64),
) {
    let (mut rule, mut packets, mut bytes) = (NO_RULE, 0, 0);
    let add = |rule: u32, packets: u64, bytes: u64| {
        let place = classifier.place_of_hits(rule).filter(|_| packets > 0);
        if let Some(hits) = place.and_then(|place| hits.get(place)) {
            hits.add(packets, bytes, now);
        }
    };
    for (lane, found) in lanes.iter().zip(found) {
        if *found != rule {
            add(rule, packets, bytes);
            (rule, packets, bytes) = (*found, 0, 0);
        }
        packets += 1;
        bytes += u64::from(vector.length[usize::from(*lane)]);
    }
    add(rule, packets, bytes);
}

/// Counts packets that are dropped because no rule of a pair of zones matches.
#[cold]
pub(super) fn count_unmatched(
    unmatched: &Hits,
    (lanes, found): (&[u8], &[u32]),
    vector: &Vector,
    (worker, now): (usize, u64),
) {
    let dropped = DropReason::ZonePair.next();
    for (lane, found) in lanes.iter().zip(found) {
        let lane = usize::from(*lane);
        if *found == NO_RULE && vector.next[lane] == dropped {
            unmatched.add(worker, 1, vector.length[lane].into(), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_of_workers_are_added() {
        let hits = Hits::new(&HitTable::new(2, 1).unwrap());
        hits.add(0, 2, 100, 5);
        hits.add(1, 3, 50, 4);
        hits.add(2, 1, 1, 9);
        assert_eq!(hits.sum(), HitSum { packets: 5, bytes: 150, last: 5 });
    }

    #[test]
    fn a_place_that_is_used_again_begins_at_zero() {
        let table = HitTable::new(1, 2).unwrap();
        let (first, second) = (Hits::new(&table), Hits::new(&table));
        first.add(0, 7, 700, 3);
        second.add(0, 1, 10, 4);
        let place = first.place();
        drop(first);
        let again = Hits::new(&table);
        assert_eq!((again.place(), again.sum()), (place, HitSum::default()));
        again.add(0, 2, 20, 9);
        assert_eq!(again.sum(), HitSum { packets: 2, bytes: 20, last: 9 });
        assert_eq!(second.sum(), HitSum { packets: 1, bytes: 10, last: 4 });
    }

    #[test]
    fn counters_without_room_stay_at_zero() {
        let table = HitTable::new(1, 1).unwrap();
        let (some, more) = (Hits::new(&table), Hits::new(&table));
        more.add(0, 1, 1, 1);
        some.add(0, 5, 50, 2);
        assert_eq!([some.sum().packets, more.sum().packets], [5, 0]);
        drop(more);
        drop(some);
        assert_ne!(Hits::new(&table).place(), NOWHERE);
    }
}
