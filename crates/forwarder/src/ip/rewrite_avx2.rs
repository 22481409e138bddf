//! The second half of the fast path with AVX2: the kernel selects the packets of the fast path, 8
//! lanes a step. For each of them it loads the 32 bytes around the boundary between link-layer and
//! IP header, decrements TTL and checksum (IPv4) or hop limit (IPv6) in the register, and stores all
//! 32 bytes.
//!
//! AVX2 has no masked byte store. The 32 bytes begin 14 bytes before the IP header, where an untagged
//! frame begins, and end 18 bytes behind that: bytes other than the changed words are stored as
//! loaded. The rest of a tagged header is an 8-byte store at its start.

use std::arch::x86_64::*;

use stoa_engine::counters::AdjacencyCounters;
use stoa_engine::pool::Pool;
use stoa_engine::vector::flags;
use stoa_engine::{VECTOR, Vector};
use stoa_tables::adjacency::{AdjacencyHead, AdjacencyLine};

use super::rewrite::{AHEAD, Counts, Exceptions, HEADER};
use super::rewrite_header_avx2::{BEFORE, DecrementTtl, Frame, MORE, TtlDelta};
use crate::columns_avx2::{Columns, Places, STEP, bits_16, mask_16, narrow_16};

/// Rewrites all lanes of the fast path with one adjacency and counts them in `counts`. Returns the
/// other lanes, unchanged: packets larger than the MTU or with an expiring TTL, locally generated
/// ones among others, and steps of fewer than 8 lanes, with a jumbo buffer or with data too close to
/// a buffer edge. `sends` is the kind byte of adjacencies that are sent over.
pub fn rewrite<F: DecrementTtl>(
    vector: &mut Vector,
    line: &AdjacencyLine,
    sends: u8,
    counts: &mut Counts,
) -> Exceptions {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2, BMI and POPCNT.
    unsafe { uniform::<F>(vector, line, sends, counts) }
}

/// Like [`rewrite`], each lane with the adjacency of its column.
pub fn rewrite_each<F: DecrementTtl>(
    vector: &mut Vector,
    lines: &[AdjacencyLine],
    sends: u8,
    counters: &[AdjacencyCounters],
) -> Exceptions {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2, BMI and POPCNT.
    unsafe { each_lane::<F>(vector, lines, sends, counters) }
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn uniform<F: DecrementTtl>(
    vector: &mut Vector,
    line: &AdjacencyLine,
    sends: u8,
    counts: &mut Counts,
) -> Exceptions {
    let (pool, head, mut exceptions) = (vector.pool(), line.head(), all_lanes(vector.len()));
    if !may_send(head, sends) {
        return exceptions;
    }
    let deltas = [TtlDelta::of::<F>(), TtlDelta::none()];
    let length = head.rewrite_len();
    let frames = [Frame::of(line, length, &deltas[0]), Frame::of(line, length, &deltas[1])];
    let header = _mm_set1_epi16(length as i16);
    let interface = _mm256_set1_epi32(head.interface() as i32);
    let (mut bytes, mut places) = (_mm256_setzero_si256(), Places::new());
    let places = places.locate(vector);
    for at in (0..vector.len() / STEP * STEP).step_by(STEP) {
        let columns = Columns::load(vector, at);
        if !columns.are_inside(pool, AHEAD, HEADER) {
            continue;
        }
        let mtu = _mm_set1_epi16(head.mtu() as i16);
        let short = _mm_cmpeq_epi16(_mm_min_epu16(columns.length, mtu), columns.length);
        let (alike, own) = alike(vector, at);
        let (plain, frame) = (bits_16(short) & alike, &frames[usize::from(own)]);
        // SAFETY: the lanes have `AHEAD` bytes of headroom and `HEADER` bytes of data.
        let sent = unsafe {
            if length > BEFORE {
                send_8::<F, true>(frame, pool, places.step(at), plain)
            } else {
                send_8::<F, false>(frame, pool, places.step(at), plain)
            }
        };
        let lanes = mask_16(sent);
        let length = _mm256_cvtepu16_epi32(_mm_and_si128(columns.length, lanes));
        bytes = _mm256_add_epi32(bytes, length);
        store(vector, (at, lanes), &columns, (header, interface));
        counts.packets += u64::from(sent.count_ones());
        exceptions[at / 16] &= !(u16::from(sent) << (at % 16));
    }
    let mut sums = [0_u32; STEP];
    // SAFETY: the array is one vector.
    unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), bytes) };
    counts.bytes += sums.iter().map(|sum| u64::from(*sum)).sum::<u64>();
    exceptions
}

