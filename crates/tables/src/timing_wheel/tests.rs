//! The wheel against a sorted set, and the bounds of one call.

use std::collections::BTreeSet;

use super::*;
use proptest::prelude::*;

/// All that expires by `now`, in one call.
fn advance(wheel: &mut TimingWheel, now: u64) -> Vec<u32> {
    let mut expired = Vec::new();
    assert!(!wheel.advance(now, usize::MAX, |id| expired.push(id)));
    expired
}

#[test]
fn timers_expire_at_their_deadlines_and_not_before() {
    // On both sides of the border between two slots of level 1, 2 and 7.
    for border in [1 << 8, 1 << 16, 1 << 24, 1 << 56, 1 << 63] {
        let mut wheel = TimingWheel::new(4, border - 200).unwrap();
        for (id, deadline) in [border + 1, border - 1, border, border + 70_000].iter().enumerate() {
            wheel.schedule(id as u32, *deadline).unwrap();
        }
        assert_eq!(advance(&mut wheel, border - 2), []);
        assert_eq!(advance(&mut wheel, border - 1), [1]);
        assert_eq!(advance(&mut wheel, border - 1), []);
        assert_eq!(advance(&mut wheel, border + 1), [2, 0]);
        assert_eq!(wheel.next_deadline(), Some(border + 70_000), "exact: alone in its slot");
        assert_eq!(advance(&mut wheel, border + 69_999), []);
        assert_eq!(advance(&mut wheel, u64::MAX), [3]);
        assert!(wheel.is_empty() && wheel.next_deadline().is_none());
    }
}

#[test]
fn a_deadline_that_has_passed_expires_at_the_next_advance() {
    let mut wheel = TimingWheel::new(2, 1000).unwrap();
    wheel.schedule(0, 3).unwrap();
    assert_eq!(wheel.next_deadline(), Some(1000));
    assert_eq!(advance(&mut wheel, 1000), [0]);
    wheel.schedule(1, 1000).unwrap();
    assert_eq!(advance(&mut wheel, 7), [1], "a clock that goes backwards stands still");
}

#[test]
fn a_timer_has_one_deadline() {
    let mut wheel = TimingWheel::new(3, 0).unwrap();
    for deadline in [5, 500_000, 7, 7] {
        wheel.schedule(2, deadline).unwrap();
    }
    assert_eq!((wheel.len(), wheel.next_deadline()), (1, Some(7)));
    assert_eq!(wheel.cancel(2), Ok(true));
    assert_eq!(wheel.cancel(2), Ok(false));
    assert_eq!((wheel.len(), wheel.next_deadline()), (0, None));
    assert_eq!(advance(&mut wheel, u64::MAX), []);
}

#[test]
fn a_slot_that_was_being_emptied_is_forgotten_with_its_timers() {
    let mut wheel = TimingWheel::new(1, 0).unwrap();
    wheel.schedule(0, 0x05ff).unwrap();
    assert_eq!(advance(&mut wheel, 0x0500), []);
    assert_eq!(wheel.cancel(0), Ok(true));
    assert_eq!(advance(&mut wheel, 0x1_0100), []);
    // The same slot of the next block.
    wheel.schedule(0, 0x1_0500).unwrap();
    assert_eq!(advance(&mut wheel, 0x1_04ff), []);
    assert_eq!(advance(&mut wheel, 0x1_0500), [0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut wheel = TimingWheel::new(3, 0).unwrap();
    let absent = Err(TimingWheelError::Absent { id: 3, capacity: 3 });
    assert_eq!(wheel.schedule(3, 0), absent);
    assert_eq!(wheel.cancel(3), absent.map(|()| false));
    assert!(wheel.schedule(u32::MAX, 0).is_err());
    assert_eq!(wheel.schedule(2, 0), Ok(()));
    let too_many = TimingWheel::new(u32::MAX, 0).err();
    assert_eq!(too_many, Some(TimingWheelError::Capacity(u32::MAX)));
    let none = TimingWheel::new(0, 0).unwrap();
    assert_eq!((none.capacity(), none.is_empty()), (0, true));
}

#[test]
fn one_call_touches_no_more_timers_than_allowed() {
    const TIMERS: u32 = 1000;
    let mut wheel = TimingWheel::new(TIMERS + 1, 0).unwrap();
    // All in one slot of level 2: they move down twice, and expire.
    for id in 0..TIMERS {
        wheel.schedule(id, (1 << 16) + 256 + u64::from(id % 200)).unwrap();
    }
    assert_eq!(wheel.next_deadline(), Some(1 << 16), "the slot's first tick: it holds several");
    let (mut calls, mut expired) = (0, Vec::new());
    loop {
        let before = expired.len();
        let is_left = wheel.advance(1 << 40, 10, |id| expired.push(id));
        assert!(expired.len() - before <= 10);
        calls += 1;
        if calls == 50 {
            // While the slot is half empty.
            assert_eq!((expired.len(), wheel.next_deadline()), (0, Some(1 << 16)));
            wheel.schedule(TIMERS, 0).unwrap();
            (500..TIMERS).for_each(|id| assert_eq!(wheel.cancel(id), Ok(true)));
        }
        if !is_left {
            break;
        }
    }
    // 500 moved before the others were cancelled, then once more; and 501 expired.
    assert_eq!((calls, expired.len()), (50 + 50 + 51, 501));
    assert_eq!(expired[0], TIMERS);
    assert!(expired[1..].is_sorted_by_key(|id| id % 200));
}

#[derive(Clone, Debug)]
enum Operation {
    Schedule { id: u32, after: u64, is_past: bool },
    Cancel(u32),
    Advance { by: u64, most: usize },
}

const IDS: u32 = 24;

/// Any number of bits.
fn ticks() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64).prop_map(|(ticks, shift)| ticks >> shift)
}

