//! Look-up kernels for x86-64 with AVX2: many addresses walk down together, a level at a time, 8
//! lanes a step with gathers. Bits are counted by a table of half-bytes: AVX2 has no instruction
//! for it, and leaving the lanes to count one by one took longer ([decision 18]).
//!
//! [decision 18]: ../../../../docs/decisions/0018-avx2-kernels.md
//!
//! As in `kernel.rs`, each entry point checks the CPU itself and falls back to the scalar kernel,
//! so calling it is always sound.
#![allow(unsafe_code)]

use crate::sync::{AtomicU32, AtomicU64};
use core::arch::x86_64::*;
use core::sync::atomic::Ordering;

use super::chunk::{CHILD, POSITION};
use super::fib::{SLACK_WORDS, lookup_scalar};
use super::kernel::has_bits;
use super::key::Key;

/// Addresses that walk down together.
const GROUP: usize = 64;
/// Lanes of a vector.
const STEP: usize = 8;

pub(crate) fn has_avx2() -> bool {
    has_bits() && is_x86_feature_detected!("avx2")
}

/// Whether the arrays meet the kernels' requirements and the CPU can run them.
fn fits<K: Key>(root: &[AtomicU32], words: &[AtomicU64]) -> bool {
    root.len() == 1 << K::ROOT_BITS && words.len() > SLACK_WORDS && has_avx2()
}

/// IPv4.
pub(crate) fn lookup_ip4(
    root: &[AtomicU32],
    words: &[AtomicU64],
    rest: u32,
    keys: &[u32],
    out: &mut [u32],
) {
    if !fits::<u32>(root, words) {
        return lookup_scalar(root, words, rest, keys, out);
    }
    for (keys, out) in keys.chunks(GROUP).zip(out.chunks_mut(GROUP)) {
        let lanes = keys.len().min(out.len());
        let (mut group, mut found) = ([0; GROUP], [0; GROUP]);
        group[..lanes].copy_from_slice(&keys[..lanes]);
        // SAFETY: the CPU has the features and the arrays their sizes, checked just now.
        unsafe { ip4_group(root, words, rest, &group, &mut found, lanes.div_ceil(STEP)) }
        out[..lanes].copy_from_slice(&found[..lanes]);
    }
}

/// # Safety
/// The CPU has AVX2; `root` has 2^18 words, `words` more than `SLACK_WORDS`.
#[target_feature(enable = "popcnt,bmi1,bmi2,avx2")]
unsafe fn ip4_group(
    root: &[AtomicU32],
    words: &[AtomicU64],
    rest: u32,
    keys: &[u32; GROUP],
    out: &mut [u32; GROUP],
    steps: usize,
) {
    let (keys, _) = keys.as_chunks::<STEP>();
    let (out, _) = out.as_chunks_mut::<STEP>();
    let mut any = 0;
    for (keys, out) in keys.iter().zip(out.iter_mut()).take(steps) {
        // SAFETY: a step is one vector. An index is the upper 18 bits of a key and the array has
        // 2^18 words. Writers store these words atomically while we gather: each lane is one
        // aligned load of 4 (below: 8) bytes, which x86-64 performs whole, and never before the
        // load that it depends on.
        unsafe {
            let keys = _mm256_loadu_si256(keys.as_ptr().cast());
            let index = _mm256_srli_epi32::<14>(keys);
            let found = _mm256_i32gather_epi32::<4>(root.as_ptr().cast(), index);
            any |= _mm256_movemask_ps(_mm256_castsi256_ps(found));
            _mm256_storeu_si256(out.as_mut_ptr().cast(), found);
        }
    }
    // Bits 18..24, 24..30 and 30..36 of an address, as shifts to the right and to the left.
    for (right, left) in [(8, 0), (2, 0), (0, 4)] {
        if any == 0 {
            break;
        }
        any = 0;
        for (keys, out) in keys.iter().zip(out.iter_mut()).take(steps) {
            // SAFETY: a step is one vector; `step8` as required of the caller.
            unsafe {
                let keys = _mm256_loadu_si256(keys.as_ptr().cast());
                let found = _mm256_loadu_si256(out.as_ptr().cast());
                let six = _mm256_srl_epi32(keys, _mm_cvtsi32_si128(right));
                let six = _mm256_sll_epi32(six, _mm_cvtsi32_si128(left));
                let beyond = _mm256_andnot_si256(six, _mm256_set1_epi32(63));
                let low = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(beyond));
                let high = _mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(beyond));
                let found = step8::<u32>(words, found, [low, high], [low, high]);
                any |= _mm256_movemask_ps(_mm256_castsi256_ps(found));
                _mm256_storeu_si256(out.as_mut_ptr().cast(), found);
            }
        }
    }
    for out in out.iter_mut().take(steps) {
        // SAFETY: a step is one vector.
        unsafe {
            let found = _mm256_loadu_si256(out.as_ptr().cast());
            let nothing = _mm256_cmpeq_epi32(found, _mm256_setzero_si256());
            let rest = _mm256_and_si256(nothing, _mm256_set1_epi32(rest as i32));
            _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_or_si256(found, rest));
        }
    }
}

