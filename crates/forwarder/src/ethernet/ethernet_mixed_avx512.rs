//! Classifies frames of several ports and VLANs with AVX-512, 8 lanes a step.

use std::arch::x86_64::*;
use std::sync::atomic::AtomicU64;

use stoa_engine::pool::SLOT;
use stoa_engine::{VECTOR, Vector};

use super::ethernet_kernel::{AHEAD, Lanes, STEP, prefetch};
use super::ethernet_mixed::{
    AT_PORT, COMPARED, HEADER, HEADER_MASK, Headers, IP, IP6, MAC, Mixed, READ,
};
use super::vlan_table::{HAS_INNER, IS_802_1AD, NO_KEY, OUTER, PORT};

/// The first step of [`super::ethernet_mixed::classify`].
pub fn read(vector: &Vector, pending: &Lanes, headers: &mut Headers) -> bool {
    assert!(crate::kernel::Kernel::Avx512.is_available());
    // SAFETY: asserted above: the processor has AVX-512 F, BW, DQ and VL.
    unsafe { read_all(vector, pending, headers) }
}

/// The last step.
pub fn finish(
    vector: &mut Vector,
    pending: &Lanes,
    headers: &Headers,
    links: &[AtomicU64],
) -> Mixed {
    assert!(crate::kernel::Kernel::Avx512.is_available());
    assert!(links.len().is_power_of_two());
    // SAFETY: asserted above: the processor has AVX-512 F, BW, DQ and VL.
    unsafe { finish_all(vector, pending, headers, links) }
}

/// All 64-bit lanes.
#[target_feature(enable = "avx512f")]
#[inline]
fn all(value: u64) -> __m512i {
    _mm512_set1_epi64(value as i64)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn read_all(vector: &Vector, pending: &Lanes, headers: &mut Headers) -> bool {
    let lanes = vector.len();
    for lane in 0..lanes.min(STEP * AHEAD) {
        prefetch(vector, lane);
    }
    let mut has_keys = 0;
    for (step, pending) in pending.iter().enumerate().take(lanes.div_ceil(STEP)) {
        let at = step * STEP;
        for lane in lanes.min(at + STEP * AHEAD)..lanes.min(at + STEP * (AHEAD + 1)) {
            prefetch(vector, lane);
        }
        if *pending == 0 {
            continue;
        }
        let in_use = ((1_u16 << (lanes - at).min(STEP)) - 1) as __mmask8;
        let (keys, words) = read_8(vector, at, pending & in_use);
        has_keys |= _mm512_cmpneq_epi64_mask(keys, all(NO_KEY)) & pending;
        // SAFETY: 8 elements of each column follow `at`, as asserted in `read_8`.
        unsafe {
            _mm512_mask_storeu_epi64(headers.keys.as_mut_ptr().add(at).cast(), *pending, keys);
            _mm512_mask_storeu_epi64(headers.words.as_mut_ptr().add(at).cast(), *pending, words);
        }
    }
    has_keys != 0
}

/// The words of 8 lanes at 0 and 12 of the frames, where frames of at least 14 bytes can be read
/// (the mask), and those at 20 for the lanes that are asked for.
struct Frames {
    readable: __mmask8,
    head: __m512i,
    tags: __m512i,
    place: __m512i,
    length: __m512i,
}

impl Frames {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    fn load(vector: &Vector, at: usize, wanted: __mmask8) -> Self {
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
        let (ids, offsets) = (_mm512_cvtepu32_epi64(ids), _mm512_cvtepu16_epi64(offsets));
        let length = _mm512_cvtepu16_epi64(lengths);
        let inside = _mm512_mask_cmplt_epu64_mask(wanted, ids, all(pool.count().into()));
        let inside = _mm512_mask_cmple_epu64_mask(inside, offsets, all((SLOT - READ) as u64));
        let readable = _mm512_mask_cmpge_epu64_mask(inside, length, all(14));
        let place = _mm512_add_epi64(_mm512_mul_epu32(ids, all(SLOT as u64)), offsets);
        let base = pool.base().as_ptr().cast_const();
        let zero = _mm512_setzero_si512();
        // SAFETY: lanes in `readable` own a slot of the pool and read the first `READ` bytes of the
        // frame within it; other lanes are not loaded.
        let (head, tags) = unsafe {
            (
                _mm512_mask_i64gather_epi64::<1>(zero, readable, place, base.cast()),
                _mm512_mask_i64gather_epi64::<1>(zero, readable, place, base.add(12).cast()),
            )
        };
        Self { readable, head, tags, place, length }
    }

    /// The words at 20 in `lanes`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    fn behind_tags(&self, vector: &Vector, lanes: __mmask8) -> __m512i {
        let base = vector.pool().base().as_ptr().cast_const();
        let (zero, lanes) = (_mm512_setzero_si512(), lanes & self.readable);
        // SAFETY: as in `load`.
        unsafe { _mm512_mask_i64gather_epi64::<1>(zero, lanes, self.place, base.add(20).cast()) }
    }
}

