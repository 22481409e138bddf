//! Look-up kernels for x86-64: bit-counting instructions, and 16 lanes of AVX-512 for IPv4.
//!
//! The only unsafe code of this crate. Each entry point checks the CPU itself and falls back to
//! the scalar kernel, so calling it is always sound.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use core::sync::atomic::{AtomicU32, AtomicU64};

use super::fib::{LANES, SLACK_WORDS, lookup_lanes, lookup_scalar};
use super::key::Key;

pub(crate) fn has_bits() -> bool {
    !cfg!(miri)
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
}

pub(crate) fn has_avx512() -> bool {
    has_bits()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vpopcntdq")
}

/// The scalar kernel compiled with `popcnt` and the shifts of BMI2.
pub(crate) fn lookup_bits<K: Key>(
    root: &[AtomicU32],
    words: &[AtomicU64],
    keys: &[K],
    out: &mut [u32],
) {
    #[target_feature(enable = "popcnt,bmi1,bmi2")]
    fn compiled<K: Key>(root: &[AtomicU32], words: &[AtomicU64], keys: &[K], out: &mut [u32]) {
        let (keys16, keys_rest) = keys.as_chunks::<LANES>();
        let (out16, out_rest) = out.as_chunks_mut::<LANES>();
        for (keys, out) in keys16.iter().zip(out16.iter_mut()) {
            lookup_lanes(root, words, keys, out);
        }
        if keys16.len() == out16.len() {
            lookup_lanes(root, words, keys_rest, out_rest);
        } else {
            let done = LANES * keys16.len().min(out16.len());
            lookup_scalar(root, words, &keys[done..], &mut out[done..]);
        }
    }
    if has_bits() {
        // SAFETY: the CPU has the features, checked just now.
        unsafe { compiled(root, words, keys, out) }
    } else {
        lookup_scalar(root, words, keys, out);
    }
}

/// IPv4, 16 lanes at a time with gathers.
pub(crate) fn lookup_ip4_avx512(
    root: &[AtomicU32],
    words: &[AtomicU64],
    keys: &[u32],
    out: &mut [u32],
) {
    let whole = root.len() == 1 << u32::ROOT_BITS && words.len() > SLACK_WORDS;
    if !(whole && has_avx512()) {
        return lookup_scalar(root, words, keys, out);
    }
    let lanes = keys.len().min(out.len());
    let (keys, out) = (&keys[..lanes], &mut out[..lanes]);
    // SAFETY: the CPU has the features, checked just now; the sizes are as `ip4_avx512` wants.
    unsafe { ip4_avx512(root, words, keys, out) }
}

/// # Safety
/// `root` has 2^18 words, `words` more than `SLACK_WORDS`, `keys` is as long as `out`.
#[target_feature(enable = "popcnt,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn ip4_avx512(root: &[AtomicU32], words: &[AtomicU64], keys: &[u32], out: &mut [u32]) {
    // A chunk's bitmap and runs end before the slack does, wherever up to here it begins.
    let last = _mm512_set1_epi32((words.len() - SLACK_WORDS).min(1 << 30) as i32);
    let (keys16, keys_rest) = keys.as_chunks::<LANES>();
    let (out16, out_rest) = out.as_chunks_mut::<LANES>();
    for (keys, out) in keys16.iter().zip(out16) {
        // SAFETY: both are arrays of 64 bytes; `ip4_lanes` as above.
        unsafe {
            let keys = _mm512_loadu_si512(keys.as_ptr().cast());
            let found = ip4_lanes(root, words, last, keys);
            _mm512_storeu_si512(out.as_mut_ptr().cast(), found);
        }
    }
    if !keys_rest.is_empty() {
        let lanes = (1u16 << keys_rest.len()) - 1;
        // SAFETY: the mask keeps load and store within the slices; `ip4_lanes` as above.
        unsafe {
            let keys = _mm512_maskz_loadu_epi32(lanes, keys_rest.as_ptr().cast());
            let found = ip4_lanes(root, words, last, keys);
            _mm512_mask_storeu_epi32(out_rest.as_mut_ptr().cast(), lanes, found);
        }
    }
}

