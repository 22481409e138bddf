//! The columns of `rewrite_avx512`: 16 lanes of a vector and of the adjacencies that they use.

use std::arch::x86_64::*;

use stoa_engine::pool::{Pool, SLOT};
use stoa_engine::vector::flags;
use stoa_engine::{VECTOR, Vector};
use stoa_tables::adjacency::{AdjacencyHead, AdjacencyKind, AdjacencyLine, OUTPUT_FEATURES};

use super::rewrite::{AHEAD, HEADER};
use super::rewrite_avx512::UNTAGGED;

/// Lanes of a step.
pub(super) const STEP: usize = 16;

/// Fields of the adjacencies of 16 lanes, in 32 bits each.
pub(super) struct Heads {
    pub(super) interface: __m512i,
    pub(super) mtu: __m512i,
    /// Bytes of the link-layer header, at most [`AHEAD`].
    pub(super) header: __m512i,
}

impl Heads {
    /// One adjacency for all lanes.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub(super) fn all(head: AdjacencyHead) -> Self {
        Self {
            interface: _mm512_set1_epi32(head.interface() as i32),
            mtu: _mm512_set1_epi32(head.mtu().into()),
            header: _mm512_set1_epi32(head.rewrite_len().min(AHEAD) as i32),
        }
    }

    /// The lanes whose adjacency has the kind byte `sends` and a header of even length, from [`UNTAGGED`]
    /// on, and their adjacencies.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub(super) fn each(
        (vector, at): (&Vector, usize),
        in_use: __mmask16,
        lines: &[AdjacencyLine],
        sends: u8,
    ) -> (__mmask16, Self) {
        let (rest, heads) = Self::load((vector, at), in_use, lines);
        let kind = _mm512_srli_epi32::<24>(rest);
        let header = heads.header;
        let complete = _mm512_set1_epi32(sends.into());
        let complete = _mm512_mask_cmpeq_epi32_mask(in_use, kind, complete);
        let (least, most) = (_mm512_set1_epi32(UNTAGGED as i32), _mm512_set1_epi32(AHEAD as i32));
        let complete = _mm512_mask_cmpge_epu32_mask(complete, header, least);
        let complete = _mm512_mask_cmple_epu32_mask(complete, header, most);
        let complete = _mm512_mask_testn_epi32_mask(complete, header, _mm512_set1_epi32(1));
        (complete, heads)
    }

    /// The lanes that are on their way into a tunnel, with a link-layer header of no bytes. Those that
    /// are to meet output features are not among them, see `sends` of [`Self::each`].
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub(super) fn tunnels(
        (vector, at): (&Vector, usize),
        in_use: __mmask16,
        lines: &[AdjacencyLine],
        sends: u8,
    ) -> (__mmask16, Self) {
        let (rest, heads) = Self::load((vector, at), in_use, lines);
        let ignored = sends & OUTPUT_FEATURES;
        let kind = _mm512_srli_epi32::<24>(rest);
        let kind = _mm512_or_si512(kind, _mm512_set1_epi32(ignored.into()));
        let tunnel = _mm512_set1_epi32((AdjacencyKind::Tunnel as u8 | ignored).into());
        let tunnels = _mm512_mask_cmpeq_epi32_mask(in_use, kind, tunnel);
        (tunnels, Self { header: _mm512_setzero_si512(), ..heads })
    }

    /// The adjacencies of these lanes, and the upper halves of their heads: 0 of an unknown one.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    fn load(
        (vector, at): (&Vector, usize),
        in_use: __mmask16,
        lines: &[AdjacencyLine],
    ) -> (__m512i, Self) {
        assert!(at <= VECTOR - STEP && !lines.is_empty());
        let mut places = [0_u32; STEP];
        // SAFETY: 16 elements of the column follow `at`. A lane without the index of a line loads the
        // first one.
        let (known, [low, high]) = unsafe {
            let ids = _mm512_loadu_si512(vector.adjacency.as_ptr().add(at).cast());
            let end = _mm512_set1_epi32(lines.len().min(u32::MAX as usize) as u32 as i32);
            let known = _mm512_mask_cmplt_epu32_mask(in_use, ids, end);
            let ids = _mm512_maskz_mov_epi32(known, ids);
            _mm512_storeu_si512(places.as_mut_ptr().cast(), ids);
            (known, load_heads(lines, &places))
        };
        // The words of the head: interface, then MTU, length and kind.
        let join = |first: i32| {
            let order =
                _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            _mm512_permutex2var_epi32(low, _mm512_add_epi32(order, _mm512_set1_epi32(first)), high)
        };
        let (interface, rest) = (join(0), _mm512_maskz_mov_epi32(known, join(1)));
        let header = _mm512_and_si512(_mm512_srli_epi32::<16>(rest), _mm512_set1_epi32(0xff));
        let mtu = _mm512_and_si512(rest, _mm512_set1_epi32(0xffff));
        (rest, Self { interface, mtu, header })
    }

    /// Whether these lanes have link-layer headers without tags.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub(super) fn are_untagged(&self, lanes: __mmask16) -> bool {
        let untagged = _mm512_set1_epi32(UNTAGGED as i32);
        _mm512_mask_cmpneq_epu32_mask(lanes, self.header, untagged) == 0
    }

    /// Bytes of the link-layer headers of all lanes.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub(super) fn header_lengths(&self) -> [u32; STEP] {
        let mut lengths = [0; STEP];
        // SAFETY: the array is one vector.
        unsafe { _mm512_storeu_si512(lengths.as_mut_ptr().cast(), self.header) };
        lengths
    }
}

