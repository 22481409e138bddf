//! The anti-replay window of a security association (RFC 4303 section 3.4.3), which several workers may share without
//! locks.
//!
//! It is a ring of words, as in RFC 6479. A word says which block of 32 numbers it is about, in its upper half, and
//! which of these were accepted, in its lower half. So nothing is ever cleared: the first number of a new block
//! replaces the word of a block that is behind the window. One compare-and-swap accepts a number, and of two packets
//! with the same number only one wins, on whatever workers they are.
//!
//! Check a number before the packet is decrypted, and accept it only when the packet is authentic: forged packets move
//! nothing.

use crate::sync::{AtomicU64, Cells, zeroed};
use core::sync::atomic::Ordering::Relaxed;

/// The fewest numbers of a window (RFC 4303 section 3.4.3 recommends them), and the most.
pub const SIZE_MIN: u32 = 64;
/// See [`SIZE_MIN`].
pub const SIZE_MAX: u32 = 65_536;
/// Numbers of a block.
const BLOCK: u64 = 32;
/// Bits of a word below the number of its block.
const SHIFT: u32 = 32;
/// A word may be this many blocks ahead of a number: what other workers accept meanwhile. All that differs by more is
/// behind it.
const LATER: u32 = 1 << 20;
/// All numbers of a block were accepted.
const FULL: u64 = u32::MAX as u64;

/// Why a sequence number is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// It was accepted before.
    Replayed,
    /// It is behind the window, or 0.
    Late,
}

/// A window of sequence numbers of 64 bits; of those without ESN, the upper half is 0.
#[derive(Debug)]
pub struct ReplayWindow {
    /// The highest number that was accepted; 0: none.
    top: AtomicU64,
    /// Numbers of words that were replaced, and of the rounds between, which were never accepted.
    lost: AtomicU64,
    /// Numbers up to this one are refused.
    floor: u64,
    /// Numbers that the window has.
    size: u64,
    /// A power of two of them, at least one more than the window needs.
    words: Cells<AtomicU64>,
}

impl ReplayWindow {
    /// A window of `size` numbers, at least [`SIZE_MIN`] and at most [`SIZE_MAX`], rounded up to a multiple of 32,
    /// which refuses all numbers up to `floor`: those that were used before. `None`: there is no memory.
    #[must_use]
    pub fn new(size: u32, floor: u64) -> Option<Self> {
        let size = u64::from(size.clamp(SIZE_MIN, SIZE_MAX)).next_multiple_of(BLOCK);
        let ring = (size / BLOCK + 1).next_power_of_two();
        let words = Cells(zeroed::<AtomicU64>(ring as usize)?);
        let last = floor / BLOCK;
        if floor > 0 {
            for (position, word) in (0..).zip(words.iter()) {
                // The last block of this place that is not above the floor; in the first round there is none.
                let block = last.saturating_sub(last.wrapping_sub(position) & (ring - 1));
                word.store(block << SHIFT | FULL, Relaxed);
            }
            // Numbers behind the floor in its block are free.
            let used = FULL >> (BLOCK - 1 - floor % BLOCK);
            words[(last & (ring - 1)) as usize].store(last << SHIFT | used, Relaxed);
        }
        Some(Self { top: AtomicU64::new(floor), lost: AtomicU64::new(0), floor, size, words })
    }

    /// The highest number that was accepted; 0: none.
    #[must_use]
    pub fn top(&self) -> u64 {
        self.top.load(Relaxed)
    }

