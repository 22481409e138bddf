//! The second half of the fast path with AVX-512, 16 lanes a step: the kernel decrements the word
//! with TTL and checksum (IPv4) or hop limit (IPv6) in parallel, and stores it together with the
//! link-layer header in one masked store per packet.
//!
//! The store begins at the start of the frame and does not touch the cache line before it.

use std::arch::x86_64::*;

use stoa_engine::counters::AdjacencyCounters;
use stoa_engine::pool::{Pool, SLOT};
use stoa_engine::vector::flags;
use stoa_engine::{VECTOR, Vector};
use stoa_tables::adjacency::{AdjacencyHead, AdjacencyKind, AdjacencyLine};

use super::ip4_rewrite::Ip4;
use super::ip6_rewrite::Ip6;
use super::rewrite::{AHEAD, Counts, Exceptions, HEADER};

/// Lanes of a step.
const STEP: usize = 16;

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
/// other lanes, unchanged: locally generated packets, packets larger than the MTU, with an expiring
/// TTL, in a jumbo buffer or too close to a buffer edge.
pub fn rewrite<F: DecrementTtl>(
    vector: &mut Vector,
    line: &AdjacencyLine,
    counts: &mut Counts,
) -> Exceptions {
    assert!(crate::kernel::Kernel::Avx512.is_available());
    // SAFETY: asserted above: the processor has AVX-512 F, BW, DQ and VL.
    unsafe { uniform::<F>(vector, line, counts) }
}

