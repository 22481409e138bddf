//! IPv6 header checks with AVX-512, 8 lanes a step: the kernel gathers the first word of the header
//! and the words of the addresses and checks version, length and address range as masks.

use std::arch::x86_64::*;

use stoa_engine::pool::SLOT;
use stoa_engine::{VECTOR, Vector};

use super::ip6_validate::Validated;

/// Lanes of a step.
const STEP: usize = 8;
/// Bytes of the header.
const HEADER: u64 = stoa_wire::ipv6::LENGTH as u64;

/// Same result as [`super::ip6_validate::validate_scalar`].
pub fn validate(vector: &mut Vector, validated: &mut Validated) {
    assert!(crate::kernel::Kernel::Avx512.is_available());
    // SAFETY: asserted above: the processor has AVX-512 F, BW, DQ and VL.
    unsafe { validate_all(vector, validated) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn validate_all(vector: &mut Vector, validated: &mut Validated) {
    validated.exceptions = [0; VECTOR / STEP];
    let lanes = vector.len();
    for step in 0..lanes.div_ceil(STEP) {
        let in_use = ((1_u16 << (lanes - step * STEP).min(STEP)) - 1) as __mmask8;
        let ok = validate_8(vector, validated, step * STEP, in_use);
        validated.exceptions[step] = in_use & !ok;
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn validate_8(
    vector: &mut Vector,
    validated: &mut Validated,
    at: usize,
    in_use: __mmask8,
) -> __mmask8 {
    let pool = vector.pool();
    assert!(at <= VECTOR - STEP);
    // SAFETY: 8 elements of each column follow `at`.
    let (ids, offsets, lengths) = unsafe {
        (
            _mm256_loadu_si256(vector.buffers().as_ptr().add(at).cast()),
            _mm_loadu_si128(vector.offset.as_ptr().add(at).cast()),
            _mm_loadu_si128(vector.length.as_ptr().add(at).cast()),
        )
    };
    let ids = _mm512_cvtepu32_epi64(ids);
    let offsets = _mm512_cvtepu16_epi64(offsets);
    let lengths = _mm512_cvtepu16_epi64(lengths);
    let word = |value: u64| _mm512_set1_epi64(value as i64);

    // Lanes that can be loaded: a buffer of this pool, with the header inside the slot.
    let inside = _mm512_mask_cmplt_epu64_mask(in_use, ids, word(pool.count().into()));
    let inside = _mm512_mask_cmple_epu64_mask(inside, offsets, word(SLOT as u64 - HEADER));
    let inside = _mm512_mask_cmpge_epu64_mask(inside, lengths, word(HEADER));
    // A length beyond the slot is clamped to it, as in `Vector::bytes`.
    let lengths = _mm512_min_epu64(lengths, _mm512_sub_epi64(word(SLOT as u64), offsets));
    let place = _mm512_add_epi64(_mm512_mul_epu32(ids, word(SLOT as u64)), offsets);
    let base = pool.base().as_ptr().cast_const();
    let zero = _mm512_setzero_si512();
    // SAFETY: lanes in `inside` own a slot of the pool and read 40 bytes within it;
    // other lanes are not loaded.
    let (head, source, upper, lower) = unsafe {
        (
            _mm512_mask_i64gather_epi64::<1>(zero, inside, place, base.cast()),
            _mm512_mask_i64gather_epi64::<1>(zero, inside, place, base.add(8).cast()),
            _mm512_mask_i64gather_epi64::<1>(zero, inside, place, base.add(24).cast()),
            _mm512_mask_i64gather_epi64::<1>(zero, inside, place, base.add(32).cast()),
        )
    };

    let bits = |value, mask| _mm512_and_si512(value, word(mask));
    let ok = _mm512_mask_cmpeq_epi64_mask(inside, bits(head, 0xf0), word(0x60));
    let payload = _mm512_or_si512(
        bits(_mm512_srli_epi64::<24>(head), 0xff00),
        bits(_mm512_srli_epi64::<40>(head), 0xff),
    );
    let total = _mm512_add_epi64(payload, word(HEADER));
    let ok = _mm512_mask_cmple_epu64_mask(ok, total, lengths);
    // 2000::/3 for both addresses (RFC 4291 2.4).
    let ok = _mm512_mask_cmpeq_epi64_mask(ok, bits(source, 0xe0), word(0x20));
    let ok = _mm512_mask_cmpeq_epi64_mask(ok, bits(upper, 0xe0), word(0x20));

    // Host order: the bytes of each word reversed, the lower word first.
    let (low, high) = (0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    let swap = _mm512_set4_epi64(high, low, high, low);
    let host = |value| _mm512_maskz_mov_epi64(ok, _mm512_shuffle_epi8(value, swap));
    let (upper, lower) = (host(upper), host(lower));
    let first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    let second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    // SAFETY: same as for the loads above; 8 destinations are two vectors.
    unsafe {
        let to = validated.destination.as_mut_ptr().add(at).cast::<__m512i>();
        _mm512_storeu_si512(to, _mm512_permutex2var_epi64(lower, first, upper));
        _mm512_storeu_si512(to.add(1), _mm512_permutex2var_epi64(lower, second, upper));
        let cut = _mm512_cvtepi64_epi16(total);
        _mm_mask_storeu_epi16(vector.length.as_mut_ptr().add(at).cast(), ok, cut);
    }
    ok
}
