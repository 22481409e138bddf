//! The look-up kernel for IPv4 with AVX2: many addresses walk down together, a level at a time, 8
//! lanes a step. Bits are counted by a table of half-bytes: AVX2 has no instruction for it, and
//! leaving the lanes to count one by one took longer ([decision 18]).
//!
//! [decision 18]: ../../../../docs/decisions/0018-avx2-kernels.md
//!
//! As in `kernel.rs`, each entry point checks the CPU itself and falls back to the scalar kernel,
//! so calling it is always sound.
#![allow(unsafe_code)]

use crate::sync::{AtomicU32, AtomicU64};
use core::arch::x86_64::*;

use super::chunk::POSITION;
use super::fib::{SLACK_WORDS, lookup_scalar};
use super::kernel::has_bits;
use super::key::Key;
use crate::load_kernel::{join_8_halves, load_4, load_8_halves, position_in};

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
        if let (Some(keys), Some(out)) = (keys.first_chunk(), out.first_chunk_mut()) {
            // SAFETY: the CPU has the features and the arrays their sizes, checked just now.
            unsafe { ip4_group(root, words, rest, keys, out, GROUP / STEP) }
            continue;
        }
        let lanes = keys.len().min(out.len());
        let (mut group, mut found) = ([0; GROUP], [0; GROUP]);
        group[..lanes].copy_from_slice(&keys[..lanes]);
        // SAFETY: the same.
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
    let (keys, out) = (&keys[..steps], &mut out.as_chunks_mut::<STEP>().0[..steps]);
    let mut any = 0;
    for (keys, out) in keys.iter().zip(out.iter_mut()) {
        // SAFETY: a step is one vector. An index is the upper 18 bits of a key and the array has
        // 2^18 words. Writers store these words atomically while we load them: each lane is one
        // aligned load of 4 (below: 8) bytes, which x86-64 performs whole, and never before the
        // load that it depends on.
        unsafe {
            let found =
                join_8_halves(|lane| root.as_ptr().add(position_in(keys, lane) >> 14).cast());
            any |= _mm256_movemask_ps(_mm256_castsi256_ps(found));
            _mm256_storeu_si256(out.as_mut_ptr().cast(), found);
        }
    }
    // Bits 18..24, 24..30 and 30..36 of an address, as shifts to the right and to the left.
    for (right, left) in [(8, 0), (2, 0), (0, 4)] {
        if any == 0 {
            break;
        }
        // SAFETY: as required of the caller.
        any = unsafe { step_down(words, keys, out, (right, left)) };
    }
    for out in out {
        // SAFETY: a step is one vector.
        unsafe {
            let found = _mm256_loadu_si256(out.as_ptr().cast());
            let nothing = _mm256_cmpeq_epi32(found, _mm256_setzero_si256());
            let rest = _mm256_and_si256(nothing, _mm256_set1_epi32(rest as i32));
            _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_or_si256(found, rest));
        }
    }
}

