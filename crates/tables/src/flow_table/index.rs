//! The index: from the hash of a key to the flow that has it, in buckets that all workers share.
//!
//! A key is in its home bucket, or away in its other one when the home was full. Readers take no lock.
//! Whoever inserts or removes a key holds the lock of its home, so that one key is never inserted twice;
//! both locks when the other bucket matters. Locks are waited for in ascending order, and a third one, to
//! move a key out of the way, is only tried.
//!
//! A key that moves is stored in its new place, then its home's header changes, then it is cleared in the
//! old place. A reader that looks at the new place too early and at the old one too late sees the header
//! change, and looks again.

use super::FlowError;
use super::bucket::{Bucket, Reference, SLOTS, WORDS};
use super::hash::{Hash, Place, Secret};
use crate::aligned::{Aligned, Region};
use crate::sync::{AtomicU64, zeroed};

/// Keys for each `FILL[1]` slots at most.
const FILL: [u64; 2] = [5, 6];
/// Looks at moving keys before a reader takes the lock.
const LOOKS: u32 = if cfg!(loom) { 2 } else { 16 };

/// The buckets.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) hash: Hash,
    words: Aligned<AtomicU64>,
}

impl Index {
    /// An index for so many keys; `None`: the system has no address space, or the keys are too many.
    pub(super) fn new(secret: &Secret, keys: u64) -> Option<Self> {
        let buckets = (keys * FILL[1]).div_ceil(SLOTS as u64 * FILL[0]).max(2);
        let buckets = u32::try_from(buckets).ok().filter(|buckets| *buckets <= 1 << 31)?;
        let words = Aligned::new(buckets as usize * WORDS, zeroed)?;
        Some(Self { hash: Hash::new(secret, buckets), words })
    }

    pub(super) fn region(&self) -> Region {
        self.words.region()
    }

    /// The words of all buckets.
    #[inline(always)]
    pub(super) fn words(&self) -> &[[AtomicU64; WORDS]] {
        self.words.get().as_chunks().0
    }

    #[inline(always)]
    pub(super) fn bucket(&self, at: u32) -> Bucket<'_> {
        Bucket(&self.words()[at as usize])
    }

    /// The reference to a key. `is_key` tells whether a reference is the one; it is asked about keys with
    /// the same signature.
    pub(super) fn find(
        &self,
        place: Place,
        is_key: impl Fn(Reference) -> bool,
    ) -> Option<Reference> {
        let home = self.bucket(place.home);
        for _ in 0..LOOKS {
            let header = home.header();
            if let Some(found) = find_in(home, place.signature, &is_key) {
                return Some(found.1);
            }
            if header.has_away() {
                let other = self.bucket(self.hash.other(place.home, place.signature));
                if let Some(found) = find_in(other, place.signature, &is_key) {
                    return Some(found.1);
                }
            }
            if header == home.header() {
                return None;
            }
        }
        // Keys of this bucket move again and again. Under its lock they do not.
        let is_locked = home.lock();
        let other = self.bucket(self.hash.other(place.home, place.signature));
        let found = find_in(home, place.signature, &is_key)
            .or_else(|| find_in(other, place.signature, &is_key));
        if is_locked {
            home.unlock();
        }
        found.map(|(_, reference)| reference)
    }

    /// Inserts a key, or returns the reference that it has already.
    pub(super) fn insert(
        &self,
        place: Place,
        reference: Reference,
        is_key: impl Fn(Reference) -> bool,
    ) -> Result<Option<Reference>, FlowError> {
        let home = self.bucket(place.home);
        if !home.lock() {
            return Err(FlowError::Contended);
        }
        let other = self.hash.other(place.home, place.signature);
        if !home.header().has_away() || other == place.home {
            let found = find_in(home, place.signature, &is_key);
            // A key that has one bucket only.
            if other == place.home && found.is_none() && free_slot(home).is_none() {
                self.make_room(place.home, [place.home; 2]);
            }
            let free = free_slot(home);
            if let (None, Some(slot)) = (found, free) {
                home.fill(slot, place.signature, reference);
            }
            if found.is_some() || free.is_some() || other == place.home {
                home.unlock();
                return found.map_or(free.map(|_| None).ok_or(FlowError::IndexFull), |found| {
                    Ok(Some(found.1))
                });
            }
        }
        let both = self.lock_other(place.home, other)?;
        both.insert(place.signature, reference, is_key)
    }

    /// Removes a key by its reference; `false`: it was not there.
    pub(super) fn remove(&self, place: Place, reference: Reference) -> Result<bool, FlowError> {
        let is_it = |found: Reference| found.is_same(reference);
        let home = self.bucket(place.home);
        if !home.lock() {
            return Err(FlowError::Contended);
        }
        let found = find_in(home, place.signature, is_it);
        let other = self.hash.other(place.home, place.signature);
        if found.is_some() || !home.header().has_away() || other == place.home {
            if let Some((slot, _)) = found {
                home.clear(slot);
            }
            home.unlock();
            return Ok(found.is_some());
        }
        Ok(self.lock_other(place.home, other)?.remove(place.signature, is_it))
    }

    /// Takes the lock of a second bucket; gives that of the first one back for a while when it is the
    /// second in order. Without success neither is held.
    fn lock_other(&self, home: u32, other: u32) -> Result<Both<'_>, FlowError> {
        let at = [home, other];
        let (home, other) = (self.bucket(home), self.bucket(other));
        // Unlocks both when it is dropped.
        let both = || Both { index: self, home, other, at };
        if other.try_lock() || (at[1] > at[0] && other.lock()) {
            return Ok(both());
        }
        home.unlock();
        if at[1] < at[0] && other.lock() {
            if home.lock() {
                return Ok(both());
            }
            other.unlock();
        }
        Err(FlowError::Contended)
    }

    /// Moves one key of a full bucket to its other one, which is not one of ours, the locked ones; `false`:
    /// none of those has room.
    fn make_room(&self, at: u32, ours: [u32; 2]) -> bool {
        let bucket = self.bucket(at);
        (0..SLOTS).any(|slot| {
            let target = self.hash.other(at, bucket.signature(slot));
            // They are full.
            if ours.contains(&target) {
                return false;
            }
            let target = self.bucket(target);
            if !target.try_lock() {
                return false;
            }
            let is_moved = free_slot(target).is_some_and(|to| move_key(bucket, slot, target, to));
            target.unlock();
            is_moved
        })
    }
}

