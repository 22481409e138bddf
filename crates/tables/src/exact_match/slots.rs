//! The words of an exact-match table: their layout, the positions of a key, and how an entry finds
//! its place.

use core::sync::atomic::Ordering;

use crate::sync::AtomicU64;

/// Bits of the value, below the key.
pub(super) const VALUE_BITS: u32 = 17;
/// A word without an entry: that of a key that is out of range.
pub(super) const EMPTY: u64 = u64::MAX;
const VALUE_MASK: u64 = (1 << VALUE_BITS) - 1;
const HALF: u64 = u32::MAX as u64;

/// The greatest key.
pub const MAX_KEY: u64 = (1 << (u64::BITS - VALUE_BITS)) - 2;
/// The greatest value.
pub const MAX_VALUE: u32 = VALUE_MASK as u32;

/// Entries that give way to a new one, at most. With 3 of 8 words in use it is a few in a table of
/// any size.
const PATH: usize = 128;

/// The word of an entry.
#[inline(always)]
pub(super) fn word(key: u64, value: u32) -> u64 {
    key << VALUE_BITS | u64::from(value)
}

/// The key of a word in use.
#[inline(always)]
pub(super) fn key_of(word: u64) -> u64 {
    word >> VALUE_BITS
}

/// The hash function of one table: multipliers, all odd, and the mask of a position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hash {
    /// Of the lower and the upper half of the key.
    pub(super) halves: [u32; 2],
    /// Of what is made of both, for each of the two positions.
    pub(super) positions: [u32; 2],
    pub(super) mask: u32,
}

impl Hash {
    fn new(seed: u64, slots: usize) -> Self {
        // splitmix64: other seeds, other multipliers.
        let mut state = seed;
        let mut multiplier = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed >> 32) as u32 | 1
        };
        let halves = [multiplier(), multiplier()];
        Self { halves, positions: [multiplier(), multiplier()], mask: slots as u32 - 1 }
    }

    /// The two positions of a key, which may be the same.
    #[inline(always)]
    pub(super) fn positions(&self, key: u64) -> [usize; 2] {
        let [low, high] = self.halves.map(u64::from);
        let sum = ((key & HALF) * low).wrapping_add((key >> 32) * high);
        let mixed = (sum ^ sum >> 32) & HALF;
        self.positions.map(|by| ((mixed * u64::from(by)) >> 32) as usize & self.mask as usize)
    }
}

/// The words of a table of one size; written by one [`ExactMatch`](super::ExactMatch), read by all.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) hash: Hash,
    words: Box<[AtomicU64]>,
    /// Entries that were copied to their other position.
    moves: AtomicU64,
}

impl Slots {
    /// So many empty words, a power of two.
    pub(super) fn new(slots: usize, seed: u64) -> Self {
        assert!(slots.is_power_of_two());
        let words = (0..slots).map(|_| AtomicU64::new(EMPTY)).collect();
        Self { hash: Hash::new(seed, slots), words, moves: AtomicU64::new(0) }
    }

    /// All words; their number is a power of two, one more than the mask of the hash.
    #[inline(always)]
    pub(super) fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    /// The position of a key's entry.
    pub(super) fn position(&self, key: u64) -> Option<usize> {
        let is_it = |at: &usize| {
            let word = self.words[*at].load(Ordering::Relaxed);
            word != EMPTY && key_of(word) == key
        };
        self.hash.positions(key).into_iter().find(is_it)
    }

    /// The value of a key. `None` may also mean that the writer moves its entry at this moment.
    #[inline(always)]
    pub(super) fn find(&self, key: u64) -> Option<u32> {
        let words = self.hash.positions(key).map(|at| self.words[at].load(Ordering::Acquire));
        let word = words.into_iter().find(|word| key_of(*word) == key && *word != EMPTY)?;
        Some((word & VALUE_MASK) as u32)
    }

    /// The value of a key.
    #[inline(always)]
    pub(super) fn get(&self, key: u64) -> Option<u32> {
        let mut moves = self.moves.load(Ordering::Acquire);
        loop {
            if let Some(value) = self.find(key) {
                return Some(value);
            }
            // The count rises after the copy and before the overwriting: whoever sees the latter,
            // but did not see the former, sees it rise. Each round takes another move.
            let now = self.moves.load(Ordering::Acquire);
            if now == moves {
                return None;
            }
            moves = now;
        }
    }

    /// Stores a word at a position that holds no other key.
    pub(super) fn store(&self, at: usize, word: u64) {
        self.words[at].store(word, Ordering::Release);
    }

    /// Finds a place for the word of a new key and stores it; `false`: there is none, and nothing
    /// was changed.
    pub(super) fn place(&self, word: u64) -> bool {
        let mut path = [0; PATH];
        let [first, second] = self.hash.positions(key_of(word));
        // A free position before one that must be vacated.
        let starts = if self.is_free(second) && !self.is_free(first) { [second] } else { [first] };
        let Some(moves) =
            starts.into_iter().chain([second]).find_map(|start| self.path_from(start, &mut path))
        else {
            return false;
        };
        for step in path[..=moves].windows(2).rev() {
            let moved = self.words[step[0]].load(Ordering::Relaxed);
            self.store(step[1], moved);
            let count = self.moves.load(Ordering::Relaxed);
            self.moves.store(count.wrapping_add(1), Ordering::Release);
        }
        self.store(path[0], word);
        true
    }

    fn is_free(&self, at: usize) -> bool {
        self.words[at].load(Ordering::Relaxed) == EMPTY
    }

    /// The positions from `start` to a free one, each the other position of the entry at the one
    /// before; returns how many entries have to move. `None`: they form a circle (or a path that is
    /// too long).
    fn path_from(&self, start: usize, path: &mut [usize; PATH]) -> Option<usize> {
        let mut at = start;
        for (moves, position) in path.iter_mut().enumerate() {
            *position = at;
            let word = self.words[at].load(Ordering::Relaxed);
            if word == EMPTY {
                return Some(moves);
            }
            let [first, second] = self.hash.positions(key_of(word));
            at = if at == first { second } else { first };
        }
        None
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use std::sync::Arc;

    /// An entry goes to its other position and back: a reader finds it at any moment.
    #[test]
    fn a_moving_entry_is_found() {
        loom::model(|| {
            let slots = Arc::new(Slots::new(4, 1));
            let with = |positions: [usize; 2]| {
                (1..).find(|key| slots.hash.positions(*key) == positions).expect("a key")
            };
            // Each of the latter two has one position only, and drives the first one away.
            let (moving, low, high) = (with([1, 2]), with([1, 1]), with([2, 2]));
            assert!(slots.place(word(moving, 7)));
            let reader = Arc::clone(&slots);
            let thread = loom::thread::spawn(move || {
                assert_eq!(reader.get(moving), Some(7));
            });
            assert!(slots.place(word(low, 8)));
            slots.store(1, EMPTY);
            assert!(slots.place(word(high, 9)));
            assert_eq!(slots.position(moving), Some(1));
            thread.join().expect("no panic");
        });
    }
}
