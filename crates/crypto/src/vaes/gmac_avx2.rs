//! GMAC (RFC 4543): the tag of GCM for AAD alone, which is the AAD of a lane, its IV, and its text.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::blocks_avx2::{first_bytes, round_key};
use super::ghash_avx2::{BLOCKS, Unhashed, hash, reverse, tag};
use super::key::GcmKey;
use super::packet::Packet;

/// Vectors that are hashed with one reduction.
const STEP: usize = 8;

/// What is hashed: a head of whole blocks, which has AAD, IV and the first bytes of the text; the rest of the text; the
/// lengths.
struct Stream {
    /// Blocks of the head.
    head: [u8; 48],
    head_blocks: usize,
    /// The rest of the text.
    text: *const u8,
    text_length: usize,
    /// Bytes of AAD, IV and text.
    bytes: usize,
}

impl Stream {
    fn of(packet: &Packet<'_>) -> Self {
        let mut head = [0; 48];
        let aad_length = usize::from(packet.aad_length);
        // SAFETY: the arrays of a lane have 16 bytes of AAD and 12 of the nonce, the last 8 of which are the IV; the
        // head has space for both and for what is missing of its last block.
        let (taken, before) = unsafe {
            core::ptr::copy_nonoverlapping(packet.aad, head.as_mut_ptr(), aad_length);
            core::ptr::copy_nonoverlapping(
                packet.nonce.add(4),
                head.as_mut_ptr().add(aad_length),
                8,
            );
            let before = aad_length + 8;
            let taken = packet.length.min(before.next_multiple_of(16) - before);
            core::ptr::copy_nonoverlapping(packet.text, head.as_mut_ptr().add(before), taken);
            (taken, before)
        };
        Self {
            head,
            head_blocks: (before + taken).div_ceil(16),
            text: packet.text.wrapping_add(taken),
            text_length: packet.length - taken,
            bytes: before + packet.length,
        }
    }

    fn blocks(&self) -> usize {
        self.head_blocks + self.text_length.div_ceil(16) + 1
    }

    /// Two blocks.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn blocks_at(&self, at: usize) -> __m256i {
        if at >= self.head_blocks {
            let begin = (at - self.head_blocks) * 16;
            if begin + 32 <= self.text_length {
                // SAFETY: they are in the text.
                return unsafe { _mm256_loadu_si256(self.text.add(begin).cast()) };
            }
        }
        _mm256_set_m128i(self.block(at + 1), self.block(at))
    }

    /// A block; zero behind the last one.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn block(&self, block: usize) -> __m128i {
        if block < self.head_blocks {
            // SAFETY: the head has so many blocks.
            return unsafe { _mm_loadu_si128(self.head.as_ptr().add(block * 16).cast()) };
        }
        let begin = (block - self.head_blocks) * 16;
        if begin < self.text_length {
            // SAFETY: behind a text is a tag of 16 bytes.
            let text = unsafe { _mm_loadu_si128(self.text.add(begin).cast()) };
            return _mm_and_si128(text, first_bytes(self.text_length - begin));
        }
        if block + 1 == self.blocks() {
            return _mm_set_epi64x(0, (self.bytes as u64 * 8).swap_bytes().cast_signed());
        }
        _mm_setzero_si128()
    }
}

/// The tag of a packet.
#[target_feature(enable = "avx2,aes,vaes,vpclmulqdq")]
pub(super) fn packet_tag(packet: &Packet<'_>) -> __m128i {
    let stream = Stream::of(packet);
    let (mut sum, all) = (_mm_setzero_si128(), stream.blocks());
    for done in (0..all).step_by(STEP * BLOCKS) {
        let mut unhashed = Unhashed::<STEP>::none();
        unhashed.count = (all - done).min(STEP * BLOCKS);
        for z in 0..STEP {
            let at = done + z * BLOCKS;
            unhashed.blocks[z] = _mm256_shuffle_epi8(stream.blocks_at(at), reverse());
        }
        sum = hash(packet.key, sum, &unhashed);
    }
    tag(sum, first_pad(packet))
}

/// AES of the first counter block.
#[inline]
#[target_feature(enable = "avx2,aes")]
fn first_pad(packet: &Packet<'_>) -> __m128i {
    let mut block = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1_u8];
    // SAFETY: a nonce has 12 bytes, the block 16.
    let block = unsafe {
        core::ptr::copy_nonoverlapping(packet.nonce, block.as_mut_ptr(), 12);
        _mm_loadu_si128(block.as_ptr().cast())
    };
    encrypted(packet.key, block)
}

/// AES of a block.
#[inline]
#[target_feature(enable = "avx2,aes")]
pub(super) fn encrypted(key: &GcmKey, mut block: __m128i) -> __m128i {
    let rounds = usize::from(key.rounds);
    for round in 0..=rounds {
        let round_key = _mm256_castsi256_si128(round_key(key, round));
        block = match round {
            0 => _mm_xor_si128(block, round_key),
            _ if round == rounds => _mm_aesenclast_si128(block, round_key),
            _ => _mm_aesenc_si128(block, round_key),
        };
    }
    block
}
