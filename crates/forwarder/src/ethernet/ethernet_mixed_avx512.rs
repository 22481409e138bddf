//! Classifies frames of several ports and VLANs with AVX-512, 8 lanes a step.

use std::arch::x86_64::*;
use std::sync::atomic::AtomicU64;

use stoa_engine::{VECTOR, Vector};

use super::ethernet_kernel::{AHEAD, Lanes, STEP};
use super::ethernet_mixed::{
    AT_PORT, COMPARED, HEADER, HEADER_MASK, Headers, IP, IP6, MAC, Mixed, READ,
};
use super::vlan_table::{HAS_INNER, IS_802_1AD, NO_KEY, OUTER, PORT};
use crate::columns_avx512::{Packets, step_16};

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
    let mut packets = Packets::<READ>::new(vector.pool());
    packets.locate(vector, 14);
    let steps = vector.len().div_ceil(STEP);
    (0..AHEAD).for_each(|step| packets.prefetch(step));
    let mut has_keys = 0;
    for (step, pending) in pending.iter().enumerate().take(steps) {
        let at = step * STEP;
        packets.prefetch(step + AHEAD);
        if *pending == 0 {
            continue;
        }
        let (keys, words) = read_8(vector, step, *pending, &packets);
        has_keys |= _mm512_cmpneq_epi64_mask(keys, all(NO_KEY)) & pending;
        // SAFETY: 8 elements of each column follow `at`, as asserted in `read_8`.
        unsafe {
            _mm512_mask_storeu_epi64(headers.keys.as_mut_ptr().add(at).cast(), *pending, keys);
            _mm512_mask_storeu_epi64(headers.words.as_mut_ptr().add(at).cast(), *pending, words);
        }
    }
    has_keys != 0
}

/// The keys and words of 8 lanes.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn read_8(
    vector: &Vector,
    step: usize,
    pending: __mmask8,
    packets: &Packets<READ>,
) -> (__m512i, __m512i) {
    let at = step * STEP;
    assert!(at < vector.len());
    // SAFETY: the vector owns its lanes.
    let heads = unsafe { packets.heads(step) };
    let (head, tags, behind) = (heads.words(0), heads.words(12 / 4), heads.words(20 / 4));
    let readable = packets.inside[step] & pending;
    let length = _mm512_cvtepu16_epi64(step_16(&vector.length, step));
    // Network byte order: a TPID and a TCI, another TPID and TCI.
    let order =
        _mm512_broadcast_i64x2(_mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607));
    let tags = _mm512_shuffle_epi8(tags, order);
    let first = _mm512_srli_epi64::<48>(tags);
    let second = _mm512_and_si512(_mm512_srli_epi64::<16>(tags), all(0xffff));
    let is = |lanes, type_, value| _mm512_mask_cmpeq_epi64_mask(lanes, type_, all(value));
    let (outer_q, outer_ad) = (is(readable, first, 0x8100), is(readable, first, 0x88a8));
    let tagged = outer_q | outer_ad;
    let (inner_q, inner_ad) = (is(tagged, second, 0x8100), is(tagged, second, 0x88a8));
    let double = inner_q | inner_ad;
    let ethertype = _mm512_mask_mov_epi64(first, tagged, second);
    let behind = _mm512_shuffle_epi8(behind, order);
    let ethertype = _mm512_mask_srli_epi64::<48>(ethertype, double, behind);
    let header = _mm512_mask_mov_epi64(all(14), tagged, all(18));
    let header = _mm512_mask_mov_epi64(header, double, all(22));
    let key = _mm512_and_si512(_mm512_srli_epi64::<{ 32 - OUTER }>(tags), all(0xfff << OUTER));
    let key = _mm512_mask_or_epi64(key, outer_ad, key, all(IS_802_1AD << OUTER));
    let inner = _mm512_or_si512(_mm512_and_si512(tags, all(0xfff)), all(HAS_INNER));
    let key = _mm512_mask_or_epi64(key, double, key, inner);
    let key = _mm512_mask_or_epi64(key, inner_ad, key, all(IS_802_1AD));
    let whole = _mm512_mask_cmpge_epu64_mask(readable, length, header);
    let (ip4, ip6) = (is(whole, ethertype, 0x0800), is(whole, ethertype, 0x86dd));
    let ip = ip4 | ip6;
    // SAFETY: 8 elements of the column follow `at`, a multiple of 8 below the number of lanes.
    let ports = unsafe { _mm256_loadu_si256(vector.rx_if.as_ptr().add(at).cast()) };
    let port = _mm512_slli_epi64::<PORT>(_mm512_cvtepu32_epi64(ports));
    let key = _mm512_mask_or_epi64(all(NO_KEY), ip & tagged, key, port);
    let priority = _mm512_mask_testn_epi64_mask(outer_q & !double, tags, all(0xfff << 32));
    let word = _mm512_and_si512(head, all(MAC));
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
    let steps = vector.len().div_ceil(STEP);
    // Those of all steps, before the first link is loaded: a load that has to wait for the store of its
    // index takes longer.
    let mut indexes = Indexes([[0; STEP]; VECTOR / STEP]);
    for (step, indexes) in indexes.0.iter_mut().enumerate().take(steps) {
        let (interface, ..) = interface_8(vector, step * STEP, headers);
        let index = _mm256_and_si256(interface, _mm256_set1_epi32((links.len() - 1) as i32));
        // SAFETY: the indexes of a step are one vector.
        unsafe { _mm256_storeu_si256(indexes.as_mut_ptr().cast(), index) };
    }
    for step in 0..steps {
        let pending = pending[step];
        if pending == 0 {
            continue;
        }
        // SAFETY: the size is a power of two, so that the mask has kept each index inside the table.
        let link = unsafe { load_links(links, &indexes.0[step]) };
        let (classified, ip6, tagged) = finish_8(vector, step * STEP, pending, headers, link);
        any4 |= classified & !ip6;
        any6 |= ip6;
        mixed.exceptions[step] = pending & !classified;
        mixed.tagged[step] = tagged;
    }
    mixed.families = [any4 != 0, any6 != 0];
    mixed
}

