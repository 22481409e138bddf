//! The second half of the fast path with AVX-512, 16 lanes a step: the kernel decrements the word
//! with TTL and checksum (IPv4) or hop limit (IPv6) in parallel, and stores it together with the
//! link-layer header in one masked store per packet.
//!
//! The store begins at the start of the frame and does not touch the cache line before it.

use std::arch::x86_64::*;

use stoa_engine::counters::AdjacencyCounters;
use stoa_engine::pool::Pool;
use stoa_engine::{VECTOR, Vector};
use stoa_tables::adjacency::AdjacencyLine;

use super::ip4_rewrite::Ip4;
use super::ip6_rewrite::Ip6;
use super::rewrite::{AHEAD, Counts, Exceptions, HEADER, Left};
use super::rewrite_columns_avx512::{Columns, Heads, STEP};

/// Bytes of a link-layer header without tags, the shortest that [`rewrite_each`] writes.
pub(super) const UNTAGGED: usize = 14;

/// The differences between IPv4 and IPv6.
pub trait DecrementTtl {
    /// The byte offset of the 32-bit word with the TTL in the IP header.
    const WORD: usize;
    /// The bit offset of the TTL or hop limit in that word.
    const SHIFT: u32;
    /// The word with a decremented TTL.
    ///
    /// # Safety
    /// The processor has AVX-512 F.
    unsafe fn decrement_ttl(word: __m512i) -> __m512i;
}

/// TTL, protocol and checksum, from byte 8 on.
impl DecrementTtl for Ip4 {
    const WORD: usize = 8;
    const SHIFT: u32 = 0;

    /// Decrements the TTL, the high byte of its 16-bit word, so that the checksum grows by 0x100 in
    /// network order: by 1 in little-endian order, with end-around carry (RFC 1624).
    ///
    /// # Safety
    /// The processor has AVX-512 F.
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn decrement_ttl(word: __m512i) -> __m512i {
        let wraps = _mm512_cmpge_epu32_mask(word, _mm512_set1_epi32(0xffff_0000_u32 as i32));
        let decremented = _mm512_add_epi32(word, _mm512_set1_epi32(0x1_0000 - 1));
        _mm512_mask_add_epi32(decremented, wraps, decremented, _mm512_set1_epi32(0x1_0000))
    }
}

/// Payload length, next header and hop limit, from byte 4 on.
impl DecrementTtl for Ip6 {
    const WORD: usize = 4;
    const SHIFT: u32 = 24;

