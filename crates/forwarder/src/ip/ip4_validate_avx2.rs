//! IPv4 header checks with AVX2, 8 lanes a step: the kernel transposes the headers so that a vector
//! holds one word of each, then checks checksum, version, lengths and addresses in parallel. A step
//! with an exception goes through the scalar code.

use std::arch::x86_64::*;

use stoa_engine::pool::SLOT;
use stoa_engine::{VECTOR, Vector};

use super::ip4_validate::{Validated, validate_lane};
use crate::columns_avx2::{Columns, STEP, load_16, transpose};

/// Same result as [`super::ip4_validate::validate_scalar`].
pub fn validate(vector: &mut Vector, validated: &mut Validated) {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2.
    unsafe { validate_all(vector, validated) }
}

#[target_feature(enable = "avx2")]
fn validate_all(vector: &mut Vector, validated: &mut Validated) {
    validated.exceptions = [0; VECTOR / 16];
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
    if !columns.are_inside(pool, 0, 20) {
        return false;
    }
    let places = columns.places();
    // SAFETY: the first 20 bytes of each lane are inside its buffer.
    let (head, tail) = unsafe { (load_16(pool, &places, 0), load_16(pool, &places, 4)) };
    let [first, second, third, source] = transpose(head);
    let [a, b, c, d] = tail;
    let destination =
        _mm256_unpackhi_epi64(_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));

    let word = |value: i32| _mm256_set1_epi32(value);
    // The one's complement sum does not depend on the byte order: 16-bit words are added as loaded.
    // The carry of ten words is at most 9, so one fold suffices to test whether all bits are set.
    let low = word(0xffff);
    let pair =
        |value| _mm256_add_epi32(_mm256_and_si256(value, low), _mm256_srli_epi32::<16>(value));
    let sum = _mm256_add_epi32(pair(first), pair(second));
    let sum = _mm256_add_epi32(sum, _mm256_add_epi32(pair(third), pair(source)));
    let sum = pair(_mm256_add_epi32(sum, pair(destination)));
    let wrong = _mm256_xor_si256(sum, low);

    let byte = |value| _mm256_and_si256(value, word(0xff));
    let wrong = _mm256_or_si256(wrong, _mm256_xor_si256(byte(first), word(0x45)));
    // Bytes 3 and 2 of each word, then zeros: the total length in host order.
    let swap = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        3, 2, -1, -1, 7, 6, -1, -1, 11, 10, -1, -1, 15, 14, -1, -1,
    ));
    let total = _mm256_shuffle_epi8(first, swap);
    // A length beyond the slot is clamped to it, as in `Vector::bytes`.
    let room = _mm_sub_epi16(_mm_set1_epi16(SLOT as i16), columns.offset);
    let length = _mm256_cvtepu16_epi32(_mm_min_epu16(columns.length, room));
    let wrong = _mm256_or_si256(wrong, _mm256_cmpgt_epi32(total, length));
    let wrong = _mm256_or_si256(wrong, _mm256_cmpgt_epi32(word(20), total));
    // First octets: not 0, not 127, below 224 (RFC 1812 5.3.7).
    let is_martian = |octet| {
        let zero_or_loopback = _mm256_or_si256(
            _mm256_cmpeq_epi32(octet, _mm256_setzero_si256()),
            _mm256_cmpeq_epi32(octet, word(127)),
        );
        _mm256_or_si256(zero_or_loopback, _mm256_cmpgt_epi32(octet, word(223)))
    };
    let wrong = _mm256_or_si256(wrong, is_martian(byte(source)));
    let wrong = _mm256_or_si256(wrong, is_martian(byte(destination)));
    if _mm256_testz_si256(wrong, wrong) == 0 {
        return false;
    }
    let swap = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12,
    ));
    let host = _mm256_shuffle_epi8(destination, swap);
    let cut = _mm256_permute4x64_epi64::<0b10_00>(_mm256_packus_epi32(total, total));
    // SAFETY: 8 elements of each column follow `at`.
    unsafe {
        _mm256_storeu_si256(validated.destination.as_mut_ptr().add(at).cast(), host);
        let cut = _mm256_castsi256_si128(cut);
        _mm_storeu_si128(vector.length.as_mut_ptr().add(at).cast(), cut);
    }
    true
}
