//! The look-up kernel for x86-64 with AVX2: 4 keys a step.
//!
//! As in `kernel.rs`, the entry point checks the CPU itself and falls back to the scalar kernel, so
//! calling it is always sound.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::reader::lookup_scalar;
use super::slots::{MAX_KEY, MAX_VALUE, Slots, VALUE_BITS};
use crate::sync::AtomicU64;

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
    let hash = &slots.hash;
    let [low, high] = hash.halves;
    let low = _mm256_mul_epu32(keys, _mm256_set1_epi64x(low.into()));
    let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(keys), _mm256_set1_epi64x(high.into()));
    let sum = _mm256_add_epi64(low, high);
    let mixed = _mm256_xor_si256(sum, _mm256_srli_epi64::<32>(sum));
    // Not a closure, which is not always inlined: the keys would go through memory.
    let first = words_at(slots, mixed, hash.positions[0]);
    let second = words_at(slots, mixed, hash.positions[1]);
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

/// The words at one of the two positions of 4 keys.
#[inline]
#[target_feature(enable = "avx2")]
fn words_at(slots: &Slots, mixed: __m256i, multiplier: u32) -> __m256i {
    let words = slots.words();
    assert!(words.len() > slots.hash.mask as usize);
    let product = _mm256_mul_epu32(mixed, _mm256_set1_epi64x(multiplier.into()));
    let mask = _mm256_set1_epi64x(slots.hash.mask.into());
    let at = _mm256_and_si256(_mm256_srli_epi64::<32>(product), mask);
    // SAFETY: the mask keeps each position among the words, asserted above.
    unsafe { load_4(words, at) }
}

/// The words at 4 positions: two loads to a vector of 16 bytes, which take less time than a gather.
///
/// # Safety
/// Each position is that of a word.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_4(words: &[AtomicU64], at: __m256i) -> __m256i {
    let mut positions = [0_u64; STEP];
    // SAFETY: the array is one vector. The caller keeps the positions among the words. The writer
    // stores these words atomically while we load them: each is one aligned load of 8 bytes, which
    // x86-64 performs whole.
    unsafe {
        _mm256_storeu_si256(positions.as_mut_ptr().cast(), at);
        let word = |lane: usize| words.as_ptr().add(positions[lane] as usize);
        let two = |lane: usize| {
            let low = _mm_castsi128_pd(_mm_loadl_epi64(word(lane).cast()));
            _mm_castpd_si128(_mm_loadh_pd(low, word(lane + 1).cast()))
        };
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(two(0)), two(2))
    }
}
