//! A hierarchical timing wheel for one owner: ageing of neighbours, flows, sessions.
//!
//! Time is counted in ticks of the owner's choice. Level 0 has a slot for each of the next ticks,
//! level `n` one for each 64^n; a timer stands in the level of the highest group of six bits in
//! which its deadline differs from now, and moves down when its slot comes. Setting, cancelling
//! and firing are O(1) but for those at most ten moves; the work of one call is limited by the
//! caller, so that a million timers that end together do not stop a worker.

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// Groups of six bits in a deadline of 64.
const LEVELS: usize = 11;
const NONE: u32 = u32::MAX;

/// A timer that was set. After it fired or was cancelled, the id is of no use: a later timer in
/// the same place has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerId {
    index: u32,
    generation: u32,
}

/// Every place of the wheel is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room: all {0} timers are set; raise the wheel's capacity")]
pub struct TimersFull(pub usize);

#[derive(Clone, Copy, Debug)]
struct Timer {
    deadline: u64,
    token: u64,
    /// Changes whenever the place is freed.
    generation: u32,
    previous: u32,
    /// Next in the same slot; for a free place, the next free one.
    next: u32,
    /// `level * SLOTS + slot`, or `NONE` for a free place.
    list: u32,
}

/// Timers, each with a token of the owner.
#[derive(Debug)]
pub struct TimingWheel {
    timers: Vec<Timer>,
    capacity: usize,
    set: usize,
    free: u32,
    heads: [u32; LEVELS * SLOTS],
    /// Bit `slot` of word `level`: the slot is not empty.
    occupied: [u64; LEVELS],
    now: u64,
    /// A slot whose timers are being moved down; nothing fires before that is done.
    moving: Option<u32>,
}

impl TimingWheel {
    /// A wheel for at most `capacity` timers that begins at tick `now`. Memory is taken as timers
    /// are set, 40 bytes each.
    pub fn new(capacity: usize, now: u64) -> Self {
        Self {
            timers: Vec::new(),
            capacity: capacity.min(NONE as usize),
            set: 0,
            free: NONE,
            heads: [NONE; LEVELS * SLOTS],
            occupied: [0; LEVELS],
            now,
            moving: None,
        }
    }

    /// Timers that are set.
    pub fn len(&self) -> usize {
        self.set
    }

    /// Whether no timer is set.
    pub fn is_empty(&self) -> bool {
        self.set == 0
    }

    /// The tick up to which everything has fired.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Sets a timer. A deadline that is past fires at the next [`advance`](Self::advance).
    ///
    /// # Errors
    /// [`TimersFull`].
    pub fn set(&mut self, deadline: u64, token: u64) -> Result<TimerId, TimersFull> {
        let index = self.free;
        let timer = Timer {
            deadline: deadline.max(self.now),
            token,
            generation: 0,
            previous: NONE,
            next: NONE,
            list: NONE,
        };
        let index = if index != NONE {
            let place = &mut self.timers[index as usize];
            self.free = place.next;
            *place = Timer { generation: place.generation, ..timer };
            index
        } else if self.timers.len() < self.capacity {
            self.timers.push(timer);
            self.timers.len() as u32 - 1
        } else {
            return Err(TimersFull(self.capacity));
        };
        self.set += 1;
        self.link(index);
        Ok(TimerId { index, generation: self.timers[index as usize].generation })
    }

    /// Cancels a timer and gives its token; `None` when it has fired or was cancelled before.
    pub fn cancel(&mut self, id: TimerId) -> Option<u64> {
        let timer = self.timers.get(id.index as usize)?;
        if timer.generation != id.generation || timer.list == NONE {
            return None;
        }
        self.unlink(id.index);
        Some(self.release(id.index))
    }

