//! Classifies frames of several ports and VLANs with AVX2, 8 lanes a step.

use std::arch::x86_64::*;
use std::sync::atomic::AtomicU64;

use stoa_engine::{VECTOR, Vector};

use super::ethernet_kernel::{AHEAD, Lanes, STEP};
use super::ethernet_mixed::{
    AT_PORT, COMPARED, HEADER, HEADER_MASK, Headers, IP, IP6, MAC, Mixed, READ, read_lane,
};
use super::vlan_table::{HAS_INNER, IS_802_1AD, NO_KEY, OUTER, PORT};
use crate::columns_avx2::{Columns, Places, load_16, mask_16};

/// Lanes of 64 bits in a vector.
const HALF: usize = STEP / 2;

/// The first step of [`super::ethernet_mixed::classify`].
pub fn read(vector: &Vector, pending: &Lanes, headers: &mut Headers) -> bool {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2 and POPCNT.
    unsafe { read_all(vector, pending, headers) }
}

/// The last step.
pub fn finish(
    vector: &mut Vector,
    pending: &Lanes,
    headers: &Headers,
    links: &[AtomicU64],
) -> Mixed {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    assert!(links.len().is_power_of_two());
    // SAFETY: asserted above: the processor has AVX2 and POPCNT.
    unsafe { finish_all(vector, pending, headers, links) }
}

