//! The look-up kernel for IPv6 with AVX-512: a batch of addresses walks down together, a level at a
//! time. Vectors compute 16 positions a step; what lies there is loaded lane by lane. That takes less
//! than a gather, and so little of the reorder buffer that the misses of 100 addresses and more overlap. From
//! the second level on, addresses that have arrived are left out ([decision 47]).
//!
//! [decision 47]: ../../../../docs/decisions/0047-look-ups-in-passes.md
//!
//! As in `kernel.rs`, the entry point checks the CPU itself and falls back to the scalar kernel, so
//! calling it is always sound.
#![allow(unsafe_code)]

use crate::sync::{AtomicU32, AtomicU64};
use core::arch::x86_64::*;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;

use super::chunk::POSITION;
use super::fib::{SLACK_WORDS, lookup_lanes, lookup_scalar};
use super::ip6_load_kernel::{BATCH, RIGHT, load_half, load_heads};
use super::ip6_step_kernel::{
    STEP, Slots, after_first_16, in_use, load_some, load_two, select, store_some,
};
use super::kernel::has_avx512;
use super::key::Key;

/// Looks any number of addresses up.
pub(crate) fn lookup(
    root: &[AtomicU32],
    words: &[AtomicU64],
    rest: u32,
    keys: &[u128],
    out: &mut [u32],
) {
    if root.len() != 1 << u128::ROOT_BITS || words.len() <= SLACK_WORDS || !has_avx512() {
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
    /// Addresses of the batch that have arrived behind the first level, so many, and where.
    arrived: usize,
    arrived_lane: Slots<u32>,
    arrived_at: Slots<u32>,
}

impl Table<'_> {
    /// # Safety
    /// The CPU has AVX-512 F, DQ, VL and VPOPCNTDQ; as many keys as places in `out`, at most [`BATCH`].
    #[target_feature(enable = "popcnt,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
    unsafe fn look_up(&self, keys: &[u128], out: &mut [u32]) {
        let mut walk = MaybeUninit::uninit();
        // SAFETY: columns may hold anything; the rest is required of the caller.
        unsafe {
            let walk: &mut Walk = &mut *walk.as_mut_ptr();
            if self.begin(walk, keys, out) {
                self.walk(walk, keys, out);
            }
        }
        for at in (0..out.len()).step_by(STEP) {
            let found = load_some(&out[at..]);
            let nothing = _mm512_testn_epi32_mask(found, found);
            store_some(&mut out[at..], _mm512_mask_set1_epi32(found, nothing, self.rest as i32));
        }
    }

    /// Writes what the root holds for all addresses, and the columns `key` and `chunk`; where the root has
    /// a leaf, that is the first word of the arena. False: all are leaves.
    ///
    /// # Safety
    /// As for [`Self::look_up`].
    #[inline]
    #[target_feature(enable = "popcnt,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
    unsafe fn begin(&self, walk: &mut Walk, keys: &[u128], out: &mut [u32]) -> bool {
        let (mut any, mut last) = (0, [0; STEP]);
        for at in (0..out.len()).step_by(STEP) {
            let step = if let Some(step) = keys[at..].first_chunk() {
                step
            } else {
                let left = keys.len() - at;
                last[..left].copy_from_slice(&keys[at..]);
                &last
            };
            // SAFETY: an index is as many bits of a key as the root array takes; a column has a step more
            // than a batch.
            unsafe {
                let word = |lane: usize| {
                    let word = self.root.get_unchecked(step[lane].root());
                    _mm_cvtsi32_si128(word.load(Ordering::Acquire) as i32)
                };
                let two = |lane| _mm_unpacklo_epi32(word(lane), word(lane + 1));
                let four = |lane| _mm_unpacklo_epi64(two(lane), two(lane + 2));
                let eight = |lane| _mm256_set_m128i(four(lane + 4), four(lane));
                let found = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(eight(0)), eight(8));
                let children = _mm512_movepi32_mask(found);
                any |= children;
                store_some(&mut out[at..], found);
                let chunk = _mm512_maskz_mov_epi32(children, self.inside(found));
                _mm512_storeu_si512(walk.chunk.as_mut_ptr().add(at).cast(), chunk);
                let key = walk.key.as_mut_ptr().add(at).cast::<__m512i>();
                let [low, high] = after_first_16(step);
                _mm512_storeu_si512(key, low);
                _mm512_storeu_si512(key.add(1), high);
            }
        }
        any != 0
    }

    /// Words whose position is so far before the end of the arena that a chunk ends in it. Right ones are;
    /// this is for the sake of soundness alone.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn inside(&self, chunk: __m512i) -> __m512i {
        let position = _mm512_set1_epi32(POSITION as i32);
        let last = (self.words.len() - SLACK_WORDS).min(POSITION as usize);
        let at = _mm512_and_si512(chunk, position);
        let at = _mm512_min_epu32(at, _mm512_set1_epi32(last as i32));
        _mm512_or_si512(_mm512_andnot_si512(position, chunk), at)
    }

    /// Walks down from the root.
    ///
    /// # Safety
    /// As for [`Self::look_up`]; the columns `chunk` and `key` are written.
    #[inline]
    #[target_feature(enable = "popcnt,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
    unsafe fn walk(&self, walk: &mut Walk, keys: &[u128], out: &mut [u32]) {
        let mut left = out.len();
        walk.arrived = 0;
        for (level, right) in RIGHT.iter().enumerate() {
            // SAFETY: as required of the caller; then `arrive` has written the columns and lanes.
            left = unsafe {
                self.step_down(walk, left, *right);
                if level == 0 {
                    self.arrive::<true>(walk, left, out)
                } else {
                    self.arrive::<false>(walk, left, out)
                }
            };
            if left == 0 {
                break;
            }
        }
        let arrived = walk.arrived_lane.iter().zip(&walk.arrived_at);
        for (lane, at) in arrived.take(walk.arrived) {
            // SAFETY: `arrive` has written them; the lane is one of the batch.
            unsafe { *out.get_unchecked_mut(lane.assume_init() as usize) = at.assume_init() };
        }
        for lane in &walk.lane[..left] {
            // SAFETY: `arrive` has written it.
            let lane = unsafe { lane.assume_init() } as usize;
            let (keys, out) = (&keys[lane..=lane], &mut out[lane..=lane]);
            lookup_lanes(self.root, self.words, self.rest, keys, out);
        }
    }

    /// One level: loads what stands in the chunks for the next six bits, which `right` brings to the
    /// end. What the words mean: [`chunk`](super::chunk).
    ///
    /// # Safety
    /// As for [`Self::look_up`]; of so many addresses `chunk` and `key` are written, at most [`BATCH`].
    #[inline]
    #[target_feature(enable = "popcnt,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
    unsafe fn step_down(&self, walk: &mut Walk, count: usize, right: i32) {
        // SAFETY: guaranteed by the caller; see `inside` about positions.
        unsafe { load_heads(self.words, &walk.chunk[..count], &mut walk.head) };
        for at in (0..count).step_by(STEP) {
            let some = in_use(count - at);
            // SAFETY: guaranteed by the caller; a column has a step more than a batch.
            unsafe {
                let chunk = _mm512_maskz_loadu_epi32(some, walk.chunk.as_ptr().add(at).cast());
                let keys = load_two(&walk.key, at, some);
                let run = select(chunk, load_two(&walk.head, at, some), keys, right);
                let start = _mm512_and_si512(chunk, _mm512_set1_epi32(POSITION as i32));
                let start = _mm512_add_epi32(start, _mm512_set1_epi32(1));
                let half = _mm512_add_epi32(_mm512_slli_epi32::<1>(start), run);
                _mm512_storeu_si512(walk.half.as_mut_ptr().add(at).cast(), half);
            }
        }
        for (found, half) in walk.found.iter_mut().zip(&walk.half[..count]) {
            // SAFETY: a run is from -1 to 63, whatever the words are, and a chunk ends before the arena
            // does: see `inside`.
            found.write(unsafe { load_half(self.words, *half) });
        }
    }

    /// Writes what was found of so many addresses, and keeps those that it leads to a chunk: returns how
    /// many. `FIRST`: these are all addresses of the batch, also those that the root has a leaf for.
    ///
    /// # Safety
    /// As for [`Self::step_down`], which has written the columns, but `lane` if this is the first level.
    #[inline]
    #[target_feature(enable = "popcnt,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
    unsafe fn arrive<const FIRST: bool>(
        &self,
        walk: &mut Walk,
        count: usize,
        out: &mut [u32],
    ) -> usize {
        let mut kept = 0;
        let mut lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        for at in (0..count).step_by(STEP) {
            let some = in_use(count - at);
            // SAFETY: guaranteed by the caller; a column has a step more than a batch. Lanes are those
            // of addresses of the batch. What is kept is written no further than it was loaded from.
            unsafe {
                let mut found = _mm512_maskz_loadu_epi32(some, walk.found.as_ptr().add(at).cast());
                if FIRST {
                    let before = load_some(&out[at..]);
                    let children = _mm512_movepi32_mask(before);
                    found = _mm512_mask_mov_epi32(before, children, found);
                    store_some(&mut out[at..], found);
                } else {
                    lanes = _mm512_maskz_loadu_epi32(some, walk.lane.as_ptr().add(at).cast());
                    let arrived = some & !_mm512_movepi32_mask(found);
                    let append = |to: &mut Slots<u32>, values: __m512i| {
                        let values = _mm512_maskz_compress_epi32(arrived, values);
                        _mm512_storeu_si512(to.as_mut_ptr().add(walk.arrived).cast(), values);
                    };
                    append(&mut walk.arrived_lane, lanes);
                    append(&mut walk.arrived_at, found);
                    walk.arrived += arrived.count_ones() as usize;
                }
                let keep = _mm512_movepi32_mask(found);
                let chunk = _mm512_maskz_compress_epi32(keep, self.inside(found));
                let keys = load_two(&walk.key, at, some);
                _mm512_storeu_si512(walk.chunk.as_mut_ptr().add(kept).cast(), chunk);
                let lane = _mm512_maskz_compress_epi32(keep, lanes);
                _mm512_storeu_si512(walk.lane.as_mut_ptr().add(kept).cast(), lane);
                for (half, keys) in keys.into_iter().enumerate() {
                    let keep = (keep >> (8 * half)) as __mmask8;
                    let keys = _mm512_maskz_compress_epi64(keep, keys);
                    _mm512_storeu_si512(walk.key.as_mut_ptr().add(kept).cast(), keys);
                    kept += keep.count_ones() as usize;
                }
            }
            if FIRST {
                lanes = _mm512_add_epi32(lanes, _mm512_set1_epi32(STEP as i32));
            }
        }
        kept
    }
}
