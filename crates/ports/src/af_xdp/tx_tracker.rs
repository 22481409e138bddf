//! Frames between the TX ring and the device: the state that both halves of a queue share.
//!
//! Either half may call the kernel: the sending one for its burst, the receiving one for what
//! was left. A lock admits one at a time, which reads what frames the device has refused.
//!
//! No frame may stay in the ring while both rely on the other one to call. A sender that
//! finds the lock taken marks that frames wait and tries the lock once more
//! ([`TxTracker::leave_pending`]). The two words are written by exchanges only, each of which sees what
//! the one before it saw: either the sender gets the lock now, or its holder sees after the release
//! that frames wait, and the mark is not cleared before its frames are seen.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use stoa_engine::Refused;

/// A frame in the TX ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its length.
    pub bytes: u16,
    /// Entries of the ring that it has.
    pub pieces: u8,
    /// Where it was in its burst.
    pub lane: u8,
}

const _: () = assert!(stoa_engine::VECTOR <= 1 << u8::BITS);
const _: () = assert!(stoa_engine::pool::JUMBO_FRAME_MAX <= u16::MAX as usize);

/// The packet accounting of a TX ring.
pub(super) struct TxTracker {
    /// A half calls the kernel now.
    is_locked: AtomicBool,
    /// Frames wait that the kernel did not take yet.
    has_pending: AtomicBool,
    /// The index after the last entry that was given to the kernel.
    given: AtomicU32,
    /// The index after the last entry that the kernel is known to have taken. The ring's own
    /// word comes later: the kernel does not always write it when a frame was refused.
    taken: AtomicU32,
    /// By index: the frame there.
    frames: Box<[AtomicU32]>,
    /// Refused frames that were not reported yet: packets in the upper half, bytes in the lower.
    owed: AtomicU64,
}

impl TxTracker {
    /// The packet accounting of an empty ring of `size` entries, a power of two.
    pub fn new(size: u32) -> Self {
        let [given, taken] = [0, 0].map(AtomicU32::new);
        let [is_locked, has_pending] = [false, false].map(AtomicBool::new);
        let frames = (0..size).map(|_| AtomicU32::new(0)).collect();
        Self { is_locked, has_pending, given, taken, frames, owed: AtomicU64::new(0) }
    }

    /// Whether the caller may call the kernel now, until it calls [`Self::release`].
    #[inline]
    pub fn try_lock(&self) -> bool {
        // A failed exchange, too, publishes earlier stores to the holder of the lock.
        !self.is_locked.swap(true, Ordering::AcqRel)
    }

    /// The other half may call the kernel again. What it stored before a failed [`Self::try_lock`]
    /// is visible from now on.
    #[inline]
    pub fn release(&self) {
        self.is_locked.swap(false, Ordering::AcqRel);
    }

    /// As sender without the lock, after the last frame: marks that frames wait. True when the lock
    /// was free by now: the caller holds it and must call the kernel itself. Otherwise its holder
    /// sees the frames, or sees the mark after the release.
    #[inline]
    pub fn leave_pending(&self) -> bool {
        self.set_pending(true);
        self.try_lock()
    }

    /// Whether frames wait for a call of the kernel.
    #[inline]
    pub fn has_pending(&self) -> bool {
        self.has_pending.load(Ordering::Acquire)
    }

    /// Sets the mark. The holder of the lock clears it before it looks for frames, never afterwards,
    /// so that it sees the frames of a mark that it clears.
    #[inline]
    pub fn set_pending(&self, has_pending: bool) {
        self.has_pending.swap(has_pending, Ordering::AcqRel);
    }

    /// Entries that the kernel did not take yet.
    #[inline]
    pub fn waiting(&self) -> u32 {
        let given = self.given.load(Ordering::Acquire);
        given.wrapping_sub(self.taken.load(Ordering::Acquire))
    }

    /// As sender: entries that may be written.
    #[inline]
    pub fn room(&self) -> u32 {
        (self.frames.len() as u32).saturating_sub(self.waiting())
    }

    fn cell(&self, place: u32) -> &AtomicU32 {
        &self.frames[place as usize & (self.frames.len() - 1)]
    }

    /// As sender: what stands `ahead` of the place that comes next, all pieces alike.
    #[inline]
    pub fn write(&self, ahead: u32, frame: Frame) {
        let place = self.given().wrapping_add(ahead);
        let [low, high] = frame.bytes.to_le_bytes();
        let packed = u32::from_le_bytes([low, high, frame.pieces, frame.lane]);
        self.cell(place).store(packed, Ordering::Relaxed);
    }

