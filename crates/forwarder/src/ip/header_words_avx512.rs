//! Loads words of headers with AVX-512, 8 lanes a step.

use std::arch::x86_64::*;

use stoa_engine::{VECTOR, Vector};

use super::header_words::{LENGTH6, load_address, load_lane};
use crate::columns_avx512::{HEAD, Heads, Packets, STEP};

/// The last word that is loaded: that of the destination.
const LAST: usize = 16;

/// Same result as [`super::header_words::load_scalar`].
pub fn load<const N: usize>(vector: &Vector, at: [usize; N], words: [&mut [u32; VECTOR]; N]) {
    assert!(crate::kernel::Kernel::Avx512.is_available() && at.iter().all(|at| *at <= LAST));
    // SAFETY: asserted above: the processor has AVX-512 F, BW, DQ and VL.
    unsafe { load_all(vector, at, words) }
}

/// Same result as [`super::header_words::load_addresses`] of the scalar kernel.
pub fn load_addresses<const AT: usize>(vector: &Vector, addresses: &mut [u128; VECTOR]) {
    assert!(crate::kernel::Kernel::Avx512.is_available());
    // SAFETY: asserted above: the processor has AVX-512 F, BW, DQ and VL.
    unsafe { load_all_addresses::<AT>(vector, addresses) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn load_all_addresses<const AT: usize>(vector: &Vector, addresses: &mut [u128; VECTOR]) {
    let mut packets = Packets::<LENGTH6>::new(vector.pool());
    packets.locate(vector, LENGTH6);
    let steps = addresses.as_chunks_mut::<STEP>().0.iter_mut();
    for (step, addresses) in steps.enumerate().take(vector.len().div_ceil(STEP)) {
        let first = step * STEP;
        let in_use = ((1_u16 << (vector.len() - first).min(STEP)) - 1) as __mmask8;
        let swap =
            _mm512_broadcast_i64x2(_mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f));
        // SAFETY: the vector owns its lanes; 8 addresses are two vectors.
        unsafe {
            let [first, second] = packets.quads::<AT>(step);
            let to = addresses.as_mut_ptr().cast::<__m512i>();
            _mm512_storeu_si512(to, _mm512_shuffle_epi8(first, swap));
            _mm512_storeu_si512(to.add(1), _mm512_shuffle_epi8(second, swap));
        }
        let mut left = in_use & !packets.inside[step];
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            addresses[lane] = load_address::<AT>(vector, first + lane);
            left &= left - 1;
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn load_all<const N: usize>(vector: &Vector, at: [usize; N], mut words: [&mut [u32; VECTOR]; N]) {
    let mut packets = Packets::<HEAD>::new(vector.pool());
    packets.locate(vector, LAST + 4);
    for step in 0..vector.len().div_ceil(STEP) {
        let first = step * STEP;
        let in_use = ((1_u16 << (vector.len() - first).min(STEP)) - 1) as __mmask8;
        // SAFETY: the vector owns its lanes.
        let heads = unsafe { packets.heads(step) };
        let loaded = packets.inside[step];
        store_8(&heads, loaded, (first, at), &mut words);
        let mut left = in_use & !loaded;
        while left != 0 {
            let lane = first + left.trailing_zeros() as usize;
            for (at, words) in at.iter().zip(&mut words) {
                words[lane] = load_lane(vector, lane, *at);
            }
            left &= left - 1;
        }
    }
}

/// Stores the words of the lanes in `loaded`, and 0 in the others, from lane `first` on.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn store_8<const N: usize>(
    heads: &Heads,
    loaded: __mmask8,
    (first, at): (usize, [usize; N]),
    words: &mut [&mut [u32; VECTOR]; N],
) {
    assert!(first <= VECTOR - STEP);
    let reversed = _mm256_set_epi8(
        12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11, 4, 5,
        6, 7, 0, 1, 2, 3,
    );
    for (at, words) in at.into_iter().zip(words) {
        let found = _mm256_maskz_mov_epi32(loaded, heads.halves(at / 4));
        let found = _mm256_shuffle_epi8(found, reversed);
        // SAFETY: 8 elements follow `first`.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().add(first).cast(), found) };
    }
}
