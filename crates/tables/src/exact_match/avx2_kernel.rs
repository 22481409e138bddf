//! The look-up kernel for x86-64 with AVX2: 4 keys a step.
//!
//! As in `kernel.rs`, the entry point checks the CPU itself and falls back to the scalar kernel, so
//! calling it is always sound.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::reader::lookup_scalar;
use super::slots::{MAX_KEY, MAX_VALUE, Slots, VALUE_BITS};

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

#[target_feature(enable = "avx2")]
fn all(slots: &Slots, keys: &[u64], values: &mut [u32]) {
    let (keys, rest) = keys.as_chunks::<STEP>();
    let (values, rest_values) = values.as_chunks_mut::<STEP>();
    for (keys, values) in keys.iter().zip(values) {
        // SAFETY: the arrays are one vector each.
        unsafe {
            let keys = _mm256_loadu_si256(keys.as_ptr().cast());
            _mm_storeu_si128(values.as_mut_ptr().cast(), lookup_4(slots, keys));
        }
    }
    lookup_scalar(slots, rest, rest_values);
}

/// The values of 4 keys.
#[inline]
#[target_feature(enable = "avx2")]
fn lookup_4(slots: &Slots, keys: __m256i) -> __m128i {
    let (hash, words) = (&slots.hash, slots.words());
    assert!(words.len() > hash.mask as usize);
    let all = |value: u64| _mm256_set1_epi64x(value as i64);
    let [low, high] = hash.halves.map(|by| all(by.into()));
    let upper = _mm256_srli_epi64::<32>(keys);
    let sum = _mm256_add_epi64(_mm256_mul_epu32(keys, low), _mm256_mul_epu32(upper, high));
    let mixed = _mm256_xor_si256(sum, _mm256_srli_epi64::<32>(sum));
    // The shifted word of an empty slot looks like the key after the greatest.
    let no_key = _mm256_cmpeq_epi64(keys, all(MAX_KEY + 1));
    let [first, second] = hash.positions.map(|by| {
        let product = _mm256_mul_epu32(mixed, all(by.into()));
        let at = _mm256_and_si256(_mm256_srli_epi64::<32>(product), all(hash.mask.into()));
        // SAFETY: the mask keeps each position among the words, asserted above. The writer stores
        // these words atomically while we gather: each lane is one aligned load of 8 bytes, which
        // x86-64 performs whole.
        let word = unsafe { _mm256_i64gather_epi64::<8>(words.as_ptr().cast(), at) };
        let is_it = _mm256_cmpeq_epi64(_mm256_srli_epi64::<{ VALUE_BITS as i32 }>(word), keys);
        (word, _mm256_andnot_si256(no_key, is_it))
    });
    let word = _mm256_blendv_epi8(second.0, first.0, first.1);
    let value = _mm256_and_si256(word, all(MAX_VALUE.into()));
    let found = _mm256_or_si256(first.1, second.1);
    // All ones where neither word is that of the key.
    let value = _mm256_or_si256(value, _mm256_xor_si256(found, _mm256_set1_epi64x(-1)));
    let lower = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(value, lower))
}