/// The slot and reference of a key in one bucket.
#[inline(always)]
fn find_in(
    bucket: Bucket<'_>,
    signature: u16,
    is_key: impl Fn(Reference) -> bool,
) -> Option<(usize, Reference)> {
    let mut slots = bucket.slots_of(signature);
    while slots != 0 {
        let slot = slots.trailing_zeros() as usize;
        let reference = bucket.reference(slot);
        if is_key(reference) {
            return Some((slot, reference));
        }
        slots &= slots - 1;
    }
    None
}

fn free_slot(bucket: Bucket<'_>) -> Option<usize> {
    let free = bucket.slots_of(0);
    (free != 0).then(|| free.trailing_zeros() as usize)
}

/// Both buckets of a key, locked.
struct Both<'a> {
    index: &'a Index,
    home: Bucket<'a>,
    other: Bucket<'a>,
    at: [u32; 2],
}

impl Drop for Both<'_> {
    fn drop(&mut self) {
        self.home.unlock();
        self.other.unlock();
    }
}

impl Both<'_> {
    fn insert(
        &self,
        signature: u16,
        reference: Reference,
        is_key: impl Fn(Reference) -> bool,
    ) -> Result<Option<Reference>, FlowError> {
        let found = find_in(self.home, signature, &is_key)
            .or_else(|| find_in(self.other, signature, &is_key));
        if let Some((_, found)) = found {
            return Ok(Some(found));
        }
        if free_slot(self.home).is_none() && free_slot(self.other).is_none() {
            let _ = self.at.iter().any(|at| self.index.make_room(*at, self.at));
        }
        if let Some(slot) = free_slot(self.home) {
            self.home.fill(slot, signature, reference);
            return Ok(None);
        }
        match free_slot(self.other) {
            Some(slot) if self.home.one_away() => {
                self.other.fill(slot, signature, reference.away(true));
                Ok(None)
            }
            _ => Err(FlowError::IndexFull),
        }
    }

    fn remove(&self, signature: u16, is_it: impl Fn(Reference) -> bool) -> bool {
        if let Some((slot, _)) = find_in(self.home, signature, &is_it) {
            self.home.clear(slot);
            return true;
        }
        let Some((slot, _)) = find_in(self.other, signature, &is_it) else { return false };
        self.other.clear(slot);
        self.home.one_back();
        true
    }
}

/// Moves a key to its other bucket; both are locked. `false`: too many are away already.
fn move_key(from: Bucket<'_>, slot: usize, target: Bucket<'_>, to: usize) -> bool {
    let (signature, reference) = (from.signature(slot), from.reference(slot));
    if reference.is_away() {
        target.fill(to, signature, reference.away(false));
        target.one_moved();
        from.clear(slot);
        target.one_back();
        return true;
    }
    if !from.one_away() {
        return false;
    }
    target.fill(to, signature, reference.away(true));
    from.one_moved();
    from.clear(slot);
    true
}

