//! Which adjacencies leave by another interface, for x86-64 with AVX-512: 16 lanes a step.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::AdjacencyLine;
use super::reader::{LANES, Lanes};
use crate::load_kernel::load_16;
use crate::lpm::Kernel;

/// Lanes of a step.
const STEP: usize = 16;

/// What [`super::AdjacencyReader::leave_elsewhere`] does, for as many lanes as are a multiple of
/// [`STEP`]; returns how many these are.
pub(super) fn leave_elsewhere(
    lines: &[AdjacencyLine],
    ids: &[u32],
    interfaces: &[u32],
    elsewhere: &mut Lanes,
) -> usize {
    if lines.is_empty() || !Kernel::Avx512.is_available() {
        return 0;
    }
    let lanes = ids.len().min(interfaces.len()).min(LANES) / STEP * STEP;
    // SAFETY: the processor has AVX-512 F, DQ and VL, checked just now.
    unsafe { all_steps(lines, &ids[..lanes], &interfaces[..lanes], elsewhere) };
    lanes
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
fn all_steps(lines: &[AdjacencyLine], ids: &[u32], interfaces: &[u32], elsewhere: &mut Lanes) {
    let end = _mm512_set1_epi32(lines.len().min(u32::MAX as usize) as i32);
    let steps = ids.as_chunks::<STEP>().0.iter().zip(interfaces.as_chunks::<STEP>().0);
    for (step, (ids, interfaces)) in steps.enumerate() {
        // SAFETY: a step is one vector; lanes whose id is beyond the table load the first line. The
        // lower half of a line's first word is its interface.
        let others = unsafe {
            let ids = _mm512_loadu_si512(ids.as_ptr().cast());
            let known = _mm512_cmplt_epu32_mask(ids, end);
            let found = load_16(lines.as_ptr(), &_mm512_maskz_mov_epi32(known, ids));
            let expected = _mm512_loadu_si512(interfaces.as_ptr().cast());
            !_mm512_mask_cmpeq_epi32_mask(known, found, expected)
        };
        elsewhere[step / 4] |= u64::from(others) << (step % 4 * STEP);
    }
}
