//! When to look at a flow again: a wheel with a list for each tick and set of flows. The sets are in the order in which
//! flows are evicted ([`evict`](super::evict)).
//!
//! A list holds flows of one tick only. What is due later than the wheel reaches goes to its last tick, is
//! looked at there and moves on: so deadlines are not stored, and a flow costs 8 bytes here in place of the
//! 16 of a [`TimingWheel`](crate::timing_wheel::TimingWheel).

use super::evict::SETS;
use super::lists::Heads;
use super::memory::{KINDS, RECORD_WORDS};
use super::prefetch;
use crate::sync::AtomicU32;

/// Ticks of a turn of the wheel.
pub(super) const TICKS: u32 = 4096;
const WORDS: usize = (TICKS / u64::BITS) as usize;
/// The list of the free ids of the first kind.
const FREE: u32 = SETS as u32 * TICKS;
const RETIRED: u32 = FREE + KINDS as u32;
/// A list that is always empty.
const NEVER: u32 = RETIRED + KINDS as u32;
const LISTS: u32 = NEVER + 1;

/// Which lists of a set are not empty.
#[derive(Clone, Copy, Debug)]
struct Occupied {
    /// One bit for each list.
    lists: [u64; WORDS],
    /// One bit for each of these words that is not zero.
    words: u64,
}

const _: () = assert!(WORDS == u64::BITS as usize);

impl Occupied {
    const NONE: Self = Self { lists: [0; WORDS], words: 0 };

    #[inline(always)]
    fn set(&mut self, slot: u32) {
        let word = slot / u64::BITS;
        self.lists[word as usize] |= 1 << (slot % u64::BITS);
        self.words |= 1 << word;
    }

    #[inline(always)]
    fn clear(&mut self, slot: u32) {
        let word = slot / u64::BITS;
        self.lists[word as usize] &= !(1 << (slot % u64::BITS));
        if self.lists[word as usize] == 0 {
            self.words &= !(1 << word);
        }
    }

    /// Ticks from a slot to the first list that is not empty, around the wheel.
    #[inline(always)]
    fn first(&self, start: u32) -> Option<u32> {
        let word = start / u64::BITS;
        let upper = self.lists[word as usize] & (u64::MAX << (start % u64::BITS));
        if upper != 0 {
            return Some(word * u64::BITS + upper.trailing_zeros() - start);
        }
        if self.words == 0 {
            return None;
        }
        // The word of the start comes last: only lower bits of it are left.
        let after = (word + 1) % u64::BITS;
        let word = (after + self.words.rotate_right(after).trailing_zeros()) % u64::BITS;
        let slot = word * u64::BITS + self.lists[word as usize].trailing_zeros();
        Some(slot.wrapping_sub(start) % TICKS)
    }
}

/// The lists of one owner.
#[derive(Debug)]
pub(super) struct Wheel {
    pub(super) heads: Heads,
    occupied: [Occupied; SETS],
    /// The next tick whose flows are looked at.
    next: u32,
    /// The list of this tick that is being emptied, or [`NEVER`].
    open: u32,
}

/// The list of free ids of a kind.
pub(super) fn free(kind: usize) -> u32 {
    FREE + kind as u32
}

/// The list of removed ids of a kind.
pub(super) fn retired(kind: usize) -> u32 {
    RETIRED + kind as u32
}

type Records = [[AtomicU32; RECORD_WORDS]];

impl Wheel {
    pub(super) fn new(now: u32) -> Self {
        let next = now.wrapping_add(1);
        Self { heads: Heads::new(LISTS), occupied: [Occupied::NONE; SETS], next, open: NEVER }
    }

    /// Ticks from the next one to `tick`; negative when it is earlier.
    fn ahead(&self, tick: u32) -> i32 {
        tick.wrapping_sub(self.next).cast_signed()
    }