/// One step down in the lanes that lead to a chunk, whose next six bits are 63 less `beyond`
/// (lanes 0 to 3, and 4 to 7). `keys` are the bits after the first of their addresses, in a family
/// that has lone prefixes. What the words mean: [`chunk`](super::chunk).
///
/// # Safety
/// The CPU has AVX2; `words` has more than `SLACK_WORDS` words.
#[inline]
#[target_feature(enable = "popcnt,bmi1,bmi2,avx2")]
unsafe fn step8<K: Key>(
    words: &[AtomicU64],
    found: __m256i,
    beyond: [__m256i; 2],
    keys: [__m256i; 2],
) -> __m256i {
    // A chunk ends before the slack does, wherever up to here it begins. Right chunks do; this is
    // for the sake of soundness alone.
    let last = (words.len() - SLACK_WORDS).min(POSITION as usize) as i32;
    // A leaf reads the arena's first words, always in cache, and throws them away.
    let children = _mm256_srai_epi32::<31>(found);
    let position = _mm256_and_si256(children, _mm256_set1_epi32(POSITION as i32));
    let at = _mm256_min_epu32(_mm256_and_si256(found, position), _mm256_set1_epi32(last));
    let from = words.as_ptr();
    // SAFETY: `at` is at most `last`, so word `at` is in the arena.
    let heads = unsafe {
        let (low, high) = (_mm256_castsi256_si128(at), _mm256_extracti128_si256::<1>(at));
        let from = from.cast();
        [_mm256_i32gather_epi64::<8>(from, low), _mm256_i32gather_epi64::<8>(from, high)]
    };
    let all = _mm256_set1_epi64x(-1);
    let through = |half: usize| _mm256_and_si256(heads[half], _mm256_srlv_epi64(all, beyond[half]));
    // Which run is selected, counted from 1.
    let mut run = join(popcount(through(0)), popcount(through(1)));
    let two = _mm256_set1_epi32(2);
    if K::LONES {
        let hits = |half: usize| {
            let through_marker = _mm256_xor_si256(heads[half], _mm256_add_epi64(heads[half], all));
            let differs = _mm256_xor_si256(keys[half], heads[half]);
            let differs = _mm256_andnot_si256(through_marker, differs);
            _mm256_cmpeq_epi64(differs, _mm256_setzero_si256())
        };
        // A hit is all bits, which is -1: run 1, else 2.
        let lone = _mm256_add_epi32(two, join(hits(0), hits(1)));
        let lones = _mm256_srai_epi32::<31>(_mm256_slli_epi32::<1>(found));
        run = _mm256_blendv_epi8(run, lone, lones);
    }
    // Half-words from the first run on.
    let before = _mm256_add_epi32(run, _mm256_set1_epi32(-1));
    let mut half = before;
    let mut narrow = _mm256_setzero_si256();
    if K::NARROWS {
        // A leaf may have the bit of a narrow chunk in its value.
        narrow = _mm256_srai_epi32::<31>(_mm256_slli_epi32::<2>(found));
        narrow = _mm256_and_si256(narrow, children);
        half = _mm256_blendv_epi8(before, _mm256_srli_epi32::<1>(before), narrow);
    }
    let half = _mm256_add_epi32(_mm256_slli_epi32::<1>(at), half);
    // SAFETY: at most 63 runs are before the selected one, so its half-word is within 33 words after
    // `at`, which is at least `SLACK_WORDS` words before the end of the arena. With an empty head, which
    // the first words of an arena without chunks are, -1 runs are before it and the half-word is the last
    // of the word `at`: only children are narrow, so that nothing shifts the -1.
    let mut runs = unsafe { _mm256_i32gather_epi32::<4>(from.wrapping_add(1).cast(), half) };
    if K::NARROWS {
        // Which of two runs of 16 bits.
        let shift = _mm256_and_si256(_mm256_slli_epi32::<4>(before), _mm256_set1_epi32(16));
        let quarter = _mm256_srlv_epi32(runs, shift);
        let quarter = _mm256_and_si256(quarter, _mm256_set1_epi32(0xffff));
        runs = _mm256_blendv_epi8(runs, quarter, narrow);
    }
    _mm256_blendv_epi8(found, runs, children)
}

