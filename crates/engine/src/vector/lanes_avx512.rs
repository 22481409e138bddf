//! Sets of lanes, 16 a step with AVX-512.

use std::arch::x86_64::*;

use super::lanes::{Lanes, WORD};
use super::{NONE, VECTOR, Vector};

/// Lanes of a step.
const STEP: usize = 16;

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn equal_8(column: &[u8; VECTOR], value: u8) -> Lanes {
    let (mut lanes, value) = (Lanes([0; _]), _mm512_set1_epi8(value as i8));
    for (step, lanes) in column.as_chunks::<WORD>().0.iter().zip(&mut lanes.0) {
        // SAFETY: a step is one vector.
        let step = unsafe { _mm512_loadu_si512(step.as_ptr().cast()) };
        *lanes = _mm512_cmpeq_epi8_mask(step, value);
    }
    lanes
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn equal_16(column: &[u16; VECTOR], value: u16) -> Lanes {
    let (mut lanes, value) = (Lanes([0; _]), _mm512_set1_epi16(value as i16));
    for (at, step) in column.as_chunks::<32>().0.iter().enumerate() {
        // SAFETY: a step is one vector.
        let step = unsafe { _mm512_loadu_si512(step.as_ptr().cast()) };
        let equal = _mm512_cmpeq_epi16_mask(step, value);
        lanes.0[at / 2] |= u64::from(equal) << (at % 2 * 32);
    }
    lanes
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn equal_32(column: &[u32; VECTOR], value: u32) -> Lanes {
    let (mut lanes, value) = (Lanes([0; _]), _mm512_set1_epi32(value as i32));
    for (at, step) in column.as_chunks::<STEP>().0.iter().enumerate() {
        // SAFETY: a step is one vector.
        let step = unsafe { _mm512_loadu_si512(step.as_ptr().cast()) };
        let equal = _mm512_cmpeq_epi32_mask(step, value);
        lanes.0[at / 4] |= u64::from(equal) << (at % 4 * STEP);
    }
    lanes
}

/// Moves lanes to the end of `to`.
///
/// # Safety
/// `to` has space for the lanes, and the caller owns all of them: what stands beyond the lanes in
/// use are ids of buffers that others own, and they would have two owners.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
pub(super) unsafe fn move_all(from: &mut Vector, lanes: &Lanes, to: &mut Vector) {
    for at in (0..VECTOR).step_by(STEP) {
        let some = (lanes.0[at / WORD] >> (at % WORD)) as __mmask16;
        if some == 0 {
            continue;
        }
        let end = to.len;
        let count = some.count_ones() as usize;
        let stored = ((1_u32 << count) - 1) as __mmask16;
        // SAFETY: 16 elements follow `at`; `count` elements have room from `end` on, and no
        // others are written.
        unsafe {
            let wide = |from: &[u32; VECTOR], to: &mut [u32; VECTOR]| {
                let values = _mm512_loadu_si512(from.as_ptr().add(at).cast());
                let values = _mm512_maskz_compress_epi32(some, values);
                _mm512_mask_storeu_epi32(to.as_mut_ptr().add(end).cast(), stored, values);
            };
            wide(&from.buffer, &mut to.buffer);
            wide(&from.rx_if, &mut to.rx_if);
            wide(&from.tx_if, &mut to.tx_if);
            wide(&from.adjacency, &mut to.adjacency);
            wide(&from.arg, &mut to.arg);
            let narrow = |from: &[u16; VECTOR], to: &mut [u16; VECTOR]| {
                let values = _mm256_loadu_si256(from.as_ptr().add(at).cast());
                let values = _mm512_cvtepu16_epi32(values);
                let values = _mm512_maskz_compress_epi32(some, values);
                let values = _mm512_cvtepi32_epi16(values);
                _mm256_mask_storeu_epi16(to.as_mut_ptr().add(end).cast(), stored, values);
            };
            narrow(&from.offset, &mut to.offset);
            narrow(&from.length, &mut to.length);
            narrow(&from.flags, &mut to.flags);
            let none = _mm512_set1_epi32(NONE as i32);
            _mm512_mask_storeu_epi32(from.buffer.as_mut_ptr().add(at).cast(), some, none);
        }
        to.len = end + count;
    }
}

/// Copies the values of `lanes` in order, to places of `to` from `end` on.
///
/// # Panics
/// When there is no space for them.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
pub(super) fn copy_32(from: &[u32; VECTOR], lanes: &Lanes, to: &mut [u32; VECTOR], end: usize) {
    assert!(end + lanes.count() <= VECTOR);
    let mut end = end;
    for at in (0..VECTOR).step_by(STEP) {
        let some = (lanes.0[at / WORD] >> (at % WORD)) as __mmask16;
        let count = some.count_ones() as usize;
        let stored = ((1_u32 << count) - 1) as __mmask16;
        // SAFETY: 16 elements follow `at`; `count` elements have space from `end` on, and no others
        // are written.
        unsafe {
            let values = _mm512_loadu_si512(from.as_ptr().add(at).cast());
            let values = _mm512_maskz_compress_epi32(some, values);
            _mm512_mask_storeu_epi32(to.as_mut_ptr().add(end).cast(), stored, values);
        }
        end += count;
    }
}