/// Sends the `plain` ones of 8 packets; returns those whose TTL does not expire.
///
/// # Safety
/// The places are as [`Frame::send`] requires.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
#[inline]
unsafe fn send_8<F: DecrementTtl, const TAGGED: bool>(
    frame: &Frame<'_>,
    pool: &Pool,
    places: &[u64; STEP],
    plain: u8,
) -> u8 {
    let mut sent = plain;
    // Most often, and without a test of each bit.
    if plain == u8::MAX {
        for (lane, place) in places.iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            if !unsafe { frame.send::<F, TAGGED>(pool, *place) } {
                sent &= !(1 << lane);
            }
        }
        return sent;
    }
    for (lane, place) in places.iter().enumerate() {
        // SAFETY: guaranteed by the caller.
        if plain >> lane & 1 == 1 && !unsafe { frame.send::<F, TAGGED>(pool, *place) } {
            sent &= !(1 << lane);
        }
    }
    sent
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn each_lane<F: DecrementTtl>(
    vector: &mut Vector,
    lines: &[AdjacencyLine],
    sends: u8,
    counters: &[AdjacencyCounters],
) -> Exceptions {
    let (pool, mut exceptions) = (vector.pool(), all_lanes(vector.len()));
    let deltas = [TtlDelta::of::<F>(), TtlDelta::none()];
    // An adjacency without counters is left to the slow path.
    let lines = &lines[..lines.len().min(counters.len())];
    let counters = &counters[..lines.len()];
    let mut places = Places::new();
    let located = places.locate(vector);
    for at in (0..vector.len() / STEP * STEP).step_by(STEP) {
        let columns = Columns::load(vector, at);
        let ids = &vector.adjacency[at..].as_chunks::<STEP>().0[0];
        let lengths = &vector.length[at..].as_chunks::<STEP>().0[0];
        let are_known = (ids.iter().fold(0, |most, id| most.max(*id)) as usize) < lines.len();
        if !are_known || !columns.are_inside(pool, AHEAD, HEADER) {
            continue;
        }
        // SAFETY: the greatest of them is the index of a line.
        let heads = unsafe { Heads::load(lines, ids) };
        let (alike, own) = alike(vector, at);
        let (plain, delta) = (heads.may_send(&columns, sends) & alike, &deltas[usize::from(own)]);
        let (headers, places, mut sent) = (heads.header_lengths(), located.step(at), plain);
        // SAFETY: as above, and there are as many counters; the lane has `AHEAD` bytes of headroom and
        // `HEADER` bytes of data.
        let lane_of = |lane: usize, length: usize| unsafe {
            let adjacency = ids[lane] as usize;
            let frame = Frame::of(lines.get_unchecked(adjacency), length, delta);
            (frame, counters.get_unchecked(adjacency))
        };
        if heads.are_tagged() {
            for lane in (0..STEP).filter(|lane| plain >> lane & 1 == 1) {
                let (frame, counters) = lane_of(lane, headers[lane] as usize);
                // SAFETY: the same.
                if unsafe { frame.send::<F, true>(pool, places[lane]) } {
                    count(counters, lengths[lane]);
                } else {
                    sent &= !(1 << lane);
                }
            }
        } else {
            for lane in (0..STEP).filter(|lane| plain >> lane & 1 == 1) {
                let (frame, counters) = lane_of(lane, BEFORE);
                // SAFETY: the same.
                if unsafe { frame.send::<F, false>(pool, places[lane]) } {
                    count(counters, lengths[lane]);
                } else {
                    sent &= !(1 << lane);
                }
            }
        }
        let (header, interface) = (narrow_16(heads.header), heads.interface);
        store(vector, (at, mask_16(sent)), &columns, (header, interface));
        exceptions[at / 16] &= !(u16::from(sent) << (at % 16));
    }
    exceptions
}

/// Counts a packet. An aligned pair of counters would take one load and one store, but each waits longer
/// for the last one of the same adjacency than these do: with two next hops a cycle a packet on Zen 3.
#[inline(always)]
fn count(counters: &AdjacencyCounters, length: u16) {
    counters.packets.add(1);
    counters.bytes.add(length.into());
}

/// Moves the start of the data of some of 8 lanes to the link-layer header and sets the tx
/// interface.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn store(
    vector: &mut Vector,
    (at, lanes): (usize, __m128i),
    columns: &Columns,
    (header, interface): (__m128i, __m256i),
) {
    assert!(at <= VECTOR - STEP);
    let (by, wide) = (_mm_and_si128(header, lanes), _mm256_cvtepi16_epi32(lanes));
    // SAFETY: 8 elements of each column follow `at`.
    unsafe {
        let offset = _mm_sub_epi16(columns.offset, by);
        _mm_storeu_si128(vector.offset.as_mut_ptr().add(at).cast(), offset);
        let length = _mm_add_epi16(columns.length, by);
        _mm_storeu_si128(vector.length.as_mut_ptr().add(at).cast(), length);
        let tx_if = vector.tx_if.as_mut_ptr().add(at).cast::<__m256i>();
        let sender = _mm256_blendv_epi8(_mm256_loadu_si256(tx_if), interface, wide);
        _mm256_storeu_si256(tx_if, sender);
    }
}

