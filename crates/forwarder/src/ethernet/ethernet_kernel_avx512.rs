//! Frames that are plain in every way, 8 lanes a step with AVX-512: untagged, of
//! one interface, to its MAC address, and of one ethertype.

use std::arch::x86_64::*;

use stoa_engine::Vector;
use stoa_engine::pool::SLOT;
use stoa_engine::vector::prefetch;

/// Bytes of an Ethernet header.
const HEADER: i64 = 14;
/// How many steps ahead headers are fetched into the cache.
const AHEAD: usize = 2;

/// Whether every lane is an untagged frame to `mac` (first six bytes of the word)
/// with ethertype IPv4 or IPv6, the same for all: then the data of all lanes moves
/// behind the header, and the ethertype is returned. Else nothing is changed.
pub fn all_plain(vector: &mut Vector, mac: u64) -> Option<u16> {
    assert!(crate::kernel::Kernel::Avx512.is_here());
    // SAFETY: the processor has AVX-512 F, BW, DQ and VL: asked just now.
    unsafe { look(vector, mac) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn look(vector: &mut Vector, mac: u64) -> Option<u16> {
    let lanes = vector.len();
    for lane in 0..lanes.min(8 * AHEAD) {
        ahead(vector, lane);
    }
    let mut ethertype = None;
    for at in (0..lanes).step_by(8) {
        let fetch = at + 8 * AHEAD;
        for lane in fetch..lanes.min(fetch + 8) {
            ahead(vector, lane);
        }
        let in_use = ((1u16 << (lanes - at).min(8)) - 1) as __mmask8;
        let found = step(vector, at, in_use, mac, ethertype)?;
        ethertype = Some(found);
    }
    let found = ethertype?;
    let known = matches!(found, 0x0800 | 0x86dd);
    known.then(|| {
        let behind = HEADER as u16;
        vector.offset[..lanes].iter_mut().for_each(|offset| *offset += behind);
        vector.length[..lanes].iter_mut().for_each(|length| *length -= behind);
        found
    })
}

#[inline(always)]
fn ahead(vector: &Vector, lane: usize) {
    let place = vector.buffers()[lane] as usize * SLOT + vector.offset[lane] as usize;
    prefetch(vector.pool().base().as_ptr().wrapping_add(place));
}

/// Looks at 8 lanes; the ethertype when all in use are plain and have `before`'s.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn step(
    vector: &Vector,
    at: usize,
    in_use: __mmask8,
    mac: u64,
    before: Option<u16>,
) -> Option<u16> {
    let pool = vector.pool();
    // SAFETY: `at` is a multiple of 8 below VECTOR: 8 elements of each column follow it.
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
    let word = |value: i64| _mm512_set1_epi64(value);
    // What may be read: a buffer of this pool, and a header inside the slot.
    let inside = _mm512_mask_cmplt_epu64_mask(in_use, ids, word(i64::from(pool.count())));
    let inside = _mm512_mask_cmple_epu64_mask(inside, offsets, word(SLOT as i64 - HEADER));
    let inside = _mm512_mask_cmpge_epu64_mask(inside, lengths, word(HEADER));
    if inside != in_use {
        return None;
    }
    let place = _mm512_add_epi64(_mm512_mullo_epi64(ids, word(SLOT as i64)), offsets);
    let base = pool.base().as_ptr().cast_const();
    // SAFETY: lanes in `inside` own a slot of the pool and read 14 bytes within it;
    // other lanes are not loaded.
    let (head, tail) = unsafe {
        let zero = _mm512_setzero_si512();
        (
            _mm512_mask_i64gather_epi64::<1>(zero, inside, place, base.cast()),
            _mm512_mask_i64gather_epi64::<1>(zero, inside, place, base.add(6).cast()),
        )
    };
    let to_us = _mm512_mask_cmpeq_epi64_mask(
        inside,
        _mm512_and_si512(head, word(0xffff_ffff_ffff)),
        word(mac as i64),
    );
    let kinds = _mm512_srli_epi64::<48>(tail);
    let first = _mm_cvtsi128_si64(_mm512_castsi512_si128(kinds)) as u16;
    let same = _mm512_mask_cmpeq_epi64_mask(to_us, kinds, word(i64::from(first)));
    let kind = first.swap_bytes();
    (same == in_use && before.is_none_or(|before| before == kind)).then_some(kind)
}