    /// # Safety
    /// The processor has AVX-512 F.
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn decrement_ttl(word: __m512i) -> __m512i {
        _mm512_sub_epi32(word, _mm512_set1_epi32(1 << Self::SHIFT))
    }
}

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
    let mut bytes = _mm512_setzero_si512();
    for (step, exceptions) in exceptions.iter_mut().enumerate().take(lanes.div_ceil(STEP)) {
        let at = step * STEP;
        let in_use = ((1_u32 << (lanes - at).min(STEP)) - 1) as __mmask16;
        let columns = Columns::load(vector, at);
        let plain = if may_send { in_use } else { 0 };
        let plain = columns.plain(vector.pool(), plain, &heads);
        // SAFETY: see `Columns::plain`.
        let mut decremented = unsafe { Decremented::new::<F>(vector.pool(), plain, &columns) };
        if frame.is_swapped {
            decremented.swap_halves();
        }
        // SAFETY: the lanes passed `Columns::plain`, and the frame belongs to their adjacency.
        decremented.for_each(|lane| unsafe { decremented.write(vector.pool(), lane, &frame) });
        columns.store(vector, at, decremented.lanes, &heads);
        bytes = _mm512_mask_add_epi32(bytes, decremented.lanes, bytes, columns.length);
        counts.packets += u64::from(decremented.lanes.count_ones());
        *exceptions = in_use & !decremented.lanes;
    }
    counts.bytes += u64::from(_mm512_reduce_add_epi32(bytes) as u32);
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
        left.exceptions = std::array::from_fn(|step| match lanes.saturating_sub(step * STEP) {
            STEP.. => u16::MAX,
            some => (1 << some) - 1,
        });
        return left;
    }
    let exceptions = left.exceptions.iter_mut().enumerate();
    for (step, exceptions) in exceptions.take(lanes.div_ceil(STEP)) {
        let at = step * STEP;
        let in_use = ((1_u32 << (lanes - at).min(STEP)) - 1) as __mmask16;
        let columns = Columns::load(vector, at);
        let (complete, heads) = Heads::each((vector, at), in_use, lines, sends);
        if complete == 0 {
            // Not here: it would take registers from the others.
            let tunnels = into_tunnels::<F>(vector, at, lines, sends);
            left.tunnels[step] = tunnels;
            *exceptions = in_use & !tunnels;
            continue;
        }
        let plain = columns.plain(vector.pool(), complete, &heads);
        // SAFETY: see `Columns::plain`.
        let decremented = unsafe { Decremented::new::<F>(vector.pool(), plain, &columns) };
        let ids = &vector.adjacency[at..].as_chunks::<STEP>().0[0];
        let headers = heads.header_lengths();
        let added = columns.counted();
        // SAFETY: called for lanes that passed `Columns::plain`. Their adjacencies have lines, see
        // `Heads::each`, and there are as many counters as lines.
        let send = |lane: usize, is_untagged: bool| unsafe {
            let adjacency = ids[lane] as usize;
            let (line, counters) =
                (lines.get_unchecked(adjacency), counters.get_unchecked(adjacency));
            let length = if is_untagged { None } else { Some(headers[lane] as usize) };
            decremented.write_header::<F>(vector.pool(), lane, (line, length));
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
    vector: &mut Vector,
    at: usize,
    lines: &[AdjacencyLine],
    sends: u8,
) -> __mmask16 {
    let in_use = ((1_u32 << (vector.len() - at).min(STEP)) - 1) as __mmask16;
    let columns = Columns::load(vector, at);
    let (tunnels, heads) = Heads::tunnels((vector, at), in_use, lines, sends);
    let least = _mm512_set1_epi32(HEADER as i32);
    let tunnels = _mm512_mask_cmpge_epu32_mask(tunnels, columns.length, least);
    let plain = columns.plain(vector.pool(), tunnels, &heads);
    // SAFETY: see `Columns::plain`.
    let decremented = unsafe { Decremented::new::<F>(vector.pool(), plain, &columns) };
    // SAFETY: the lanes passed `Columns::plain`.
    decremented.for_each(|lane| unsafe { decremented.write_word::<F>(vector.pool(), lane) });
    columns.store(vector, at, decremented.lanes, &heads);
    decremented.lanes
}

/// Adds packets and bytes to their counters. Both at once takes half the loads and stores. This worker
/// alone writes them; others may read them meanwhile, and an aligned store of 16 bytes writes either
/// half whole.
#[inline(always)]
fn add(counters: &AdjacencyCounters, added: &[u64; 2]) {
    const { assert!(size_of::<AdjacencyCounters>() == 16 && align_of::<AdjacencyCounters>() == 16) };
    const { assert!(std::mem::offset_of!(AdjacencyCounters, bytes) == 8) };
    let counters = std::ptr::from_ref(counters).cast_mut().cast::<__m128i>();
    // SAFETY: the counters are 16 bytes of atomic integers, which may be written through a reference.
    unsafe {
        let added = _mm_loadu_si128(added.as_ptr().cast());
        _mm_store_si128(counters, _mm_add_epi64(_mm_load_si128(counters), added));
    }
}

/// The start of a frame: link-layer header and mask of the stored bytes.
struct Frame {
    /// Bytes from the start of the frame.
    bytes: __m512i,
    /// The stored bytes.
    written: __mmask64,
    /// The position of the decremented word, as 16-bit words.
    word: __mmask32,
    /// Whether that is not a multiple of four bytes: then the halves of the word are swapped to
    /// match their positions.
    is_swapped: bool,
    /// Bytes of the link-layer header.
    length: usize,
}

impl Frame {
    /// A link-layer header of `length` bytes, an even number up to [`AHEAD`].
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    fn of<F: DecrementTtl>(line: &AdjacencyLine, length: usize) -> Self {
        assert!(length <= AHEAD);
        let (header, at) = ((1 << length) - 1, length + F::WORD);
        // SAFETY: the rewrite ends at the end of the line; no more than it is loaded.
        let bytes = unsafe {
            let end = std::ptr::from_ref(line).add(1).cast::<i8>();
            _mm512_maskz_loadu_epi8(header, end.sub(length))
        };
        let (written, word) = (header | (0xf << at), 0b11 << (at / 2));
        Self { bytes, written, word, is_swapped: at % 4 != 0, length }
    }
}

/// The decremented words of 16 lanes; those of locally generated packets are as they were.
struct Decremented {
    /// Lanes whose TTL does not expire, or is not decremented.
    lanes: __mmask16,
    /// The start of their IP headers, in bytes from the start of the pool.
    places: [u64; STEP],
    /// The words.
    words: [i32; STEP],
}

impl Decremented {
    /// Computes the decremented words of these lanes; does not change the packets.
    ///
    /// # Safety
    /// The lanes are [`Columns::plain`].
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    unsafe fn new<F: DecrementTtl>(pool: &Pool, lanes: __mmask16, columns: &Columns) -> Self {
        let halves = columns.place();
        let mut decremented = Self { lanes, places: [0; _], words: [0; _] };
        // SAFETY: the array is two vectors; guaranteed by the caller.
        let word = unsafe {
            let [low, high] = halves;
            _mm512_storeu_si512(decremented.places.as_mut_ptr().cast(), low);
            _mm512_storeu_si512(decremented.places.as_mut_ptr().add(8).cast(), high);
            match lanes {
                __mmask16::MAX => load_words::<F>(pool, &decremented.places),
                _ => gather_words::<F>(pool, lanes, halves),
            }
        };
        let own = columns.own(lanes);
        let left = _mm512_and_si512(word, _mm512_set1_epi32(0xff << F::SHIFT));
        decremented.lanes =
            own | _mm512_mask_cmpgt_epu32_mask(lanes, left, _mm512_set1_epi32(1 << F::SHIFT));
        // SAFETY: the processor has AVX-512 F; the array is a vector.
        unsafe {
            let word = _mm512_mask_mov_epi32(F::decrement_ttl(word), own, word);
            _mm512_storeu_si512(decremented.words.as_mut_ptr().cast(), word);
        }
        decremented
    }

    /// Swaps the halves of the words, for [`Frame::is_swapped`].
    #[inline(always)]
    fn swap_halves(&mut self) {
        self.words.iter_mut().for_each(|word| *word = word.rotate_left(16));
    }

    /// Calls `write` for each lane.
    #[inline(always)]
    fn for_each(&self, write: impl Fn(usize)) {
        if self.lanes == __mmask16::MAX {
            (0..STEP).for_each(write);
        } else {
            (0..STEP).filter(|lane| self.lanes >> lane & 1 == 1).for_each(write);
        }
    }

    /// Writes the word of a lane.
    ///
    /// # Safety
    /// The lane is in `lanes`.
    #[inline(always)]
    unsafe fn write_word<F: DecrementTtl>(&self, pool: &Pool, lane: usize) {
        // SAFETY: only the header of a packet of this worker is written.
        unsafe {
            let packet = pool.base().as_ptr().add(self.places[lane] as usize);
            packet.add(F::WORD).cast::<i32>().write_unaligned(self.words[lane]);
        }
    }

    /// Writes the link-layer header and the word of a lane in one store.
    ///
    /// # Safety
    /// The lane is in `lanes`, and the frame has its link-layer header.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    unsafe fn write(&self, pool: &Pool, lane: usize, frame: &Frame) {
        let word = _mm512_set1_epi32(self.words[lane]);
        let bytes = _mm512_mask_mov_epi16(frame.bytes, frame.word, word);
        let start = self.places[lane] as usize - frame.length;
        // SAFETY: only headroom and header of a packet of this worker are written.
        unsafe {
            let start = pool.base().as_ptr().add(start);
            _mm512_mask_storeu_epi8(start.cast(), frame.written, bytes);
        }
    }

    /// Writes a link-layer header that no other lane may have, and the word, in plain stores that
    /// overlap: setting up masks for each lane takes longer. None begins before the frame, and the
    /// same ones do for all lengths: a branch would be mispredicted when they are mixed.
    ///
    /// # Safety
    /// The lane is in `lanes`, and `line` has its link-layer header, of `length` bytes:
    /// [`UNTAGGED`] or more, and at most [`AHEAD`]. `None`: of [`UNTAGGED`].
    #[inline(always)]
    unsafe fn write_header<F: DecrementTtl>(
        &self,
        pool: &Pool,
        lane: usize,
        (line, length): (&AdjacencyLine, Option<usize>),
    ) {
        const { assert!(2 * 8 >= UNTAGGED && 3 * 8 >= AHEAD && UNTAGGED >= 8) };
        // SAFETY: the rewrite ends at the end of the line; only headroom and header of a packet of
        // this worker are written.
        unsafe {
            let end = std::ptr::from_ref(line).add(1).cast::<u8>();
            let packet = pool.base().as_ptr().add(self.places[lane] as usize);
            let copy = |from: usize| {
                let bytes = end.sub(from).cast::<u64>().read_unaligned();
                packet.sub(from).cast::<u64>().write_unaligned(bytes);
            };
            copy(length.unwrap_or(UNTAGGED));
            if let Some(length) = length {
                copy((length + 8) / 2);
            }
            copy(8);
            packet.add(F::WORD).cast::<i32>().write_unaligned(self.words[lane]);
        }
    }
}

