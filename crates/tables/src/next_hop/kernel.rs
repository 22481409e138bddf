//! Resolving next hops for x86-64 with AVX-512, 8 lanes a step. Words are loaded one by one: a gather
//! takes more than twice as long on Zen 5.
//!
//! There is no such kernel for AVX2: its gathers take longer than one load after the other
//! (2.3 against 1.4 cycles a lane on Zen 4).
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::reader::{ADJACENCY, BATCH, KIND_SHIFT, Others};
use crate::load_kernel::load_8;
use crate::lpm::Kernel;
use crate::sync::AtomicU64;

/// Lanes of a step.
const STEP: usize = 8;

/// What [`super::NextHopReader::resolve_batch`] does, for as many lanes as are a multiple of
/// [`STEP`]; returns how many these are.
pub(super) fn resolve(
    objects: &[AtomicU64],
    ids: &[u32],
    adjacencies: &mut [u32],
    others: &mut Others,
) -> usize {
    let lanes = ids.len().min(adjacencies.len()).min(BATCH) / STEP * STEP;
    if objects.is_empty() || !Kernel::Avx512.is_available() {
        return 0;
    }
    // SAFETY: the processor has AVX-512 F and VL, and there is an object, both checked just now.
    unsafe { resolve_steps(objects, &ids[..lanes], &mut adjacencies[..lanes], others) };
    lanes
}

/// # Safety
/// There is an object.
#[target_feature(enable = "avx512f,avx512vl")]
unsafe fn resolve_steps(
    objects: &[AtomicU64],
    ids: &[u32],
    adjacencies: &mut [u32],
    others: &mut Others,
) {
    let end = _mm256_set1_epi32(objects.len().min(u32::MAX as usize) as u32 as i32);
    let kind = _mm512_set1_epi64(ADJACENCY as i64);
    let steps = ids.as_chunks::<STEP>().0.iter().zip(adjacencies.as_chunks_mut::<STEP>().0);
    for (step, (ids, adjacencies)) in steps.enumerate() {
        let mut at = [0_u32; STEP];
        // SAFETY: a step is one vector; an id that is not below the number of objects loads the first
        // one.
        unsafe {
            let ids = _mm256_loadu_si256(ids.as_ptr().cast());
            let known = _mm256_cmplt_epu32_mask(ids, end);
            let ids = _mm256_maskz_mov_epi32(known, ids);
            _mm256_storeu_si256(at.as_mut_ptr().cast(), ids);
            let words = _mm512_maskz_mov_epi64(known, load_8(objects.as_ptr(), &at));
            let odd = _mm512_cmpneq_epu64_mask(_mm512_srli_epi64::<{ KIND_SHIFT }>(words), kind);
            _mm256_storeu_si256(adjacencies.as_mut_ptr().cast(), _mm512_cvtepi64_epi32(words));
            others[step / 8] |= u64::from(odd) << (step % 8 * STEP);
        }
    }
}
