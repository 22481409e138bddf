//! The look-up kernel for IPv6 with AVX2: as `ip6_kernel.rs` does with AVX-512, a batch of addresses walks
//! down together, a level at a time, words are loaded one by one, and addresses that have arrived are left
//! out. AVX2 has no instruction that moves some lanes to the front: a table gives for each set of lanes which
//! goes where.
//!
//! As in `kernel.rs`, the entry point checks the CPU itself and falls back to the scalar kernel, so
//! calling it is always sound.
#![allow(unsafe_code)]

use crate::sync::{AtomicU32, AtomicU64};
use core::arch::x86_64::*;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;

use super::avx2_kernel::{has_avx2, join, popcount};
use super::chunk::POSITION;
use super::fib::{SLACK_WORDS, lookup_lanes, lookup_scalar};
use super::ip6_load_kernel::{BATCH, RIGHT, load_half, load_heads};
use super::key::Key;

/// Lanes of a vector.
const STEP: usize = 8;

/// For each set of 8 lanes its lanes from the lowest on, one in each byte. `stoa-engine` has the same table
/// for its vectors: neither crate depends on the other, and a third one for 2 KiB would cost more.
static FRONT: [[u8; STEP]; 1 << STEP] = {
    let mut table = [[0; STEP]; 1 << STEP];
    let mut set = 0;
    while set < table.len() {
        let (mut lane, mut place) = (0, 0);
        while lane < STEP {
            if set >> lane & 1 == 1 {
                table[set][place] = lane as u8;
                place += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    table
};

/// Looks any number of addresses up.
pub(crate) fn lookup(
    root: &[AtomicU32],
    words: &[AtomicU64],
    rest: u32,
    keys: &[u128],
    out: &mut [u32],
) {
    if root.len() != 1 << u128::ROOT_BITS || words.len() <= SLACK_WORDS || !has_avx2() {
        return lookup_scalar(root, words, rest, keys, out);
    }
    let table = Table { root, words, rest };
    for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
        let lanes = keys.len().min(out.len());
        // SAFETY: the CPU has the features and the arrays their sizes, checked just now.
        unsafe { table.look_up(&keys[..lanes], &mut out[..lanes]) }
    }
}

/// The root array has the size that the family requires, and the arena more than `SLACK_WORDS` words.
struct Table<'a> {
    root: &'a [AtomicU32],
    words: &'a [AtomicU64],
    rest: u32,
}

/// A column of a batch; kernels write up to a step beyond it.
type Slots<T> = [MaybeUninit<T>; BATCH + STEP];

/// The addresses that have not arrived.
#[repr(C, align(64))]
struct Walk {
    /// [`Key::after_first`].
    key: Slots<u64>,
    /// The first word of the chunk.
    head: Slots<u64>,
    /// What leads to the chunk; the position is in the arena.
    chunk: Slots<u32>,
    /// Which half-word of the arena holds the run.
    half: Slots<u32>,
    /// What the half-word holds.
    found: Slots<u32>,
    /// Which address of the batch this is.
    lane: Slots<u32>,
}

impl Walk {
    /// Writes the first values behind so many: steps are loaded whole.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn pad(&mut self, count: usize) {
        assert!(count <= BATCH);
        let zero = _mm256_setzero_si256();
        // SAFETY: a column has a step more than a batch.
        unsafe {
            for column in [&mut self.key, &mut self.head] {
                let at = column.as_mut_ptr().add(count).cast::<__m256i>();
                _mm256_storeu_si256(at, zero);
                _mm256_storeu_si256(at.add(1), zero);
            }
            for column in [&mut self.chunk, &mut self.found, &mut self.lane] {
                _mm256_storeu_si256(column.as_mut_ptr().add(count).cast(), zero);
            }
        }
    }
}