/// The words of all 16 lanes, load by load: that takes less than a gather.
///
/// # Safety
/// The places are of packets of this pool, with a word in each.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
unsafe fn load_words<F: DecrementTtl>(pool: &Pool, places: &[u64; STEP]) -> __m512i {
    let base = pool.base().as_ptr().cast_const();
    // SAFETY: guaranteed by the caller.
    let word = |lane: usize| unsafe {
        base.add(places[lane] as usize + F::WORD).cast::<i32>().read_unaligned()
    };
    let four = |lane| _mm_setr_epi32(word(lane), word(lane + 1), word(lane + 2), word(lane + 3));
    let eight = |lane| _mm256_set_m128i(four(lane + 4), four(lane));
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(eight(0)), eight(8))
}

/// The words of some of 16 lanes.
///
/// # Safety
/// The places of these lanes are of packets of this pool, with a word in each.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
unsafe fn gather_words<F: DecrementTtl>(
    pool: &Pool,
    lanes: __mmask16,
    [low, high]: [__m512i; 2],
) -> __m512i {
    let zero = _mm256_setzero_si256();
    // SAFETY: guaranteed by the caller; other lanes are not loaded.
    unsafe {
        let word = pool.base().as_ptr().add(F::WORD).cast();
        let low = _mm512_mask_i64gather_epi32::<1>(zero, lanes as __mmask8, low, word);
        let high = _mm512_mask_i64gather_epi32::<1>(zero, (lanes >> 8) as __mmask8, high, word);
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
    }
}
