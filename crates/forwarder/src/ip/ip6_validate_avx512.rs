//! IPv6 header checks with AVX-512, 8 lanes a step: the kernel loads the first word of the header
//! and the words of the addresses and checks version, length and address range as masks.

use std::arch::x86_64::*;

use stoa_engine::pool::SLOT;
use stoa_engine::{VECTOR, Vector};

use super::ip6_validate::{TRANSLATED, Validated};
use crate::columns_avx512::{Packets, STEP, step_16};

/// Bytes of the header.
const HEADER: usize = stoa_wire::ipv6::LENGTH;

/// Same result as [`super::ip6_validate::validate_scalar`].
pub fn validate(vector: &mut Vector, validated: &mut Validated) {
    assert!(crate::kernel::Kernel::Avx512.is_available());
    // SAFETY: asserted above: the processor has AVX-512 F, BW, DQ and VL.
    unsafe { validate_all(vector, validated) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn validate_all(vector: &mut Vector, validated: &mut Validated) {
    validated.exceptions = [0; VECTOR / STEP];
    let mut packets = Packets::<HEADER>::new(vector.pool());
    packets.locate(vector, HEADER);
    let lanes = vector.len();
    for step in 0..lanes.div_ceil(STEP) {
        let in_use = ((1_u16 << (lanes - step * STEP).min(STEP)) - 1) as __mmask8;
        let ok = validate_8(vector, validated, step, &packets);
        validated.exceptions[step] = in_use & !ok;
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn validate_8(
    vector: &mut Vector,
    validated: &mut Validated,
    step: usize,
    packets: &Packets<HEADER>,
) -> __mmask8 {
    let at = step * STEP;
    assert!(at < vector.len());
    // SAFETY: the vector owns its lanes.
    let ([head, source], [upper, lower]) =
        unsafe { (packets.words::<0>(step), packets.words::<24>(step)) };
    let inside = packets.inside[step];
    let offsets = _mm512_cvtepu16_epi64(step_16(&vector.offset, step));
    let lengths = _mm512_cvtepu16_epi64(step_16(&vector.length, step));
    let word = |value: u64| _mm512_set1_epi64(value as i64);
    // A length beyond the slot is clamped to it, as in `Vector::bytes`.
    let lengths = _mm512_min_epu64(lengths, _mm512_sub_epi64(word(SLOT as u64), offsets));

    let bits = |value, mask| _mm512_and_si512(value, word(mask));
    let ok = _mm512_mask_cmpeq_epi64_mask(inside, bits(head, 0xf0), word(0x60));
    // Bytes 4 and 5 swapped, then zeros.
    let (low, high) = (0x8080_8080_8080_0405_u64 as i64, 0x8080_8080_8080_0c0d_u64 as i64);
    let swap = _mm512_set4_epi64(high, low, high, low);
    let payload = _mm512_shuffle_epi8(head, swap);
    let total = _mm512_add_epi64(payload, word(HEADER as u64));
    let ok = _mm512_mask_cmple_epu64_mask(ok, total, lengths);
    // Without a payload: the scalar code tells what it is.
    let ok = _mm512_mask_test_epi64_mask(ok, payload, payload);
    // 2000::/3 for both addresses (RFC 4291 2.4), or the other range for the destination.
    let is_global = |ok, value| {
        _mm512_mask_testn_epi64_mask(ok, _mm512_xor_si512(value, word(0x20)), word(0xe0))
    };
    let ok = is_global(ok, source);
    let translated = word(TRANSLATED.swap_bytes().into());
    let is_translated = _mm512_mask_cmpeq_epi64_mask(ok, bits(upper, 0xffff_ffff), translated);
    let ok = is_global(ok, upper) | is_translated;

    // Host order: the bytes of each word reversed, the lower word first.
    let (low, high) = (0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    let swap = _mm512_set4_epi64(high, low, high, low);
    let host = |value| _mm512_maskz_mov_epi64(ok, _mm512_shuffle_epi8(value, swap));
    let (upper, lower) = (host(upper), host(lower));
    let first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    let second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    // SAFETY: 8 elements of each column follow `at`, a multiple of 8 below the number of lanes; 8
    // destinations are two vectors.
    unsafe {
        let to = validated.destination.as_mut_ptr().add(at).cast::<__m512i>();
        _mm512_storeu_si512(to, _mm512_permutex2var_epi64(lower, first, upper));
        _mm512_storeu_si512(to.add(1), _mm512_permutex2var_epi64(lower, second, upper));
        let cut = _mm512_cvtepi64_epi16(total);
        _mm_mask_storeu_epi16(vector.length.as_mut_ptr().add(at).cast(), ok, cut);
    }
    ok
}
