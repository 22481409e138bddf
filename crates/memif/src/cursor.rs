//! Two indexes around a ring of slots in shared memory: the arithmetic, once for
//! all rings, and with a peer that may write anything into its index.
//!
//! ```text
//!              tail (consumer's)     head (producer's)
//!                v                     v
//!   | returned   | offered to consumer  | returned ...     size slots, indexes run on
//! ```
//! The producer moves `head` to offer slots, the consumer moves `tail` to return them.
//! Whether an offered slot holds a frame or space for one depends on the ring.
//! Both sides work on the slots from their own index on: the consumer on those
//! offered, the producer on those returned.

use std::sync::atomic::{AtomicU16, Ordering};

/// An index that the other side can see.
pub(crate) trait Index {
    /// Reads the other side's index and all that it wrote before it.
    fn acquire(&self) -> u16;
    /// Shows the own index and all that was written before it.
    fn release(&self, value: u16);
}

impl Index for AtomicU16 {
    #[inline(always)]
    fn acquire(&self) -> u16 {
        self.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn release(&self, value: u16) {
        self.store(value, Ordering::Release);
    }
}

/// The peer's index is outside its valid range: the peer is broken or hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer's ring index jumped")]
pub(crate) struct Jumped;

/// Which end of the ring this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Moves `head`.
    Producer,
    /// Moves `tail`.
    Consumer,
}

/// The own index of one end, kept in private memory: the shared copy is never read back.
#[derive(Debug)]
pub(crate) struct Cursor {
    side: Side,
    size: u16,
    mine: u16,
}

impl Cursor {
    /// A cursor at `mine` of a ring of `size` slots: a power of two, 32,768 at most.
    pub(crate) fn new(side: Side, size: u16, mine: u16) -> Self {
        assert!(size.is_power_of_two());
        Self { side, size, mine }
    }

    /// Slots of the ring.
    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// Slots that this side may work on now; `theirs` is the other side's index.
    #[inline(always)]
    pub(crate) fn ready(&self, theirs: &impl Index) -> Result<u16, Jumped> {
        let theirs = theirs.acquire();
        let offered = match self.side {
            Side::Consumer => theirs.wrapping_sub(self.mine),
            Side::Producer => self.mine.wrapping_sub(theirs),
        };
        match self.side {
            _ if offered > self.size => Err(Jumped),
            Side::Consumer => Ok(offered),
            Side::Producer => Ok(self.size - offered),
        }
    }

    /// The slot `ahead` of the own index.
    #[inline(always)]
    pub(crate) fn slot(&self, ahead: u16) -> u16 {
        self.mine.wrapping_add(ahead) & (self.size - 1)
    }

    /// Hands `slots` slots to the other side.
    #[inline(always)]
    pub(crate) fn advance(&mut self, slots: u16, mine: &impl Index) {
        self.mine = self.mine.wrapping_add(slots);
        mine.release(self.mine);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn both_sides_agree_across_the_wrap() {
        let (head, tail) = (AtomicU16::new(65_530), AtomicU16::new(65_530));
        let mut giver = Cursor::new(Side::Producer, 8, 65_530);
        let mut taker = Cursor::new(Side::Consumer, 8, 65_530);
        assert_eq!(giver.ready(&tail), Ok(8));
        assert_eq!(taker.ready(&head), Ok(0));
        for round in 1..=8_u16 {
            assert_eq!(giver.slot(0), taker.slot(0));
            giver.advance(round, &head);
            assert_eq!(giver.ready(&tail), Ok(8 - round));
            assert_eq!(taker.ready(&head), Ok(round));
            taker.advance(round, &tail);
            assert_eq!(giver.ready(&tail), Ok(8));
        }
        assert_eq!(head.load(Ordering::Relaxed), 65_530_u16.wrapping_add(36));
    }

    #[test]
    fn a_jump_is_seen() {
        let taker = Cursor::new(Side::Consumer, 8, 100);
        let giver = Cursor::new(Side::Producer, 8, 100);
        for theirs in [99, 109, 0, 65_535, 32_868] {
            assert_eq!(taker.ready(&AtomicU16::new(theirs)), Err(Jumped));
        }
        for theirs in [101, 91, 0, 65_535] {
            assert_eq!(giver.ready(&AtomicU16::new(theirs)), Err(Jumped));
        }
        assert_eq!(giver.ready(&AtomicU16::new(92)), Ok(0));
    }

    #[test]
    fn the_largest_ring_is_unambiguous() {
        let taker = Cursor::new(Side::Consumer, 32_768, 5);
        assert_eq!(taker.ready(&AtomicU16::new(32_773)), Ok(32_768));
        assert_eq!(taker.ready(&AtomicU16::new(32_774)), Err(Jumped));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    struct Shared {
        head: loom::sync::atomic::AtomicU16,
        tail: loom::sync::atomic::AtomicU16,
        slots: [UnsafeCell<u32>; 2],
    }

    impl Index for loom::sync::atomic::AtomicU16 {
        fn acquire(&self) -> u16 {
            self.load(Ordering::Acquire)
        }

        fn release(&self, value: u16) {
            self.store(value, Ordering::Release);
        }
    }

    #[test]
    fn each_slot_has_one_user_at_a_time() {
        loom::model(|| {
            let shared = Arc::new(Shared {
                head: loom::sync::atomic::AtomicU16::new(65_535),
                tail: loom::sync::atomic::AtomicU16::new(65_535),
                slots: [UnsafeCell::new(0), UnsafeCell::new(0)],
            });
            let theirs = shared.clone();
            let taker = loom::thread::spawn(move || {
                let mut taker = Cursor::new(Side::Consumer, 2, 65_535);
                let mut expected = 1;
                for _ in 0..3 {
                    for _ in 0..taker.ready(&theirs.head).unwrap() {
                        let slot = &theirs.slots[usize::from(taker.slot(0))];
                        // SAFETY: loom itself fails the test when both sides touch a slot.
                        slot.with(|slot| assert_eq!(unsafe { *slot }, expected));
                        expected += 1;
                        taker.advance(1, &theirs.tail);
                    }
                }
            });
            let mut giver = Cursor::new(Side::Producer, 2, 65_535);
            let mut number = 1;
            for _ in 0..3 {
                if giver.ready(&shared.tail).unwrap() > 0 {
                    let slot = &shared.slots[usize::from(giver.slot(0))];
                    // SAFETY: as above.
                    slot.with_mut(|slot| unsafe { *slot = number });
                    number += 1;
                    giver.advance(1, &shared.head);
                }
            }
            taker.join().unwrap();
        });
    }
}