/// Bits in each lane of 64: those of each half-byte come from a table.
#[inline]
#[target_feature(enable = "avx2")]
fn popcount(bits: __m256i) -> __m256i {
    let table =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    let four = _mm256_set1_epi8(0xf);
    let low = _mm256_shuffle_epi8(table, _mm256_and_si256(bits, four));
    let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bits), four);
    let bytes = _mm256_add_epi8(low, _mm256_shuffle_epi8(table, high));
    _mm256_sad_epu8(bytes, _mm256_setzero_si256())
}

/// Eight lanes of 32 bits from the lower halves of twice four lanes of 64.
#[inline]
#[target_feature(enable = "avx2")]
fn join(low: __m256i, high: __m256i) -> __m256i {
    let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
    let both = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
    _mm256_permute4x64_epi64::<0b11_01_10_00>(both)
}

/// IPv6.
pub(crate) fn lookup_ip6(
    root: &[AtomicU32],
    words: &[AtomicU64],
    rest: u32,
    keys: &[u128],
    out: &mut [u32],
) {
    if !fits::<u128>(root, words) {
        return lookup_scalar(root, words, rest, keys, out);
    }
    for (keys, out) in keys.chunks(GROUP).zip(out.chunks_mut(GROUP)) {
        // SAFETY: the CPU has the features and the arrays their sizes, checked just now.
        unsafe { ip6_group(root, words, rest, keys, out) }
    }
}

/// By how much an address is shifted for the 64 bits that some levels look at, and by how much
/// these are shifted for each of the levels.
const WINDOWS: [(u32, &[i32]); 3] =
    [(63, &[39, 33, 27, 21, 15, 9, 3]), (2, &[58, 52, 46, 40, 34, 28, 22, 16, 10, 4]), (0, &[0])];

/// # Safety
/// The CPU has the features; `root` has 2^20 words, `words` more than `SLACK_WORDS`.
#[target_feature(enable = "popcnt,bmi1,bmi2,avx2")]
unsafe fn ip6_group(
    root: &[AtomicU32],
    words: &[AtomicU64],
    rest: u32,
    keys: &[u128],
    out: &mut [u32],
) {
    let lanes = keys.len().min(out.len()).min(GROUP);
    let steps = lanes.div_ceil(STEP);
    let (mut first, mut window, mut found) = ([0_u64; GROUP], [0_u64; GROUP], [0_u32; GROUP]);
    let mut any = 0;
    for ((found, first), key) in found.iter_mut().zip(&mut first).zip(&keys[..lanes]) {
        *found = root[key.root()].load(Ordering::Acquire);
        *first = key.after_first();
        any |= (*found & CHILD) as i32;
    }
    'down: for (from, shifts) in WINDOWS {
        for (index, right) in shifts.iter().enumerate() {
            if any == 0 {
                break 'down;
            }
            if index == 0 {
                for (window, key) in window.iter_mut().zip(&keys[..lanes]) {
                    *window = (key >> from) as u64;
                }
            }
            any = 0;
            let (right, six) = (_mm_cvtsi32_si128(*right), _mm256_set1_epi64x(63));
            let windows = window.as_chunks::<STEP>().0.iter().zip(first.as_chunks::<STEP>().0);
            let founds = found.as_chunks_mut::<STEP>().0;
            for ((window, first), found) in windows.take(steps).zip(founds) {
                // SAFETY: a step is one vector of what was found, and two of addresses; `step8`
                // as required of the caller.
                unsafe {
                    let beyond = |it| _mm256_andnot_si256(_mm256_srl_epi64(it, right), six);
                    let [low, high] = two(window);
                    let beyond = [beyond(low), beyond(high)];
                    let now = _mm256_loadu_si256(found.as_ptr().cast());
                    let now = step8::<u128>(words, now, beyond, two(first));
                    any |= _mm256_movemask_ps(_mm256_castsi256_ps(now));
                    _mm256_storeu_si256(found.as_mut_ptr().cast(), now);
                }
            }
        }
    }
    for (out, found) in out.iter_mut().zip(&found[..lanes]) {
        *out = if *found == 0 { rest } else { *found };
    }
}

/// Eight lanes of 64 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn two(lanes: &[u64; STEP]) -> [__m256i; 2] {
    let from = lanes.as_ptr().cast::<__m256i>();
    // SAFETY: they are two vectors.
    unsafe { [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))] }
}