impl Table<'_> {
    /// # Safety
    /// The CPU has AVX2, BMI and POPCNT; as many keys as places in `out`, at most [`BATCH`].
    #[target_feature(enable = "popcnt,bmi1,bmi2,avx2")]
    unsafe fn look_up(&self, keys: &[u128], out: &mut [u32]) {
        let mut walk = MaybeUninit::uninit();
        // SAFETY: columns may hold anything; the rest is required of the caller.
        unsafe {
            let walk: &mut Walk = &mut *walk.as_mut_ptr();
            walk.pad(out.len());
            self.begin(walk, keys, out);
            let mut left = self.keep::<true>(walk, out.len());
            for right in RIGHT {
                if left == 0 {
                    break;
                }
                self.step_down(walk, left, right, out);
                left = self.keep::<false>(walk, left);
            }
            for lane in &walk.lane[..left] {
                // `keep` has written it.
                let lane = lane.assume_init() as usize;
                let (keys, out) = (&keys[lane..=lane], &mut out[lane..=lane]);
                lookup_lanes(self.root, self.words, self.rest, keys, out);
            }
        }
        for out in out {
            *out = if *out == 0 { self.rest } else { *out };
        }
    }

    /// Writes what the root holds for all addresses, and the columns `key` and `found`.
    ///
    /// # Safety
    /// As for [`Self::look_up`].
    #[inline]
    #[target_feature(enable = "popcnt,bmi1,bmi2,avx2")]
    unsafe fn begin(&self, walk: &mut Walk, keys: &[u128], out: &mut [u32]) {
        let columns = walk.key.iter_mut().zip(&mut walk.found);
        for ((key, out), (first, found)) in keys.iter().zip(out).zip(columns) {
            // SAFETY: an index is as many bits of a key as the root array takes.
            let word = unsafe { self.root.get_unchecked(key.root()) }.load(Ordering::Acquire);
            *out = word;
            found.write(word);
            first.write(key.after_first());
        }
    }

    /// One level: loads what stands in the chunks for the next six bits, which `right` brings to the
    /// end, and writes it for the lanes of the batch. What the words mean: [`chunk`](super::chunk).
    ///
    /// # Safety
    /// As for [`Self::look_up`]; `keep` has written the columns of so many addresses.
    #[inline]
    #[target_feature(enable = "popcnt,bmi1,bmi2,avx2")]
    unsafe fn step_down(&self, walk: &mut Walk, count: usize, right: i32, out: &mut [u32]) {
        // SAFETY: guaranteed by the caller; see `inside` about positions.
        unsafe { load_heads(self.words, &walk.chunk[..count], &mut walk.head) };
        for at in (0..count).step_by(STEP) {
            // SAFETY: steps are written whole, see `Walk::pad`; a column has a step more than a batch.
            unsafe {
                let chunk = _mm256_loadu_si256(walk.chunk.as_ptr().add(at).cast());
                let (heads, keys) = (two(&walk.head, at), two(&walk.key, at));
                let start = _mm256_and_si256(chunk, _mm256_set1_epi32(POSITION as i32));
                // Runs are counted from 1, and begin two half-words behind the start.
                let half = _mm256_add_epi32(start, start);
                let half = _mm256_add_epi32(half, select(chunk, heads, keys, right));
                let half = _mm256_add_epi32(half, _mm256_set1_epi32(1));
                _mm256_storeu_si256(walk.half.as_mut_ptr().add(at).cast(), half);
            }
        }
        let columns = walk.half[..count].iter().zip(&walk.lane).zip(&mut walk.found);
        for ((half, lane), found) in columns {
            // SAFETY: a run is from 0 to 64, whatever the words are, and a chunk ends before the arena
            // does: see `inside`. Lanes are those of addresses of the batch.
            unsafe {
                let word = load_half(self.words, *half);
                found.write(word);
                *out.get_unchecked_mut(lane.assume_init() as usize) = word;
            }
        }
    }

    /// Keeps those of so many addresses that what was found leads to a chunk: returns how many. `FIRST`:
    /// these are all addresses of the batch.
    ///
    /// # Safety
    /// As for [`Self::look_up`]; of so many addresses `found`, `key` and, unless `FIRST`, `lane` are written.
    #[inline]
    #[target_feature(enable = "popcnt,bmi1,bmi2,avx2")]
    unsafe fn keep<const FIRST: bool>(&self, walk: &mut Walk, count: usize) -> usize {
        let mut kept = 0;
        let mut lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        for at in (0..count).step_by(STEP) {
            // SAFETY: steps are written whole, see `Walk::pad`; a column has a step more than a batch. What
            // is kept is written no further than it was loaded from.
            unsafe {
                let found = _mm256_loadu_si256(walk.found.as_ptr().add(at).cast());
                if !FIRST {
                    lanes = _mm256_loadu_si256(walk.lane.as_ptr().add(at).cast());
                }
                let keys = two(&walk.key, at);
                let in_use = (1_u32 << (count - at).min(STEP)) - 1;
                let keep = _mm256_movemask_ps(_mm256_castsi256_ps(found)) as u32 & in_use;
                let front = _mm_loadl_epi64(FRONT[keep as usize & 0xff].as_ptr().cast());
                let front = _mm256_cvtepu8_epi32(front);
                let chunk = _mm256_permutevar8x32_epi32(self.inside(found), front);
                _mm256_storeu_si256(walk.chunk.as_mut_ptr().add(kept).cast(), chunk);
                let lane = _mm256_permutevar8x32_epi32(lanes, front);
                _mm256_storeu_si256(walk.lane.as_mut_ptr().add(kept).cast(), lane);
                for (half, keys) in keys.into_iter().enumerate() {
                    let keep = keep as usize >> (4 * half) & 0xf;
                    let keys = _mm256_permutevar8x32_epi32(keys, front_of_4(keep));
                    _mm256_storeu_si256(walk.key.as_mut_ptr().add(kept).cast(), keys);
                    kept += keep.count_ones() as usize;
                }
            }
            if FIRST {
                lanes = _mm256_add_epi32(lanes, _mm256_set1_epi32(STEP as i32));
            }
        }
        walk.pad(kept);
        kept
    }

    /// Words whose position is so far before the end of the arena that a chunk ends in it. Right ones are;
    /// this is for the sake of soundness alone.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn inside(&self, chunk: __m256i) -> __m256i {
        let position = _mm256_set1_epi32(POSITION as i32);
        let last = (self.words.len() - SLACK_WORDS).min(POSITION as usize);
        let at = _mm256_and_si256(chunk, position);
        let at = _mm256_min_epu32(at, _mm256_set1_epi32(last as i32));
        _mm256_or_si256(_mm256_andnot_si256(position, chunk), at)
    }
}