/// Like [`rewrite`], each lane with the adjacency of its column.
pub fn rewrite_each<F: DecrementTtl>(
    vector: &mut Vector,
    lines: &[AdjacencyLine],
    counters: &[AdjacencyCounters],
) -> Exceptions {
    assert!(crate::kernel::Kernel::Avx512.is_available());
    // SAFETY: asserted above: the processor has AVX-512 F, BW, DQ and VL.
    unsafe { each_lane::<F>(vector, lines, counters) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn uniform<F: DecrementTtl>(
    vector: &mut Vector,
    line: &AdjacencyLine,
    counts: &mut Counts,
) -> Exceptions {
    let (lanes, mut exceptions) = (vector.len(), [0; VECTOR / STEP]);
    let head = line.head();
    let heads = Heads::all(head);
    let may_send = head.is_complete() && head.rewrite_len().is_multiple_of(2);
    let frame = Frame::of::<F>(line, head.rewrite_len().min(AHEAD));
    let mut bytes = _mm512_setzero_si512();
    for (step, exceptions) in exceptions.iter_mut().enumerate().take(lanes.div_ceil(STEP)) {
        let at = step * STEP;
        let in_use = ((1_u32 << (lanes - at).min(STEP)) - 1) as __mmask16;
        let columns = Columns::load(vector, at);
        let plain = if may_send { in_use } else { 0 };
        let plain = columns.plain(vector.pool(), plain, &heads);
        // SAFETY: see `Columns::plain`.
        let decremented = unsafe { Decremented::new::<F>(vector.pool(), plain, &columns, &heads) };
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
    counters: &[AdjacencyCounters],
) -> Exceptions {
    let (lanes, mut exceptions) = (vector.len(), [0; VECTOR / STEP]);
    for (step, exceptions) in exceptions.iter_mut().enumerate().take(lanes.div_ceil(STEP)) {
        let at = step * STEP;
        let in_use = ((1_u32 << (lanes - at).min(STEP)) - 1) as __mmask16;
        let columns = Columns::load(vector, at);
        let (complete, heads) = Heads::each(vector, at, in_use, lines);
        let plain = columns.plain(vector.pool(), complete, &heads);
        // SAFETY: see `Columns::plain`.
        let decremented = unsafe { Decremented::new::<F>(vector.pool(), plain, &columns, &heads) };
        decremented.for_each(|lane| {
            let adjacency = vector.adjacency[at + lane] as usize;
            let frame = Frame::of::<F>(&lines[adjacency], decremented.headers[lane] as usize);
            // SAFETY: the lane passed `Columns::plain`, and the frame belongs to its adjacency.
            unsafe { decremented.write(vector.pool(), lane, &frame) };
            if let Some(counters) = counters.get(adjacency) {
                counters.packets.add(1);
                counters.bytes.add(vector.length[at + lane].into());
            }
        });
        columns.store(vector, at, decremented.lanes, &heads);
        *exceptions = in_use & !decremented.lanes;
    }
    exceptions
}

/// Fields of the adjacencies of 16 lanes, in 32 bits each.
struct Heads {
    interface: __m512i,
    mtu: __m512i,
    /// Bytes of the link-layer header, at most [`AHEAD`].
    header: __m512i,
}

impl Heads {
    /// One adjacency for all lanes.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    fn all(head: AdjacencyHead) -> Self {
        Self {
            interface: _mm512_set1_epi32(head.interface() as i32),
            mtu: _mm512_set1_epi32(head.mtu().into()),
            header: _mm512_set1_epi32(head.rewrite_len().min(AHEAD) as i32),
        }
    }

    /// The lanes with a complete adjacency and a header of even length, and their adjacencies.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    fn each(
        vector: &Vector,
        at: usize,
        in_use: __mmask16,
        lines: &[AdjacencyLine],
    ) -> (__mmask16, Self) {
        assert!(at <= VECTOR - STEP && lines.len() <= 1 << 28);
        let zero = _mm512_setzero_si512();
        // SAFETY: 16 elements of the column follow `at`. Only lanes with the index of a line load.
        let (low, high) = unsafe {
            let ids = _mm512_loadu_si512(vector.adjacency.as_ptr().add(at).cast());
            let end = _mm512_set1_epi32(lines.len() as i32);
            let known = _mm512_mask_cmplt_epu32_mask(in_use, ids, end);
            let (low, high) = (_mm512_castsi512_si256(ids), _mm512_extracti64x4_epi64::<1>(ids));
            let word = |ids| _mm256_slli_epi32::<3>(ids);
            let (first, second) = (known as __mmask8, (known >> 8) as __mmask8);
            let base = lines.as_ptr().cast();
            (
                _mm512_mask_i32gather_epi64::<8>(zero, first, word(low), base),
                _mm512_mask_i32gather_epi64::<8>(zero, second, word(high), base),
            )
        };
        let join = |low, high| {
            let low = _mm512_castsi256_si512(_mm512_cvtepi64_epi32(low));
            _mm512_inserti64x4::<1>(low, _mm512_cvtepi64_epi32(high))
        };
        // The words of the head: interface, then MTU, length and kind.
        let rest = join(_mm512_srli_epi64::<32>(low), _mm512_srli_epi64::<32>(high));
        let kind = _mm512_srli_epi32::<24>(rest);
        let header = _mm512_and_si512(_mm512_srli_epi32::<16>(rest), _mm512_set1_epi32(0xff));
        let complete = _mm512_set1_epi32(AdjacencyKind::Complete as i32);
        let complete = _mm512_mask_cmpeq_epi32_mask(in_use, kind, complete);
        let complete =
            _mm512_mask_cmple_epu32_mask(complete, header, _mm512_set1_epi32(AHEAD as i32));
        let complete = _mm512_mask_testn_epi32_mask(complete, header, _mm512_set1_epi32(1));
        let mtu = _mm512_and_si512(rest, _mm512_set1_epi32(0xffff));
        (complete, Self { interface: join(low, high), mtu, header })
    }
}

/// The columns of 16 lanes, widened to 32 bits.
struct Columns {
    buffer: __m512i,
    offset: __m512i,
    length: __m512i,
    flags: __m512i,
}

impl Columns {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    fn load(vector: &Vector, at: usize) -> Self {
        assert!(at <= VECTOR - STEP);
        // SAFETY: 16 elements of each column follow `at`.
        unsafe {
            let narrow = |column: &[u16; VECTOR]| {
                _mm512_cvtepu16_epi32(_mm256_loadu_si256(column.as_ptr().add(at).cast()))
            };
            Self {
                buffer: _mm512_loadu_si512(vector.buffers().as_ptr().add(at).cast()),
                offset: narrow(&vector.offset),
                length: narrow(&vector.length),
                flags: narrow(&vector.flags),
            }
        }
    }

    /// The lanes with transit packets within the MTU, in single buffers of the pool with [`AHEAD`]
    /// bytes of headroom and [`HEADER`] bytes of data.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    fn plain(&self, pool: &Pool, lanes: __mmask16, heads: &Heads) -> __mmask16 {
        let all = |value: u32| _mm512_set1_epi32(value as i32);
        let plain = _mm512_mask_cmplt_epu32_mask(lanes, self.buffer, all(pool.count()));
        let plain = _mm512_mask_cmpge_epu32_mask(plain, self.offset, all(AHEAD as u32));
        let plain = _mm512_mask_cmple_epu32_mask(plain, self.offset, all((SLOT - HEADER) as u32));
        let plain = _mm512_mask_cmple_epu32_mask(plain, self.length, heads.mtu);
        _mm512_mask_testn_epi32_mask(plain, self.flags, all(flags::OWN.into()))
    }

    /// The start of the data, in bytes from the start of the pool: lanes 0 to 7, and 8 to 15.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    fn place(&self) -> [__m512i; 2] {
        let place = |buffer, offset| {
            let slot =
                _mm512_mul_epu32(_mm512_cvtepu32_epi64(buffer), _mm512_set1_epi64(SLOT as i64));
            _mm512_add_epi64(slot, _mm512_cvtepu32_epi64(offset))
        };
        [
            place(_mm512_castsi512_si256(self.buffer), _mm512_castsi512_si256(self.offset)),
            place(
                _mm512_extracti64x4_epi64::<1>(self.buffer),
                _mm512_extracti64x4_epi64::<1>(self.offset),
            ),
        ]
    }

    /// Moves the start of the data to the link-layer header and sets the tx interface.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    fn store(&self, vector: &mut Vector, at: usize, lanes: __mmask16, heads: &Heads) {
        assert!(at <= VECTOR - STEP);
        let offset = _mm512_cvtepi32_epi16(_mm512_sub_epi32(self.offset, heads.header));
        let length = _mm512_cvtepi32_epi16(_mm512_add_epi32(self.length, heads.header));
        // SAFETY: 16 elements of each column follow `at`.
        unsafe {
            _mm256_mask_storeu_epi16(vector.offset.as_mut_ptr().add(at).cast(), lanes, offset);
            _mm256_mask_storeu_epi16(vector.length.as_mut_ptr().add(at).cast(), lanes, length);
            let tx_if = vector.tx_if.as_mut_ptr().add(at).cast();
            _mm512_mask_storeu_epi32(tx_if, lanes, heads.interface);
        }
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
        Self { bytes, written: header | (0xf << at), word: 0b11 << (at / 2) }
    }
}

