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
        let header = _mm512_and_si512(_mm512_srli_epi32::<16>(rest), _mm512_set1_epi32(0xff));
        let mtu = _mm512_and_si512(rest, _mm512_set1_epi32(0xffff));
        (rest, Self { interface: join(low, high), mtu, header })
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