#[cfg(all(test, loom))]
mod loom_tests {
    use core::sync::atomic::Ordering::Relaxed;
    use std::sync::Arc;

    use super::*;
    use crate::sync::AtomicU32;

    /// Two workers want both buckets at once, in opposite orders: what they lock, and give back, is theirs.
    #[test]
    fn locks_in_opposite_orders_are_given_back() {
        explore(|| {
            let index = Arc::new(index());
            let ends = [(0, 1), (1, 0)].map(|(home, other)| place(&index, home, other, 0));
            let other = {
                let index = Arc::clone(&index);
                loom::thread::spawn(move || lock_both(&index, ends[1]))
            };
            lock_both(&index, ends[0]);
            other.join().expect("no panic");
            assert!(index.bucket(0).try_lock() && index.bucket(1).try_lock());
        });
    }

    fn lock_both(index: &Index, place: Place) {
        let other = index.hash.other(place.home, place.signature);
        if index.bucket(place.home).lock() {
            drop(index.lock_other(place.home, other));
        }
    }

    /// An index of three buckets.
    fn index() -> Index {
        Index::new(&Secret([7; 64]), 5).expect("memory")
    }

    /// A place whose home is `home` and whose other bucket is `other`, one of several.
    fn place(index: &Index, home: u32, other: u32, number: usize) -> Place {
        let is_it = |signature: &u16| index.hash.other(home, *signature) == other;
        let signature = (1..u16::MAX).filter(is_it).nth(number).expect("a signature");
        Place { home, signature }
    }

    /// Explores as many switches between threads as find the faults that these tests are about.
    fn explore(test: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(test);
    }

    fn insert(index: &Index, place: Place, flow: u32) {
        let inserted = index.insert(place, Reference::new(flow, false), |_| false);
        assert_eq!(inserted, Ok(None));
    }

    /// A key goes to its other bucket and back: a reader finds it at any moment.
    #[test]
    fn a_moving_key_is_found() {
        explore(|| {
            let index = Arc::new(index());
            let moving = place(&index, 0, 1, 0);
            insert(&index, moving, 100);
            for number in 0..SLOTS - 1 {
                insert(&index, place(&index, 0, 0, number), 200 + number as u32);
                insert(&index, place(&index, 1, 1, number), 300 + number as u32);
            }
            let reader = Arc::clone(&index);
            let thread = loom::thread::spawn(move || {
                let found = reader.find(moving, |reference| reference.flow() == 100);
                assert!(found.is_some());
            });
            // Drives it out of its home, which is full of keys that have no other bucket.
            insert(&index, place(&index, 0, 0, SLOTS), 250);
            let removed = index.remove(place(&index, 0, 0, 0), Reference::new(200, false));
            assert_eq!(removed, Ok(true));
            // And out of the other one, too.
            insert(&index, place(&index, 1, 1, SLOTS), 350);
            thread.join().expect("no panic");
            let found = index.find(moving, |reference| reference.flow() == 100);
            assert_eq!(found.map(Reference::is_away), Some(false));
        });
    }

    /// Two workers create one flow at once: one of them, and both agree which. Whoever finds it sees its key.
    #[test]
    fn a_key_is_inserted_once_and_published_whole() {
        explore(|| {
            let index = Arc::new(index());
            let keys = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let key = place(&index, 0, 1, 0);
            let create = move |index: Arc<Index>, keys: Arc<[AtomicU32; 2]>, flow: u32| {
                keys[flow as usize].store(9, Relaxed);
                let is_key = |found: Reference| {
                    assert_eq!(keys[found.flow() as usize].load(Relaxed), 9);
                    true
                };
                loop {
                    match index.insert(key, Reference::new(flow, false), is_key) {
                        Ok(existing) => return existing.map_or(flow, Reference::flow),
                        Err(refused) => assert_eq!(refused, FlowError::Contended),
                    }
                    crate::sync::wait();
                }
            };
            let other = {
                let (index, keys) = (Arc::clone(&index), Arc::clone(&keys));
                loom::thread::spawn(move || create(index, keys, 1))
            };
            let mine = create(Arc::clone(&index), Arc::clone(&keys), 0);
            let other = other.join().expect("no panic");
            assert_eq!(mine, other);
            assert_eq!(index.find(key, |_| true).map(Reference::flow), Some(mine));
        });
    }
}
