//! One bucket of the index: a header, ten signatures and ten references to keys, in one cache line.
//!
//! ```text
//! word 0   header (32)                  signature 0, 1
//! word 1   signatures 2 to 5
//! word 2   signatures 6 to 9
//! word 3   references 0, 1  ...  word 7   references 8, 9
//! ```
//!
//! A signature of 0 marks a free slot. Whoever changes a bucket holds the lock bit of its header; readers
//! do not look at this bit. A reference is stored before its signature, and stays when the signature is
//! cleared, so that a reader that still sees the signature gets the reference to which it belonged.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::sync::{AtomicU64, wait};

/// Slots of a bucket; a few for loom, which fills them anew for each order that it tries.
pub(super) const SLOTS: usize = if cfg!(loom) { 2 } else { 10 };
/// Words of a bucket.
pub(super) const WORDS: usize = 8;
/// Turns of a spin before a writer gives up: many times what a change takes.
const TURNS: u32 = if cfg!(loom) { 4 } else { 256 };
/// Where the references begin.
pub(super) const REFERENCES: usize = 3;
const LOCKED: u64 = 1;
/// One more key away from home.
const AWAY: u64 = 1 << 1;
const AWAY_MASK: u64 = 0x7ff << 1;
/// One more move of a key whose home this is.
const MOVED: u64 = 1 << 12;
const HEADER: u64 = u32::MAX as u64;

/// What an index slot refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reference(pub(super) u32);

impl Reference {
    /// The key is the second one of its flow.
    pub(super) const SECOND: u32 = 1 << 30;
    /// The slot is not in the first choice of its key.
    pub(super) const AWAY: u32 = 1 << 31;

    pub(super) fn new(flow: u32, is_second: bool) -> Self {
        Self(flow | if is_second { Self::SECOND } else { 0 })
    }

    pub(super) fn flow(self) -> u32 {
        self.0 & !(Self::SECOND | Self::AWAY)
    }

    pub(super) fn is_second(self) -> bool {
        self.0 & Self::SECOND != 0
    }

    pub(super) fn is_away(self) -> bool {
        self.0 & Self::AWAY != 0
    }

    pub(super) fn is_same(self, other: Self) -> bool {
        (self.0 ^ other.0) & !Self::AWAY == 0
    }

    pub(super) fn away(self, is_away: bool) -> Self {
        Self(self.0 & !Self::AWAY | if is_away { Self::AWAY } else { 0 })
    }
}

/// What changes in a header when keys of this bucket move; two that are equal enclose no move.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Header(u64);

impl Header {
    /// Whether keys of this bucket may be in their other one.
    #[inline(always)]
    pub(super) fn has_away(self) -> bool {
        self.0 & AWAY_MASK != 0
    }
}

/// The 16-bit lanes of a word that are equal to a signature, as bits.
#[inline(always)]
fn equal_lanes(word: u64, signature: u16) -> u32 {
    /// The lowest bit of each lane, and all but the highest.
    const LOWEST: u64 = 0x0001_0001_0001_0001;
    const LOWER: u64 = 0x7fff_7fff_7fff_7fff;
    let difference = word ^ (LOWEST * u64::from(signature));
    // The highest bit of each lane: set where the lane is not 0, without a carry between lanes.
    let differs = (((difference & LOWER) + LOWER) | difference) & !LOWER;
    let is_equal = (differs ^ !LOWER) >> 15;
    // Lane `n` comes to bit 48 + n.
    (is_equal.wrapping_mul(1 << 48 | 1 << 33 | 1 << 18 | 1 << 3) >> 48) as u32 & 0xf
}

/// The words of a bucket.
#[derive(Clone, Copy)]
pub(super) struct Bucket<'a>(pub(super) &'a [AtomicU64; WORDS]);

