//! A timing wheel: which of many timers expire next, at a constant cost for each; for shapers and
//! flow timers. One owner, no locks.
//!
//! The hierarchical wheel of Varghese and Lauck ("Hashed and Hierarchical Timing Wheels", SOSP
//! 1987, scheme 7). A tick is any unit that the owner chooses, counted in 64 bits. Each byte of a
//! tick is a level of 256 slots: a timer is on the level of the highest byte in which its
//! deadline differs from the tick that the wheel has reached, in the slot that this byte names.
//! Eight levels hold every deadline, so that there is no list of overflows. When the wheel
//! reaches the first tick of a slot above level 0, the slot's timers move to lower levels.
//!
//! ```text
//! level 0    ticks of this block of 256   ┬┬┬┬┬┬┬┬   a slot is one tick: its timers expire
//! level 1    the blocks of this 65,536    ┬┬┬┬┬┬┬┬   a slot is 256 ticks: its timers move down
//! ...
//! level 7    all 64 bits
//! ```
//!
//! Memory: 16 bytes for each timer, and 32 KiB; nothing is allocated after construction.
//! [`TimingWheel::schedule`] and [`TimingWheel::cancel`] touch the timer and its two neighbours.
//! [`TimingWheel::advance`] touches as many timers as the caller allows, however far it jumps. A
//! timer less than `256^k` ticks ahead moves down at most `k` times.

#[cfg(test)]
mod tests;

use crate::sync::zeroed;
use zerocopy::FromZeros;

/// Levels: bytes of a tick.
const LEVELS: u32 = 8;
/// Slots of one level.
const SLOTS: u32 = 256;
/// Bits of a tick that name a slot.
const SLOT_BITS: u32 = SLOTS.trailing_zeros();
/// Words that have one bit for each slot of a level.
const WORDS: usize = (SLOTS / u64::BITS) as usize;
/// Where the heads of the slots begin among the timers. Index 0 is no timer.
const HEADS: u32 = 1;
/// Where the timers begin.
const TIMERS: u32 = HEADS + LEVELS * SLOTS;

/// The most timers that a wheel can have.
pub const CAPACITY_MAX: u32 = u32::MAX - TIMERS;

/// Why a timing wheel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingWheelError {
    /// There is no memory for so many timers, or they are more than [`CAPACITY_MAX`].
    #[error("no memory for {0} timers; lower the wheel's capacity")]
    Capacity(u32),
    /// The id is not below the capacity.
    #[error("there is no timer {id}: the wheel has {capacity}; raise its capacity")]
    Absent {
        /// The id.
        id: u32,
        /// The wheel's capacity.
        capacity: u32,
    },
}

/// A timer, or the head of a slot: a member of the slot's circular list.
#[derive(Clone, Copy, Default, FromZeros)]
#[repr(C)]
struct Timer {
    deadline: u64,
    /// 0: not in a list.
    next: u32,
    prev: u32,
}

const _: () = assert!(size_of::<Timer>() == 16);

/// Timers by id, and the tick that has been reached; see the [module](self).
pub struct TimingWheel {
    /// One unused, the head of each slot by level, then the timers by id.
    timers: Box<[Timer]>,
    /// One bit for each slot that holds timers, by level.
    occupied: [[u64; WORDS]; LEVELS as usize],
    /// One bit for each level that holds timers.
    levels: u8,
    /// No timer has an earlier deadline.
    now: u64,
    len: u32,
    /// The head of the slot above level 0 whose timers are being moved down; 0: none.
    open: u32,
}

impl TimingWheel {
    /// A wheel for the ids below `capacity` ([`CAPACITY_MAX`] at most) that has reached tick `now`.
    pub fn new(capacity: u32, now: u64) -> Result<Self, TimingWheelError> {
        let refused = TimingWheelError::Capacity(capacity);
        let timers =
            if capacity <= CAPACITY_MAX { TIMERS + capacity } else { return Err(refused) };
        let mut timers: Box<[Timer]> = zeroed(timers as usize).ok_or(refused)?;
        for (head, at) in timers[..TIMERS as usize].iter_mut().zip(0..) {
            (head.next, head.prev) = (at, at);
        }
        let occupied = [[0; WORDS]; LEVELS as usize];
        Ok(Self { timers, occupied, levels: 0, now, len: 0, open: 0 })
    }

    /// How many ids there are: all below this.
    pub fn capacity(&self) -> u32 {
        self.timers.len() as u32 - TIMERS
    }

    /// Timers that are scheduled.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether no timer is scheduled.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Timer `id` expires at tick `deadline`, and not at an earlier deadline of its own any more.
    /// A deadline before the tick that the wheel has reached counts as that tick: it expires at
    /// the next [`Self::advance`].
    #[inline]
    pub fn schedule(&mut self, id: u32, deadline: u64) -> Result<(), TimingWheelError> {
        let capacity = self.capacity();
        if id >= capacity {
            return Err(TimingWheelError::Absent { id, capacity });
        }
        let at = TIMERS + id;
        if self.timers[at as usize].next != 0 {
            self.unlink(at);
            self.len -= 1;
        }
        self.timers[at as usize].deadline = deadline.max(self.now);
        self.link(at);
        self.len += 1;
        Ok(())
    }

