//! A block of external ports that belongs to a subscriber, as one word that all workers share: who has it, and how many
//! hold it. Whoever changes the word alone decides, so nobody waits.
//!
//! ```text
//! free -- claim --> claimed -- confirm --> 1 holder <-- hold, release --> 0 holders -- close --> free
//!                      '-- back_off, refuse --> free
//! ```

use core::sync::atomic::Ordering;

use crate::sync::{AtomicU16, AtomicU32, AtomicU64, fence};

/// Protocols, or groups of them, whose ports are counted apart.
pub const CLASSES: usize = 4;
/// Workers that can claim blocks at once.
pub const WORKERS: usize = 0xff;

/// In place of the number of holders: the control thread takes the block away.
const CLOSING: u16 = u16::MAX;
/// From here on, in place of the number of holders: the worker with the number in the lowest bits claims the block.
const CLAIMED: u16 = 0xff00;

/// What is known of a block from its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u64);

impl State {
    /// The 48 bits that name its subscriber; 0: nobody has it.
    pub fn key(self) -> u64 {
        self.0 >> 16
    }

    /// How many hold it.
    pub fn holders(self) -> u16 {
        if self.is_claimed() || self.0 as u16 == CLOSING { 0 } else { self.0 as u16 }
    }

    /// Whether a worker claims it, and has not confirmed that yet.
    pub fn is_claimed(self) -> bool {
        (CLAIMED..CLOSING).contains(&(self.0 as u16))
    }

    /// Whether nobody has it.
    pub fn is_free(self) -> bool {
        self.0 == 0
    }
}

/// A block. Zeroed, nobody has it.
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[derive(Debug, Default)]
pub struct PortBlock {
    /// The subscriber, and in the lowest 16 bits how many hold the block. 0: nobody has it.
    word: AtomicU64,
    /// The tick at which the last holder has gone.
    unused: AtomicU32,
    /// The tick at which it was allocated.
    since: AtomicU32,
    /// Holders by class.
    ports: [AtomicU16; CLASSES],
}

fn claimed(key: u64, worker: u8) -> u64 {
    // CLAIMED + 0xff is CLOSING.
    key << 16 | u64::from(CLAIMED + u16::from(worker).min(WORKERS as u16 - 1))
}

impl PortBlock {
    /// Who has it.
    pub fn state(&self) -> State {
        State(self.word.load(Ordering::Acquire))
    }

    /// Its holders of a class.
    pub fn ports(&self, class: usize) -> u16 {
        self.ports.get(class).map_or(0, |it| it.load(Ordering::Relaxed))
    }

    /// The tick at which it was allocated.
    pub fn since(&self) -> u32 {
        self.since.load(Ordering::Relaxed)
    }

    /// The tick at which its last holder has gone, if it has none.
    pub fn unused(&self) -> u32 {
        self.unused.load(Ordering::Relaxed)
    }

    /// Holds it for a subscriber that has it; `false`: it has `size` holders of the class, or another owner.
    pub fn hold(&self, key: u64, class: usize, size: u16) -> bool {
        if !self.take_port(class, size) {
            return false;
        }
        let more = |word: u64| {
            let is_own = word >> 16 == key && (word as u16) < CLAIMED - 1;
            is_own.then(|| word + 1)
        };
        let held = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok();
        if !held {
            self.give_back(class);
        }
        held
    }

    /// Counts one more port of a class; `false`: there is none.
    fn take_port(&self, class: usize, size: u16) -> bool {
        let more = |count: u16| (count < size).then(|| count + 1);
        let Some(ports) = self.ports.get(class) else { return false };
        ports.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, class: usize) {
        let less = |count: u16| count.checked_sub(1);
        if let Some(ports) = self.ports.get(class) {
            let _ = ports.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
        }
    }