    /// Ticks from the next one to the list of `tick`: 0 to that of the last tick of a turn.
    #[inline(always)]
    pub(super) fn ahead_in_turn(&self, tick: u32) -> i32 {
        self.ahead(tick).clamp(0, TICKS as i32 - 1)
    }

    /// A flow of a set that is in no list is looked at at tick `at`, or at the last tick of the wheel.
    #[inline(always)]
    pub(super) fn schedule(&mut self, records: &Records, id: u32, at: u32, set: usize) {
        let ahead = self.ahead_in_turn(at);
        let slot = self.next.wrapping_add(ahead as u32) % TICKS;
        self.occupied[set].set(slot);
        self.heads.append(records, set as u32 * TICKS + slot, id);
    }

    /// Takes a flow out of its list.
    #[inline(always)]
    pub(super) fn unlink(&mut self, records: &Records, id: u32) {
        if let Some(list @ 0..FREE) = self.heads.unlink(records, id) {
            self.vacate(list);
        }
    }

    fn vacate(&mut self, list: u32) {
        self.occupied[(list / TICKS) as usize].clear(list % TICKS);
    }

    /// Takes out a flow that is due by tick `now`, the earliest first, and prefetches what the next one needs.
    #[inline(always)]
    pub(super) fn pop(&mut self, records: &Records, now: u32) -> Option<u32> {
        let id = match self.heads.first(self.open) {
            Some(id) => id,
            None => {
                self.open = NEVER;
                if self.ahead(now) < 0 {
                    return None;
                }
                self.open = self.next_list(now)?;
                self.heads.first(self.open)?
            }
        };
        self.unlink(records, id);
        if let Some(next) = self.heads.first(self.open) {
            prefetch(records, next as usize);
        }
        Some(id)
    }

    /// The first list that is not empty, up to tick `now`; the wheel goes on to its tick, or past `now`.
    fn next_list(&mut self, now: u32) -> Option<u32> {
        let most = self.ahead(now).min(TICKS as i32 - 1) as u32;
        let start = self.next % TICKS;
        let sets = self.occupied.iter().zip(0_u32..);
        let first = sets.filter_map(|(occupied, set)| Some((occupied.first(start)?, set))).min();
        let Some((ahead, set)) = first.filter(|(ahead, _)| *ahead <= most) else {
            self.next = now.wrapping_add(1);
            return None;
        };
        self.next = self.next.wrapping_add(ahead);
        Some(set * TICKS + self.next % TICKS)
    }

    /// The next tick whose flows are looked at.
    pub(super) fn tick(&self) -> u32 {
        self.next
    }

    /// Whether something may be due by tick `now`.
    pub(super) fn is_due(&self, now: u32) -> bool {
        self.ahead(now) >= 0
    }

    /// The flow of a set that is looked at first, and the ticks until then from the next one on.
    #[inline(always)]
    pub(super) fn earliest(&self, set: usize) -> Option<(u32, i32)> {
        let ahead = self.occupied[set].first(self.next % TICKS)?;
        let slot = self.next.wrapping_add(ahead) % TICKS;
        let id = self.heads.first(set as u32 * TICKS + slot)?;
        Some((id, ahead.cast_signed()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_list_is_that_of_a_naive_search(
            slots in prop::collection::vec(0..TICKS, 0..6), cleared in prop::collection::vec(0..6_usize, 0..6),
            starts in prop::collection::vec(0..TICKS, 1..20),
        ) {
            let mut occupied = Occupied::NONE;
            slots.iter().for_each(|slot| occupied.set(*slot));
            let mut left = slots.clone();
            for slot in cleared.iter().filter_map(|at| slots.get(*at)) {
                occupied.clear(*slot);
                left.retain(|other| other != slot);
            }
            for start in starts.into_iter().chain(slots) {
                let naive = left.iter().map(|slot| slot.wrapping_sub(start) % TICKS).min();
                prop_assert_eq!(occupied.first(start), naive);
            }
        }
    }
}
