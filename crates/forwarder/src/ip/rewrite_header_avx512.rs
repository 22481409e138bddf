//! How `rewrite_avx512` changes packets: the word with TTL and checksum, and the link-layer header.

use std::arch::x86_64::*;

use stoa_engine::pool::Pool;
use stoa_tables::adjacency::AdjacencyLine;

use super::ip4_rewrite::Ip4;
use super::ip6_rewrite::Ip6;
use super::rewrite::AHEAD;
use super::rewrite_avx512::UNTAGGED;
use super::rewrite_columns_avx512::{Columns, STEP};

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
    /// network order: by 1 in little-endian order, with end-around carry; 0xffff is not a result
    /// (RFC 1624).
    ///
    /// # Safety
    /// The processor has AVX-512 F.
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn decrement_ttl(word: __m512i) -> __m512i {
        let wraps = _mm512_cmpge_epu32_mask(word, _mm512_set1_epi32(0xfffe_0000_u32 as i32));
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

/// The start of a frame: link-layer header and mask of the stored bytes.
pub(super) struct Frame {
    /// Bytes from the start of the frame.
    bytes: __m512i,
    /// The stored bytes.
    written: __mmask64,
    /// The position of the decremented word, as 16-bit words.
    word: __mmask32,
    /// Whether that is not a multiple of four bytes: then the halves of the word are swapped to
    /// match their positions.
    pub(super) is_swapped: bool,
    /// Bytes of the link-layer header.
    length: usize,
}

impl Frame {
    /// A link-layer header of `length` bytes, an even number up to [`AHEAD`].
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub(super) fn of<F: DecrementTtl>(line: &AdjacencyLine, length: usize) -> Self {
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
pub(super) struct Decremented<'a> {
    /// Lanes whose TTL does not expire, or is not decremented.
    pub(super) lanes: __mmask16,
    /// The start of the pool. Writes to packets do not change this copy, as they might, for all the
    /// compiler knows, that in the pool.
    base: *mut u8,
    /// The start of their IP headers, in bytes from there.
    places: &'a [u64; STEP],
    /// The words.
    words: [i32; STEP],
}

/// The place of a lane. Volatile: else the compiler may load those of several lanes at once, and take each
/// out of a register by two instructions.
#[inline(always)]
fn place(places: &[u64; STEP], lane: usize) -> usize {
    // SAFETY: a place of an array.
    unsafe { std::ptr::from_ref(&places[lane]).read_volatile() as usize }
}

impl<'a> Decremented<'a> {
    /// Computes the decremented words of these lanes; does not change the packets.
    ///
    /// # Safety
    /// The lanes are [`Columns::plain`], and their IP headers are at these places.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub(super) unsafe fn new<F: DecrementTtl>(
        pool: &Pool,
        lanes: __mmask16,
        columns: &Columns,
        places: &'a [u64; STEP],
    ) -> Self {
        let base = pool.base().as_ptr();
        let mut decremented = Self { lanes, base, places, words: [0; _] };
        // SAFETY: guaranteed by the caller.
        let word = unsafe {
            match lanes {
                __mmask16::MAX => load_words::<F>(base, places),
                _ => gather_words::<F>(base, lanes, places),
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
    pub(super) fn swap_halves(&mut self) {
        self.words.iter_mut().for_each(|word| *word = word.rotate_left(16));
    }

    /// Calls `write` for each lane.
    #[inline(always)]
    pub(super) fn for_each(&self, write: impl Fn(usize)) {
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
    pub(super) unsafe fn write_word<F: DecrementTtl>(&self, lane: usize) {
        // SAFETY: only the header of a packet of this worker is written.
        unsafe {
            let packet = self.base.add(place(self.places, lane));
            packet.add(F::WORD).cast::<i32>().write_unaligned(self.words[lane]);
        }
    }

    /// Writes the link-layer header and the word of a lane in one store.
    ///
    /// # Safety
    /// The lane is in `lanes`, and the frame has its link-layer header.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub(super) unsafe fn write(&self, lane: usize, frame: &Frame) {
        let word = _mm512_set1_epi32(self.words[lane]);
        let bytes = _mm512_mask_mov_epi16(frame.bytes, frame.word, word);
        // SAFETY: only headroom and header of a packet of this worker are written.
        unsafe {
            let start = self.base.wrapping_sub(frame.length).wrapping_add(place(self.places, lane));
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
    pub(super) unsafe fn write_header<F: DecrementTtl>(
        &self,
        lane: usize,
        (line, length): (&AdjacencyLine, Option<usize>),
    ) {
        const { assert!(2 * 8 >= UNTAGGED && 3 * 8 >= AHEAD && UNTAGGED >= 8) };
        // SAFETY: the rewrite ends at the end of the line; only headroom and header of a packet of
        // this worker are written.
        unsafe {
            let end = std::ptr::from_ref(line).add(1).cast::<u8>();
            let packet = self.base.add(place(self.places, lane));
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
/// The places are of packets of the pool that begins at `base`, with a word in each.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
unsafe fn load_words<F: DecrementTtl>(base: *const u8, places: &[u64; STEP]) -> __m512i {
    // SAFETY: guaranteed by the caller.
    let word = |lane: usize| unsafe {
        base.add(place(places, lane) + F::WORD).cast::<i32>().read_unaligned()
    };
    let four = |lane| _mm_setr_epi32(word(lane), word(lane + 1), word(lane + 2), word(lane + 3));
    let eight = |lane| _mm256_set_m128i(four(lane + 4), four(lane));
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(eight(0)), eight(8))
}

/// The words of some of 16 lanes.
///
/// # Safety
/// The places of these lanes are of packets of the pool that begins at `base`, with a word in each.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
unsafe fn gather_words<F: DecrementTtl>(
    base: *const u8,
    lanes: __mmask16,
    places: &[u64; STEP],
) -> __m512i {
    let zero = _mm256_setzero_si256();
    // SAFETY: places are two vectors; the rest is guaranteed by the caller. Other lanes are not loaded.
    unsafe {
        let low = _mm512_loadu_si512(places.as_ptr().cast());
        let high = _mm512_loadu_si512(places.as_ptr().add(8).cast());
        let word = base.add(F::WORD).cast();
        let low = _mm512_mask_i64gather_epi32::<1>(zero, lanes as __mmask8, low, word);
        let high = _mm512_mask_i64gather_epi32::<1>(zero, (lanes >> 8) as __mmask8, high, word);
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
    }
}
