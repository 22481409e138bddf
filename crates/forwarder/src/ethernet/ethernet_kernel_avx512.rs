//! Classifies frames with AVX-512, 8 lanes a step: IPv4 or IPv6 to one MAC address, untagged or with
//! the same VLAN tag.

use std::arch::x86_64::*;

use stoa_engine::pool::SLOT;
use stoa_engine::{VECTOR, Vector};

use super::ethernet_kernel::{AHEAD, Classified, FramePattern, STEP, prefetch};

/// See [`super::ethernet_kernel::classify`].
pub fn classify(vector: &mut Vector, pattern: &FramePattern) -> Classified {
    assert!(crate::kernel::Kernel::Avx512.is_available());
    // SAFETY: asserted above: the processor has AVX-512 F, BW, DQ and VL.
    unsafe { all(vector, pattern) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn all(vector: &mut Vector, pattern: &FramePattern) -> Classified {
    let lanes = vector.len();
    for lane in 0..lanes.min(STEP * AHEAD) {
        prefetch(vector, lane);
    }
    let mut exceptions = [0; VECTOR / STEP];
    let (mut any4, mut any6, mut packets) = (0, 0, 0);
    let mut bytes = _mm512_setzero_si512();
    for (step, exceptions) in exceptions.iter_mut().enumerate().take(lanes.div_ceil(STEP)) {
        let at = step * STEP;
        for lane in lanes.min(at + STEP * AHEAD)..lanes.min(at + STEP * (AHEAD + 1)) {
            prefetch(vector, lane);
        }
        let in_use = ((1_u16 << (lanes - at).min(STEP)) - 1) as __mmask8;
        let [ip4, ip6] = classify_8(vector, pattern, at, in_use, &mut bytes);
        any4 |= ip4;
        any6 |= ip6;
        packets += (ip4 | ip6).count_ones();
        *exceptions = in_use & !(ip4 | ip6);
    }
    let bytes = _mm512_reduce_add_epi64(bytes) as u64;
    Classified { exceptions, families: [any4 != 0, any6 != 0], counts: (packets.into(), bytes) }
}

/// Classifies 8 lanes: returns the matching ones with IPv4 and with IPv6.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn classify_8(
    vector: &mut Vector,
    pattern: &FramePattern,
    at: usize,
    in_use: __mmask8,
    bytes: &mut __m512i,
) -> [__mmask8; 2] {
    let pool = vector.pool();
    assert!(at <= VECTOR - STEP);
    // SAFETY: 8 elements of each column follow `at`.
    let (ids, narrow_offsets, narrow_lengths) = unsafe {
        (
            _mm256_loadu_si256(vector.buffers().as_ptr().add(at).cast()),
            _mm_loadu_si128(vector.offset.as_ptr().add(at).cast()),
            _mm_loadu_si128(vector.length.as_ptr().add(at).cast()),
        )
    };
    let ids = _mm512_cvtepu32_epi64(ids);
    let offsets = _mm512_cvtepu16_epi64(narrow_offsets);
    let lengths = _mm512_cvtepu16_epi64(narrow_lengths);
    let word = |value: u64| _mm512_set1_epi64(value as i64);
    // Lanes that can be loaded: a buffer of this pool, with the header inside the slot.
    let header = pattern.header as u64;
    let inside = _mm512_mask_cmplt_epu64_mask(in_use, ids, word(pool.count().into()));
    let inside = _mm512_mask_cmple_epu64_mask(inside, offsets, word(SLOT as u64 - header));
    let inside = _mm512_mask_cmpge_epu64_mask(inside, lengths, word(header));
    let place = _mm512_add_epi64(_mm512_mul_epu32(ids, word(SLOT as u64)), offsets);
    let base = pool.base().as_ptr().cast_const();
    let zero = _mm512_setzero_si512();
    // SAFETY: lanes in `inside` own a slot of the pool and read `header` bytes within it;
    // other lanes are not loaded.
    let (head, tail) = unsafe {
        (
            _mm512_mask_i64gather_epi64::<1>(zero, inside, place, base.cast()),
            _mm512_mask_i64gather_epi64::<1>(
                zero,
                inside,
                place,
                base.add(pattern.header - 8).cast(),
            ),
        )
    };
    let to = _mm512_and_si512(head, word(0xffff_ffff_ffff));
    let to_us = _mm512_mask_cmpeq_epi64_mask(inside, to, word(pattern.mac));
    let tag = _mm512_and_si512(tail, word(pattern.mask));
    let to_us = _mm512_mask_cmpeq_epi64_mask(to_us, tag, word(pattern.tag));
    let kind = _mm512_srli_epi64::<48>(tail);
    let of = |ethertype: u16| {
        _mm512_mask_cmpeq_epi64_mask(to_us, kind, word(ethertype.swap_bytes().into()))
    };
    let (ip4, ip6) = (of(0x0800), of(0x86dd));
    let both = ip4 | ip6;
    let header = _mm_set1_epi16(pattern.header as i16);
    let next = _mm_maskz_set1_epi16(ip6, 1);
    // SAFETY: same as for the loads of the columns.
    unsafe {
        let offset = _mm_add_epi16(narrow_offsets, header);
        let length = _mm_sub_epi16(narrow_lengths, header);
        _mm_mask_storeu_epi16(vector.offset.as_mut_ptr().add(at).cast(), both, offset);
        _mm_mask_storeu_epi16(vector.length.as_mut_ptr().add(at).cast(), both, length);
        _mm_mask_storeu_epi16(vector.next.as_mut_ptr().add(at).cast(), both, next);
    }
    *bytes = _mm512_mask_add_epi64(*bytes, both, *bytes, lengths);
    [ip4, ip6]
}
