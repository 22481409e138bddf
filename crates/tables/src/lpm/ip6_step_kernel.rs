//! What `ip6_kernel.rs` does with 16 addresses at once.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use super::ip6_load_kernel::BATCH;
use super::kernel::upper_halves;
use super::run_kernel::runs_before;

/// Lanes of a vector.
pub(super) const STEP: usize = 16;

/// A column of a batch; kernels write up to a step beyond it.
pub(super) type Slots<T> = [MaybeUninit<T>; BATCH + STEP];

/// [`Key::after_first`](super::key::Key::after_first) of 16 addresses but its last bit, lanes 0 to 7, and 8
/// to 15.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
pub(super) fn after_first_16(keys: &[u128; STEP]) -> [__m512i; 2] {
    let (low, high) = upper_halves(keys);
    [_mm512_slli_epi64::<1>(low), _mm512_slli_epi64::<1>(high)]
}

/// The runs that are selected in 16 chunks with these heads, counted from 0: by the six bits of the keys
/// that `right` brings to the end, or in a lone prefix by whether the key hits.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
pub(super) fn select(
    chunk: __m512i,
    heads: [__m512i; 2],
    keys: [__m512i; 2],
    right: i32,
) -> __m512i {
    let (right, six) = (_mm_cvtsi32_si128(right), _mm512_set1_epi64(63));
    let beyond = |keys| _mm512_andnot_si512(_mm512_srl_epi64(keys, right), six);
    runs_before::<u128>(chunk, heads, [beyond(keys[0]), beyond(keys[1])], keys)
}

/// The lanes of a step of which so many are left.
#[inline(always)]
pub(super) fn in_use(left: usize) -> __mmask16 {
    ((1_u32 << left.min(STEP)) - 1) as __mmask16
}

/// Up to 16 values.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_some(values: &[u32]) -> __m512i {
    // SAFETY: no more than there are.
    unsafe { _mm512_maskz_loadu_epi32(in_use(values.len()), values.as_ptr().cast()) }
}

/// Stores up to 16 values.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store_some(values: &mut [u32], from: __m512i) {
    // SAFETY: no more than there are.
    unsafe {
        _mm512_mask_storeu_epi32(values.as_mut_ptr().cast(), in_use(values.len()), from);
    }
}

/// 16 values of 64 bits.
///
/// # Safety
/// `at` is less than [`BATCH`], and `some` of them are written.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn load_two(column: &Slots<u64>, at: usize, some: __mmask16) -> [__m512i; 2] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let from = column.as_ptr().add(at).cast::<i64>();
        [
            _mm512_maskz_loadu_epi64(some as __mmask8, from),
            _mm512_maskz_loadu_epi64((some >> 8) as __mmask8, from.add(8)),
        ]
    }
}
