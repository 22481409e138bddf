//! Flows with AVX-512, 16 lanes a step: headers are loaded 8 at a time as by AVX2, and 16 flows
//! hashed in parallel.

use std::arch::x86_64::*;
use std::ops::Range;

use stoa_engine::{VECTOR, Vector};
use stoa_tables::flow_hash::{FIRST, PORT, PROTOCOL, SECOND};

use super::SEED;
use super::column::hash_lanes;
use super::column_avx2::{self, load};
use crate::columns_avx2::Places;

/// Lanes of a step.
const STEP: usize = 16;

/// Same result as the scalar code.
pub fn hash<const IS_IP4: bool>(vector: &Vector, lanes: Range<usize>, flows: &mut [u32; VECTOR]) {
    assert!(crate::kernel::Kernel::Avx512.is_available());
    // SAFETY: asserted above: the processor has AVX-512 F, BW, DQ and VL.
    unsafe { hash_range::<IS_IP4>(vector, lanes, flows) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn hash_range<const IS_IP4: bool>(vector: &Vector, lanes: Range<usize>, flows: &mut [u32; VECTOR]) {
    let whole = lanes.start + lanes.len() / STEP * STEP;
    let mut places = Places::new();
    let places = places.locate_some(vector, lanes.start..whole);
    for at in (lanes.start..whole).step_by(STEP) {
        let halves =
            (load::<IS_IP4>(vector, at, places), load::<IS_IP4>(vector, at + STEP / 2, places));
        let (Some(low), Some(high)) = halves else {
            hash_lanes::<IS_IP4>(vector, at..at + STEP, flows);
            continue;
        };
        let join = |low, high| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
        let words = |low: [__m256i; 4], high: [__m256i; 4]| {
            let [a, b, c, d] = low;
            let [e, f, g, h] = high;
            address::<IS_IP4>([join(a, e), join(b, f), join(c, g), join(d, h)])
        };
        let ports = join(low.ports, high.ports);
        let source = words(low.source, high.source);
        let source = end(source, _mm512_srli_epi32::<16>(ports));
        let destination = words(low.destination, high.destination);
        let destination = end(destination, _mm512_and_si512(ports, word(0xffff)));
        let joined = _mm512_add_epi32(mix(source), mix(destination));
        let protocol = _mm512_mullo_epi32(join(low.protocol, high.protocol), word(PROTOCOL));
        let hashes = mix(_mm512_xor_si512(joined, protocol));
        // SAFETY: 16 lanes follow `at`.
        unsafe { _mm512_storeu_si512(flows.as_mut_ptr().add(at).cast(), hashes) };
    }
    column_avx2::hash_range::<IS_IP4>(vector, whole..lanes.end, flows);
}

/// An address as one word.
#[target_feature(enable = "avx512f")]
#[inline]
fn address<const IS_IP4: bool>([first, second, third, fourth]: [__m512i; 4]) -> __m512i {
    if IS_IP4 {
        return first;
    }
    let hash = _mm512_add_epi32(mix(first), second);
    let hash = _mm512_add_epi32(mix(hash), third);
    _mm512_add_epi32(mix(hash), fourth)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn end(address: __m512i, port: __m512i) -> __m512i {
    let address = mix(_mm512_xor_si512(address, word(SEED)));
    _mm512_add_epi32(address, _mm512_mullo_epi32(port, word(PORT)))
}

/// [`stoa_tables::flow_hash::mix`].
#[target_feature(enable = "avx512f")]
#[inline]
fn mix(hash: __m512i) -> __m512i {
    let hash = _mm512_xor_si512(hash, _mm512_srli_epi32::<16>(hash));
    let hash = _mm512_mullo_epi32(hash, word(FIRST));
    let hash = _mm512_xor_si512(hash, _mm512_srli_epi32::<13>(hash));
    let hash = _mm512_mullo_epi32(hash, word(SECOND));
    _mm512_xor_si512(hash, _mm512_srli_epi32::<16>(hash))
}

#[target_feature(enable = "avx512f")]
#[inline]
fn word(value: u32) -> __m512i {
    _mm512_set1_epi32(value as i32)
}