    /// Fires what is due at tick `now` or before, tick by tick, and gives true when nothing that
    /// is due is left. At most `limit` timers are touched: fired, or moved down a level. A clock
    /// that goes backwards is taken to stand still.
    pub fn advance(&mut self, now: u64, limit: usize, mut fire: impl FnMut(u64)) -> bool {
        let now = now.max(self.now);
        let mut left = limit;
        while let Some((list, start)) = self.next_slot().filter(|&(_, start)| start <= now) {
            self.now = start;
            let is_due = (list as usize) < SLOTS;
            self.moving = (!is_due).then_some(list);
            while self.heads[list as usize] != NONE {
                if left == 0 {
                    return false;
                }
                left -= 1;
                let index = self.heads[list as usize];
                self.unlink(index);
                if is_due {
                    fire(self.release(index));
                } else {
                    self.link(index);
                }
            }
            self.moving = None;
        }
        self.now = now;
        true
    }

    /// A tick before which nothing is due: how long the owner may sleep. `None` without timers.
    pub fn next_due(&self) -> Option<u64> {
        self.next_slot().map(|(_, start)| start)
    }

    /// The slot that comes next and the tick at which it begins. Timers of a lower level are
    /// always due before those of a higher one, and those of a level in the order of their slots.
    fn next_slot(&self) -> Option<(u32, u64)> {
        if let Some(list) = self.moving {
            return Some((list, self.now));
        }
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        let slot = self.occupied[level].trailing_zeros();
        let shift = BITS * level as u32;
        // The bits above this level are those of now.
        let above = self.now.checked_shr(shift + BITS).unwrap_or(0);
        let start = above.checked_shl(shift + BITS).unwrap_or(0) | u64::from(slot) << shift;
        Some((level as u32 * SLOTS as u32 + slot, start.max(self.now)))
    }

    fn link(&mut self, index: u32) {
        let deadline = self.timers[index as usize].deadline;
        let differing = (deadline ^ self.now) | (SLOTS as u64 - 1);
        let level = differing.ilog2() / BITS;
        let slot = (deadline >> (BITS * level)) as usize % SLOTS;
        let list = level as usize * SLOTS + slot;
        let next = core::mem::replace(&mut self.heads[list], index);
        if next != NONE {
            self.timers[next as usize].previous = index;
        }
        let timer = &mut self.timers[index as usize];
        (timer.previous, timer.next, timer.list) = (NONE, next, list as u32);
        self.occupied[level as usize] |= 1 << slot;
    }

    fn unlink(&mut self, index: u32) {
        let Timer { previous, next, list, .. } = self.timers[index as usize];
        if previous != NONE {
            self.timers[previous as usize].next = next;
        } else {
            self.heads[list as usize] = next;
            if next == NONE {
                self.occupied[list as usize / SLOTS] &= !(1 << (list as usize % SLOTS));
                // Cancelling may be what empties a slot that was to be moved down.
                self.moving = self.moving.filter(|&moving| moving != list);
            }
        }
        if next != NONE {
            self.timers[next as usize].previous = previous;
        }
    }

