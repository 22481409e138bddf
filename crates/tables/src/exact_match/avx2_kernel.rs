//! The look-up kernel for x86-64 with AVX2: 4 keys a step.
//!
//! As in `kernel.rs`, the entry point checks the CPU itself and falls back to the scalar kernel, so
//! calling it is always sound.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use super::reader::lookup_scalar;
use super::slots::{MAX_KEY, MAX_VALUE, Slots, VALUE_BITS};
use crate::load_kernel::load_4;

/// Keys of a step.
const STEP: usize = 4;

fn has_avx2() -> bool {
    !cfg!(miri) && is_x86_feature_detected!("avx2")
}

/// See [`lookup_batch`](super::ExactMatchReader::lookup_batch).
pub(super) fn lookup(slots: &Slots, keys: &[u64], values: &mut [u32]) {
    if !has_avx2() {
        return lookup_scalar(slots, keys, values);
    }
    let lanes = keys.len().min(values.len());
    // SAFETY: the CPU has the features, checked just now.
    unsafe { all(slots, &keys[..lanes], &mut values[..lanes]) }
}

/// Steps whose positions are computed before the first word is loaded: a load that has to wait for the
/// store of its position takes longer.
const BATCH: usize = 64;

#[target_feature(enable = "avx2")]
fn all(slots: &Slots, keys: &[u64], values: &mut [u32]) {
    let (keys, rest) = keys.as_chunks::<STEP>();
    let (values, rest_values) = values.as_chunks_mut::<STEP>();
    for (keys, values) in keys.chunks(BATCH).zip(values.chunks_mut(BATCH)) {
        lookup_batch(slots, keys, values);
    }
    lookup_scalar(slots, rest, rest_values);
}

/// The values of the keys of up to [`BATCH`] steps.
#[inline]
#[target_feature(enable = "avx2")]
fn lookup_batch(slots: &Slots, keys: &[[u64; STEP]], values: &mut [[u32; STEP]]) {
    assert!(slots.words().len() > slots.hash.mask as usize);
    let mut positions = [const { MaybeUninit::<[u32; 2 * STEP]>::uninit() }; BATCH];
    let positions = &mut positions[..keys.len()];
    for (keys, positions) in keys.iter().zip(positions.iter_mut()) {
        // SAFETY: both are one vector.
        unsafe {
            let keys = _mm256_loadu_si256(keys.as_ptr().cast());
            _mm256_storeu_si256(positions.as_mut_ptr().cast(), positions_of(slots, keys));
        }
    }
    // SAFETY: each of them was stored just now.
    let positions = unsafe { positions.assume_init_ref() };
    for ((keys, values), positions) in keys.iter().zip(values).zip(positions) {
        // SAFETY: the arrays are one vector each. The mask has kept each position among the words,
        // asserted above.
        unsafe {
            let keys = _mm256_loadu_si256(keys.as_ptr().cast());
            let words = slots.words().as_ptr();
            let words =
                [load_4(words, positions, [0, 2, 4, 6]), load_4(words, positions, [1, 3, 5, 7])];
            _mm_storeu_si128(values.as_mut_ptr().cast(), values_of(keys, words));
        }
    }
}

/// The first and the second position of each of 4 keys.
#[inline]
#[target_feature(enable = "avx2")]
fn positions_of(slots: &Slots, keys: __m256i) -> __m256i {
    let hash = &slots.hash;
    let [low, high] = hash.halves;
    let low = _mm256_mul_epu32(keys, _mm256_set1_epi64x(low.into()));
    let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(keys), _mm256_set1_epi64x(high.into()));
    let sum = _mm256_add_epi64(low, high);
    let mixed = _mm256_xor_si256(sum, _mm256_srli_epi64::<32>(sum));
    // In the upper halves.
    let product = |multiplier: u32| _mm256_mul_epu32(mixed, _mm256_set1_epi64x(multiplier.into()));
    let (first, second) = (product(hash.positions[0]), product(hash.positions[1]));
    let both = _mm256_blend_epi32::<0b1010_1010>(_mm256_srli_epi64::<32>(first), second);
    _mm256_and_si256(both, _mm256_set1_epi32(hash.mask as i32))
}

/// The values of 4 keys by the words at their positions.
#[inline]
#[target_feature(enable = "avx2")]
fn values_of(keys: __m256i, [first, second]: [__m256i; 2]) -> __m128i {
    let is_first = _mm256_cmpeq_epi64(_mm256_srli_epi64::<{ VALUE_BITS as i32 }>(first), keys);
    let is_second = _mm256_cmpeq_epi64(_mm256_srli_epi64::<{ VALUE_BITS as i32 }>(second), keys);
    let word = _mm256_blendv_epi8(second, first, is_first);
    let value = _mm256_and_si256(word, _mm256_set1_epi64x(MAX_VALUE.into()));
    // An empty word looks like that of the key after the greatest.
    let no_key = _mm256_cmpeq_epi64(keys, _mm256_set1_epi64x(MAX_KEY as i64 + 1));
    let found = _mm256_andnot_si256(no_key, _mm256_or_si256(is_first, is_second));
    // All ones where neither word is that of the key.
    let value = _mm256_or_si256(value, _mm256_xor_si256(found, _mm256_set1_epi64x(-1)));
    let lower = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(value, lower))
}
