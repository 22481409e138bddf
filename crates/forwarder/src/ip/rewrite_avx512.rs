//! The second half of the fast path with AVX-512, 16 lanes a step: the kernel decrements the word
//! with TTL and checksum (IPv4) or hop limit (IPv6) in parallel, and stores it together with the
//! link-layer header in one masked store per packet.
//!
//! The store begins at the start of the frame and does not touch the cache line before it.

use std::arch::x86_64::*;

use stoa_engine::counters::AdjacencyCounters;
use stoa_engine::{VECTOR, Vector};
use stoa_tables::adjacency::AdjacencyLine;

use super::rewrite::{AHEAD, Counts, Exceptions, HEADER, Left};
use super::rewrite_columns_avx512::{Columns, Heads, STEP};
use super::rewrite_header_avx512::{DecrementTtl, Decremented, Frame};
use super::rewrite_places_avx512::Places;

/// Bytes of a link-layer header without tags, the shortest that [`rewrite_each`] writes.
pub(super) const UNTAGGED: usize = 14;

/// Rewrites all lanes of the fast path with one adjacency and counts them in `counts`. Returns the
/// other lanes, unchanged: packets larger than the MTU, with an expiring TTL unless they are generated
/// locally, in a jumbo buffer or too close to a buffer edge. `sends` is the kind byte of adjacencies
/// that are sent over.
pub fn rewrite<F: DecrementTtl>(
    vector: &mut Vector,
    line: &AdjacencyLine,
    sends: u8,
    counts: &mut Counts,
) -> Exceptions {
    assert!(crate::kernel::Kernel::Avx512.is_available());
    // SAFETY: asserted above: the processor has AVX-512 F, BW, DQ and VL.
    unsafe { uniform::<F>(vector, line, sends, counts) }
}

