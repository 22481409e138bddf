//! IPv4 header checks with AVX-512, 8 lanes a step: the kernel loads the header as three words of
//! eight bytes and checks checksum, version, lengths and addresses as masks.

use std::arch::x86_64::*;

use stoa_engine::pool::SLOT;
use stoa_engine::{VECTOR, Vector};

use super::ip4_validate::Validated;
use crate::columns_avx512::{HEAD, Packets, STEP, step_16};

/// Same result as [`super::ip4_validate::validate_scalar`].
pub fn validate(vector: &mut Vector, validated: &mut Validated) {
    assert!(crate::kernel::Kernel::Avx512.is_available());
    // SAFETY: asserted above: the processor has AVX-512 F, BW, DQ and VL.
    unsafe { validate_all(vector, validated) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn validate_all(vector: &mut Vector, validated: &mut Validated) {
    validated.exceptions = [0; VECTOR / 16];
    let mut packets = Packets::<HEAD>::new(vector.pool());
    packets.locate(vector, 20);
    for step in 0..vector.len().div_ceil(STEP) {
        let at = step * STEP;
        let lanes = (vector.len() - at).min(STEP);
        let in_use = ((1u16 << lanes) - 1) as __mmask8;
        let ok = validate_8(vector, validated, step, &packets);
        let exceptions = u16::from(in_use & !ok);
        validated.exceptions[at / 16] |= exceptions << (at % 16);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn validate_8(
    vector: &mut Vector,
    validated: &mut Validated,
    step: usize,
    packets: &Packets<HEAD>,
) -> __mmask8 {
    let at = step * STEP;
    assert!(at < vector.len());
    // SAFETY: the vector owns its lanes.
    let heads = unsafe { packets.heads(step) };
    let inside = packets.inside[step];
    let offsets = _mm512_cvtepu16_epi64(step_16(&vector.offset, step));
    let lengths = _mm512_cvtepu16_epi64(step_16(&vector.length, step));
    let word = |value: i64| _mm512_set1_epi64(value);
    // A length beyond the slot is clamped to it, as in `Vector::bytes`.
    let lengths = _mm512_min_epu64(lengths, _mm512_sub_epi64(word(SLOT as i64), offsets));
    let (head, middle, tail) = (heads.words(0), heads.words(2), heads.words(3));
    let destination = _mm512_srli_epi64::<32>(tail);

    let ok = valid_checksums(inside, [head, middle, destination]);
    let byte = |value| _mm512_and_si512(value, word(0xff));
    let ok = _mm512_mask_cmpeq_epi64_mask(ok, byte(head), word(0x45));
    let total = _mm512_or_si512(
        _mm512_slli_epi64::<8>(byte(_mm512_srli_epi64::<16>(head))),
        byte(_mm512_srli_epi64::<24>(head)),
    );
    let ok = _mm512_mask_cmpge_epu64_mask(ok, total, word(20));
    let ok = _mm512_mask_cmple_epu64_mask(ok, total, lengths);

    // First octets: not 0, not 127, below 224 (RFC 1812 5.3.7).
    let plain = |ok, octet| {
        let ok = _mm512_mask_cmplt_epu64_mask(ok, _mm512_sub_epi64(octet, word(1)), word(223));
        _mm512_mask_cmpneq_epi64_mask(ok, octet, word(127))
    };
    let ok = plain(ok, byte(_mm512_srli_epi64::<32>(middle)));
    let ok = plain(ok, byte(destination));

    // Bytes 3, 2, 1, 0 of each lane: host order. The shuffle works within 16 bytes.
    let (even, odd) = (0x8080_8080_0001_0203_u64 as i64, 0x8080_8080_0809_0a0b_u64 as i64);
    let swap = _mm512_set4_epi64(odd, even, odd, even);
    let host =
        _mm512_cvtepi64_epi32(_mm512_maskz_mov_epi64(ok, _mm512_shuffle_epi8(destination, swap)));
    // SAFETY: 8 elements of each column follow `at`, a multiple of 8 below the number of lanes.
    unsafe {
        _mm256_storeu_si256(validated.destination.as_mut_ptr().add(at).cast(), host);
        let cut = _mm512_cvtepi64_epi16(total);
        _mm_mask_storeu_epi16(vector.length.as_mut_ptr().add(at).cast(), ok, cut);
    }
    ok
}

/// The lanes of `some` with the right checksum. `last` holds only the destination: the loads overlap.
/// The one's complement sum does not depend on the byte order: 16-bit words are added as loaded.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn valid_checksums(some: __mmask8, [head, middle, last]: [__m512i; 3]) -> __mmask8 {
    let word = |value: i64| _mm512_set1_epi64(value);
    let halves = word(0x0000_ffff_0000_ffff);
    let pairs = |value| {
        let high = _mm512_and_si512(_mm512_srli_epi64::<16>(value), halves);
        _mm512_add_epi64(_mm512_and_si512(value, halves), high)
    };
    let sum = _mm512_add_epi64(_mm512_add_epi64(pairs(head), pairs(middle)), pairs(last));
    let low32 = word(0xffff_ffff);
    let sum = _mm512_add_epi64(_mm512_and_si512(sum, low32), _mm512_srli_epi64::<32>(sum));
    let low16 = word(0xffff);
    let fold = |sum| _mm512_add_epi64(_mm512_and_si512(sum, low16), _mm512_srli_epi64::<16>(sum));
    let sum = fold(fold(sum));
    _mm512_mask_cmpeq_epi64_mask(some, sum, low16)
}
