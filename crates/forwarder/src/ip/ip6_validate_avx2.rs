//! IPv6 header checks with AVX2, 8 lanes a step: version, length and address range of all lanes in
//! parallel. A step with an exception goes through the scalar code.

use std::arch::x86_64::*;

use stoa_engine::pool::SLOT;
use stoa_engine::{VECTOR, Vector};

use super::ip6_validate::{TRANSLATED, Validated, validate_lane};
use crate::columns_avx2::{Columns, STEP, load_16};

/// Bytes of the header.
const HEADER: usize = stoa_wire::ipv6::LENGTH;

/// Same result as [`super::ip6_validate::validate_scalar`].
pub fn validate(vector: &mut Vector, validated: &mut Validated) {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2.
    unsafe { validate_all(vector, validated) }
}

#[target_feature(enable = "avx2")]
fn validate_all(vector: &mut Vector, validated: &mut Validated) {
    validated.exceptions = [0; VECTOR / STEP];
    for at in (0..vector.len()).step_by(STEP) {
        let lanes = at..vector.len().min(at + STEP);
        if lanes.len() < STEP || !validate_8(vector, validated, at) {
            lanes.for_each(|lane| validate_lane(vector, lane, validated));
        }
    }
}

/// Whether 8 lanes have no exception; otherwise nothing is changed.
#[target_feature(enable = "avx2")]
#[inline]
fn validate_8(vector: &mut Vector, validated: &mut Validated, at: usize) -> bool {
    let pool = vector.pool();
    let columns = Columns::load(vector, at);
    if !columns.are_inside(pool, 0, HEADER) {
        return false;
    }
    let places = columns.places();
    // SAFETY: the first 40 bytes of each lane are inside its buffer.
    let (head, to) = unsafe { (load_16(pool, &places, 0), load_16(pool, &places, 24)) };

    // The version, and 2000::/3 for both addresses (RFC 4291 2.4): the first byte, the ninth, and
    // the first of the destination. Or that is in the other range: its first word.
    let both = |low: i64, high: i64| _mm256_setr_epi64x(low, high, low, high);
    let (mask, right) = (both(0xf0, 0xe0), both(0x60, 0x20));
    let (mask_to, right_to) = (both(0xe0, 0), both(0x20, 0));
    let (mut heads, mut destinations) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    let translated = _mm256_set1_epi32(TRANSLATED.swap_bytes().cast_signed());
    for (head, to) in head.into_iter().zip(to) {
        heads = _mm256_or_si256(heads, _mm256_xor_si256(head, right));
        let is_translated = _mm256_cmpeq_epi32(to, translated);
        let differs = _mm256_andnot_si256(is_translated, _mm256_xor_si256(to, right_to));
        destinations = _mm256_or_si256(destinations, differs);
    }
    let any =
        _mm256_or_si256(_mm256_and_si256(heads, mask), _mm256_and_si256(destinations, mask_to));
    // Payload lengths: bytes 4 and 5 of each header, swapped, then zeros.
    let [a, b, c, d] = head;
    let word = _mm256_unpackhi_epi64(_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
    let swap = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        1, 0, -1, -1, 5, 4, -1, -1, 9, 8, -1, -1, 13, 12, -1, -1,
    ));
    let payload = _mm256_shuffle_epi8(word, swap);
    let total = _mm256_add_epi32(payload, _mm256_set1_epi32(HEADER as i32));
    // A length beyond the slot is clamped to it, as in `Vector::bytes`.
    let room = _mm_sub_epi16(_mm_set1_epi16(SLOT as i16), columns.offset);
    let length = _mm256_cvtepu16_epi32(_mm_min_epu16(columns.length, room));
    // 0 where the payload length is 0, which is less than any total: the scalar code tells what it is.
    let length = _mm256_sign_epi32(length, payload);
    let any = _mm256_or_si256(any, _mm256_cmpgt_epi32(total, length));
    if _mm256_testz_si256(any, any) == 0 {
        return false;
    }
    // Host order: the bytes of each address reversed.
    let swap = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,
    ));
    let cut = _mm256_permute4x64_epi64::<0b10_00>(_mm256_packus_epi32(total, total));
    // SAFETY: 8 elements of each column follow `at`; a destination is half a vector.
    unsafe {
        let into = validated.destination.as_mut_ptr().add(at).cast::<__m128i>();
        for (lane, to) in to.into_iter().enumerate() {
            let host = _mm256_shuffle_epi8(to, swap);
            _mm_storeu_si128(into.add(lane), _mm256_castsi256_si128(host));
            _mm_storeu_si128(into.add(lane + 4), _mm256_extracti128_si256::<1>(host));
        }
        let cut = _mm256_castsi256_si128(cut);
        _mm_storeu_si128(vector.length.as_mut_ptr().add(at).cast(), cut);
    }
    true
}