/// The keys and words of 8 lanes.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn read_8(vector: &Vector, at: usize, wanted: __mmask8) -> (__m512i, __m512i) {
    let frames = Frames::load(vector, at, wanted);
    // Network byte order: a TPID and a TCI, another TPID and TCI.
    let order =
        _mm512_broadcast_i64x2(_mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607));
    let tags = _mm512_shuffle_epi8(frames.tags, order);
    let first = _mm512_srli_epi64::<48>(tags);
    let second = _mm512_and_si512(_mm512_srli_epi64::<16>(tags), all(0xffff));
    let is = |lanes, type_, value| _mm512_mask_cmpeq_epi64_mask(lanes, type_, all(value));
    let (outer_q, outer_ad) =
        (is(frames.readable, first, 0x8100), is(frames.readable, first, 0x88a8));
    let tagged = outer_q | outer_ad;
    let (inner_q, inner_ad) = (is(tagged, second, 0x8100), is(tagged, second, 0x88a8));
    let double = inner_q | inner_ad;
    let mut ethertype = _mm512_mask_mov_epi64(first, tagged, second);
    let mut header = _mm512_mask_mov_epi64(all(14), tagged, all(18));
    let mut key = _mm512_and_si512(_mm512_srli_epi64::<{ 32 - OUTER }>(tags), all(0xfff << OUTER));
    key = _mm512_mask_or_epi64(key, outer_ad, key, all(IS_802_1AD << OUTER));
    if double != 0 {
        let behind = _mm512_shuffle_epi8(frames.behind_tags(vector, double), order);
        ethertype = _mm512_mask_srli_epi64::<48>(ethertype, double, behind);
        header = _mm512_mask_mov_epi64(header, double, all(22));
        let inner = _mm512_or_si512(_mm512_and_si512(tags, all(0xfff)), all(HAS_INNER));
        key = _mm512_mask_or_epi64(key, double, key, inner);
        key = _mm512_mask_or_epi64(key, inner_ad, key, all(IS_802_1AD));
    }
    let whole = _mm512_mask_cmpge_epu64_mask(frames.readable, frames.length, header);
    let (ip4, ip6) = (is(whole, ethertype, 0x0800), is(whole, ethertype, 0x86dd));
    let ip = ip4 | ip6;
    // SAFETY: 8 elements of the column follow `at`, as asserted in `load`.
    let ports = unsafe { _mm256_loadu_si256(vector.rx_if.as_ptr().add(at).cast()) };
    let port = _mm512_slli_epi64::<PORT>(_mm512_cvtepu32_epi64(ports));
    let key = _mm512_mask_or_epi64(all(NO_KEY), ip & tagged, key, port);
    let priority = _mm512_mask_testn_epi64_mask(outer_q & !double, tags, all(0xfff << 32));
    let word = _mm512_and_si512(frames.head, all(MAC));
    let word = _mm512_or_si512(word, _mm512_slli_epi64::<HEADER>(header));
    let word = _mm512_maskz_or_epi64(ip, word, all(IP));
    let word = _mm512_mask_or_epi64(word, ip6, word, all(IP6));
    let at_port = ip & (!tagged | priority);
    (key, _mm512_mask_or_epi64(word, at_port, word, all(AT_PORT)))
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn finish_all(
    vector: &mut Vector,
    pending: &Lanes,
    headers: &Headers,
    links: &[AtomicU64],
) -> Mixed {
    let mut mixed = Mixed::default();
    let (mut any4, mut any6) = (0, 0);
    for step in 0..vector.len().div_ceil(STEP) {
        let pending = pending[step];
        if pending == 0 {
            continue;
        }
        let (classified, ip6, tagged) = finish_8(vector, step * STEP, pending, headers, links);
        any4 |= classified & !ip6;
        any6 |= ip6;
        mixed.exceptions[step] = pending & !classified;
        mixed.tagged[step] = tagged;
    }
    mixed.families = [any4 != 0, any6 != 0];
    mixed
}

