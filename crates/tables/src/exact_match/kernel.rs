//! The look-up kernel for x86-64 with AVX-512: 8 keys a step.
//!
//! The entry point checks the CPU itself and falls back to the scalar kernel, so calling it is
//! always sound.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::reader::lookup_scalar;
use super::slots::{MAX_KEY, MAX_VALUE, Slots, VALUE_BITS};

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

#[target_feature(enable = "avx512f,avx512vl")]
fn all(slots: &Slots, keys: &[u64], values: &mut [u32]) {
    let (keys, rest) = keys.as_chunks::<STEP>();
    let (values, rest_values) = values.as_chunks_mut::<STEP>();
    for (keys, values) in keys.iter().zip(values) {
        // SAFETY: the arrays are one vector each.
        unsafe {
            let keys = _mm512_loadu_si512(keys.as_ptr().cast());
            _mm256_storeu_si256(values.as_mut_ptr().cast(), lookup_8(slots, keys));
        }
    }
    if !rest.is_empty() {
        let lanes = ((1_u16 << rest.len()) - 1) as __mmask8;
        // SAFETY: the mask keeps load and store within the slices.
        unsafe {
            let keys = _mm512_maskz_loadu_epi64(lanes, rest.as_ptr().cast());
            let found = lookup_8(slots, keys);
            _mm256_mask_storeu_epi32(rest_values.as_mut_ptr().cast(), lanes, found);
        }
    }
}

/// The values of 8 keys.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn lookup_8(slots: &Slots, keys: __m512i) -> __m256i {
    let (hash, words) = (&slots.hash, slots.words());
    assert!(words.len() > hash.mask as usize);
    let all = |value: u64| _mm512_set1_epi64(value as i64);
    let [low, high] = hash.halves.map(|by| all(by.into()));
    let upper = _mm512_srli_epi64::<32>(keys);
    let sum = _mm512_add_epi64(_mm512_mul_epu32(keys, low), _mm512_mul_epu32(upper, high));
    let mixed = _mm512_xor_si512(sum, _mm512_srli_epi64::<32>(sum));
    let is_key = _mm512_cmple_epu64_mask(keys, all(MAX_KEY));
    let [first, second] = hash.positions.map(|by| {
        let product = _mm512_mul_epu32(mixed, all(by.into()));
        let at = _mm512_and_si512(_mm512_srli_epi64::<32>(product), all(hash.mask.into()));
        // SAFETY: the mask keeps each position among the words, asserted above. The writer stores
        // these words atomically while we gather: each lane is one aligned load of 8 bytes, which
        // x86-64 performs whole.
        let word = unsafe { _mm512_i64gather_epi64::<8>(at, words.as_ptr().cast()) };
        (word, _mm512_mask_cmpeq_epi64_mask(is_key, _mm512_srli_epi64::<VALUE_BITS>(word), keys))
    });
    let word = _mm512_mask_mov_epi64(second.0, first.1, first.0);
    let value = _mm512_cvtepi64_epi32(_mm512_and_si512(word, all(MAX_VALUE.into())));
    _mm256_mask_mov_epi32(_mm256_set1_epi32(-1), first.1 | second.1, value)
}