/// One step down in the lanes that lead to a chunk, by the six bits that these shifts leave at the end.
/// Not 0: some lanes of the result lead to chunks. The positions of all lanes are stored before the first
/// word is loaded: a load that has to wait for the store of its position takes longer. What the words mean:
/// [`chunk`](super::chunk).
///
/// # Safety
/// The CPU has AVX2; `words` has more than `SLACK_WORDS` words; at most [`GROUP`] lanes.
#[inline]
#[target_feature(enable = "popcnt,bmi1,bmi2,avx2")]
unsafe fn step_down(
    words: &[AtomicU64],
    keys: &[[u32; STEP]],
    out: &mut [[u32; STEP]],
    (right, left): (i32, i32),
) -> i32 {
    // A chunk ends before the slack does, wherever up to here it begins. Right chunks do; this is
    // for the sake of soundness alone.
    let last = (words.len() - SLACK_WORDS).min(POSITION as usize) as i32;
    let mut places = [[0; STEP]; GROUP / STEP];
    let mut befores = [[0; STEP]; GROUP / STEP];
    // SAFETY: a step is one vector.
    let load = |step: &[u32; STEP]| unsafe { _mm256_loadu_si256(step.as_ptr().cast()) };
    // SAFETY: the same.
    let store = |step: &mut [u32; STEP], values: __m256i| unsafe {
        _mm256_storeu_si256(step.as_mut_ptr().cast(), values);
    };
    for (place, found) in places.iter_mut().zip(out.iter()) {
        // A leaf reads the arena's first words, always in cache, and throws them away.
        let found = load(found);
        let position = _mm256_srai_epi32::<31>(found);
        let position = _mm256_and_si256(position, _mm256_set1_epi32(POSITION as i32));
        let at = _mm256_and_si256(found, position);
        store(place, _mm256_min_epu32(at, _mm256_set1_epi32(last)));
    }
    let columns = places.iter_mut().zip(&mut befores).zip(keys.iter().zip(out.iter()));
    for ((place, before), (keys, found)) in columns {
        // SAFETY: a place is at most `last`, so the word is in the arena.
        let heads = unsafe {
            [
                load_4(words.as_ptr(), place, [0, 1, 2, 3]),
                load_4(words.as_ptr(), place, [4, 5, 6, 7]),
            ]
        };
        let six = _mm256_srl_epi32(load(keys), _mm_cvtsi32_si128(right));
        let six = _mm256_sll_epi32(six, _mm_cvtsi32_si128(left));
        let beyond = _mm256_andnot_si256(six, _mm256_set1_epi32(63));
        let low = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(beyond));
        let high = _mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(beyond));
        let all = _mm256_set1_epi64x(-1);
        let low = popcount(_mm256_and_si256(heads[0], _mm256_srlv_epi64(all, low)));
        let high = popcount(_mm256_and_si256(heads[1], _mm256_srlv_epi64(all, high)));
        // How many runs are before the one that is selected.
        let runs = _mm256_add_epi32(join(low, high), _mm256_set1_epi32(-1));
        let narrow = narrow(load(found));
        let half = _mm256_blendv_epi8(runs, _mm256_srli_epi32::<1>(runs), narrow);
        let first = _mm256_add_epi32(load(place), _mm256_set1_epi32(1));
        store(place, _mm256_add_epi32(_mm256_slli_epi32::<1>(first), half));
        store(before, runs);
    }
    let mut any = 0;
    for ((place, before), found) in places.iter().zip(&befores).zip(out.iter_mut()) {
        // SAFETY: at most 63 runs are before the selected one, so its half-word is within 33 words after
        // the place, which is at least `SLACK_WORDS` words before the end of the arena. With an empty head,
        // which the first words of an arena without chunks are, -1 runs are before it and the half-word is
        // the last of the word at the place: only children are narrow, so that nothing shifts the -1.
        let runs = unsafe { load_8_halves(words.as_ptr().cast(), place) };
        let was = load(found);
        let narrow = narrow(was);
        // Which of two runs of 16 bits.
        let shift = _mm256_and_si256(_mm256_slli_epi32::<4>(load(before)), _mm256_set1_epi32(16));
        let quarter = _mm256_srlv_epi32(runs, shift);
        let quarter = _mm256_and_si256(quarter, _mm256_set1_epi32(0xffff));
        let runs = _mm256_blendv_epi8(runs, quarter, narrow);
        let now = _mm256_blendv_epi8(was, runs, _mm256_srai_epi32::<31>(was));
        any |= _mm256_movemask_ps(_mm256_castsi256_ps(now));
        store(found, now);
    }
    any
}

/// The lanes that lead to a narrow chunk. A leaf may have the bit of one in its value.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow(found: __m256i) -> __m256i {
    let is_narrow = _mm256_srai_epi32::<31>(_mm256_slli_epi32::<2>(found));
    _mm256_and_si256(is_narrow, _mm256_srai_epi32::<31>(found))
}

/// Bits in each lane of 64: those of each half-byte come from a table.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn popcount(bits: __m256i) -> __m256i {
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
pub(super) fn join(low: __m256i, high: __m256i) -> __m256i {
    let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
    let both = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
    _mm256_permute4x64_epi64::<0b11_01_10_00>(both)
}