/// The decremented words of 16 lanes.
struct Decremented {
    /// Lanes whose TTL does not expire.
    lanes: __mmask16,
    /// The start of their IP headers, in bytes from the start of the pool.
    places: [u64; STEP],
    /// The words, with their halves at the positions of [`Frame::word`].
    words: [i32; STEP],
    /// Bytes of their link-layer headers.
    headers: [u32; STEP],
}

impl Decremented {
    /// Computes the decremented words of these lanes; does not change the packets.
    ///
    /// # Safety
    /// The lanes are [`Columns::plain`].
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    unsafe fn new<F: DecrementTtl>(
        pool: &Pool,
        lanes: __mmask16,
        columns: &Columns,
        heads: &Heads,
    ) -> Self {
        let [low, high] = columns.place();
        let zero = _mm256_setzero_si256();
        // SAFETY: the word lies within the header; other lanes are not loaded.
        let (low_word, high_word) = unsafe {
            let word = pool.base().as_ptr().add(F::WORD).cast();
            (
                _mm512_mask_i64gather_epi32::<1>(zero, lanes as __mmask8, low, word),
                _mm512_mask_i64gather_epi32::<1>(zero, (lanes >> 8) as __mmask8, high, word),
            )
        };
        let word = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low_word), high_word);
        let left = _mm512_and_si512(word, _mm512_set1_epi32(0xff << F::SHIFT));
        let lanes = _mm512_mask_cmpgt_epu32_mask(lanes, left, _mm512_set1_epi32(1 << F::SHIFT));
        // SAFETY: the processor has AVX-512 F.
        let word = unsafe { F::decrement_ttl(word) };
        // The distance from the start of the frame to the word is even, but not always a multiple
        // of four: then the halves are swapped to match their positions.
        let distance = _mm512_add_epi32(heads.header, _mm512_set1_epi32(F::WORD as i32));
        let swapped = _mm512_test_epi32_mask(distance, _mm512_set1_epi32(2));
        let word = _mm512_mask_rol_epi32::<16>(word, swapped, word);
        let mut decremented = Self { lanes, places: [0; _], words: [0; _], headers: [0; _] };
        // SAFETY: the arrays are whole vectors.
        unsafe {
            _mm512_storeu_si512(decremented.places.as_mut_ptr().cast(), low);
            _mm512_storeu_si512(decremented.places.as_mut_ptr().add(8).cast(), high);
            _mm512_storeu_si512(decremented.words.as_mut_ptr().cast(), word);
            _mm512_storeu_si512(decremented.headers.as_mut_ptr().cast(), heads.header);
        }
        decremented
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

    /// Writes the link-layer header and the word of a lane in one store.
    ///
    /// # Safety
    /// The lane is in `lanes`, and the frame has its link-layer header.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    unsafe fn write(&self, pool: &Pool, lane: usize, frame: &Frame) {
        let word = _mm512_set1_epi32(self.words[lane]);
        let bytes = _mm512_mask_mov_epi16(frame.bytes, frame.word, word);
        let start = self.places[lane] as usize - self.headers[lane] as usize;
        // SAFETY: only headroom and header of a packet of this worker are written.
        unsafe {
            let start = pool.base().as_ptr().add(start);
            _mm512_mask_storeu_epi8(start.cast(), frame.written, bytes);
        }
    }
}