impl Bucket<'_> {
    #[inline(always)]
    pub(super) fn header(self) -> Header {
        Header(self.0[0].load(Acquire) & HEADER & !LOCKED)
    }

    /// The slots with a signature, as bits.
    #[inline(always)]
    pub(super) fn slots_of(self, signature: u16) -> u32 {
        // Not by `map` of an array, which is not inlined.
        let of = |word: usize| equal_lanes(self.0[word].load(Acquire), signature);
        let (head, middle, tail) = (of(0), of(1), of(2));
        (head >> 2 | middle << 2 | tail << 6) & ((1 << SLOTS) - 1)
    }

    #[inline(always)]
    pub(super) fn signature(self, slot: usize) -> u16 {
        let lane = slot + 2;
        (self.0[lane / 4].load(Acquire) >> (lane % 4 * 16)) as u16
    }

    #[inline(always)]
    pub(super) fn reference(self, slot: usize) -> Reference {
        let word = self.0[REFERENCES + slot / 2].load(Acquire);
        Reference((word >> (slot % 2 * 32)) as u32)
    }

    /// Takes the lock; `false` when another thread kept it for too long.
    #[must_use]
    pub(super) fn lock(self) -> bool {
        (0..TURNS).any(|turn| {
            if turn > 0 {
                wait();
            }
            self.try_lock()
        })
    }

    /// Takes the lock if it is free.
    #[must_use]
    pub(super) fn try_lock(self) -> bool {
        let now = self.0[0].load(Relaxed);
        let free = now & !LOCKED;
        self.0[0].compare_exchange(free, now | LOCKED, Acquire, Relaxed).is_ok()
    }

    pub(super) fn unlock(self) {
        let now = self.0[0].load(Relaxed);
        debug_assert!(now & LOCKED != 0);
        self.0[0].store(now & !LOCKED, Release);
    }

    /// Occupies a free slot. The caller holds the lock, as for all that follow.
    pub(super) fn fill(self, slot: usize, signature: u16, reference: Reference) {
        let word = &self.0[REFERENCES + slot / 2];
        let shift = slot % 2 * 32;
        let rest = word.load(Relaxed) & !(HEADER << shift);
        word.store(rest | u64::from(reference.0) << shift, Release);
        self.set_signature(slot, signature);
    }

    /// Frees a slot.
    pub(super) fn clear(self, slot: usize) {
        self.set_signature(slot, 0);
    }

    fn set_signature(self, slot: usize, signature: u16) {
        let lane = slot + 2;
        let (word, shift) = (&self.0[lane / 4], lane % 4 * 16);
        let rest = word.load(Relaxed) & !(0xffff << shift);
        word.store(rest | u64::from(signature) << shift, Release);
    }

    /// A key whose home this is will be in its other bucket; `false`: too many are.
    #[must_use]
    pub(super) fn one_away(self) -> bool {
        let now = self.0[0].load(Relaxed);
        let is_possible = now & AWAY_MASK != AWAY_MASK;
        if is_possible {
            self.0[0].store(now + AWAY, Release);
        }
        is_possible
    }

    /// A key whose home this is no longer is in its other bucket.
    pub(super) fn one_back(self) {
        let now = self.0[0].load(Relaxed);
        debug_assert!(now & AWAY_MASK != 0);
        self.0[0].store(now - AWAY, Release);
    }

    /// A key whose home this is has been copied from one of its buckets to the other, and will be cleared
    /// in the one.
    pub(super) fn one_moved(self) {
        let now = self.0[0].load(Relaxed);
        let header = (now & HEADER).wrapping_add(MOVED) & HEADER;
        self.0[0].store(now & !HEADER | header, Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lanes_are_compared_one_by_one(
            lanes in prop::array::uniform4(prop_oneof![0..3_u16, any::<u16>()]),
            signature in prop_oneof![0..3_u16, any::<u16>()],
        ) {
            let word = lanes.iter().rev().fold(0, |all, lane| all << 16 | u64::from(*lane));
            let expected = (0..4).filter(|lane| lanes[*lane] == signature);
            prop_assert_eq!(equal_lanes(word, signature), expected.map(|lane| 1 << lane).sum::<u32>());
        }
    }
}