/// Like [`rewrite`], each lane with the adjacency of its column. Steps of 16 lanes without one to send
/// may go into tunnels.
pub fn rewrite_each<F: DecrementTtl>(
    vector: &mut Vector,
    lines: &[AdjacencyLine],
    sends: u8,
    counters: &[AdjacencyCounters],
) -> Left {
    assert!(crate::kernel::Kernel::Avx512.is_available());
    // SAFETY: asserted above: the processor has AVX-512 F, BW, DQ and VL.
    unsafe { each_lane::<F>(vector, lines, sends, counters) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn uniform<F: DecrementTtl>(
    vector: &mut Vector,
    line: &AdjacencyLine,
    sends: u8,
    counts: &mut Counts,
) -> Exceptions {
    let (lanes, mut exceptions) = (vector.len(), [0; VECTOR / STEP]);
    let head = line.head();
    let heads = Heads::all(head);
    let length = head.rewrite_len();
    let may_send = head.kind_byte() == sends && length <= AHEAD && length.is_multiple_of(2);
    let frame = Frame::of::<F>(line, length.min(AHEAD));
    let (mut bytes, mut packets) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    let mut places = Places::new();
    let places = places.locate(vector);
    for (step, (exceptions, places)) in exceptions.iter_mut().zip(places).enumerate() {
        let at = step * STEP;
        let in_use = ((1_u32 << (lanes - at).min(STEP)) - 1) as __mmask16;
        let columns = Columns::load(vector, at);
        let plain = if may_send { in_use } else { 0 };
        let plain = columns.plain(vector.pool(), plain, &heads);
        // SAFETY: see `Columns::plain` and `Places`.
        let mut decremented =
            unsafe { Decremented::new::<F>(vector.pool(), plain, &columns, places) };
        if frame.is_swapped {
            decremented.swap_halves();
        }
        // SAFETY: the lanes passed `Columns::plain`, and the frame belongs to their adjacency.
        decremented.for_each(|lane| unsafe { decremented.write(lane, &frame) });
        columns.store(vector, at, decremented.lanes, &heads);
        bytes = _mm512_mask_add_epi32(bytes, decremented.lanes, bytes, columns.length);
        packets = _mm512_mask_add_epi32(packets, decremented.lanes, packets, _mm512_set1_epi32(1));
        *exceptions = in_use & !decremented.lanes;
    }
    counts.bytes += u64::from(_mm512_reduce_add_epi32(bytes) as u32);
    counts.packets += u64::from(_mm512_reduce_add_epi32(packets) as u32);
    exceptions
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn each_lane<F: DecrementTtl>(
    vector: &mut Vector,
    lines: &[AdjacencyLine],
    sends: u8,
    counters: &[AdjacencyCounters],
) -> Left {
    let (lanes, mut left) = (vector.len(), Left::default());
    // An adjacency without counters is left to the slow path.
    let lines = &lines[..lines.len().min(counters.len())];
    let counters = &counters[..lines.len()];
    if lines.is_empty() {
        for (step, exceptions) in left.exceptions.iter_mut().enumerate() {
            let some = lanes.saturating_sub(step * STEP).min(STEP);
            *exceptions = ((1_u32 << some) - 1) as __mmask16;
        }
        return left;
    }
    let mut places = Places::new();
    let places = places.locate(vector);
    for (step, (exceptions, places)) in left.exceptions.iter_mut().zip(places).enumerate() {
        let at = step * STEP;
        let in_use = ((1_u32 << (lanes - at).min(STEP)) - 1) as __mmask16;
        let columns = Columns::load(vector, at);
        let (complete, heads) = Heads::each((vector, at), in_use, lines, sends);
        if complete == 0 {
            // Not here: it would take registers from the others.
            let tunnels = into_tunnels::<F>((vector, at), places, lines, sends);
            left.tunnels[step] = tunnels;
            *exceptions = in_use & !tunnels;
            continue;
        }
        let plain = columns.plain(vector.pool(), complete, &heads);
        // SAFETY: see `Columns::plain` and `Places`.
        let decremented = unsafe { Decremented::new::<F>(vector.pool(), plain, &columns, places) };
        let ids = &vector.adjacency[at..].as_chunks::<STEP>().0[0];
        let headers = heads.header_lengths();
        let added = columns.counted();
        // SAFETY: called for lanes that passed `Columns::plain`. Their adjacencies have lines, see
        // `Heads::each`, and there are as many counters as lines.
        let send = |lane: usize, is_untagged: bool| unsafe {
            let adjacency = ids[lane] as usize;
            let (line, counters) =
                (lines.get_unchecked(adjacency), counters.get_unchecked(adjacency));
            // Volatile: else the compiler takes it out of a register, by two instructions.
            let length = || std::ptr::from_ref(&headers[lane]).read_volatile() as usize;
            let length = if is_untagged { None } else { Some(length()) };
            decremented.write_header::<F>(lane, (line, length));
            add(counters, &added[lane]);
        };
        if heads.are_untagged(decremented.lanes) {
            decremented.for_each(|lane| send(lane, true));
        } else {
            decremented.for_each(|lane| send(lane, false));
        }
        columns.store(vector, at, decremented.lanes, &heads);
        *exceptions = in_use & !decremented.lanes;
    }
    left
}

/// Decrements the TTL of those of 16 lanes that are on their way into a tunnel, and sets their tx
/// interface. Returns these.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline(never)]
fn into_tunnels<F: DecrementTtl>(
    (vector, at): (&mut Vector, usize),
    places: &[u64; STEP],
    lines: &[AdjacencyLine],
    sends: u8,
) -> __mmask16 {
    let in_use = ((1_u32 << (vector.len() - at).min(STEP)) - 1) as __mmask16;
    let columns = Columns::load(vector, at);
    let (tunnels, heads) = Heads::tunnels((&*vector, at), in_use, lines, sends);
    let least = _mm512_set1_epi32(HEADER as i32);
    let tunnels = _mm512_mask_cmpge_epu32_mask(tunnels, columns.length, least);
    let plain = columns.plain(vector.pool(), tunnels, &heads);
    // SAFETY: see `Columns::plain` and `Places`.
    let decremented = unsafe { Decremented::new::<F>(vector.pool(), plain, &columns, places) };
    // SAFETY: the lanes passed `Columns::plain`.
    decremented.for_each(|lane| unsafe { decremented.write_word::<F>(lane) });
    columns.store(vector, at, decremented.lanes, &heads);
    decremented.lanes
}

/// Adds packets and bytes to their counters. Both at once takes half the loads and stores. This worker
/// alone writes them. The control thread may read them meanwhile, and can get the halves of different
/// times.
#[inline(always)]
fn add(counters: &AdjacencyCounters, added: &[u64; 2]) {
    const { assert!(size_of::<AdjacencyCounters>() == 16 && align_of::<AdjacencyCounters>() == 16) };
    const { assert!(std::mem::offset_of!(AdjacencyCounters, bytes) == 8) };
    let counters = std::ptr::from_ref(counters).cast_mut().cast::<__m128i>();
    // SAFETY: the counters are 16 aligned bytes of atomic integers, which may be written through a reference.
    // The loads and the store are not atomic ones by the language's rules. This relies on x86-64, where each
    // aligned half of an aligned vector is loaded and stored whole, and on there being no other writer.
    unsafe {
        let added = _mm_loadu_si128(added.as_ptr().cast());
        _mm_store_si128(counters, _mm_add_epi64(_mm_load_si128(counters), added));
    }
}
