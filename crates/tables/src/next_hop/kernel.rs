//! Resolving next hops for x86-64 with AVX-512, 8 lanes a gather.
//!
//! There is no such kernel for AVX2: its gathers take longer than one load after the other
//! (2.3 against 1.4 cycles a lane on Zen 4).
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::reader::{ADJACENCY, BATCH, KIND_SHIFT, Others};
use crate::lpm::Kernel;
use crate::sync::AtomicU64;

/// Lanes of a gather.
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
    if !Kernel::Avx512.is_available() {
        return 0;
    }
    // SAFETY: the processor has AVX-512 F and VL, checked just now.
    unsafe { resolve_steps(objects, &ids[..lanes], &mut adjacencies[..lanes], others) };
    lanes
}

#[target_feature(enable = "avx512f,avx512vl")]
fn resolve_steps(objects: &[AtomicU64], ids: &[u32], adjacencies: &mut [u32], others: &mut Others) {
    // Indices of a gather are signed.
    let end = _mm256_set1_epi32(objects.len().min(i32::MAX as usize) as i32);
    let kind = _mm512_set1_epi64(ADJACENCY as i64);
    let steps = ids.as_chunks::<STEP>().0.iter().zip(adjacencies.as_chunks_mut::<STEP>().0);
    for (step, (ids, adjacencies)) in steps.enumerate() {
        // SAFETY: a step is one vector; only lanes whose id is below the number of objects load.
        // The writer stores these words atomically while we gather: each lane is one aligned load
        // of 8 bytes, which x86-64 performs whole, and what the word leads to is loaded after it.
        unsafe {
            let ids = _mm256_loadu_si256(ids.as_ptr().cast());
            let known = _mm256_cmplt_epu32_mask(ids, end);
            let zero = _mm512_setzero_si512();
            let base = objects.as_ptr().cast();
            let words = _mm512_mask_i32gather_epi64::<8>(zero, known, ids, base);
            let odd = _mm512_cmpneq_epu64_mask(_mm512_srli_epi64::<{ KIND_SHIFT }>(words), kind);
            _mm256_storeu_si256(adjacencies.as_mut_ptr().cast(), _mm512_cvtepi64_epi32(words));
            others[step / 8] |= u64::from(odd) << (step % 8 * STEP);
        }
    }
}
