//! What the words of a look-up structure mean: leaves, and three kinds of chunks.
//!
//! Kernels depend on this layout only. A word of 32 bits (of the root, or a
//! run of a chunk) is one of these, by its upper bits:
//!
//! ```text
//! 0.. leaf: the answer, up to 2^31 - 1
//! 100 wide chunk       | bitmap | run 1, run 2 | run 3, run 4 | ...    runs of 32 bits
//! 101 narrow chunk     | bitmap | run 1, run 2, run 3, run 4 | ...     leaves of 16 bits; IPv4 only
//! 110 lone prefix      | address bits, marker | hit, miss |            IPv6 only
//! ```
//!
//! The lower 29 bits are the position of the chunk in the arena, in words of 64 bits. Runs fill a
//! word from its lower bits on. Bit `i` of a *bitmap* is set when slot `i` (the next six bits of
//! the address) differs from slot `i - 1`; bit 0 always is. So the answer for slot `i` is run
//! `popcount(bitmap & (2 << i) - 1)`, counted from 1: a leaf, or a chunk for the six bits after.
//!
//! A *lone prefix* stands for all nodes on the path to a prefix that has no other beside it: it
//! ends the walk. Its first word is the address without its first bit, which the root has
//! used, then the marker: a one behind the last bit of the prefix, then zeros. An address hits when
//! it agrees on all bits above the marker, and misses otherwise; hit and miss are leaves. A lone
//! prefix has at most 64 bits, so only bits 1 to 64 are compared of the address.

use core::sync::atomic::Ordering;

use super::key::{Key, STRIDE};
use super::rib::{SLOTS, bits};
use crate::sync::AtomicU64;

/// Set in a word that leads to a chunk of any kind.
pub(crate) const CHILD: u32 = 1 << 31;
/// Set beside [`CHILD`] when the chunk is a lone prefix.
pub(crate) const LONE: u32 = 1 << 30;
/// Set beside [`CHILD`] when the chunk's runs have 16 bits.
pub(crate) const NARROW: u32 = 1 << 29;
/// The bits of a word that are the chunk's position.
pub(crate) const POSITION: u32 = NARROW - 1;
/// The longest prefix that can be a lone one.
const LONE_BITS: u8 = 64;

/// Where a word leads to.
pub(crate) fn position(word: u32) -> u32 {
    word & POSITION
}

/// Words of the chunk that `word` leads to and that begins with `head`.
pub(crate) fn chunk_words(word: u32, head: u64) -> usize {
    let per_word = if word & NARROW != 0 { 4 } else { 2 };
    let runs = if word & LONE != 0 { 2 } else { head.count_ones() };
    1 + runs.div_ceil(per_word) as usize
}

/// Length of the prefix of a lone chunk.
pub(crate) fn lone_len(head: u64) -> u8 {
    LONE_BITS - head.trailing_zeros() as u8
}

/// First of the slots that a lone prefix has in its node, which begins at `depth`.
pub(crate) fn lone_slot(head: u64, depth: u8) -> usize {
    let address = u128::from(head & head.wrapping_sub(1));
    (address << (63 + depth) >> 122) as usize
}

/// One step down: the result of the chunk `word` for a key whose first `depth` bits led to it. A
/// leaf stays what it is.
#[inline(always)]
pub(crate) fn step<K: Key>(words: &[AtomicU64], word: u32, key: K, depth: u8) -> u32 {
    let is_child = word & CHILD != 0;
    // A leaf reads the arena's first words, always in cache, and throws them away: cheaper than
    // a branch that is wrong every other time.
    let at = if is_child { position(word) as usize } else { 0 };
    let Some(head) = words.get(at) else { return 0 };
    let head = head.load(Ordering::Relaxed);
    let mut run = (head & (u64::MAX >> (63 - key.six(depth)))).count_ones() as usize;
    if K::LONES {
        let through_marker = head ^ head.wrapping_sub(1);
        let misses = (key.after_first() ^ head) & !through_marker != 0;
        run = if word & LONE != 0 { 1 + usize::from(misses) } else { run };
    }
    // Halves of words, or quarters of them, counted from the chunk's first.
    let narrow = usize::from(K::NARROWS && word & NARROW != 0);
    let part = run + 1 + 2 * narrow;
    let Some(body) = words.get(at + (part >> (1 + narrow))) else { return 0 };
    let shift = (part & (1 + 2 * narrow)) * (32 >> narrow);
    let run = (body.load(Ordering::Acquire) >> shift) as u32 & (u32::MAX >> (16 * narrow));
    if is_child { run } else { word }
}

/// A chunk as the writer composes it.
pub(crate) struct Chunk {
    /// [`CHILD`] and the bits of the kind.
    kind: u32,
    head: u64,
    runs: [u32; SLOTS],
    count: u32,
}