    fn read(&self, place: u32) -> Frame {
        let [low, high, pieces, lane] = self.cell(place).load(Ordering::Relaxed).to_le_bytes();
        Frame { bytes: u16::from_le_bytes([low, high]), pieces, lane }
    }

    /// As sender: the place behind the last entry.
    #[inline]
    pub fn given(&self) -> u32 {
        self.given.load(Ordering::Relaxed)
    }

    /// As sender: `pieces` more entries were given to the kernel.
    #[inline]
    pub fn give(&self, count: u32) {
        self.given.store(self.given().wrapping_add(count), Ordering::Release);
    }

    /// With the lock: the kernel has taken all entries before `place`. True when that changes
    /// the state.
    #[inline]
    pub fn saw(&self, place: u32) -> bool {
        let taken = self.taken.load(Ordering::Relaxed);
        let more = place.wrapping_sub(taken);
        // Behind what is known, or beyond what was given: nothing.
        let is_news = (1..=self.waiting()).contains(&more);
        if is_news {
            self.taken.store(place, Ordering::Release);
        }
        is_news
    }

    /// With the lock: the call just now ended with a frame that the device refused, and the
    /// kernel's word stands at `place`. The place of that frame's last entry, and the frame.
    pub fn refuse(&self, place: u32) -> (u32, Frame) {
        if !self.saw(place) {
            // The kernel writes its word when a frame was sent: here, the first one was refused.
            // (Before Linux 6.17 it waits for the ring's end; the number is right then, too.)
            let taken = self.taken.load(Ordering::Relaxed);
            let pieces = u32::from(self.read(taken).pieces).clamp(1, self.waiting().max(1));
            self.taken.store(taken.wrapping_add(pieces), Ordering::Release);
        }
        let last = self.taken.load(Ordering::Relaxed).wrapping_sub(1);
        (last, self.read(last))
    }

    /// With the lock, as sender: frames that the kernel did not take.
    pub fn left(&self) -> Refused {
        let (mut left, mut place) = (Refused::default(), self.taken.load(Ordering::Relaxed));
        while place != self.given() {
            let frame = self.read(place);
            left += Refused { packets: 1, bytes: frame.bytes.into() };
            let rest = self.given().wrapping_sub(place);
            place = place.wrapping_add(u32::from(frame.pieces).clamp(1, rest));
        }
        left
    }

    /// As receiver: the sender must report a refused frame.
    pub fn owe(&self, frame: Frame) {
        self.owed.fetch_add(1 << 32 | u64::from(frame.bytes), Ordering::Relaxed);
    }