fn operation() -> impl Strategy<Value = Operation> {
    let schedule = (0..IDS, prop_oneof![0..600_u64, ticks()], prop::bool::weighted(0.1));
    let schedule =
        schedule.prop_map(|(id, after, is_past)| Operation::Schedule { id, after, is_past });
    let most = prop_oneof![0..4_usize, Just(usize::MAX)];
    let advance = (prop_oneof![0..600_u64, ticks()], most);
    prop_oneof![
        4 => schedule,
        1 => (0..IDS).prop_map(Operation::Cancel),
        3 => advance.prop_map(|(by, most)| Operation::Advance { by, most }),
    ]
}

/// The wheel, and what it should be.
struct Pair {
    wheel: TimingWheel,
    /// Deadline and id; what has passed counts as the tick that the wheel has reached.
    model: BTreeSet<(u64, u32)>,
    now: u64,
}

impl Pair {
    fn schedule(&mut self, id: u32, deadline: u64) {
        self.wheel.schedule(id, deadline).unwrap();
        self.model.retain(|(_, other)| *other != id);
        self.model.insert((deadline.max(self.wheel.now), id));
    }

    fn cancel(&mut self, id: u32) {
        let before = self.model.len();
        self.model.retain(|(_, other)| *other != id);
        assert_eq!(self.wheel.cancel(id), Ok(self.model.len() < before));
    }

    /// Returns whether more is left.
    fn advance(&mut self, most: usize) -> bool {
        let mut expired = Vec::new();
        let is_left = self.wheel.advance(self.now, most, |id| expired.push(id));
        assert!(expired.len() <= most);
        for id in expired {
            let earliest = self.model.first().expect("an id that was scheduled").0;
            assert!(earliest <= self.now && self.model.remove(&(earliest, id)), "{id} is next");
        }
        let is_due = self.model.first().is_some_and(|(earliest, _)| *earliest <= self.now);
        assert!(is_left || !is_due, "a timer that was due has not expired");
        assert_eq!(is_left, self.wheel.next_deadline().is_some_and(|next| next <= self.now));
        is_left
    }

    fn check(&self) {
        assert_eq!(self.wheel.len() as usize, self.model.len());
        assert!(self.wheel.now <= self.now);
        let (next, earliest) = (self.wheel.next_deadline(), self.model.first());
        assert_eq!(next.is_some(), earliest.is_some());
        let (Some(next), Some((earliest, _))) = (next, earliest) else { return };
        assert!(next <= *earliest && next >= self.wheel.now);
        if earliest >> SLOT_BITS == self.wheel.now >> SLOT_BITS && !self.wheel.is_open() {
            assert_eq!(next, *earliest, "exact on level 0");
        }
    }
}

proptest! {
    #[test]
    fn the_wheel_agrees_with_a_sorted_set(
        start in prop_oneof![ticks(), ticks().prop_map(|ticks| !ticks)],
        operations in prop::collection::vec(operation(), 1..200),
    ) {
        let wheel = TimingWheel::new(IDS, start).unwrap();
        let mut pair = Pair { wheel, model: BTreeSet::new(), now: start };
        for operation in operations {
            match operation {
                Operation::Schedule { id, after, is_past: false } => {
                    pair.schedule(id, pair.now.saturating_add(after));
                }
                Operation::Schedule { id, after, is_past: true } => {
                    pair.schedule(id, pair.now.saturating_sub(after));
                }
                Operation::Cancel(id) => pair.cancel(id),
                Operation::Advance { by, most } => {
                    pair.now = pair.now.saturating_add(by);
                    pair.advance(most);
                }
            }
            pair.check();
        }
        // Whoever advances to the next deadline each time comes to the end.
        let mut calls = 0;
        while let Some(next) = pair.wheel.next_deadline() {
            pair.now = pair.now.max(next);
            pair.advance(1);
            pair.check();
            calls += 1;
            prop_assert!(calls <= IDS * (LEVELS + 1), "each call moves or expires a timer");
        }
        prop_assert!(pair.model.is_empty());
    }
}
