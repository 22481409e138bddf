//! Loads words of headers with AVX-512, 8 lanes a step.

use std::arch::x86_64::*;

use stoa_engine::pool::SLOT;
use stoa_engine::{VECTOR, Vector};

use super::header_words::load_lane;

/// The last word that is loaded: that of the destination.
const LAST: usize = 16;
/// Lanes of a step.
const STEP: usize = 8;

/// Same result as [`super::header_words::load_scalar`].
pub fn load<const N: usize>(vector: &Vector, at: [usize; N], words: [&mut [u32; VECTOR]; N]) {
    assert!(crate::kernel::Kernel::Avx512.is_available() && at.iter().all(|at| *at <= LAST));
    // SAFETY: asserted above: the processor has AVX-512 F, BW, DQ and VL.
    unsafe { load_all(vector, at, words) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn load_all<const N: usize>(vector: &Vector, at: [usize; N], mut words: [&mut [u32; VECTOR]; N]) {
    for step in 0..vector.len().div_ceil(STEP) {
        let first = step * STEP;
        let in_use = ((1_u16 << (vector.len() - first).min(STEP)) - 1) as __mmask8;
        let loaded = load_8(vector, first, at, in_use, &mut words);
        let mut left = in_use & !loaded;
        while left != 0 {
            let lane = first + left.trailing_zeros() as usize;
            for (at, words) in at.iter().zip(&mut words) {
                words[lane] = load_lane(vector, lane, *at);
            }
            left &= left - 1;
        }
    }
}

/// Loads 8 lanes from `first` on; returns those in plain buffers that contain the words.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn load_8<const N: usize>(
    vector: &Vector,
    first: usize,
    at: [usize; N],
    in_use: __mmask8,
    words: &mut [&mut [u32; VECTOR]; N],
) -> __mmask8 {
    let pool = vector.pool();
    assert!(first <= VECTOR - STEP && at.iter().all(|at| *at <= LAST));
    // SAFETY: 8 elements of each column follow `first`.
    let (ids, offsets, lengths) = unsafe {
        (
            _mm256_loadu_si256(vector.buffers().as_ptr().add(first).cast()),
            _mm_loadu_si128(vector.offset.as_ptr().add(first).cast()),
            _mm_loadu_si128(vector.length.as_ptr().add(first).cast()),
        )
    };
    let ids = _mm512_cvtepu32_epi64(ids);
    let offsets = _mm512_cvtepu16_epi64(offsets);
    let lengths = _mm512_cvtepu16_epi64(lengths);
    let word = |value: usize| _mm512_set1_epi64(value as i64);
    // Lanes with a buffer of this pool and all of an IPv4 header inside the slot.
    let inside = _mm512_mask_cmplt_epu64_mask(in_use, ids, word(pool.count() as usize));
    let inside = _mm512_mask_cmple_epu64_mask(inside, offsets, word(SLOT - LAST - 4));
    let inside = _mm512_mask_cmpge_epu64_mask(inside, lengths, word(LAST + 4));
    let place = _mm512_add_epi64(_mm512_mul_epu32(ids, word(SLOT)), offsets);
    let reversed = _mm256_set_epi8(
        12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11, 4, 5,
        6, 7, 0, 1, 2, 3,
    );
    for (at, words) in at.into_iter().zip(words) {
        // SAFETY: lanes in `inside` own a slot of the pool and read a word within it; other lanes
        // are not loaded. 8 elements follow `first`.
        unsafe {
            let base = pool.base().as_ptr().cast_const().add(at).cast();
            let zero = _mm256_setzero_si256();
            let found = _mm512_mask_i64gather_epi32::<1>(zero, inside, place, base);
            let found = _mm256_shuffle_epi8(found, reversed);
            _mm256_storeu_si256(words.as_mut_ptr().add(first).cast(), found);
        }
    }
    inside
}