/// All 64-bit lanes.
#[target_feature(enable = "avx2")]
#[inline]
fn all(value: u64) -> __m256i {
    _mm256_set1_epi64x(value as i64)
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn read_all(vector: &Vector, pending: &Lanes, headers: &mut Headers) -> bool {
    let lanes = vector.len();
    let (pool, mut places) = (vector.pool(), Places::new());
    let places = places.locate(vector);
    (0..AHEAD).for_each(|step| places.prefetch(pool, step * STEP));
    let mut has_keys = 0;
    for (step, pending) in pending.iter().enumerate().take(lanes.div_ceil(STEP)) {
        let at = step * STEP;
        places.prefetch(pool, at + STEP * AHEAD);
        if *pending == 0 {
            continue;
        }
        // Lanes that are not pending are read, too: all must be in use.
        if lanes - at >= STEP
            && let Some(keys) = read_8(vector, (at, places.step(at)), headers)
        {
            has_keys |= keys & pending;
            continue;
        }
        for lane in (at..lanes.min(at + STEP)).filter(|lane| pending >> (lane - at) & 1 == 1) {
            (headers.keys[lane], headers.words[lane]) = read_lane(vector, lane);
            has_keys |= u8::from(headers.keys[lane] != NO_KEY);
        }
    }
    has_keys != 0
}

/// Reads 8 lanes and returns those with a key; `None`: some are not in single buffers, and nothing
/// was read.
#[target_feature(enable = "avx2")]
#[inline]
fn read_8(
    vector: &Vector,
    (at, places): (usize, &[u64; STEP]),
    headers: &mut Headers,
) -> Option<u8> {
    let (pool, columns) = (vector.pool(), Columns::load(vector, at));
    if !columns.are_inside(pool, 0, READ) {
        return None;
    }
    // SAFETY: the first `READ` bytes of each lane are inside its buffer.
    let (from, to) = unsafe { (load_16(pool, places, 0), load_16(pool, places, 12)) };
    // Lanes 0, 1, 4, 5 and lanes 2, 3, 6, 7: from each the lower or the upper half.
    let in_order = |low: __m256i, high: __m256i| {
        [_mm256_permute2x128_si256::<0x20>(low, high), _mm256_permute2x128_si256::<0x31>(low, high)]
    };
    let first_words = |it: &[__m256i; 4], a: usize| _mm256_unpacklo_epi64(it[a], it[a + 1]);
    let head = in_order(first_words(&from, 0), first_words(&from, 2));
    let tags = in_order(first_words(&to, 0), first_words(&to, 2));
    let behind = in_order(_mm256_unpackhi_epi64(to[0], to[1]), _mm256_unpackhi_epi64(to[2], to[3]));
    let mut has_keys = 0;
    for half in 0..2 {
        let at = at + half * HALF;
        // SAFETY: 4 elements of each column follow `at`, as asserted in `Columns::load`.
        unsafe {
            let length = _mm_loadl_epi64(vector.length.as_ptr().add(at).cast());
            let port = _mm_loadu_si128(vector.rx_if.as_ptr().add(at).cast());
            let (length, port) = (_mm256_cvtepu16_epi64(length), _mm256_cvtepu32_epi64(port));
            let (key, word) = read_4([head[half], tags[half], behind[half]], length, port);
            _mm256_storeu_si256(headers.keys.as_mut_ptr().add(at).cast(), key);
            _mm256_storeu_si256(headers.words.as_mut_ptr().add(at).cast(), word);
            // Only NO_KEY has the uppermost bit.
            has_keys |= (!bits_64(key) & 0xf) << (half * HALF);
        }
    }
    Some(has_keys)
}

/// The keys and words of 4 lanes from the words at 0, 12 and 20 of their frames.
#[target_feature(enable = "avx2")]
#[inline]
fn read_4(
    [head, tags, behind]: [__m256i; 3],
    length: __m256i,
    port: __m256i,
) -> (__m256i, __m256i) {
    let (and, or) = (
        |a: __m256i, b: __m256i| _mm256_and_si256(a, b),
        |a: __m256i, b: __m256i| _mm256_or_si256(a, b),
    );
    let is = |type_: __m256i, value: u64| _mm256_cmpeq_epi64(type_, all(value));
    // Network byte order: a TPID and a TCI, another TPID and TCI.
    let order =
        _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607));
    let tags = _mm256_shuffle_epi8(tags, order);
    let first = _mm256_srli_epi64::<48>(tags);
    let second = and(_mm256_srli_epi64::<16>(tags), all(0xffff));
    let third = _mm256_srli_epi64::<48>(_mm256_shuffle_epi8(behind, order));
    let (outer_q, outer_ad) = (is(first, 0x8100), is(first, 0x88a8));
    let tagged = or(outer_q, outer_ad);
    let inner_ad = and(tagged, is(second, 0x88a8));
    let double = or(inner_ad, and(tagged, is(second, 0x8100)));
    let ethertype = _mm256_blendv_epi8(first, second, tagged);
    let ethertype = _mm256_blendv_epi8(ethertype, third, double);
    let header = _mm256_add_epi64(and(tagged, all(4)), and(double, all(4)));
    let header = _mm256_add_epi64(header, all(14));
    let is_ip6 = is(ethertype, 0x86dd);
    let cut = _mm256_cmpgt_epi64(header, length);
    let ip = _mm256_andnot_si256(cut, or(is(ethertype, 0x0800), is_ip6));
    let outer = and(_mm256_srli_epi64::<{ 32 - OUTER as i32 }>(tags), all(0xfff << OUTER));
    let outer = or(outer, and(outer_ad, all(IS_802_1AD << OUTER)));
    let inner = or(and(tags, all(0xfff)), all(HAS_INNER));
    let inner = and(double, or(inner, and(inner_ad, all(IS_802_1AD))));
    let key = or(or(outer, inner), _mm256_slli_epi64::<{ PORT as i32 }>(port));
    let key = _mm256_blendv_epi8(all(NO_KEY), key, and(ip, tagged));
    let is_vid_0 = is(and(tags, all(0xfff << 32)), 0);
    let priority = _mm256_andnot_si256(double, and(outer_q, is_vid_0));
    let at_port = or(priority, _mm256_xor_si256(tagged, all(u64::MAX)));
    let word = or(and(head, all(MAC)), _mm256_slli_epi64::<{ HEADER as i32 }>(header));
    let word = or(or(word, all(IP)), and(is_ip6, all(IP6)));
    (key, and(ip, or(word, and(at_port, all(AT_PORT)))))
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
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
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
#[inline]
fn finish_8(
    vector: &mut Vector,
    at: usize,
    pending: u8,
    headers: &Headers,
    links: &[AtomicU64],
) -> (u8, u8, u8) {
    assert!(at <= VECTOR - STEP);
    // SAFETY: 8 elements of each column follow `at`.
    let (found, ports) = unsafe {
        (
            _mm256_loadu_si256(headers.found.as_ptr().add(at).cast()),
            _mm256_loadu_si256(vector.rx_if.as_ptr().add(at).cast()),
        )
    };
    let absent = _mm256_cmpeq_epi32(found, _mm256_set1_epi32(-1));
    let interface = _mm256_blendv_epi8(found, ports, absent);
    let halves = [_mm256_castsi256_si128(absent), _mm256_extracti128_si256::<1>(absent)];
    let index = _mm256_and_si256(interface, _mm256_set1_epi32((links.len() - 1) as i32));
    // SAFETY: the size is a power of two, so that the mask keeps each index inside the table.
    let link = unsafe { load_links(links, index) };
    let (mut classified, mut ip6) = (0, 0);
    for half in 0..2 {
        // SAFETY: 4 elements of the column follow `at + half * HALF`.
        let words =
            unsafe { _mm256_loadu_si256(headers.words.as_ptr().add(at + half * HALF).cast()) };
        let has = |bit: u64| _mm256_cmpeq_epi64(_mm256_and_si256(words, all(bit)), all(bit));
        let differs = _mm256_and_si256(_mm256_xor_si256(link[half], words), all(COMPARED));
        let same = _mm256_cmpeq_epi64(differs, _mm256_setzero_si256());
        let unknown = _mm256_andnot_si256(has(AT_PORT), _mm256_cvtepi32_epi64(halves[half]));
        let same = _mm256_andnot_si256(unknown, _mm256_and_si256(same, has(IP)));
        classified |= bits_64(same) << (half * HALF);
        ip6 |= bits_64(has(IP6)) << (half * HALF);
    }
    classified &= pending;
    ip6 &= classified;
    let tagged = classified & !bits_32(_mm256_cmpeq_epi32(interface, ports));
    advance_8(vector, at, headers, [classified, ip6]);
    let lanes = mask_32(classified);
    // SAFETY: as for the loads.
    unsafe {
        let interface = _mm256_blendv_epi8(ports, interface, lanes);
        _mm256_storeu_si256(vector.rx_if.as_mut_ptr().add(at).cast(), interface);
    }
    (classified, ip6, tagged)
}