    /// As sender: what was owed.
    #[inline]
    pub fn owed(&self) -> Refused {
        if self.owed.load(Ordering::Relaxed) == 0 {
            return Refused::default();
        }
        let owed = self.owed.swap(0, Ordering::Relaxed);
        Refused { packets: owed >> 32, bytes: owed & u64::from(u32::MAX) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn frame(bytes: u16, pieces: u8, lane: u8) -> Frame {
        Frame { bytes, pieces, lane }
    }

    /// Packet accounting with the index at `start` and frames of so many pieces given.
    fn accounting(start: u32, pieces: &[u8]) -> TxTracker {
        let tx_tracker = TxTracker::new(8);
        tx_tracker.given.store(start, Ordering::Relaxed);
        tx_tracker.taken.store(start, Ordering::Relaxed);
        let mut ahead = 0;
        for (lane, pieces) in pieces.iter().enumerate() {
            for _ in 0..*pieces {
                tx_tracker.write(ahead, frame(100 * (lane as u16 + 1), *pieces, lane as u8));
                ahead += 1;
            }
        }
        tx_tracker.give(ahead);
        tx_tracker
    }

    #[test]
    fn the_frame_that_was_refused_is_found() {
        for start in [0, 5, u32::MAX - 1] {
            let at = |ahead: u32| start.wrapping_add(ahead);
            let tx_tracker = accounting(start, &[1, 3, 1, 2]);
            assert_eq!((tx_tracker.waiting(), tx_tracker.room()), (7, 1));
            // The first is sent, the second refused: the word stands behind it.
            assert_eq!(tx_tracker.refuse(at(4)), (at(3), frame(200, 3, 1)));
            // Nothing is sent, the third refused: the word stands still.
            assert_eq!(tx_tracker.refuse(at(4)), (at(4), frame(300, 1, 2)));
            assert_eq!(tx_tracker.waiting(), 2);
            // And the fourth.
            assert_eq!(tx_tracker.refuse(at(4)), (at(6), frame(400, 2, 3)));
            assert_eq!((tx_tracker.waiting(), tx_tracker.room()), (0, 8));
            assert!(!tx_tracker.saw(at(7)), "no change");
        }
    }

    #[test]
    fn what_is_left_is_counted_by_frames() {
        for start in [0, 5, u32::MAX - 1] {
            let tx_tracker = accounting(start, &[1, 3, 1, 2]);
            assert_eq!(tx_tracker.left(), Refused { packets: 4, bytes: 1000 });
            assert!(tx_tracker.saw(start.wrapping_add(4)));
            assert_eq!(tx_tracker.left(), Refused { packets: 2, bytes: 700 });
            assert!(tx_tracker.saw(start.wrapping_add(7)));
            assert_eq!(tx_tracker.left(), Refused::default());
        }
    }

    #[test]
    fn a_word_that_cannot_be_is_not_believed() {
        let tx_tracker = accounting(5, &[1, 1]);
        assert!(!tx_tracker.saw(4) && !tx_tracker.saw(5) && !tx_tracker.saw(8));
        assert_eq!(tx_tracker.waiting(), 2);
        assert!(tx_tracker.saw(6));
        assert_eq!(tx_tracker.waiting(), 1);
    }

    #[test]
    fn what_is_owed_is_reported_once() {
        let tx_tracker = TxTracker::new(8);
        tx_tracker.owe(frame(60, 1, 0));
        tx_tracker.owe(frame(11_072, 3, 255));
        assert_eq!(tx_tracker.owed(), Refused { packets: 2, bytes: 11_132 });
        assert_eq!(tx_tracker.owed(), Refused::default());
    }

    #[test]
    fn one_half_calls_at_a_time() {
        let tx_tracker = TxTracker::new(8);
        assert!(tx_tracker.try_lock() && !tx_tracker.try_lock());
        tx_tracker.release();
        assert!(tx_tracker.try_lock());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    const FRAME: Frame = Frame { bytes: 60, pieces: 1, lane: 0 };

    /// `Socket::push` with a kernel that takes all that it is called for.
    fn push(tx_tracker: &TxTracker) {
        tx_tracker.set_pending(false);
        if tx_tracker.waiting() > 0 {
            assert!(tx_tracker.saw(tx_tracker.given.load(Ordering::Acquire)));
        }
    }

    /// `Sender::transmit` with a burst of one frame.
    fn send(tx_tracker: &TxTracker) {
        let may_call = tx_tracker.try_lock();
        tx_tracker.write(0, FRAME);
        tx_tracker.give(1);
        if may_call || tx_tracker.leave_pending() {
            push(tx_tracker);
            tx_tracker.release();
        }
    }

    /// `Receiver::receive` that finds nothing, and `doze`. True when it polls again soon.
    fn receive_and_doze(tx_tracker: &TxTracker) -> bool {
        if tx_tracker.has_pending() && tx_tracker.try_lock() {
            push(tx_tracker);
            tx_tracker.release();
        }
        tx_tracker.has_pending()
    }

    /// Frames of an earlier burst wait; the sender brings more while the receiver calls the
    /// kernel for them and goes to sleep. One of them always knows of the frames that wait then.
    #[test]
    fn no_frame_waits_unknown() {
        loom::model(|| {
            let tx_tracker = Arc::new(TxTracker::new(4));
            tx_tracker.write(0, FRAME);
            tx_tracker.give(1);
            tx_tracker.set_pending(true);
            let theirs = tx_tracker.clone();
            let sender = loom::thread::spawn(move || send(&theirs));
            let looks_again = receive_and_doze(&tx_tracker);
            sender.join().unwrap();
            assert!(looks_again || tx_tracker.waiting() == 0, "a burst was forgotten");
        });
    }

    /// Each refused frame is reported once, whichever half sees it, and the packet accounting has one writer
    /// at a time.
    #[test]
    fn the_accounting_have_one_hand_at_a_time() {
        loom::model(|| {
            let tx_tracker = Arc::new(TxTracker::new(4));
            tx_tracker.write(0, FRAME);
            tx_tracker.give(1);
            tx_tracker.set_pending(true);
            let theirs = tx_tracker.clone();
            let receiver = loom::thread::spawn(move || {
                if theirs.try_lock() {
                    if theirs.waiting() > 0 {
                        let (_, frame) = theirs.refuse(0);
                        theirs.owe(frame);
                    }
                    theirs.release();
                }
            });
            let mut refused = Refused::default();
            if tx_tracker.try_lock() {
                if tx_tracker.waiting() > 0 {
                    let (_, frame) = tx_tracker.refuse(0);
                    refused += Refused { packets: 1, bytes: frame.bytes.into() };
                }
                tx_tracker.release();
            }
            receiver.join().unwrap();
            refused += tx_tracker.owed();
            assert_eq!((refused, tx_tracker.waiting()), (Refused { packets: 1, bytes: 60 }, 0));
        });
    }
}