/// The heads of these lines: lanes 0 to 7, and 8 to 15. Loads one by one take less than half the time of
/// gathers on Zen 5.
///
/// # Safety
/// There are lines at these places.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
unsafe fn load_heads(lines: &[AdjacencyLine], places: &[u32; STEP]) -> [__m512i; 2] {
    // SAFETY: guaranteed by the caller; a line begins with its head. The load of a place is volatile:
    // else the compiler takes it out of the register of all of them, by two shuffles.
    unsafe {
        let head = |lane: usize| {
            let place = std::ptr::from_ref(&places[lane]).read_volatile();
            lines.as_ptr().add(place as usize)
        };
        let two = |lane: usize| {
            let low = _mm_castsi128_pd(_mm_loadl_epi64(head(lane).cast()));
            _mm_castpd_si128(_mm_loadh_pd(low, head(lane + 1).cast()))
        };
        let four = |lane: usize| _mm256_set_m128i(two(lane + 2), two(lane));
        let eight =
            |lane| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(four(lane)), four(lane + 4));
        [eight(0), eight(8)]
    }
}

/// The columns of 16 lanes, widened to 32 bits.
pub(super) struct Columns {
    pub(super) buffer: __m512i,
    pub(super) offset: __m512i,
    pub(super) length: __m512i,
    pub(super) flags: __m512i,
}

impl Columns {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub(super) fn load(vector: &Vector, at: usize) -> Self {
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

    /// The lanes with packets within the MTU, in single buffers of the pool with [`AHEAD`] bytes of
    /// headroom and [`HEADER`] bytes of data.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub(super) fn plain(&self, pool: &Pool, lanes: __mmask16, heads: &Heads) -> __mmask16 {
        let all = |value: u32| _mm512_set1_epi32(value as i32);
        let plain = _mm512_mask_cmplt_epu32_mask(lanes, self.buffer, all(pool.count()));
        let plain = _mm512_mask_cmpge_epu32_mask(plain, self.offset, all(AHEAD as u32));
        let plain = _mm512_mask_cmple_epu32_mask(plain, self.offset, all((SLOT - HEADER) as u32));
        _mm512_mask_cmple_epu32_mask(plain, self.length, heads.mtu)
    }

    /// What the packets add to counters: each one packet, and its length.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub(super) fn counted(&self) -> [[u64; 2]; STEP] {
        let (mut counted, one) = ([[0; 2]; STEP], _mm512_set1_epi64(1));
        let pairs: [[u64; 8]; 2] = [[0, 8, 0, 9, 0, 10, 0, 11], [0, 12, 0, 13, 0, 14, 0, 15]];
        let halves =
            [_mm512_castsi512_si256(self.length), _mm512_extracti64x4_epi64::<1>(self.length)];
        for (at, quarter) in counted.as_chunks_mut::<{ STEP / 4 }>().0.iter_mut().enumerate() {
            let lengths = _mm512_cvtepu32_epi64(halves[at / 2]);
            // SAFETY: the order is a vector, a quarter of the pairs one, too.
            unsafe {
                let order = _mm512_loadu_si512(pairs[at % 2].as_ptr().cast::<__m512i>());
                let pairs = _mm512_permutex2var_epi64(one, order, lengths);
                _mm512_storeu_si512(quarter.as_mut_ptr().cast(), pairs);
            }
        }
        counted
    }

    /// The lanes with packets that are generated locally.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub(super) fn own(&self, lanes: __mmask16) -> __mmask16 {
        _mm512_mask_test_epi32_mask(lanes, self.flags, _mm512_set1_epi32(flags::OWN.into()))
    }

    /// The start of the data, in bytes from the start of the pool: lanes 0 to 7, and 8 to 15.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub(super) fn place(&self) -> [__m512i; 2] {
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
    pub(super) fn store(&self, vector: &mut Vector, at: usize, lanes: __mmask16, heads: &Heads) {
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
