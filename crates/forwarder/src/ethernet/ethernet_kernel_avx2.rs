//! Classifies frames with AVX2, 8 lanes a step: IPv4 or IPv6 to one MAC address, untagged or with the
//! same VLAN tag.

use std::arch::x86_64::*;

use stoa_engine::pool::SLOT;
use stoa_engine::{VECTOR, Vector};

use super::ethernet_kernel::{AHEAD, Classified, FramePattern, STEP};
use crate::columns_avx2::{Columns, Places, bits_16, load_16, mask_16};

/// Bytes of an untagged header.
const UNTAGGED: usize = 14;

/// See [`super::ethernet_kernel::classify`]. Lanes of a step with a short frame or a jumbo buffer, or
/// of fewer than 8 lanes, are exceptions.
pub fn classify(vector: &mut Vector, pattern: &FramePattern) -> Classified {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2 and POPCNT.
    unsafe { all(vector, pattern) }
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn all(vector: &mut Vector, pattern: &FramePattern) -> Classified {
    let lanes = vector.len();
    let (pool, mut places) = (vector.pool(), Places::new());
    let places = places.locate(vector);
    (0..AHEAD).for_each(|step| places.prefetch(pool, step * STEP));
    let mut exceptions = [0; VECTOR / STEP];
    let (mut any4, mut any6, mut packets) = (0, 0, 0);
    let mut bytes = _mm256_setzero_si256();
    for (step, exceptions) in exceptions.iter_mut().enumerate().take(lanes.div_ceil(STEP)) {
        let at = step * STEP;
        places.prefetch(pool, at + STEP * AHEAD);
        if lanes - at < STEP {
            *exceptions = (1 << (lanes - at)) - 1;
            continue;
        }
        let [ip4, ip6] = classify_8(vector, pattern, (at, places.step(at)), &mut bytes);
        any4 |= ip4;
        any6 |= ip6;
        packets += (ip4 | ip6).count_ones();
        *exceptions = !(ip4 | ip6);
    }
    let mut sums = [0_u32; STEP];
    // SAFETY: the array is one vector.
    unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), bytes) };
    let bytes = sums.iter().map(|sum| u64::from(*sum)).sum();
    Classified { exceptions, families: [any4 != 0, any6 != 0], counts: (packets.into(), bytes) }
}

/// Classifies 8 lanes: returns the matching ones with IPv4 and with IPv6.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
#[inline]
fn classify_8(
    vector: &mut Vector,
    pattern: &FramePattern,
    (at, places): (usize, &[u64; STEP]),
    bytes: &mut __m256i,
) -> [u8; 2] {
    let pool = vector.pool();
    let columns = Columns::load(vector, at);
    // Two loads of 16 bytes: from the start of the frame, and from 8 bytes before the payload.
    let last = pattern.header - 8;
    assert!((UNTAGGED..SLOT - 16).contains(&pattern.header));
    if !columns.are_inside(pool, 0, last + 16) || bits_16(columns.at_least(pattern.header)) != 0xff
    {
        return [0, 0];
    }
    // SAFETY: the first `last + 16` bytes of each lane are inside its buffer.
    let (from, to) = unsafe { (load_16(pool, places, 0), load_16(pool, places, last)) };
    let word = |value: u64| _mm256_set1_epi64x(value as i64);
    // Lanes 0, 1, 4, 5 and lanes 2, 3, 6, 7: the destination and the last eight header bytes.
    let [ip4, ip6] = {
        let half = |a: usize, b: usize| {
            let head = _mm256_unpacklo_epi64(from[a], from[b]);
            let tail = _mm256_unpacklo_epi64(to[a], to[b]);
            let head = _mm256_and_si256(head, word(0xffff_ffff_ffff));
            let to_us = _mm256_cmpeq_epi64(head, word(pattern.mac));
            let tag = _mm256_and_si256(tail, word(pattern.mask));
            let to_us = _mm256_and_si256(to_us, _mm256_cmpeq_epi64(tag, word(pattern.tag)));
            let kind = _mm256_srli_epi64::<48>(tail);
            let of = |ethertype: u16| {
                let is = _mm256_cmpeq_epi64(kind, word(ethertype.swap_bytes().into()));
                _mm256_and_si256(is, to_us)
            };
            [of(0x0800), of(0x86dd)]
        };
        let (low, high) = (half(0, 1), half(2, 3));
        // Packed within halves: lanes 0 to 3, and 4 to 7.
        let of = |family: usize| {
            let lanes = _mm256_packs_epi32(low[family], high[family]);
            _mm256_movemask_ps(_mm256_castsi256_ps(lanes)) as u8
        };
        [of(0), of(1)]
    };
    let both = mask_16(ip4 | ip6);
    let by = _mm_and_si128(both, _mm_set1_epi16(pattern.header as i16));
    // SAFETY: 8 elements of each column follow `at`.
    unsafe {
        let offset = _mm_add_epi16(columns.offset, by);
        _mm_storeu_si128(vector.offset.as_mut_ptr().add(at).cast(), offset);
        let length = _mm_sub_epi16(columns.length, by);
        _mm_storeu_si128(vector.length.as_mut_ptr().add(at).cast(), length);
        let next = vector.next.as_mut_ptr().add(at).cast::<__m128i>();
        let edge = _mm_and_si128(mask_16(ip6), _mm_set1_epi16(1));
        _mm_storeu_si128(next, _mm_blendv_epi8(_mm_loadu_si128(next), edge, both));
    }
    let lengths = _mm256_cvtepu16_epi32(_mm_and_si128(columns.length, both));
    *bytes = _mm256_add_epi32(*bytes, lengths);
    [ip4, ip6]
}
