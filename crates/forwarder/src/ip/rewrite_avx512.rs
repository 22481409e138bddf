//! The second half of the trunk, 16 lanes a step with AVX-512: the word with TTL and checksum
//! (IPv4) or hop limit (IPv6) is counted down in lanes, and leaves with the link-layer header in
//! one masked store per packet.
//!
//! The store begins where the frame begins, so that an untagged frame never touches the cache line
//! before it.

use std::arch::x86_64::*;

use stoa_engine::pool::{Pool, SLOT};
use stoa_engine::vector::flags;
use stoa_engine::{VECTOR, Vector};
use stoa_tables::adjacency::{AdjacencyHead, AdjacencyLine};

use super::ip4_rewrite::Ip4;
use super::ip6_rewrite::Ip6;
use super::rewrite::{AHEAD, Books, HEADER};

/// Lanes of a step.
const STEP: usize = 16;

/// One bit per lane that the kernel left alone: look closer.
pub type Odd = [u16; VECTOR / STEP];

/// What differs between the families.
pub trait Counted {
    /// Where the word that is counted down lies in the IP header, in bytes.
    const WORD: usize;
    /// How far the TTL or hop limit lies above the lowest bit of that word.
    const SHIFT: u32;
    /// The word of a packet that goes on.
    ///
    /// # Safety
    /// The processor has AVX-512 F.
    unsafe fn count_down(word: __m512i) -> __m512i;
}

/// TTL, protocol and checksum, from byte 8 on.
impl Counted for Ip4 {
    const WORD: usize = 8;
    const SHIFT: u32 = 0;

    /// Takes 1 from the TTL, the high byte of its 16-bit word, so that the checksum grows by 0x100
    /// in network order: by 1 as the bytes lie here, the carry going round (RFC 1624).
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn count_down(word: __m512i) -> __m512i {
        let wraps = _mm512_cmpge_epu32_mask(word, _mm512_set1_epi32(0xffff_0000_u32 as i32));
        let counted = _mm512_add_epi32(word, _mm512_set1_epi32(0x1_0000 - 1));
        _mm512_mask_add_epi32(counted, wraps, counted, _mm512_set1_epi32(0x1_0000))
    }
}

/// Payload length, next header and hop limit, from byte 4 on.
impl Counted for Ip6 {
    const WORD: usize = 4;
    const SHIFT: u32 = 24;

    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn count_down(word: __m512i) -> __m512i {
        _mm512_sub_epi32(word, _mm512_set1_epi32(1 << Self::SHIFT))
    }
}

/// Sends all plain lanes by one adjacency and counts them in `books`; says which lanes were not
/// plain: our own, too long, at the end of their TTL, in a jumbo buffer or too near to its edge.
/// Nothing of those was changed.
pub fn rewrite<F: Counted>(vector: &mut Vector, line: &AdjacencyLine, books: &mut Books) -> Odd {
    assert!(crate::kernel::Kernel::Avx512.is_here());
    // SAFETY: the processor has AVX-512 F, BW, DQ and VL: asked just now.
    unsafe { all::<F>(vector, line, books) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn all<F: Counted>(vector: &mut Vector, line: &AdjacencyLine, books: &mut Books) -> Odd {
    let (lanes, mut odd) = (vector.len(), [0; VECTOR / STEP]);
    let frame = Frame::new::<F>(line);
    let mut bytes = _mm512_setzero_si512();
    for (step, odd) in odd.iter_mut().enumerate().take(lanes.div_ceil(STEP)) {
        let at = step * STEP;
        let in_use = ((1_u32 << (lanes - at).min(STEP)) - 1) as __mmask16;
        let columns = Columns::load(vector, at);
        let plain = columns.plain(vector.pool(), in_use, frame.head);
        let place = columns.place();
        // SAFETY: lanes in `plain` own a plain slot of the pool, with AHEAD bytes before their
        // offset and HEADER bytes after it: see `Columns::plain`.
        let sent = unsafe { frame.send::<F>(vector.pool(), plain, place) };
        columns.store(vector, at, sent, frame.head);
        bytes = _mm512_mask_add_epi32(bytes, sent, bytes, columns.length);
        books.packets += u64::from(sent.count_ones());
        *odd = in_use & !sent;
    }
    books.bytes += _mm512_reduce_add_epi32(bytes) as u32 as u64;
    odd
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

    /// Lanes of packets for others, short enough, in plain buffers with room before and behind.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    fn plain(&self, pool: &Pool, in_use: __mmask16, head: AdjacencyHead) -> __mmask16 {
        if !head.is_complete() {
            return 0;
        }
        let all = |value: u32| _mm512_set1_epi32(value as i32);
        let plain = _mm512_mask_cmplt_epu32_mask(in_use, self.buffer, all(pool.count()));
        let plain = _mm512_mask_cmpge_epu32_mask(plain, self.offset, all(AHEAD as u32));
        let plain = _mm512_mask_cmple_epu32_mask(plain, self.offset, all((SLOT - HEADER) as u32));
        let plain = _mm512_mask_cmple_epu32_mask(plain, self.length, all(head.mtu().into()));
        _mm512_mask_testn_epi32_mask(plain, self.flags, all(flags::OWN.into()))
    }

    /// Where the data begins, in bytes from the start of the pool: lanes 0 to 7, and 8 to 15.
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

    /// Makes the data of these lanes begin with the link-layer header, and says who sends them.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    fn store(&self, vector: &mut Vector, at: usize, lanes: __mmask16, head: AdjacencyHead) {
        assert!(at <= VECTOR - STEP);
        let header = _mm512_set1_epi32(head.rewrite_len() as i32);
        let offset = _mm512_cvtepi32_epi16(_mm512_sub_epi32(self.offset, header));
        let length = _mm512_cvtepi32_epi16(_mm512_add_epi32(self.length, header));
        let interface = _mm512_set1_epi32(head.interface() as i32);
        // SAFETY: 16 elements of each column follow `at`.
        unsafe {
            _mm256_mask_storeu_epi16(vector.offset.as_mut_ptr().add(at).cast(), lanes, offset);
            _mm256_mask_storeu_epi16(vector.length.as_mut_ptr().add(at).cast(), lanes, length);
            _mm512_mask_storeu_epi32(vector.tx_if.as_mut_ptr().add(at).cast(), lanes, interface);
        }
    }
}