    /// Frees the place of a timer that is in no slot and gives its token.
    fn release(&mut self, index: u32) -> u64 {
        let timer = &mut self.timers[index as usize];
        timer.generation = timer.generation.wrapping_add(1);
        timer.list = NONE;
        timer.next = self.free;
        self.free = index;
        self.set -= 1;
        timer.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn far_and_past_deadlines_fire_in_order() {
        let mut wheel = TimingWheel::new(10, 1000);
        for deadline in [u64::MAX, 5, 1000, 1001, 1064, 70_000, 1 << 40] {
            wheel.set(deadline, deadline).unwrap();
        }
        let mut fired = Vec::new();
        assert!(wheel.advance(1000, 10, |token| fired.push(token)));
        fired.sort_unstable();
        assert_eq!(fired, [5, 1000]);
        fired.clear();
        assert_eq!(wheel.next_due(), Some(1001));
        assert!(wheel.advance(u64::MAX, 100, |token| fired.push(token)));
        assert_eq!(fired, [1001, 1064, 70_000, 1 << 40, u64::MAX]);
        assert!(wheel.is_empty());
        assert_eq!(wheel.next_due(), None);
    }

    #[test]
    fn limits_hold() {
        let mut wheel = TimingWheel::new(2, 0);
        let first = wheel.set(5, 1).unwrap();
        wheel.set(5, 2).unwrap();
        assert_eq!(wheel.set(5, 3), Err(TimersFull(2)));
        assert_eq!(wheel.cancel(first), Some(1));
        assert_eq!(wheel.cancel(first), None);
        let again = wheel.set(5, 3).unwrap();
        assert_ne!(again, first);
        assert_eq!(wheel.cancel(first), None, "an old id does not meet a new timer");
        let mut count = 0;
        assert!(!wheel.advance(9, 1, |_| count += 1));
        assert_eq!((count, wheel.len()), (1, 1));
        assert!(wheel.advance(9, 1, |_| count += 1));
        assert_eq!((count, wheel.now()), (2, 9));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(u64),
        Cancel(usize),
        Advance(u64, usize),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let ahead = prop_oneof![0u64..70, 0u64..5000, 0u64..(1 << 20), any::<u64>()];
        let ticks = prop_oneof![0u64..3, 0u64..200, 0u64..(1 << 18)];
        let limit = prop_oneof![0usize..5, Just(usize::MAX)];
        prop_oneof![
            4 => ahead.prop_map(Step::Set),
            1 => any::<usize>().prop_map(Step::Cancel),
            3 => (ticks, limit).prop_map(|(ticks, limit)| Step::Advance(ticks, limit)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 500 }))]
        #[test]
        fn fires_as_a_sorted_list(
            start in prop_oneof![Just(0u64), any::<u32>().prop_map(u64::from)],
            steps in prop::collection::vec(any_step(), 1..120)
        ) {
            let mut wheel = TimingWheel::new(50, start);
            // token -> (deadline, id)
            let mut model: BTreeMap<u64, (u64, TimerId)> = BTreeMap::new();
            let (mut clock, mut token) = (start, 0);
            for step in steps {
                match step {
                    Step::Set(ahead) => {
                        let deadline = clock.saturating_add(ahead);
                        match wheel.set(deadline, token) {
                            Ok(id) => { model.insert(token, (deadline, id)); }
                            Err(TimersFull(_)) => prop_assert_eq!(model.len(), 50),
                        }
                        token += 1;
                    }
                    Step::Cancel(nth) => {
                        let nth = nth % model.len().max(1);
                        if let Some((&token, &(_, id))) = model.iter().nth(nth) {
                            prop_assert_eq!(wheel.cancel(id), Some(token));
                            prop_assert_eq!(wheel.cancel(id), None);
                            model.remove(&token);
                        }
                    }
                    Step::Advance(ticks, limit) => {
                        clock = clock.saturating_add(ticks);
                        let mut fired = Vec::new();
                        let is_done = wheel.advance(clock, limit, |token| fired.push(token));
                        prop_assert!(fired.len() <= limit);
                        let mut last = 0;
                        for token in fired {
                            let (deadline, _) = model.remove(&token).expect("set, not fired yet");
                            prop_assert!(last <= deadline && deadline <= clock);
                            last = deadline;
                        }
                        let is_left = model.values().any(|&(deadline, _)| deadline <= clock);
                        prop_assert!(!(is_done && is_left));
                        if is_done {
                            prop_assert_eq!(wheel.now(), clock);
                        }
                        prop_assert!(is_done || limit != usize::MAX);
                    }
                }
                prop_assert_eq!(wheel.len(), model.len());
                let earliest = model.values().map(|&(deadline, _)| deadline).min();
                prop_assert_eq!(wheel.next_due().is_some(), earliest.is_some());
                if let (Some(due), Some(earliest)) = (wheel.next_due(), earliest) {
                    prop_assert!(due <= earliest.max(wheel.now()));
                }
            }
        }
    }
}