/// # Safety
/// As [`ip4_avx512`]; `last` is at most `words.len() - SLACK_WORDS` and 2^30 in each lane.
#[inline]
#[target_feature(enable = "popcnt,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn ip4_lanes(
    root: &[AtomicU32],
    words: &[AtomicU64],
    last: __m512i,
    keys: __m512i,
) -> __m512i {
    // SAFETY: an index is the upper 18 bits of a key and the array has 2^18 words. Writers store
    // these words atomically while we gather: each lane is one aligned load of 4 (below: 8) bytes,
    // which x86-64 performs whole, and dependent loads are not reordered before it.
    let mut found =
        unsafe { _mm512_i32gather_epi32::<4>(_mm512_srli_epi32::<14>(keys), root.as_ptr().cast()) };
    let six = _mm512_set1_epi32(63);
    let mut children = _mm512_movepi32_mask(found);
    // SAFETY: `last` is what `step16` wants.
    unsafe {
        found = step16(words, last, found, children, _mm512_srli_epi32::<8>(keys), six);
        children = _mm512_movepi32_mask(found);
        if children != 0 {
            found = step16(words, last, found, children, _mm512_srli_epi32::<2>(keys), six);
            children = _mm512_movepi32_mask(found);
            if children != 0 {
                found = step16(words, last, found, children, _mm512_slli_epi32::<4>(keys), six);
            }
        }
    }
    found
}

/// One step down in the lanes of `children`; `shifted & mask` are their next six bits.
///
/// # Safety
/// `last` is at most `words.len() - SLACK_WORDS` and 2^30 in each lane.
#[inline]
#[target_feature(enable = "popcnt,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn step16(
    words: &[AtomicU64],
    last: __m512i,
    found: __m512i,
    children: __mmask16,
    shifted: __m512i,
    mask: __m512i,
) -> __m512i {
    let at = _mm512_and_si512(found, _mm512_set1_epi32(i32::MAX));
    let at = _mm512_min_epu32(at, last);
    // 63 - six, in 32 bits.
    let beyond = _mm512_andnot_si512(shifted, mask);
    let low = (children & 0xff) as __mmask8;
    let high = (children >> 8) as __mmask8;
    let zero = _mm512_setzero_si512();
    // SAFETY: `at` was clamped to `last`, so word `at` is in the arena.
    let (low_bits, high_bits) = unsafe {
        let low_at = _mm512_castsi512_si256(at);
        let high_at = _mm512_extracti64x4_epi64::<1>(at);
        (
            _mm512_mask_i32gather_epi64::<8>(zero, low, low_at, words.as_ptr().cast()),
            _mm512_mask_i32gather_epi64::<8>(zero, high, high_at, words.as_ptr().cast()),
        )
    };
    let all = _mm512_set1_epi64(-1);
    let low_beyond = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(beyond));
    let high_beyond = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(beyond));
    let low_count =
        _mm512_popcnt_epi64(_mm512_and_si512(low_bits, _mm512_srlv_epi64(all, low_beyond)));
    let high_count =
        _mm512_popcnt_epi64(_mm512_and_si512(high_bits, _mm512_srlv_epi64(all, high_beyond)));
    let count = _mm512_inserti64x4::<1>(
        _mm512_castsi256_si512(_mm512_cvtepi64_epi32(low_count)),
        _mm512_cvtepi64_epi32(high_count),
    );
    // Half-word 2 * at + 1 + count: two halves of bitmap, then the runs, counted from one.
    let half = _mm512_add_epi32(_mm512_slli_epi32::<1>(at), count);
    let half = _mm512_add_epi32(half, _mm512_set1_epi32(1));
    // SAFETY: a count is at most 64, so the half-word is within 33 words after `at`, which is at
    // least `SLACK_WORDS` words before the end of the arena.
    unsafe { _mm512_mask_i32gather_epi32::<4>(found, children, half, words.as_ptr().cast()) }
}
