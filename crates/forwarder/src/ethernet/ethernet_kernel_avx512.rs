//! Classifies frames with AVX-512, 8 lanes a step: IPv4 or IPv6 to one MAC address, untagged or with
//! the same VLAN tag.

use std::arch::x86_64::*;

use stoa_engine::{VECTOR, Vector};

use super::ethernet_kernel::{AHEAD, Classified, FramePattern, STEP};
use crate::columns_avx512::{HEAD, Packets, step_16};

/// See [`super::ethernet_kernel::classify`].
pub fn classify(vector: &mut Vector, pattern: &FramePattern) -> Classified {
    assert!(crate::kernel::Kernel::Avx512.is_available());
    // SAFETY: asserted above: the processor has AVX-512 F, BW, DQ and VL.
    unsafe { all(vector, pattern) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn all(vector: &mut Vector, pattern: &FramePattern) -> Classified {
    let lanes = vector.len();
    let mut packets = Packets::<HEAD>::new(vector.pool());
    packets.locate(vector, pattern.header);
    let steps = lanes.div_ceil(STEP);
    (0..AHEAD).for_each(|step| packets.prefetch(step));
    let mut exceptions = [0; VECTOR / STEP];
    let (mut any4, mut any6) = (0, 0);
    // Packets are counted like bytes: the kernel cannot rely on the instruction that counts bits, and without
    // it that takes a dozen.
    let mut counts = [_mm512_setzero_si512(); 2];
    for (step, exceptions) in exceptions.iter_mut().enumerate().take(steps) {
        let at = step * STEP;
        packets.prefetch(step + AHEAD);
        let in_use = ((1_u16 << (lanes - at).min(STEP)) - 1) as __mmask8;
        let [ip4, ip6] = classify_8(vector, pattern, step, &packets, &mut counts);
        any4 |= ip4;
        any6 |= ip6;
        *exceptions = in_use & !(ip4 | ip6);
    }
    let [packets, bytes] = counts;
    let counts = (_mm512_reduce_add_epi64(packets) as u64, _mm512_reduce_add_epi64(bytes) as u64);
    Classified { exceptions, families: [any4 != 0, any6 != 0], counts }
}

/// Classifies 8 lanes: returns the matching ones with IPv4 and with IPv6, and adds to packets and bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn classify_8(
    vector: &mut Vector,
    pattern: &FramePattern,
    step: usize,
    packets: &Packets<HEAD>,
    [packet_count, bytes]: &mut [__m512i; 2],
) -> [__mmask8; 2] {
    let at = step * STEP;
    assert!(at < vector.len());
    // SAFETY: the vector owns its lanes.
    let heads = unsafe { packets.heads(step) };
    let inside = packets.inside[step];
    let narrow_offsets = step_16(&vector.offset, step);
    let narrow_lengths = step_16(&vector.length, step);
    let lengths = _mm512_cvtepu16_epi64(narrow_lengths);
    let word = |value: u64| _mm512_set1_epi64(value as i64);
    let head = heads.words(0);
    // The last six bytes of the header, above two others, which the pattern does not have.
    let tail = _mm512_slli_epi64::<16>(heads.words(pattern.header / 4 - 1));
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
    // SAFETY: 8 elements of each column follow `at`, a multiple of 8 below the number of lanes.
    unsafe {
        let offset = _mm_add_epi16(narrow_offsets, header);
        let length = _mm_sub_epi16(narrow_lengths, header);
        _mm_mask_storeu_epi16(vector.offset.as_mut_ptr().add(at).cast(), both, offset);
        _mm_mask_storeu_epi16(vector.length.as_mut_ptr().add(at).cast(), both, length);
        _mm_mask_storeu_epi16(vector.next.as_mut_ptr().add(at).cast(), both, next);
    }
    *packet_count = _mm512_mask_add_epi64(*packet_count, both, *packet_count, word(1));
    *bytes = _mm512_mask_add_epi64(*bytes, both, *bytes, lengths);
    [ip4, ip6]
}
