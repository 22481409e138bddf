//! The look-up kernel for x86-64 with AVX-512: 8 keys a step.
//!
//! The entry point checks the CPU itself and falls back to the scalar kernel, so calling it is
//! always sound.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::reader::lookup_scalar;
use super::slots::{MAX_KEY, MAX_VALUE, Slots, VALUE_BITS};
use crate::load_kernel::load_8;

/// Keys of a step.
const STEP: usize = 8;

fn has_avx512() -> bool {
    !cfg!(miri) && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl")
}

/// See [`lookup_batch`](super::ExactMatchReader::lookup_batch).
pub(super) fn lookup(slots: &Slots, keys: &[u64], values: &mut [u32]) {
    if !has_avx512() {
        return lookup_scalar(slots, keys, values);
    }
    let lanes = keys.len().min(values.len());
    // SAFETY: the CPU has the features, checked just now.
    unsafe { all(slots, &keys[..lanes], &mut values[..lanes]) }
}

/// Steps whose positions are computed before the first word is loaded: a load that has to wait for the
/// store of its position takes longer.
const BATCH: usize = 32;

/// The two positions of each key of a batch, by step.
#[repr(align(64))]
struct Positions([[[u32; STEP]; 2]; BATCH]);

#[target_feature(enable = "avx512f,avx512vl")]
fn all(slots: &Slots, keys: &[u64], values: &mut [u32]) {
    let (keys, rest) = keys.as_chunks::<STEP>();
    let (values, rest_values) = values.as_chunks_mut::<STEP>();
    for (keys, values) in keys.chunks(BATCH).zip(values.chunks_mut(BATCH)) {
        lookup_batch(slots, keys, values);
    }
    if !rest.is_empty() {
        // Others are no keys.
        let (mut keys, mut values) = ([[u64::MAX; STEP]], [[0; STEP]]);
        keys[0][..rest.len()].copy_from_slice(rest);
        lookup_batch(slots, &keys, &mut values);
        rest_values.copy_from_slice(&values[0][..rest.len()]);
    }
}

/// The values of the keys of up to [`BATCH`] steps.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn lookup_batch(slots: &Slots, keys: &[[u64; STEP]], values: &mut [[u32; STEP]]) {
    assert!(slots.words().len() > slots.hash.mask as usize);
    let mut positions = Positions([[[0; STEP]; 2]; BATCH]);
    for (keys, positions) in keys.iter().zip(&mut positions.0) {
        // SAFETY: the arrays are one vector each.
        unsafe {
            let found = positions_of(slots, _mm512_loadu_si512(keys.as_ptr().cast()));
            _mm256_storeu_si256(positions[0].as_mut_ptr().cast(), found[0]);
            _mm256_storeu_si256(positions[1].as_mut_ptr().cast(), found[1]);
        }
    }
    for ((keys, values), positions) in keys.iter().zip(values).zip(&positions.0) {
        // SAFETY: the arrays are one vector each. The mask has kept each position among the words,
        // asserted above.
        unsafe {
            let keys = _mm512_loadu_si512(keys.as_ptr().cast());
            let from = slots.words().as_ptr();
            let words = [load_8(from, &positions[0]), load_8(from, &positions[1])];
            _mm256_storeu_si256(values.as_mut_ptr().cast(), values_of(keys, words));
        }
    }
}

/// The two positions of 8 keys.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn positions_of(slots: &Slots, keys: __m512i) -> [__m256i; 2] {
    let hash = &slots.hash;
    let [low, high] = hash.halves;
    let low = _mm512_mul_epu32(keys, _mm512_set1_epi64(low.into()));
    let high = _mm512_mul_epu32(_mm512_srli_epi64::<32>(keys), _mm512_set1_epi64(high.into()));
    let sum = _mm512_add_epi64(low, high);
    let mixed = _mm512_xor_si512(sum, _mm512_srli_epi64::<32>(sum));
    let position = |multiplier: u32| {
        let product = _mm512_mul_epu32(mixed, _mm512_set1_epi64(multiplier.into()));
        let mask = _mm512_set1_epi64(hash.mask.into());
        _mm512_cvtepi64_epi32(_mm512_and_si512(_mm512_srli_epi64::<32>(product), mask))
    };
    [position(hash.positions[0]), position(hash.positions[1])]
}

/// The values of 8 keys by the words at their positions.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn values_of(keys: __m512i, [first, second]: [__m512i; 2]) -> __m256i {
    let is_key = _mm512_cmple_epu64_mask(keys, _mm512_set1_epi64(MAX_KEY as i64));
    let is_first =
        _mm512_mask_cmpeq_epi64_mask(is_key, _mm512_srli_epi64::<VALUE_BITS>(first), keys);
    let is_second =
        _mm512_mask_cmpeq_epi64_mask(is_key, _mm512_srli_epi64::<VALUE_BITS>(second), keys);
    let word = _mm512_mask_mov_epi64(second, is_first, first);
    let value = _mm512_and_si512(word, _mm512_set1_epi64(MAX_VALUE.into()));
    let value = _mm512_cvtepi64_epi32(value);
    _mm256_mask_mov_epi32(_mm256_set1_epi32(-1), is_first | is_second, value)
}