impl Chunk {
    /// The smallest chunk of these slots that has a bitmap.
    pub(crate) fn of<K: Key>(slots: &[u32; SLOTS]) -> Self {
        let mut differs = [0u8; SLOTS];
        differs[0] = 1;
        for slot in 1..SLOTS {
            differs[slot] = u8::from(slots[slot] != slots[slot - 1]);
        }
        let mut bitmap = 0;
        for (at, eight) in differs.as_chunks::<8>().0.iter().enumerate() {
            // Brings the lowest bits of eight bytes together.
            let gathered = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            bitmap |= gathered << (8 * at);
        }
        let mut chunk = Self::with_bitmap(slots, bitmap, CHILD);
        // Two runs take one word in both layouts, and wide ones can take any value later.
        if K::NARROWS && chunk.count > 2 && chunk.is_small() {
            chunk.kind |= NARROW;
        }
        chunk
    }

    /// A chunk whose runs begin at `head`, which has at least the bits that are needed.
    fn with_bitmap(slots: &[u32; SLOTS], head: u64, kind: u32) -> Self {
        let mut runs = [0; SLOTS];
        let mut count = 0;
        for (run, slot) in runs.iter_mut().zip(bits(head)) {
            *run = slots[slot];
            count += 1;
        }
        Self { kind, head, runs, count }
    }

    /// A lone prefix by its first word.
    pub(crate) fn lone(head: u64, hit: u32, miss: u32) -> Self {
        let mut runs = [0; SLOTS];
        (runs[0], runs[1]) = (hit, miss);
        Self { kind: CHILD | LONE, head, runs, count: 2 }
    }

    /// The chunk at the end of `word` with what stands in the slots now. Of a lone prefix only the
    /// hit can differ.
    pub(crate) fn again(word: u32, head: u64, miss: u32, depth: u8, slots: &[u32; SLOTS]) -> Self {
        if word & LONE != 0 {
            return Self::lone(head, slots[lone_slot(head, depth)], miss);
        }
        Self::with_bitmap(slots, head, word & !POSITION)
    }

    /// Whether all runs are leaves of at most 16 bits.
    fn is_small(&self) -> bool {
        self.runs().iter().fold(0, |all, run| all | run) <= u32::from(u16::MAX)
    }

    /// Whether the old chunk `word`, which begins with `head`, can take these runs in place.
    pub(crate) fn fits(&self, word: u32, head: u64) -> bool {
        let is_wide_enough = word & NARROW == 0 || self.is_small();
        word & LONE == 0 && self.head & !head == 0 && is_wide_enough
    }

    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    pub(crate) fn kind(&self) -> u32 {
        self.kind
    }

    pub(crate) fn runs(&self) -> &[u32] {
        &self.runs[..self.count as usize]
    }

    pub(crate) fn words(&self) -> usize {
        chunk_words(self.kind, self.head)
    }

    /// The words after the first.
    pub(crate) fn body(&self) -> impl Iterator<Item = u64> {
        let (per_word, bits) = if self.kind & NARROW != 0 { (4, 16) } else { (2, 32) };
        self.runs().chunks(per_word).map(move |runs| {
            runs.iter().rev().fold(0, |word, run| word << (bits % 64) | u64::from(*run))
        })
    }

    /// What these slots of the node `prefix/depth` come to when they hold one aligned block of
    /// something and the same leaf everywhere else. Of two halves the one that answers `cover`
    /// is what stands beside the other: so do the nodes above see it.
    pub(crate) fn alone<K: Key>(&self, prefix: K, depth: u8, cover: u32) -> Option<Alone> {
        if !K::LONES || self.count > 3 {
            return None;
        }
        let mut starts = bits(self.head).skip(1);
        let (first, second) = (starts.next()?, starts.next());
        let (start, end, hit, miss) = match second {
            Some(end) if self.runs[0] == self.runs[2] => (first, end, self.runs[1], self.runs[0]),
            Some(_) => return None,
            None if first == SLOTS / 2 && self.runs[1] == cover => {
                (0, first, self.runs[0], self.runs[1])
            }
            None if (SLOTS - first).is_power_of_two() => (first, SLOTS, self.runs[1], self.runs[0]),
            None => (0, first, self.runs[0], self.runs[1]),
        };
        let width = end - start;
        if miss & CHILD != 0 || !width.is_power_of_two() || !start.is_multiple_of(width) {
            return None;
        }
        if hit & CHILD != 0 {
            return Some(Alone::Child { word: hit, miss });
        }
        let log2 = width.ilog2() as u8;
        let len = depth + STRIDE - log2;
        if len > LONE_BITS {
            return None;
        }
        let address = prefix.with_bits(depth, STRIDE - log2, start >> log2).after_first();
        Some(Alone::Prefix { head: address | 1 << (LONE_BITS - len), hit, miss })
    }
}