/// The links at 8 indexes: two loads to a vector of 16 bytes, which take less time than a gather.
///
/// # Safety
/// Each index is inside the table.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn load_links(links: &[AtomicU64], index: __m256i) -> [__m256i; 2] {
    let mut at = [0_u32; STEP];
    // SAFETY: the array is one vector. The caller keeps each index inside the table. The control
    // thread stores these words atomically while we load them: each is one aligned load of 8 bytes,
    // which x86-64 performs whole.
    unsafe {
        _mm256_storeu_si256(at.as_mut_ptr().cast(), index);
        let link = |lane: usize| links.as_ptr().add(at[lane] as usize);
        let two = |lane: usize| {
            let low = _mm_castsi128_pd(_mm_loadl_epi64(link(lane).cast()));
            _mm_castpd_si128(_mm_loadh_pd(low, link(lane + 1).cast()))
        };
        let four = |lane: usize| {
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(two(lane)), two(lane + 2))
        };
        [four(0), four(HALF)]
    }
}

/// Advances 8 lanes to the payload and sets their next nodes.
#[target_feature(enable = "avx2")]
#[inline]
fn advance_8(vector: &mut Vector, at: usize, headers: &Headers, [classified, ip6]: [u8; 2]) {
    assert!(at <= VECTOR - STEP);
    let lanes = mask_16(classified);
    let by = |half: usize| {
        // SAFETY: 4 elements of the column follow `at + half * HALF`.
        let words =
            unsafe { _mm256_loadu_si256(headers.words.as_ptr().add(at + half * HALF).cast()) };
        _mm256_and_si256(_mm256_srli_epi64::<{ HEADER as i32 }>(words), all(HEADER_MASK))
    };
    // Lanes 0, 1, 4, 5, 2, 3, 6, 7 of 32 bits, put in order, then 16 bits.
    let packed = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(
        _mm256_castsi256_ps(by(0)),
        _mm256_castsi256_ps(by(1)),
    ));
    let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
    let by =
        _mm_packus_epi32(_mm256_castsi256_si128(packed), _mm256_extracti128_si256::<1>(packed));
    let by = _mm_and_si128(by, lanes);
    // SAFETY: 8 elements of each column follow `at`.
    unsafe {
        let offset = vector.offset.as_mut_ptr().add(at).cast::<__m128i>();
        _mm_storeu_si128(offset, _mm_add_epi16(_mm_loadu_si128(offset), by));
        let length = vector.length.as_mut_ptr().add(at).cast::<__m128i>();
        _mm_storeu_si128(length, _mm_sub_epi16(_mm_loadu_si128(length), by));
        let next = vector.next.as_mut_ptr().add(at).cast::<__m128i>();
        let edge = _mm_and_si128(mask_16(ip6), _mm_set1_epi16(1));
        _mm_storeu_si128(next, _mm_blendv_epi8(_mm_loadu_si128(next), edge, lanes));
    }
}

/// The uppermost bits of 64-bit lanes.
#[target_feature(enable = "avx2")]
#[inline]
fn bits_64(lanes: __m256i) -> u8 {
    _mm256_movemask_pd(_mm256_castsi256_pd(lanes)) as u8
}

/// The mask of 32-bit lanes as one bit a lane.
#[target_feature(enable = "avx2")]
#[inline]
fn bits_32(lanes: __m256i) -> u8 {
    _mm256_movemask_ps(_mm256_castsi256_ps(lanes)) as u8
}

/// The set bits of `lanes` as a mask of 32-bit lanes.
#[target_feature(enable = "avx2")]
#[inline]
fn mask_32(lanes: u8) -> __m256i {
    let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(lanes.into()), bits), bits)
}