/// By step: the indexes of the links of the lanes' interfaces.
#[repr(align(64))]
struct Indexes([[u32; STEP]; VECTOR / STEP]);

/// The interfaces of 8 lanes, the lanes without a sub-interface, and the interfaces of their ports.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn interface_8(vector: &Vector, at: usize, headers: &Headers) -> (__m256i, __mmask8, __m256i) {
    assert!(at <= VECTOR - STEP);
    // SAFETY: 8 elements of each column follow `at`.
    let (found, ports) = unsafe {
        (
            _mm256_loadu_si256(headers.found.as_ptr().add(at).cast()),
            _mm256_loadu_si256(vector.rx_if.as_ptr().add(at).cast()),
        )
    };
    let absent = _mm256_cmpeq_epi32_mask(found, _mm256_set1_epi32(-1));
    (_mm256_mask_mov_epi32(found, absent, ports), absent, ports)
}

/// Finishes 8 lanes with these links: returns those that are classified, with IPv6, and with a
/// sub-interface.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn finish_8(
    vector: &mut Vector,
    at: usize,
    pending: __mmask8,
    headers: &Headers,
    link: __m512i,
) -> (__mmask8, __mmask8, __mmask8) {
    let (interface, absent, ports) = interface_8(vector, at, headers);
    // SAFETY: 8 elements of the column follow `at`, asserted in `interface_8`.
    let words = unsafe { _mm512_loadu_si512(headers.words.as_ptr().add(at).cast()) };
    let at_port = _mm512_test_epi64_mask(words, all(AT_PORT));
    let ip = _mm512_mask_test_epi64_mask(pending, words, all(IP)) & (at_port | !absent);
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

/// The links at 8 indexes: two loads to a vector of 16 bytes, which take less time than a gather.
///
/// # Safety
/// Each index is inside the table.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
unsafe fn load_links(links: &[AtomicU64], at: &[u32; STEP]) -> __m512i {
    // SAFETY: the caller keeps each index inside the table. The control thread stores these words
    // atomically while we load them: each is one aligned load of 8 bytes, which x86-64 performs whole.
    // The load of an index is volatile: else the compiler may load all at once, and take each out of a
    // register by two instructions.
    unsafe {
        let link = |lane: usize| {
            let at = std::ptr::from_ref(&at[lane]).read_volatile();
            links.as_ptr().add(at as usize)
        };
        let two = |lane: usize| {
            let low = _mm_castsi128_pd(_mm_loadl_epi64(link(lane).cast()));
            _mm_castpd_si128(_mm_loadh_pd(low, link(lane + 1).cast()))
        };
        let four = |lane: usize| {
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(two(lane)), two(lane + 2))
        };
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(four(0)), four(4))
    }
}