/// The one thing in a node; see [`Chunk::alone`].
pub(crate) enum Alone {
    /// A prefix that ends in the node: what a lone prefix consists of.
    Prefix {
        /// Its first word.
        head: u64,
        /// The leaf of the prefix.
        hit: u32,
        /// The leaf beside it.
        miss: u32,
    },
    /// A child of the node, with what stands beside it.
    Child {
        /// The word that leads to the child.
        word: u32,
        /// The leaf beside it.
        miss: u32,
    },
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{Ip6Lpm, LpmCapacity};
    use super::*;

    fn words(chunk: &Chunk) -> Vec<AtomicU64> {
        core::iter::once(chunk.head()).chain(chunk.body()).map(AtomicU64::new).collect()
    }

    fn answers(chunk: &Chunk) -> Vec<u32> {
        let words = words(chunk);
        assert_eq!(words.len(), chunk.words());
        (0..64u32).map(|slot| step(&words, chunk.kind(), slot << 8, 18)).collect()
    }

    #[test]
    fn a_chunk_answers_as_its_slots() {
        for (every, base) in [(1, 0), (1, 70_000), (3, 5), (3, 65_535), (40, 9), (64, 1 << 30)] {
            let slots = core::array::from_fn(|slot| base + (slot / every) as u32);
            let chunk = Chunk::of::<u32>(&slots);
            let is_narrow = chunk.runs().len() > 2 && slots[63] < 65_536;
            assert_eq!(chunk.kind() & NARROW != 0, is_narrow, "{every} {base}");
            assert_eq!(answers(&chunk), slots, "{every} {base}");
        }
    }

    #[test]
    fn a_chunk_in_place_keeps_its_bitmap() {
        let slots = core::array::from_fn(|slot| slot as u32 / 4);
        let (old, new) = (Chunk::of::<u32>(&slots), slots.map(|value| value / 2));
        let fewer = Chunk::of::<u32>(&new);
        assert!(fewer.fits(old.kind(), old.head()));
        assert!(!old.fits(fewer.kind(), fewer.head()));
        assert!(!Chunk::of::<u32>(&new.map(|value| value << 20)).fits(old.kind(), old.head()));
        assert_eq!(answers(&Chunk::again(old.kind(), old.head(), 0, 18, &new)), new);
    }

    #[test]
    fn a_lone_prefix_hits_its_addresses_only() {
        let network = 0x2001_0db8_0007u128 << 80;
        for (len, width) in [(48u8, 4usize), (46, 16), (50, 1)] {
            let depth = 44;
            let from = network.six(depth) / width * width;
            let slots =
                core::array::from_fn(
                    |slot| {
                        if (from..from + width).contains(&slot) { 7 } else { 9 }
                    },
                );
            let chunk = Chunk::of::<u128>(&slots);
            let Some(Alone::Prefix { head, hit, miss }) =
                chunk.alone(network.network(depth), depth, 9)
            else {
                panic!("/{len} is alone")
            };
            assert_eq!((lone_len(head), lone_slot(head, depth)), (len, from));
            let lone = Chunk::lone(head, hit, miss);
            let words = words(&lone);
            for bit in 0..107 {
                let key = network ^ 1 << bit;
                let expected = if bit < 128 - u32::from(len) { 7 } else { 9 };
                assert_eq!(step(&words, lone.kind(), key, 26), expected, "/{len}, bit {bit}");
            }
        }
    }

    #[test]
    fn either_half_of_a_node_is_alone() {
        let network = 0x2001_0db8u128 << 96;
        for half in [network, network | 1 << 83] {
            let mut lpm = Ip6Lpm::new(LpmCapacity::for_routes(64)).expect("memory");
            lpm.insert(network.network(20), 20, 1).expect("space");
            lpm.insert(half, 45, 2).expect("space");
            // The nodes of /20, /26, /32, /38 and /44 come to one lone prefix.
            assert_eq!(lpm.lookup_words_used(), 2, "{half:x}");
            assert_eq!((lpm.lookup(half), lpm.lookup(half ^ 1 << 83)), (2, 1));
        }
    }

    #[test]
    fn not_everything_is_alone() {
        let alone = |chunk: &Chunk, depth| chunk.alone(1u128 << 125, depth, 1).is_some();
        let block = |from: usize, to: usize| {
            core::array::from_fn(|slot| if (from..to).contains(&slot) { 2 } else { 1 })
        };
        for (from, to) in [(0, 1), (0, 32), (32, 64), (62, 64), (4, 8), (63, 64)] {
            let chunk = Chunk::of::<u128>(&block(from, to));
            assert!(alone(&chunk, 56), "{from}..{to}");
            assert!(!alone(&chunk, 68), "beyond 64 bits");
            assert!(chunk.alone(0u32, 18, 1).is_none(), "IPv4 has none");
        }
        for (from, to) in [(1, 3), (0, 3), (4, 12), (2, 5), (1, 63)] {
            assert!(!alone(&Chunk::of::<u128>(&block(from, to)), 56), "{from}..{to}");
        }
        let three = core::array::from_fn(|slot| slot as u32 / 32 + u32::from(slot == 3));
        assert!(!alone(&Chunk::of::<u128>(&three), 56));
    }
}