/// Which lane goes where so that some of 4 lanes of 64 bits are at the front.
#[inline]
#[target_feature(enable = "avx2")]
fn front_of_4(some: usize) -> __m256i {
    static FRONT: [[u32; STEP]; 16] = {
        let mut table = [[0; STEP]; 16];
        let mut set = 0;
        while set < table.len() {
            let (mut lane, mut place) = (0, 0);
            while lane < STEP / 2 {
                if set >> lane & 1 == 1 {
                    table[set][place] = 2 * lane as u32;
                    table[set][place + 1] = 2 * lane as u32 + 1;
                    place += 2;
                }
                lane += 1;
            }
            set += 1;
        }
        table
    };
    // SAFETY: an entry is one vector.
    unsafe { _mm256_loadu_si256(FRONT[some & 0xf].as_ptr().cast()) }
}

/// Eight values of 64 bits.
///
/// # Safety
/// `at` is less than [`BATCH`], and 8 of them are written.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn two(column: &Slots<u64>, at: usize) -> [__m256i; 2] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let from = column.as_ptr().add(at).cast::<__m256i>();
        [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))]
    }
}

/// The runs that are selected in 8 chunks with these heads, counted from 1: by the six bits of the keys
/// that `right` brings to the end, or in a lone prefix by whether the key hits.
#[inline]
#[target_feature(enable = "avx2")]
fn select(chunk: __m256i, heads: [__m256i; 2], keys: [__m256i; 2], right: i32) -> __m256i {
    let (right, six) = (_mm_cvtsi32_si128(right), _mm256_set1_epi64x(63));
    let all = _mm256_set1_epi64x(-1);
    let count = |half: usize| {
        let beyond = _mm256_andnot_si256(_mm256_srl_epi64(keys[half], right), six);
        popcount(_mm256_and_si256(heads[half], _mm256_srlv_epi64(all, beyond)))
    };
    let run = join(count(0), count(1));
    let hits = |half: usize| {
        let through_marker = _mm256_xor_si256(heads[half], _mm256_add_epi64(heads[half], all));
        let differs = _mm256_xor_si256(keys[half], heads[half]);
        let differs = _mm256_andnot_si256(through_marker, differs);
        _mm256_cmpeq_epi64(differs, _mm256_setzero_si256())
    };
    // A hit is all bits, which is -1: run 1, else 2.
    let lone = _mm256_add_epi32(_mm256_set1_epi32(2), join(hits(0), hits(1)));
    // The bit of lone prefixes comes first, to select by.
    let lones = _mm256_slli_epi32::<1>(chunk);
    let (run, lone) = (_mm256_castsi256_ps(run), _mm256_castsi256_ps(lone));
    _mm256_castps_si256(_mm256_blendv_ps(run, lone, _mm256_castsi256_ps(lones)))
}