    /// Numbers that the window has passed, in whole blocks, and that were never accepted.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let (ring, last) = (self.words.len() as u64, self.top() / BLOCK);
        let pending = (0..).zip(self.words.iter()).map(|(position, word)| {
            let behind = last.wrapping_sub(position) & (ring - 1);
            let newest = last.saturating_sub(behind);
            // In the first round of the ring, places above the top have no block.
            if behind > last { 0 } else { self.passed(word.load(Relaxed), newest) }
        });
        self.lost.load(Relaxed) + pending.sum::<u64>()
    }

    /// Whether a number may be accepted.
    ///
    /// # Errors
    /// It was accepted before, or is behind the window.
    #[inline]
    pub fn check(&self, number: u64) -> Result<(), Replay> {
        self.judge(number, self.word(number).load(Relaxed)).map(|_| ())
    }

    /// Accepts a number of an authentic packet, and moves the window on.
    ///
    /// # Errors
    /// It was accepted before, or is behind the window: another packet of the same vector, or of another worker, may
    /// have been the first.
    #[inline]
    pub fn accept(&self, number: u64) -> Result<(), Replay> {
        let word = self.word(number);
        let mut old = word.load(Relaxed);
        loop {
            let new = self.judge(number, old)?;
            match word.compare_exchange(old, new, Relaxed, Relaxed) {
                Ok(_) => break,
                Err(other) => old = other,
            }
        }
        if old >> SHIFT != (number / BLOCK) & FULL {
            self.lost.fetch_add(self.passed(old, number / BLOCK), Relaxed);
        }
        if number > self.top() {
            self.top.fetch_max(number, Relaxed);
        }
        Ok(())
    }

    /// The word for a number.
    #[inline]
    fn word(&self, number: u64) -> &AtomicU64 {
        &self.words[(number / BLOCK) as usize & (self.words.len() - 1)]
    }

    /// What its word becomes, if a number may be accepted.
    #[inline]
    fn judge(&self, number: u64, word: u64) -> Result<u64, Replay> {
        if number <= self.floor || number.saturating_add(self.size) <= self.top() {
            return Err(Replay::Late);
        }
        let (block, bit) = ((number / BLOCK) & FULL, 1 << (number % BLOCK));
        match ((word >> SHIFT) as u32).wrapping_sub(block as u32) {
            0 if word & bit != 0 => Err(Replay::Replayed),
            0 => Ok(word | bit),
            1..LATER => Err(Replay::Late),
            _ => Ok(block << SHIFT | bit),
        }
    }

    /// Numbers that are lost when this word gives way to a later block of its place: those of its block, and those of
    /// the rounds between, that were never accepted.
    fn passed(&self, word: u64, block: u64) -> u64 {
        let (ring, behind) = (
            self.words.len() as u64,
            u64::from((block as u32).wrapping_sub((word >> SHIFT) as u32)),
        );
        let rounds = behind / ring;
        if rounds == 0 {
            return 0;
        }
        let before = (rounds - 1) * BLOCK;
        match block.checked_sub(rounds * ring) {
            // Number 0 does not exist.
            Some(0) => before + BLOCK - 1 - u64::from((word & (FULL - 1)).count_ones()),
            Some(_) => before + BLOCK - u64::from((word & FULL).count_ones()),
            // The word is that of the start: its place is in no block before.
            None => before,
        }
    }

    /// The number of 64 bits whose lower half a packet has (RFC 4303 appendix A2): the one that is nearest to the
    /// window.
    #[inline]
    #[must_use]
    pub fn extended(&self, low: u32) -> u64 {
        let top = self.top();
        let (top_low, high) = (top as u32, top >> 32);
        let size = self.size as u32;
        let high = if top_low >= size - 1 {
            // The window is in one half.
            if low >= top_low - (size - 1) { high } else { high.wrapping_add(1) }
        } else if low >= top_low.wrapping_sub(size - 1) {
            // The window begins in the half before.
            high.wrapping_sub(1)
        } else {
            high
        };
        // Before the first packet there is no half before.
        let high = if high > u64::from(u32::MAX) { 0 } else { high };
        high << 32 | u64::from(low)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Accepts numbers on two threads; returns how many of each were accepted.
    fn race(
        numbers: [&'static [u64]; 2],
        check: impl Fn(usize, &ReplayWindow) + Sync + Send + 'static,
    ) {
        loom::model(move || {
            let window = Arc::new(ReplayWindow::new(64, 0).unwrap());
            let other = window.clone();
            let thread = thread::spawn(move || {
                numbers[1].iter().filter(|it| other.accept(**it).is_ok()).count()
            });
            let here = numbers[0].iter().filter(|it| window.accept(**it).is_ok()).count();
            check(here + thread.join().unwrap(), &window);
        });
    }

    #[test]
    fn one_of_two_equal_numbers_is_accepted() {
        race([&[5], &[5]], |accepted, window| {
            assert_eq!((accepted, window.top()), (1, 5));
            assert_eq!(window.check(5), Err(Replay::Replayed));
        });
    }

    #[test]
    fn neighbours_are_both_accepted() {
        race([&[5, 7], &[6]], |accepted, window| assert_eq!((accepted, window.top()), (3, 7)));
    }

    #[test]
    fn a_number_that_the_window_passes_is_accepted_once_at_most() {
        race([&[1, 1 + 4 * BLOCK], &[1]], |accepted, window| {
            assert_eq!(accepted, 2);
            assert_eq!((window.top(), window.check(1)), (129, Err(Replay::Late)));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