/// The start of a frame by one adjacency: its link-layer header, and what of the following bytes
/// is written.
struct Frame {
    head: AdjacencyHead,
    /// Bytes from the start of the frame on.
    bytes: __m512i,
    /// The bytes that are written.
    written: __mmask64,
    /// The 16-bit words of the one that was counted down.
    word: __mmask32,
}

impl Frame {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    fn new<F: Counted>(line: &AdjacencyLine) -> Self {
        let head = line.head();
        let rewrite = line.rewrite_bytes();
        let length = head.rewrite_len().min(AHEAD);
        let mut bytes = [0; 64];
        bytes[..length].copy_from_slice(&rewrite[rewrite.len() - length..]);
        let at = length + F::WORD;
        Self {
            head,
            // SAFETY: the array is one vector.
            bytes: unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) },
            written: ((1 << length) - 1) | (0xf << at),
            word: 0b11 << (at / 2),
        }
    }

    /// Counts the packets at these places down and writes their link-layer headers, unless their
    /// TTL ends here; says which were sent.
    ///
    /// # Safety
    /// Each place in `lanes` has [`AHEAD`] bytes before it and [`HEADER`] from it on that are the caller's.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    unsafe fn send<F: Counted>(
        &self,
        pool: &Pool,
        lanes: __mmask16,
        [low, high]: [__m512i; 2],
    ) -> __mmask16 {
        let base = pool.base().as_ptr();
        let zero = _mm256_setzero_si256();
        // SAFETY: the word lies within the header; other lanes are not loaded.
        let (low_word, high_word) = unsafe {
            let word = base.add(F::WORD).cast();
            (
                _mm512_mask_i64gather_epi32::<1>(zero, lanes as __mmask8, low, word),
                _mm512_mask_i64gather_epi32::<1>(zero, (lanes >> 8) as __mmask8, high, word),
            )
        };
        let word = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low_word), high_word);
        let left = _mm512_and_si512(word, _mm512_set1_epi32(0xff << F::SHIFT));
        let lanes = _mm512_mask_cmpgt_epu32_mask(lanes, left, _mm512_set1_epi32(1 << F::SHIFT));
        // SAFETY: the processor has AVX-512 F.
        let word = unsafe { F::count_down(word) };
        // Frames begin at an even distance from the word, but not always at a multiple of four:
        // words of 16 bits are exchanged, so that they meet theirs.
        let halves = if self.word.trailing_zeros() % 2 == 1 { 16 } else { 0 };
        let word = _mm512_rolv_epi32(word, _mm512_set1_epi32(halves));
        let (mut places, mut words) = ([0_u64; STEP], [0_i32; STEP]);
        // SAFETY: both arrays are whole vectors.
        unsafe {
            _mm512_storeu_si512(places.as_mut_ptr().cast(), low);
            _mm512_storeu_si512(places.as_mut_ptr().add(8).cast(), high);
            _mm512_storeu_si512(words.as_mut_ptr().cast(), word);
        }
        let length = self.head.rewrite_len().min(AHEAD);
        let write = |lane: usize| {
            let word = _mm512_set1_epi32(words[lane]);
            let bytes = _mm512_mask_mov_epi16(self.bytes, self.word, word);
            // SAFETY: `length` bytes before the place, and the word behind it, are the caller's;
            // no other bytes are written.
            unsafe {
                let start = base.wrapping_add(places[lane] as usize - length);
                _mm512_mask_storeu_epi8(start.cast(), self.written, bytes);
            }
        };
        if lanes == __mmask16::MAX {
            (0..STEP).for_each(write);
        } else {
            (0..STEP).filter(|lane| lanes >> lane & 1 == 1).for_each(write);
        }
        lanes
    }
}