    /// Timer `id` does not expire any more; `false` when it was not scheduled.
    #[inline]
    pub fn cancel(&mut self, id: u32) -> Result<bool, TimingWheelError> {
        let capacity = self.capacity();
        if id >= capacity {
            return Err(TimingWheelError::Absent { id, capacity });
        }
        let is_scheduled = self.timers[(TIMERS + id) as usize].next != 0;
        if is_scheduled {
            self.unlink(TIMERS + id);
            self.len -= 1;
        }
        Ok(is_scheduled)
    }

    /// Passes the ids whose deadlines are `now` or earlier to `expired`, the earliest deadline
    /// first (ids of one tick in any order); they are not scheduled any more. At most `most`
    /// timers are touched: passed on, or moved down a level. Returns whether some of this is left
    /// for another call. A `now` earlier than that of a call before counts as that.
    pub fn advance(&mut self, now: u64, most: usize, mut expired: impl FnMut(u32)) -> bool {
        let now = now.max(self.now);
        for _ in 0..most {
            let Some(head) = self.next_slot(now) else {
                self.now = now;
                return false;
            };
            let at = self.timers[head as usize].next;
            self.unlink(at);
            if head < HEADS + SLOTS {
                self.len -= 1;
                expired(at - TIMERS);
            } else {
                self.link(at);
            }
        }
        self.next_deadline().is_some_and(|next| next <= now)
    }

    /// A tick at which [`Self::advance`] has something to do, never later than the earliest
    /// deadline; `None` when no timer is scheduled. It is the earliest deadline itself when that
    /// is on level 0, or alone in its slot; else the first tick of the slot.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.is_open() {
            return Some(self.now);
        }
        let (level, slot) = self.lowest()?;
        let head = HEADS + level * SLOTS + slot;
        let first = self.timers[self.timers[head as usize].next as usize];
        let is_exact = level == 0 || first.next == head;
        Some(if is_exact { first.deadline } else { self.start(level, slot) })
    }

    /// The slot with the next timer to expire or to move down by tick `now`. The wheel reaches
    /// the slot's first tick.
    fn next_slot(&mut self, now: u64) -> Option<u32> {
        // Timers of lower levels could be later than those that are still to be moved down.
        if self.is_open() {
            return Some(self.open);
        }
        // Its number may soon mean a later slot.
        self.open = 0;
        let (level, slot) = self.lowest()?;
        let start = self.start(level, slot);
        if start > now {
            return None;
        }
        self.now = start;
        let head = HEADS + level * SLOTS + slot;
        self.open = if level > 0 { head } else { 0 };
        Some(head)
    }

    /// Whether there are still timers in the slot that is being emptied.
    fn is_open(&self) -> bool {
        self.open != 0 && self.timers[self.open as usize].next != self.open
    }

    /// The level and slot of the earliest timers, provided that no slot is being emptied: all
    /// timers of a level are earlier than those of the next.
    fn lowest(&self) -> Option<(u32, u32)> {
        let level = self.levels.trailing_zeros();
        let words = self.occupied.get(level as usize)?;
        let word = words.iter().position(|word| *word != 0)?;
        Some((level, word as u32 * u64::BITS + words[word].trailing_zeros()))
    }

    /// The first tick of a slot.
    fn start(&self, level: u32, slot: u32) -> u64 {
        let shift = level * SLOT_BITS;
        let above = u64::MAX.checked_shl(shift + SLOT_BITS).unwrap_or(0);
        self.now & above | u64::from(slot) << shift
    }

    /// Appends a timer to the slot of its deadline, which is not before `self.now`.
    #[inline]
    fn link(&mut self, at: u32) {
        let deadline = self.timers[at as usize].deadline;
        debug_assert!(deadline >= self.now);
        let level = (deadline ^ self.now | 1).ilog2() / SLOT_BITS;
        let slot = (deadline >> (level * SLOT_BITS)) as u32 % SLOTS;
        let head = HEADS + level * SLOTS + slot;
        let last = self.timers[head as usize].prev;
        self.timers[last as usize].next = at;
        self.timers[head as usize].prev = at;
        let timer = &mut self.timers[at as usize];
        (timer.next, timer.prev) = (head, last);
        self.occupied[level as usize][(slot / u64::BITS) as usize] |= 1 << (slot % u64::BITS);
        self.levels |= 1 << level;
    }

    /// Takes a timer out of its slot.
    #[inline]
    fn unlink(&mut self, at: u32) {
        let Timer { next, prev, .. } = self.timers[at as usize];
        self.timers[prev as usize].next = next;
        self.timers[next as usize].prev = prev;
        self.timers[at as usize].next = 0;
        // Both neighbours are the head: the slot is empty now.
        if next == prev {
            let (level, slot) = ((next - HEADS) / SLOTS, (next - HEADS) % SLOTS);
            let words = &mut self.occupied[level as usize];
            words[(slot / u64::BITS) as usize] &= !(1 << (slot % u64::BITS));
            if *words == [0; WORDS] {
                self.levels &= !(1 << level);
            }
        }
    }
}