/// Finishes 8 lanes: returns those that are classified, with IPv6, and with a sub-interface.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn finish_8(
    vector: &mut Vector,
    at: usize,
    pending: __mmask8,
    headers: &Headers,
    links: &[AtomicU64],
) -> (__mmask8, __mmask8, __mmask8) {
    assert!(at <= VECTOR - STEP);
    // SAFETY: 8 elements of each column follow `at`.
    let (words, found, ports) = unsafe {
        (
            _mm512_loadu_si512(headers.words.as_ptr().add(at).cast()),
            _mm256_loadu_si256(headers.found.as_ptr().add(at).cast()),
            _mm256_loadu_si256(vector.rx_if.as_ptr().add(at).cast()),
        )
    };
    let absent = _mm256_cmpeq_epi32_mask(found, _mm256_set1_epi32(-1));
    let at_port = _mm512_test_epi64_mask(words, all(AT_PORT));
    let ip = _mm512_mask_test_epi64_mask(pending, words, all(IP)) & (at_port | !absent);
    let interface = _mm256_mask_mov_epi32(found, absent, ports);
    let index = _mm256_and_si256(interface, _mm256_set1_epi32((links.len() - 1) as i32));
    // SAFETY: the size is a power of two, so that the mask keeps each index inside the table. The
    // control thread stores these words atomically while we gather: each lane is one aligned load
    // of 8 bytes, which x86-64 performs whole.
    let link = unsafe { _mm512_i32gather_epi64::<8>(index, links.as_ptr().cast()) };
    let differs = _mm512_xor_si512(link, words);
    let classified = _mm512_mask_testn_epi64_mask(ip, differs, all(COMPARED));
    let ip6 = _mm512_mask_test_epi64_mask(classified, words, all(IP6));
    let header = _mm512_and_si512(_mm512_srli_epi64::<HEADER>(words), all(HEADER_MASK));
    let header = _mm512_cvtepi64_epi16(header);
    let next = _mm_maskz_set1_epi16(ip6, 1);
    // SAFETY: as for the loads of the columns.
    unsafe {
        let offset = vector.offset.as_mut_ptr().add(at);
        let length = vector.length.as_mut_ptr().add(at);
        let rest = _mm_sub_epi16(_mm_loadu_si128(length.cast()), header);
        let start = _mm_add_epi16(_mm_loadu_si128(offset.cast()), header);
        _mm_mask_storeu_epi16(offset.cast(), classified, start);
        _mm_mask_storeu_epi16(length.cast(), classified, rest);
        _mm_mask_storeu_epi16(vector.next.as_mut_ptr().add(at).cast(), classified, next);
        let rx_if = vector.rx_if.as_mut_ptr().add(at).cast();
        _mm256_mask_storeu_epi32(rx_if, classified, interface);
    }
    (classified, ip6, _mm256_mask_cmpneq_epi32_mask(classified, interface, ports))
}