    /// A holder of a class has gone. Who has it.
    pub fn release(&self, class: usize, now: u32) -> u64 {
        self.give_back(class);
        // Before the number of holders: who sees none of them sees since when.
        self.unused.store(now, Ordering::Relaxed);
        let less = |word: u64| {
            let holders = word as u16;
            (holders != 0 && holders < CLAIMED).then(|| word - 1)
        };
        match self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less) {
            Ok(word) | Err(word) => word >> 16,
        }
    }

    /// Claims a free block for a subscriber, with a port of a class. Then it is to be [settled](settle).
    pub fn claim(&self, (key, worker): (u64, u8), (class, size): (usize, u16), now: u32) -> bool {
        if self.word.load(Ordering::Relaxed) != 0 || !self.take_port(class, size) {
            return false;
        }
        let word = claimed(key, worker);
        if self.word.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            self.give_back(class);
            return false;
        }
        self.since.store(now, Ordering::Relaxed);
        true
    }

    fn confirm(&self, key: u64, worker: u8) -> bool {
        let (from, to) = (claimed(key, worker), key << 16 | 1);
        self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn back_off(&self, (key, worker): (u64, u8), class: usize) {
        self.give_back(class);
        let word = claimed(key, worker);
        let _ = self.word.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Takes a claim away that was neither confirmed nor given up.
    fn refuse(&self, seen: State) {
        let _ = self.word.compare_exchange(seen.0, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Takes the block away if nobody has held it for `timeout` ticks; `before_free` runs while nobody can have it.
    /// Only one thread may close blocks. Whether it is free now.
    pub fn close(&self, (now, timeout): (u32, u32), before_free: impl FnOnce()) -> bool {
        let word = self.word.load(Ordering::Acquire);
        let is_over = || {
            let since = now.wrapping_sub(self.unused.load(Ordering::Relaxed)).cast_signed();
            i64::from(since) >= i64::from(timeout)
        };
        if word == 0 || word as u16 != 0 || !is_over() {
            return false;
        }
        let closing = word | u64::from(CLOSING);
        let swapped =
            self.word.compare_exchange(word, closing, Ordering::AcqRel, Ordering::Relaxed);
        if swapped.is_err() {
            return false;
        }
        let is_over = is_over();
        if is_over {
            before_free();
        }
        // Otherwise it was held and released again meanwhile.
        self.word.store(if is_over { 0 } else { word }, Ordering::Release);
        is_over
    }
}

/// Confirms a claim of a block, or gives it up because its subscriber would have more than `limit`. Of workers that
/// claim blocks for one subscriber at once, the one whose block comes first in the order of `all` gets it, and takes
/// the claims of others away that would be too much: as many get one as may.
///
/// `all`: the blocks that the subscriber can have, in an order that is the same for all workers, and at any time those
/// that it has or claims.
pub fn settle<'a, I: Iterator<Item = &'a PortBlock>>(
    own: &PortBlock,
    (key, worker): (u64, u8),
    (class, limit): (usize, u32),
    all: impl Fn() -> I,
) -> bool {
    // Of two workers that claim at once, one sees the claim of the other.
    fence(Ordering::SeqCst);
    // Blocks that it has, with claims that come before this one, and claims that come later.
    let count = || {
        let (mut count, mut later, mut is_before) = (0, 0, true);
        for block in all() {
            let state = block.state();
            if core::ptr::eq(block, own) {
                is_before = false;
            } else if state.key() == key {
                let is_later = state.is_claimed() && !is_before;
                (count, later) = (count + u32::from(!is_later), later + u32::from(is_later));
            }
        }
        (count, later)
    };
    let (mut before, later) = count();
    if before < limit && before + later >= limit {
        for block in all().skip_while(|it| !core::ptr::eq(*it, own)).skip(1) {
            let state = block.state();
            if state.key() == key && state.is_claimed() {
                block.refuse(state);
            }
        }
        // Those that were confirmed meanwhile.
        before = count().0;
    }
    if before < limit && own.confirm(key, worker) {
        return true;
    }
    own.back_off((key, worker), class);
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn of_two_claims_for_the_last_block_the_first_one_is_settled() {
        let all: [PortBlock; 3] = Default::default();
        assert!(all[1].claim((7, 1), (0, 4), 0) && all[2].claim((7, 2), (0, 4), 0));
        assert!(!settle(&all[2], (7, 2), (0, 1), || all.iter()), "block 1 comes before it");
        assert!(all[2].state().is_free() && all[2].ports(0) == 0);
        assert!(all[2].claim((7, 2), (0, 4), 0));
        assert!(settle(&all[1], (7, 1), (0, 1), || all.iter()));
        assert!(all[2].state().is_free(), "the claim that comes later is taken away");
        assert!(!settle(&all[2], (7, 2), (0, 1), || all.iter()));
        assert_eq!((all[1].state().holders(), all[2].ports(0)), (1, 0));
    }

    #[test]
    fn a_block_that_is_claimed_or_closed_has_no_holder() {
        let block = PortBlock::default();
        assert!(block.claim((7, u8::MAX), (0, 4), 0));
        assert!(block.state().is_claimed() && block.state().holders() == 0);
        assert!(!block.hold(7, 0, 4));
        assert!(settle(&block, (7, u8::MAX), (0, 1), || [&block].into_iter()));
        assert_eq!((block.state().key(), block.state().holders()), (7, 1));
        assert_eq!(block.release(0, 5), 7);
        assert!(!block.close((14, 10), || ()) && block.close((15, 10), || ()));
        assert!(!block.hold(7, 0, 4) && block.ports(0) == 0);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// A block in which nobody has a port any more is closed only after its time since then, and never while it is
    /// held.
    #[test]
    fn a_block_is_closed_after_its_last_holder_and_the_timeout() {
        loom::model(|| {
            let block = Arc::new(PortBlock::default());
            assert!(block.claim((7, 0), (0, 4), 1));
            assert!(settle(&block, (7, 0), (0, 1), || [&*block].into_iter()));
            let worker = {
                let block = block.clone();
                loom::thread::spawn(move || {
                    block.release(0, 10);
                    block.hold(7, 0, 4)
                })
            };
            // What is over since tick 10 is so at 20, and not at 19.
            assert!(!block.close((19, 10), || ()));
            let is_closed = block.close((20, 10), || ());
            let is_held = worker.join().unwrap();
            assert!(is_closed != is_held, "{is_closed} {is_held}");
            assert_eq!(block.state().holders(), u16::from(is_held));
            assert_eq!(block.ports(0), u16::from(is_held));
        });
    }

    /// Two workers claim different blocks for a subscriber that may have one: exactly one of them gets it.
    #[test]
    fn the_last_block_goes_to_one_of_two_workers() {
        loom::model(|| {
            let all = Arc::new([PortBlock::default(), PortBlock::default()]);
            let claim = |all: &[PortBlock; 2], at: usize| {
                let (own, name) = (&all[at], (7, at as u8));
                own.claim(name, (0, 4), 0) && settle(own, name, (0, 1), || all.iter())
            };
            let other = {
                let all = all.clone();
                loom::thread::spawn(move || claim(&all, 1))
            };
            let (mine, other) = (claim(&all, 0), other.join().unwrap());
            assert!(mine != other, "{mine} {other}");
            let holders = all.iter().map(|it| it.state().holders()).sum::<u16>();
            assert_eq!((holders, all[0].ports(0) + all[1].ports(0)), (1, 1));
        });
    }

    /// A port of a class is held once, whoever holds it.
    #[test]
    fn a_block_has_no_more_holders_than_ports() {
        loom::model(|| {
            let block = Arc::new(PortBlock::default());
            assert!(block.claim((7, 0), (0, 2), 0));
            assert!(settle(&block, (7, 0), (0, 1), || [&*block].into_iter()));
            let other = {
                let block = block.clone();
                loom::thread::spawn(move || block.hold(7, 0, 2))
            };
            let (mine, other) = (block.hold(7, 0, 2), other.join().unwrap());
            assert!(mine != other);
            assert_eq!((block.state().holders(), block.ports(0)), (2, 2));
        });
    }
}
