//! What a long packet keeps in registers: its round keys, and its next counter blocks.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::blocks_avx512::{BLOCKS, round_key};
use super::key::{GcmKey, ROUND_KEYS};
use super::packet::Packet;

/// Vectors in a step.
pub(super) const LONG: usize = 4;

/// Round keys in all blocks of vectors. Stores to a text cannot change them, so that they stay in registers.
pub(super) struct Keys<const R: usize>([__m512i; ROUND_KEYS]);

impl<const R: usize> Keys<R> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn of(key: &GcmKey) -> Self {
        let mut keys = [_mm512_setzero_si512(); ROUND_KEYS];
        for (round, to) in keys.iter_mut().enumerate().take(R + 1) {
            *to = round_key(key, round);
        }
        Self(keys)
    }

    /// AES of counter blocks.
    #[inline]
    #[target_feature(enable = "avx512f,aes,vaes")]
    pub(super) fn encrypted<const Z: usize>(&self, mut pad: [__m512i; Z]) -> [__m512i; Z] {
        for pad in &mut pad {
            *pad = _mm512_xor_si512(*pad, self.0[0]);
        }
        // The compiler keeps vectors in registers only where it knows each index.
        macro_rules! rounds {
            ($($round:literal)*) => { $(
                if $round < R {
                    for pad in &mut pad {
                        *pad = _mm512_aesenc_epi128(*pad, self.0[$round]);
                    }
                }
            )* };
        }
        rounds!(1 2 3 4 5 6 7 8 9 10 11 12 13);
        for pad in &mut pad {
            *pad = _mm512_aesenclast_epi128(*pad, self.0[R]);
        }
        pad
    }
}

/// Counter blocks of a packet.
pub(super) struct Counters {
    /// Those of the last step of [`LONG`] vectors.
    blocks: [__m512i; LONG],
    /// The first ones, with the last word in the order of the processor.
    begin: __m512i,
}

impl Counters {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn of(packet: &Packet<'_>) -> Self {
        let [begin] = super::blocks_avx512::counters(core::array::from_ref(packet));
        Self { blocks: [begin; LONG], begin }
    }

    /// Those of `Z` vectors from block `done` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn some<const Z: usize>(&self, done: usize) -> [__m512i; Z] {
        let order = _mm_set_epi8(12, 13, 14, 15, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        let order = _mm512_broadcast_i32x4(order);
        let by = |blocks: usize| _mm_set_epi32(blocks as i32, 0, 0, 0);
        let mut it = _mm512_add_epi32(self.begin, _mm512_broadcast_i32x4(by(done)));
        let next = _mm512_broadcast_i32x4(by(BLOCKS));
        let mut blocks = [it; Z];
        for block in &mut blocks {
            *block = _mm512_shuffle_epi8(it, order);
            it = _mm512_add_epi32(it, next);
        }
        blocks
    }

    /// Those of the step from block `done` on, the next one.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn next(&mut self, done: usize) -> [__m512i; LONG] {
        // Counters are big-endian: while their last bytes do not overflow, it is enough to add to these.
        let step = LONG * BLOCKS;
        if matches!(done / step % 16, 0 | 15) {
            self.blocks = self.some(done);
        } else {
            let by = _mm512_broadcast_i32x4(_mm_set_epi32((step << 24) as i32, 0, 0, 0));
            for block in &mut self.blocks {
                *block = _mm512_add_epi32(*block, by);
            }
        }
        self.blocks
    }
}
