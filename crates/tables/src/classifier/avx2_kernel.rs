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
use core::sync::atomic::Ordering;

use super::arena::Arena;
use super::build::VISITS;
use super::columns::COLUMNS;
use super::layout::{Field, LINE, NO_ENTRY, Word};
use super::pattern::{Family, IP4, IP6};
use super::reader::lookup_scalar;
use super::{BLOCK, LANES};
use crate::lpm::Kernel;
use crate::sync::AtomicU64;

/// All spills that the lanes can have left to visit.
const SPILLS: usize = LANES * VISITS as usize;
/// One word of all keys.
type Column = [u32; LANES];
type Keys = [Column; COLUMNS];

/// IPv4.
pub(super) fn lookup_ip4(
    arena: &Arena,
    root: Word,
    keys: &Keys,
    lanes: usize,
    ids: &mut [u32; LANES],
) {
    if Kernel::Avx2.is_available() {
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
    keys: &Keys,
    lanes: usize,
    ids: &mut [u32; LANES],
) {
    if Kernel::Avx2.is_available() {
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

/// Elements that are written before they are read.
type Uninit<T, const N: usize> = [MaybeUninit<T>; N];

/// Where the lanes are. Lengths are beside the lists, in registers: they would be loaded again after
/// each store to a list.
struct Lists {
    /// The positions of the words to read next, and the lanes.
    nodes: Uninit<u32, LANES>,
    node_lanes: Uninit<u8, LANES>,
    /// Words of leaves.
    leaves: Uninit<Word, LANES>,
    leaf_lanes: Uninit<u8, LANES>,
    /// The positions of what leads to spills that are left to visit.
    spills: Uninit<u32, SPILLS>,
    spill_lanes: Uninit<u8, SPILLS>,
}

#[derive(Clone, Copy, Default)]
struct Lengths {
    nodes: usize,
    leaves: usize,
    spills: usize,
}

/// The element at a place of two lists.
///
/// # Safety
/// Both were written there.
#[inline(always)]
unsafe fn get<T: Copy, const N: usize>(
    (things, lanes): (&Uninit<T, N>, &Uninit<u8, N>),
    at: usize,
) -> (usize, T) {
    // SAFETY: guaranteed by the caller.
    unsafe { (usize::from(lanes[at % N].assume_init()) % LANES, things[at % N].assume_init()) }
}

impl Lists {
    /// Takes a lane to where a word leads: all lists get it, one becomes longer.
    #[inline(always)]
    fn push(
        &mut self,
        keys: &Keys,
        cells: &[AtomicU64],
        (lane, word): (usize, Word),
        lengths: &mut Lengths,
    ) {
        // A leaf leads to some position, too; it is not used.
        let child = word.child(|at| keys[at % COLUMNS][lane % LANES]);
        self.nodes[lengths.nodes % LANES].write(child as u32);
        self.node_lanes[lengths.nodes % LANES].write(lane as u8);
        lengths.nodes += usize::from(word.is_node());
        self.leaves[lengths.leaves % LANES].write(word);
        self.leaf_lanes[lengths.leaves % LANES].write(lane as u8);
        lengths.leaves += usize::from(word.is_leaf());
        self.spills[lengths.spills % SPILLS].write(word.position() as u32);
        self.spill_lanes[lengths.spills % SPILLS].write(lane as u8);
        lengths.spills += usize::from(word.has_spill());
        prefetch(cells, if word.is_node() { child } else { word.position() });
    }
}

#[inline(always)]
fn prefetch(cells: &[AtomicU64], position: usize) {
    let address = cells.as_ptr().wrapping_add(position).cast();
    // SAFETY: a prefetch of any address is sound.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
}

/// The word at a position; empty beyond the cells.
#[inline(always)]
fn load(cells: &[AtomicU64], position: usize) -> u64 {
    cells.get(position).map_or(0, |cell| cell.load(Ordering::Relaxed))
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
fn lookup<const WORDS: usize, const BASIC: usize, const RANGES: u32>(
    cells: &[AtomicU64],
    root: Word,
    keys: &Keys,
    lanes: usize,
    ids: &mut [u32; LANES],
) {
    let mut best = [NO_ENTRY; LANES];
    let mut lists = Lists {
        nodes: [const { MaybeUninit::uninit() }; LANES],
        node_lanes: [const { MaybeUninit::uninit() }; LANES],
        leaves: [const { MaybeUninit::uninit() }; LANES],
        leaf_lanes: [const { MaybeUninit::uninit() }; LANES],
        spills: [const { MaybeUninit::uninit() }; SPILLS],
        spill_lanes: [const { MaybeUninit::uninit() }; SPILLS],
    };
    let mut lengths = start(root, keys, &mut lists, lanes.min(LANES));
    loop {
        while lengths.nodes > 0 {
            lengths = pass(cells, keys, &mut lists, lengths);
        }
        while lengths.leaves > 0 {
            let count = lengths.leaves;
            lengths.leaves =
                compare::<WORDS, BASIC, RANGES>(cells, keys, &mut lists, count, &mut best);
        }
        if lengths.spills == 0 {
            break;
        }
        lengths = visit_spills(cells, keys, &mut lists, lengths, &best);
    }
    for (id, best) in ids.iter_mut().zip(&best).take(lanes) {
        *id = *best as u32;
    }
}

/// Takes all lanes to where the root leads, eight at once.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn start(root: Word, keys: &Keys, lists: &mut Lists, lanes: usize) -> Lengths {
    let mut lengths = Lengths::default();
    for lane in 0..LANES {
        lists.node_lanes[lane].write(lane as u8);
        lists.leaf_lanes[lane].write(lane as u8);
        lists.leaves[lane].write(root);
    }
    if root.is_leaf() {
        lengths.leaves = lanes;
    }
    if root.has_spill() {
        for lane in 0..lanes {
            lists.spills[lane].write(root.position() as u32);
            lists.spill_lanes[lane].write(lane as u8);
        }
        lengths.spills = lanes;
    }
    if root.is_node() {
        let [first, second] = root.fields();
        let above = _mm_cvtsi32_si128(first.bits.into());
        for step in 0..LANES / BLOCK {
            let part = |field: Field| {
                let column = &keys[usize::from(field.word) % COLUMNS];
                // SAFETY: the column has eight words for each step.
                let words = unsafe { _mm256_loadu_si256(column.as_ptr().add(step * BLOCK).cast()) };
                let words = _mm256_srl_epi32(words, _mm_cvtsi32_si128(field.shift.into()));
                _mm256_and_si256(words, _mm256_set1_epi32((1 << field.bits) - 1))
            };
            let child = _mm256_or_si256(part(first), _mm256_sll_epi32(part(second), above));
            let child = _mm256_add_epi32(child, _mm256_set1_epi32(root.position() as i32));
            // SAFETY: the list has eight places for each step.
            unsafe {
                _mm256_storeu_si256(lists.nodes.as_mut_ptr().add(step * BLOCK).cast(), child)
            };
        }
        lengths.nodes = lanes;
    }
    lengths
}

/// Takes all lanes at nodes one level down.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn pass(cells: &[AtomicU64], keys: &Keys, lists: &mut Lists, lengths: Lengths) -> Lengths {
    let mut next = Lengths { nodes: 0, ..lengths };
    for at in 0..lengths.nodes.min(LANES) {
        // SAFETY: all elements before the length were written.
        let (lane, position) = unsafe { get((&lists.nodes, &lists.node_lanes), at) };
        lists.push(keys, cells, (lane, Word(load(cells, position as usize))), &mut next);
    }
    next
}

/// Takes as many spills as there are places for from the end of the list, but for those behind what was
/// found, and goes to where they lead.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn visit_spills(
    cells: &[AtomicU64],
    keys: &Keys,
    lists: &mut Lists,
    lengths: Lengths,
    best: &[u64; LANES],
) -> Lengths {
    let rest = lengths.spills.saturating_sub(LANES);
    // What is pushed overwrites only what was read.
    let mut next = Lengths { spills: rest, ..lengths };
    for at in rest..lengths.spills {
        // SAFETY: all elements before the length were written.
        let (lane, position) = unsafe { get((&lists.spills, &lists.spill_lanes), at) };
        let header = (position as usize).saturating_sub(LINE);
        let word = load(cells, header);
        let is_before = load(cells, header + 1) < best[lane];
        lists.push(keys, cells, (lane, Word(if is_before { word } else { 0 })), &mut next);
    }
    next
}

/// Compares all lanes at leaves with one block each. Those that find nothing stay in the list, with the
/// rest of their leaf. Returns how many.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn compare<const WORDS: usize, const BASIC: usize, const RANGES: u32>(
    cells: &[AtomicU64],
    keys: &Keys,
    lists: &mut Lists,
    count: usize,
    best: &mut [u64; LANES],
) -> usize {
    let mut next = 0;
    for at in 0..count.min(LANES) {
        // SAFETY: all elements before the length were written.
        let (lane, leaf) = unsafe { get((&lists.leaves, &lists.leaf_lanes), at) };
        let words = if leaf.is_extended() { WORDS } else { BASIC };
        let block = leaf.position();
        let Some(block) = cells.get(block..block + (words + 1) * LINE) else { continue };
        let mut differ = compare_words::<RANGES, 0, BASIC>(keys, lane, block);
        if leaf.is_extended() {
            // Only constants beyond `BASIC`: an array of words would not be unrolled.
            let more = compare_words::<RANGES, BASIC, WORDS>(keys, lane, block);
            differ = _mm256_or_si256(differ, more);
        }
        let equal = _mm256_cmpeq_epi32(differ, _mm256_setzero_si256());
        let equal = _mm256_movemask_ps(_mm256_castsi256_ps(equal)) as u32;
        // Not beyond the block where there is none.
        let first = equal.trailing_zeros() as usize % BLOCK;
        let entry = block[words * LINE + first].load(Ordering::Relaxed);
        let entry = if equal != 0 { entry } else { NO_ENTRY };
        best[lane] = best[lane].min(entry);
        let rest = leaf.after_block(words + 1);
        lists.leaves[next].write(rest);
        lists.leaf_lanes[next].write(lane as u8);
        next += usize::from((equal == 0) & rest.is_leaf());
    }
    next
}

/// Bits that are set in the lanes of rules that the key does not meet, by the words from one to another.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn compare_words<const RANGES: u32, const FROM: usize, const TO: usize>(
    keys: &Keys,
    lane: usize,
    block: &[AtomicU64],
) -> __m256i {
    let mut differ = _mm256_setzero_si256();
    assert!(block.len() >= TO * LINE && keys.len() >= TO);
    for (word, lanes) in (FROM..TO).zip(&keys[FROM..TO]) {
        let key = _mm256_set1_epi32(lanes[lane] as i32);
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
