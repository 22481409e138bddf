//! When to look at a flow again: a wheel with two lists for each tick, of evictable flows and of assured ones.
//!
//! A list holds flows of one tick only. What is due later than the wheel reaches goes to its last tick, is
//! looked at there and moves on: so deadlines are not stored, and a flow costs 8 bytes here in place of the
//! 16 of a [`TimingWheel`](crate::timing_wheel::TimingWheel).

use super::lists::Heads;
use super::memory::{KINDS, RECORD_WORDS};
use super::prefetch;
use crate::sync::AtomicU32;

/// Ticks of a turn of the wheel.
pub(super) const TICKS: u32 = 4096;
const WORDS: usize = (TICKS / u64::BITS) as usize;
/// The list of the free ids of the first kind.
const FREE: u32 = 2 * TICKS;
const RETIRED: u32 = FREE + KINDS as u32;
/// A list that is always empty.
const NEVER: u32 = RETIRED + KINDS as u32;
const LISTS: u32 = NEVER + 1;

/// Whether a full table may give up a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Eviction {
    /// It may be evicted.
    Allowed,
    /// It may not.
    Never,
}

/// The lists of one owner.
#[derive(Debug)]
pub(super) struct Wheel {
    pub(super) heads: Heads,
    /// One bit for each list of the wheel that is not empty.
    occupied: [[u64; WORDS]; 2],
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
        Self { heads: Heads::new(LISTS), occupied: [[0; WORDS]; 2], next, open: NEVER }
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

    /// A flow that is in no list is looked at at tick `at`, or at the last tick of the wheel.
    #[inline(always)]
    pub(super) fn schedule(&mut self, records: &Records, id: u32, at: u32, eviction: Eviction) {
        let ahead = self.ahead_in_turn(at);
        let slot = self.next.wrapping_add(ahead as u32) % TICKS;
        self.occupied[eviction as usize][(slot / u64::BITS) as usize] |= 1 << (slot % u64::BITS);
        self.heads.append(records, eviction as u32 * TICKS + slot, id);
    }

    /// Takes a flow out of its list.
    #[inline(always)]
    pub(super) fn unlink(&mut self, records: &Records, id: u32) {
        if let Some(list @ 0..FREE) = self.heads.unlink(records, id) {
            self.vacate(list);
        }
    }

    fn vacate(&mut self, list: u32) {
        let (eviction, slot) = (list / TICKS, list % TICKS);
        let bit = 1 << (slot % u64::BITS);
        self.occupied[eviction as usize][(slot / u64::BITS) as usize] &= !bit;
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
        let ahead = self.ahead(now).min(TICKS as i32 - 1) as u32;
        let evictable =
            self.first_occupied(Eviction::Allowed).filter(|evictable| *evictable <= ahead);
        let assured = self.first_occupied(Eviction::Never).filter(|assured| *assured <= ahead);
        let (eviction, ahead) = match (evictable, assured) {
            (Some(evictable), Some(assured)) if evictable <= assured => {
                (Eviction::Allowed, evictable)
            }
            (_, Some(assured)) => (Eviction::Never, assured),
            (Some(evictable), None) => (Eviction::Allowed, evictable),
            (None, None) => {
                self.next = now.wrapping_add(1);
                return None;
            }
        };
        self.next = self.next.wrapping_add(ahead);
        Some(eviction as u32 * TICKS + self.next % TICKS)
    }

    /// The next tick whose flows are looked at.
    pub(super) fn tick(&self) -> u32 {
        self.next
    }

    /// Whether something may be due by tick `now`.
    pub(super) fn is_due(&self, now: u32) -> bool {
        self.ahead(now) >= 0
    }

    /// The flow of this eviction that is looked at first, and the ticks until then from the next one on.
    pub(super) fn earliest(&self, eviction: Eviction) -> Option<(u32, i32)> {
        let ahead = self.first_occupied(eviction)?;
        let slot = self.next.wrapping_add(ahead) % TICKS;
        let id = self.heads.first(eviction as u32 * TICKS + slot)?;
        Some((id, ahead.cast_signed()))
    }

    /// Ticks from the next one to the first list that is not empty.
    fn first_occupied(&self, eviction: Eviction) -> Option<u32> {
        let words = &self.occupied[eviction as usize];
        let start = self.next % TICKS;
        let first = (start / u64::BITS) as usize;
        // The word of the next tick is looked at twice: its upper bits first, its lower ones last.
        for step in 0..=WORDS {
            let at = (first + step) % WORDS;
            let upper = u64::MAX << (start % u64::BITS);
            let word = match step {
                0 => words[at] & upper,
                WORDS => words[at] & !upper,
                _ => words[at],
            };
            if word != 0 {
                let slot = at as u32 * u64::BITS + word.trailing_zeros();
                return Some(slot.wrapping_sub(start) % TICKS);
            }
        }
        None
    }
}
