//! The look-up kernel for x86-64 with AVX2: all lanes walk down together, and a leaf compares eight
//! rules at once.
//!
//! A pass takes each lane one level down. Lanes at nodes, at leaves and with spills to visit are lists;
//! where a lane goes is appended to all of them, and only one becomes longer: no branch depends on a
//! packet. The address of what a lane reads next is known a pass earlier and is prefetched.
//!
//! The entry points check the CPU themselves and fall back to the scalar kernel, so calling them is
//! always sound.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use super::arena::Arena;
use super::build::VISITS;
use super::layout::{LINE, NO_ENTRY, Word};
use super::pattern::{Family, IP4, IP6};
use super::reader::lookup_scalar;
use super::{BLOCK, LANES};
use crate::sync::AtomicU64;

/// All spills that the lanes can have left to visit.
const SPILLS: usize = LANES * VISITS as usize;
/// Words of eight bytes of a family's columns, values or masks.
type Column = [u32; LANES];

fn has_avx2() -> bool {
    !cfg!(miri) && is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2")
}

/// IPv4.
pub(super) fn lookup_ip4(
    arena: &Arena,
    root: Word,
    keys: &[Column; 6],
    lanes: usize,
    ids: &mut [u32; LANES],
) {
    if has_avx2() {
        // SAFETY: the CPU has the features, checked just now.
        unsafe { lookup::<6, 4, { IP4.ranges }>(arena.cells(), root, keys, lanes, ids) }
    } else {
        lookup_scalar(arena, &IP4, root, keys, &mut ids[..lanes]);
    }
}

/// IPv6.
pub(super) fn lookup_ip6(
    arena: &Arena,
    root: Word,
    keys: &[Column; 12],
    lanes: usize,
    ids: &mut [u32; LANES],
) {
    if has_avx2() {
        // SAFETY: the CPU has the features, checked just now.
        unsafe { lookup::<12, 6, { IP6.ranges }>(arena.cells(), root, keys, lanes, ids) }
    } else {
        lookup_scalar(arena, &IP6, root, keys, &mut ids[..lanes]);
    }
}

const fn is_of(family: &Family, words: usize, basic: usize) -> bool {
    family.words == words && family.basic == basic
}
const _: () = assert!(is_of(&IP4, 6, 4) && is_of(&IP6, 12, 6));

/// A list of lanes and what each of them has.
struct List<T, const N: usize> {
    lanes: [MaybeUninit<u8>; N],
    things: [MaybeUninit<T>; N],
    len: usize,
}

impl<T: Copy, const N: usize> List<T, N> {
    #[inline(always)]
    fn new() -> Self {
        Self { lanes: [const { MaybeUninit::uninit() }; N], things: [const { MaybeUninit::uninit() }; N], len: 0 }
    }

    /// Writes an element and makes the list longer if it `counts`. Full lists stay as they are.
    #[inline(always)]
    fn push(&mut self, lane: usize, thing: T, counts: bool) {
        if self.len < N {
            self.lanes[self.len].write(lane as u8);
            self.things[self.len].write(thing);
            self.len += usize::from(counts);
        }
    }

    /// # Safety
    /// The list was longer than `at` once.
    #[inline(always)]
    unsafe fn get(&self, at: usize) -> (usize, T) {
        // SAFETY: all elements before the greatest length were written.
        unsafe { (usize::from(self.lanes[at].assume_init()) % LANES, self.things[at].assume_init()) }
    }
}

/// Where the lanes are.
struct Walk<'a, const WORDS: usize> {
    cells: &'a [AtomicU64],
    keys: &'a [Column; WORDS],
    /// Positions of the words to read next.
    nodes: List<u32, LANES>,
    leaves: List<Word, LANES>,
    /// Positions of nodes whose spills are left to visit.
    spills: List<u32, SPILLS>,
}