/// The bits of all lanes of a vector.
fn all_lanes(lanes: usize) -> Exceptions {
    let mut all = [0; _];
    for (word, all) in all.iter_mut().enumerate() {
        *all = ((1_u32 << lanes.saturating_sub(word * 16).min(16)) - 1) as u16;
    }
    all
}

/// Whether an adjacency has the expected kind byte and its header length fits the stores below.
#[inline(always)]
fn may_send(head: AdjacencyHead, sends: u8) -> bool {
    head.kind_byte() == sends && (BEFORE..=BEFORE + MORE).contains(&head.rewrite_len())
}

/// The lanes of 8 that a kernel processes alike, and whether they are generated locally: all 8, or
/// those that are not.
#[target_feature(enable = "avx2")]
#[inline]
fn alike(vector: &Vector, at: usize) -> (u8, bool) {
    match own(vector, at) {
        u8::MAX => (u8::MAX, true),
        own => (!own, false),
    }
}

/// The lanes of 8 that are generated locally.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn own(vector: &Vector, at: usize) -> u8 {
    assert!(at <= VECTOR - STEP);
    // SAFETY: 8 elements of the column follow `at`.
    let flags = unsafe { _mm_loadu_si128(vector.flags.as_ptr().add(at).cast()) };
    let own = _mm_set1_epi16(flags::OWN as i16);
    bits_16(_mm_cmpeq_epi16(_mm_and_si128(flags, own), own))
}

/// Fields of the adjacencies of 8 lanes, in 32 bits each.
pub(super) struct Heads {
    pub(super) interface: __m256i,
    pub(super) mtu: __m256i,
    /// Bytes of the link-layer header.
    pub(super) header: __m256i,
    pub(super) kind: __m256i,
}

impl Heads {
    /// # Safety
    /// The ids are indices of lines.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) unsafe fn load(lines: &[AdjacencyLine], ids: &[u32; STEP]) -> Self {
        // SAFETY: guaranteed by the caller; a line begins with its head.
        let head =
            |lane: usize| unsafe { lines.as_ptr().add(ids[lane] as usize).cast::<i64>().read() };
        let four =
            |lane| _mm256_setr_epi64x(head(lane), head(lane + 1), head(lane + 2), head(lane + 3));
        let (low, high) = (_mm256_castsi256_ps(four(0)), _mm256_castsi256_ps(four(4)));
        // Shuffling works on halves of vectors: their order is fixed.
        let order = |all| _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(all));
        let interface = order(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
        let rest = order(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));
        Self {
            interface,
            mtu: _mm256_and_si256(rest, _mm256_set1_epi32(0xffff)),
            header: _mm256_and_si256(_mm256_srli_epi32::<16>(rest), _mm256_set1_epi32(0xff)),
            kind: _mm256_srli_epi32::<24>(rest),
        }
    }

    /// The lanes whose packets are within the MTU, with an adjacency that [`may_send`].
    #[target_feature(enable = "avx2")]
    #[inline]
    fn may_send(&self, columns: &Columns, sends: u8) -> u8 {
        let all = |value: usize| _mm256_set1_epi32(value as i32);
        let good = _mm256_cmpeq_epi32(self.kind, all(sends.into()));
        let long = _mm256_cmpgt_epi32(self.header, all(BEFORE - 1));
        let short = _mm256_cmpgt_epi32(all(BEFORE + MORE + 1), self.header);
        let good = _mm256_and_si256(good, _mm256_and_si256(long, short));
        let large = _mm256_cmpgt_epi32(_mm256_cvtepu16_epi32(columns.length), self.mtu);
        let good = _mm256_andnot_si256(large, good);
        _mm256_movemask_ps(_mm256_castsi256_ps(good)) as u8
    }

    /// Whether one of the headers has a tag.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn are_tagged(&self) -> bool {
        let tagged = _mm256_cmpgt_epi32(self.header, _mm256_set1_epi32(BEFORE as i32));
        _mm256_movemask_epi8(tagged) != 0
    }

    /// Bytes of the link-layer headers.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn header_lengths(&self) -> [u32; STEP] {
        let mut lengths = [0; STEP];
        // SAFETY: the array is one vector.
        unsafe { _mm256_storeu_si256(lengths.as_mut_ptr().cast(), self.header) };
        lengths
    }
}
