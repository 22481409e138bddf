//! What `rewrite_avx2` does with one packet: it loads the 32 bytes around the boundary between link-layer
//! and IP header, decrements TTL and checksum (IPv4) or hop limit (IPv6) in the register, and stores all 32
//! bytes.

use std::arch::x86_64::*;

use stoa_engine::pool::{Pool, SLOT};
use stoa_tables::adjacency::AdjacencyLine;

use super::ip4_rewrite::Ip4;
use super::ip6_rewrite::Ip6;
use super::rewrite::{AHEAD, Family, HEADER};

/// Bytes of the window before the IP header: a link-layer header without tags.
pub(super) const BEFORE: usize = 14;
/// Bytes of the second store of a tagged header.
pub(super) const MORE: usize = 8;

/// The differences between IPv4 and IPv6.
pub trait DecrementTtl: Family {
    /// The addends of the first 16-bit words of the IP header.
    const ADDED: [i16; 9];
    /// The greatest value of each word that gets no end-around carry, with its sign bit inverted.
    const NO_CARRY: [i16; 9];
    /// Whether any word can get one.
    const CARRIES: bool;
}

impl DecrementTtl for Ip4 {
    /// The TTL is the low byte of word 4 in little-endian order. Decrementing it subtracts 0x100
    /// from its word in network order, so the checksum, word 5, grows by 0x100 in network order: by
    /// 1 in little-endian order, and once more from 0xfffe on, so that 0xffff is not a result (RFC 1624).
    const ADDED: [i16; 9] = [0, 0, 0, 0, -1, 1, 0, 0, 0];
    const NO_CARRY: [i16; 9] = {
        let mut words = [i16::MAX; 9];
        words[5] = (0xfffd_u16 ^ 0x8000) as i16;
        words
    };
    const CARRIES: bool = true;
}

impl DecrementTtl for Ip6 {
    /// The hop limit is the high byte of word 3.
    const ADDED: [i16; 9] = [0, 0, 0, -0x100, 0, 0, 0, 0, 0];
    const NO_CARRY: [i16; 9] = [i16::MAX; 9];
    const CARRIES: bool = false;
}

/// The addends of the 32-byte window that decrement the TTL.
pub(super) struct TtlDelta {
    added: __m256i,
    no_carry: __m256i,
    /// The least TTL that does not expire.
    least: u8,
}

impl TtlDelta {
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn of<F: DecrementTtl>() -> Self {
        let window = |words: [i16; 9], before: i16| {
            let mut window = [before; 16];
            window[BEFORE / 2..].copy_from_slice(&words);
            // SAFETY: the array is one vector.
            unsafe { _mm256_loadu_si256(window.as_ptr().cast()) }
        };
        Self { added: window(F::ADDED, 0), no_carry: window(F::NO_CARRY, i16::MAX), least: 2 }
    }

    /// Leaves the TTL as it is: of packets that are generated locally.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn none() -> Self {
        Self { added: _mm256_setzero_si256(), no_carry: _mm256_set1_epi16(i16::MAX), least: 0 }
    }
}

/// What becomes of a packet: the link-layer header of an adjacency in the layout of the stores, and how
/// the TTL changes.
pub(super) struct Frame<'a> {
    /// The last [`BEFORE`] bytes of the header, then what is added to the words of the packet.
    last: __m256i,
    /// The first bytes of the header.
    first: u64,
    /// The length of the header.
    length: usize,
    delta: &'a TtlDelta,
}

impl<'a> Frame<'a> {
    /// A link-layer header of `length` bytes, see `may_send`.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn of(line: &AdjacencyLine, length: usize, delta: &'a TtlDelta) -> Self {
        assert!((BEFORE..=BEFORE + MORE).contains(&length));
        // SAFETY: the rewrite ends at the end of the line, which is longer than 32 bytes.
        unsafe {
            let end = std::ptr::from_ref(line).add(1).cast::<u8>();
            let last = _mm_srli_si128::<2>(_mm_loadu_si128(end.sub(16).cast()));
            let first = end.sub(length).cast::<u64>().read_unaligned();
            // Nothing is added to the words of the header.
            let last = _mm256_add_epi16(_mm256_zextsi128_si256(last), delta.added);
            Self { last, first, length, delta }
        }
    }

    /// Decrements the TTL of a packet and writes its link-layer header; false: its TTL expires. `TAGGED`:
    /// the header is longer than [`BEFORE`], so that the first bytes are stored, too; where lengths are
    /// mixed they may be stored in all, so that no branch is mispredicted.
    ///
    /// # Safety
    /// `place` is the start of a packet that this worker owns in this pool, with [`AHEAD`] bytes of
    /// headroom and [`HEADER`] bytes of data in its buffer.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) unsafe fn send<F: DecrementTtl, const TAGGED: bool>(
        &self,
        pool: &Pool,
        place: u64,
    ) -> bool {
        const { assert!(BEFORE + MORE <= AHEAD && 32 - BEFORE <= HEADER && HEADER < SLOT) };
        // SAFETY: the window and the header are inside the buffer.
        unsafe {
            let packet = pool.base().as_ptr().add(place as usize);
            if *packet.add(F::TTL) < self.delta.least {
                return false;
            }
            let window = packet.sub(BEFORE).cast::<__m256i>();
            let bytes = _mm256_loadu_si256(window);
            // The link-layer header ends between two words.
            let seam = _mm256_setr_epi32(0, 0, 0, 0xffff_0000_u32 as i32, -1, -1, -1, -1);
            let mut frame = _mm256_add_epi16(_mm256_and_si256(bytes, seam), self.last);
            if F::CARRIES {
                // Comparing is signed: inverting the signs keeps the order of unsigned numbers.
                let signed = _mm256_xor_si256(bytes, _mm256_set1_epi16(i16::MIN));
                let carry = _mm256_cmpgt_epi16(signed, self.delta.no_carry);
                frame = _mm256_sub_epi16(frame, carry);
            }
            if TAGGED {
                packet.sub(self.length).cast::<u64>().write_unaligned(self.first);
            }
            _mm256_storeu_si256(window, frame);
        }
        true
    }
}