impl<const WORDS: usize> Walk<'_, WORDS> {
    /// Takes a lane to where a word leads.
    #[inline(always)]
    fn step(&mut self, lane: usize, word: Word) {
        // A leaf leads somewhere, too, but the list does not become longer.
        let child = word.child(|at| self.keys[at.min(WORDS - 1)][lane]);
        self.nodes.push(lane, child as u32, word.is_node());
        self.leaves.push(lane, word, word.is_leaf());
        let has_spill = word.is_node() & word.has_spill();
        self.spills.push(lane, word.position() as u32, has_spill);
        self.prefetch(if word.is_node() { child } else { word.position() });
    }

    /// Prefetches the line of a position.
    #[inline(always)]
    fn prefetch(&self, position: usize) {
        let address = self.cells.as_ptr().wrapping_add(position).cast();
        // SAFETY: a prefetch of any address is sound.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }

    /// The word at a position; empty beyond the cells.
    #[inline(always)]
    fn word(&self, position: usize) -> u64 {
        self.cells.get(position).map_or(0, |cell| cell.load(core::sync::atomic::Ordering::Relaxed))
    }

    /// Takes all lanes at nodes one level down.
    #[inline(always)]
    fn pass(&mut self) {
        let count = core::mem::take(&mut self.nodes.len);
        for at in 0..count {
            // SAFETY: the list was that long.
            let (lane, position) = unsafe { self.nodes.get(at) };
            self.step(lane, Word(self.word(position as usize)));
        }
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
fn lookup<const WORDS: usize, const BASIC: usize, const RANGES: u32>(
    cells: &[AtomicU64],
    root: Word,
    keys: &[Column; WORDS],
    lanes: usize,
    ids: &mut [u32; LANES],
) {
    let mut best = [NO_ENTRY; LANES];
    let (nodes, leaves, spills) = (List::new(), List::new(), List::new());
    let mut walk = Walk { cells, keys, nodes, leaves, spills };
    for lane in 0..lanes.min(LANES) {
        walk.step(lane, root);
    }
    loop {
        while walk.nodes.len > 0 {
            walk.pass();
        }
        while walk.leaves.len > 0 {
            compare::<WORDS, BASIC, RANGES>(&mut walk, &mut best);
        }
        // As many spills as the lists have places for.
        while walk.spills.len > 0 && walk.nodes.len < LANES {
            walk.spills.len -= 1;
            // SAFETY: the list was longer just now.
            let (lane, header) = unsafe { walk.spills.get(walk.spills.len) };
            let least = walk.word(header as usize + 1);
            walk.nodes.push(lane, header, least < best[lane]);
        }
        if walk.nodes.len == 0 {
            break;
        }
    }
    for (id, best) in ids.iter_mut().zip(&best).take(lanes) {
        *id = *best as u32;
    }
}

/// Compares all lanes at leaves with one block each; those that find nothing stay in the list, with the
/// rest of their leaf.
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn compare<const WORDS: usize, const BASIC: usize, const RANGES: u32>(
    walk: &mut Walk<'_, WORDS>,
    best: &mut [u64; LANES],
) {
    let count = core::mem::take(&mut walk.leaves.len);
    for at in 0..count {
        // SAFETY: the list was that long.
        let (lane, leaf) = unsafe { walk.leaves.get(at) };
        let words = if leaf.is_extended() { WORDS } else { BASIC };
        let block = leaf.position();
        let Some(block) = walk.cells.get(block..block + (words + 1) * LINE) else { continue };
        let mut differ = compare_words::<RANGES>(walk.keys, lane, block, 0, BASIC);
        if leaf.is_extended() {
            let more = compare_words::<RANGES>(walk.keys, lane, block, BASIC, WORDS);
            differ = _mm256_or_si256(differ, more);
        }
        let equal = _mm256_cmpeq_epi32(differ, _mm256_setzero_si256());
        let equal = _mm256_movemask_ps(_mm256_castsi256_ps(equal)) as u32;
        // Not beyond the block where there is none.
        let first = equal.trailing_zeros() as usize % BLOCK;
        let entry = block[words * LINE + first].load(core::sync::atomic::Ordering::Relaxed);
        let entry = if equal != 0 { entry } else { NO_ENTRY };
        best[lane] = best[lane].min(entry);
        let rest = leaf.after_block(words + 1);
        walk.leaves.push(lane, rest, equal == 0 && rest.is_leaf());
    }
}

/// Bits that are set in the lanes of rules that the key does not meet, from one word to another.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn compare_words<const RANGES: u32>(
    keys: &[Column],
    lane: usize,
    block: &[AtomicU64],
    from: usize,
    to: usize,
) -> __m256i {
    let mut differ = _mm256_setzero_si256();
    assert!(block.len() >= to * LINE && keys.len() >= to);
    for word in from..to {
        let key = _mm256_set1_epi32(keys[word][lane] as i32);
        // SAFETY: the block has eight cells for each word, asserted above. They were written before
        // the word that led here, and are not changed while a reader can reach them.
        let [value, mask] = unsafe {
            let line = block.as_ptr().add(word * LINE).cast::<__m256i>();
            [_mm256_loadu_si256(line), _mm256_loadu_si256(line.add(1))]
        };
        let one = if RANGES >> word & 1 == 1 {
            _mm256_subs_epu16(_mm256_sub_epi16(key, value), mask)
        } else {
            _mm256_and_si256(_mm256_xor_si256(key, value), mask)
        };
        differ = _mm256_or_si256(differ, one);
    }
    differ
}
