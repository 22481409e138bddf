//! Counter blocks, AES, and texts.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::ghash_avx512::{Product, Unhashed, folded, powers};
use super::key::{GcmKey, POWERS, ROUND_KEYS};
use super::packet::Packet;

/// Blocks of a vector, and its bytes.
pub(super) const BLOCKS: usize = 4;
const BYTES: usize = 64;

/// Reverses the bytes of each block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn reverse() -> __m512i {
    _mm512_broadcast_i32x4(_mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
}

/// The first counters of packets, with the last word in the order of the processor.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn counters<const N: usize>(packets: &[Packet<'_>; N]) -> [__m512i; N] {
    let mut counters = [_mm512_set_epi32(3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0); N];
    for n in 0..N {
        // SAFETY: a nonce has 12 bytes; others are not read.
        let nonce = unsafe { _mm_maskz_loadu_epi8(0xfff, packets[n].nonce.cast()) };
        let counter = _mm_insert_epi32::<3>(nonce, 1_i32);
        counters[n] = _mm512_add_epi32(counters[n], _mm512_broadcast_i32x4(counter));
    }
    counters
}

/// The next counter blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn blocks<const N: usize, const Z: usize>(
    counters: &mut [__m512i; N],
) -> [[__m512i; Z]; N] {
    let order = _mm_set_epi8(12, 13, 14, 15, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    let order = _mm512_broadcast_i32x4(order);
    let next = _mm512_broadcast_i32x4(_mm_set_epi32(BLOCKS as i32, 0, 0, 0));
    let mut blocks = [[_mm512_setzero_si512(); Z]; N];
    for n in 0..N {
        for block in &mut blocks[n] {
            *block = _mm512_shuffle_epi8(counters[n], order);
            counters[n] = _mm512_add_epi32(counters[n], next);
        }
    }
    blocks
}

/// AES of counter blocks, and between its rounds the hash of other blocks: neither waits for the other.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi2,aes,vaes,vpclmulqdq")]
pub(super) fn encrypt<const N: usize, const Z: usize, const R: usize, const SEAL: bool>(
    packets: &[Packet<'_>; N],
    pad: &mut [[__m512i; Z]; N],
    others: &[Packet<'_>; N],
    unhashed: &[Unhashed<Z>; N],
    sums: &mut [__m128i; N],
) {
    let mut products = [Product::zero(); N];
    // The compiler keeps vectors in registers only where it knows each index.
    macro_rules! rounds {
        ($($round:literal)*) => { $(
            if $round < R + 1 {
                for n in 0..N {
                    let key = round_key(packets[n].key, $round);
                    for z in 0..Z {
                        pad[n][z] = match $round {
                            0 => _mm512_xor_si512(pad[n][z], key),
                            _ if $round == R => _mm512_aesenclast_epi128(pad[n][z], key),
                            _ => _mm512_aesenc_epi128(pad[n][z], key),
                        };
                    }
                }
                // One product behind a round. Those with the sum come last.
                if $round < N * Z {
                    let (n, z) = ($round % N, Z - 1 - $round / N % Z);
                    let mut blocks = unhashed[n].blocks[z];
                    if z == 0 {
                        blocks = _mm512_xor_si512(blocks, _mm512_zextsi128_si512(sums[n]));
                    }
                    let at = POWERS - unhashed[n].count + z * BLOCKS;
                    products[n].add(blocks, powers(others[n].key, at));
                }
            }
        )* };
    }
    rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
    for n in 0..N {
        let is_none = (unhashed[n].count == 0) as u8;
        sums[n] =
            _mm_mask_mov_epi64(folded(products[n].reduced()), is_none.wrapping_neg(), sums[n]);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn round_key(key: &GcmKey, round: usize) -> __m512i {
    assert!(round < ROUND_KEYS);
    // SAFETY: there are so many round keys.
    let one = unsafe { _mm_loadu_si128(key.round_keys.as_ptr().add(round).cast()) };
    _mm512_broadcast_i32x4(one)
}

/// Encrypts or decrypts whole vectors of the text, from block `done` of the stream on. Returns what is hashed.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn cross_whole<const Z: usize, const SEAL: bool>(
    packet: &Packet<'_>,
    done: usize,
    pad: &[__m512i; Z],
) -> [__m512i; Z] {
    assert!(done > 0 && packet.length + 16 >= done * 16 + Z * BYTES);
    let mut blocks = *pad;
    for z in 0..Z {
        // SAFETY: all of it is in the text, asserted above.
        unsafe {
            let place = packet.text.add((done - 1) * 16 + z * BYTES).cast();
            let text = _mm512_loadu_si512(place);
            let crossed = _mm512_xor_si512(text, pad[z]);
            _mm512_storeu_si512(place, crossed);
            blocks[z] = _mm512_shuffle_epi8(if SEAL { crossed } else { text }, reverse());
        }
    }
    blocks
}

/// Encrypts or decrypts the text in a step of a stream from block `done` on. Returns what is hashed: AAD, encrypted
/// text and lengths, with the bytes of each block reversed.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi2")]
pub(super) fn cross<const Z: usize, const SEAL: bool>(
    packet: &Packet<'_>,
    done: usize,
    pad: &[__m512i; Z],
) -> Unhashed<Z> {
    let (all, reverse) = (packet.blocks(), reverse());
    let ones = ((1_u32 << packet.aad_length) - 1) as u16;
    // SAFETY: the array of a lane has 16 bytes.
    let aad = unsafe { _mm_maskz_loadu_epi8(ones, packet.aad.cast()) };
    let bits = |bytes: usize| (bytes as u64 * 8).swap_bytes().cast_signed();
    let lengths = _mm_set_epi64x(bits(packet.length), bits(packet.aad_length.into()));
    let mut blocks = [_mm512_setzero_si512(); Z];
    // The text begins with block 1.
    let begin = packet.text.wrapping_add(done * 16).wrapping_sub(16);
    for z in 0..Z {
        let block = done + z * BLOCKS;
        // Masks leave out what is in front of the text, and behind it.
        let end = (packet.length + 16).saturating_sub(block * 16);
        let mut mask = _bzhi_u64(u64::MAX, end.min(BYTES) as u32);
        if block == 0 {
            mask &= u64::MAX << 16;
        }
        let place = begin.wrapping_add(z * BYTES);
        // SAFETY: bytes that the mask leaves out are neither read nor written; the others are of the text.
        let text = unsafe { _mm512_maskz_loadu_epi8(mask, place.cast()) };
        let crossed = _mm512_maskz_mov_epi8(mask, _mm512_xor_si512(text, pad[z]));
        // SAFETY: as above.
        unsafe { _mm512_mask_storeu_epi8(place.cast(), mask, crossed) };
        let mut hashed = if SEAL { crossed } else { text };
        if block == 0 {
            hashed = _mm512_mask_broadcast_i32x4(hashed, 0xf, aad);
        }
        // The lengths are the last block; in another vector they have no place.
        let shift = (all - 1).wrapping_sub(block).saturating_mul(4).min(60);
        let lane = (0xf_u64 << shift) as u16;
        hashed = _mm512_mask_broadcast_i32x4(hashed, lane, lengths);
        blocks[z] = _mm512_shuffle_epi8(hashed, reverse);
    }
    Unhashed { blocks, count: all.saturating_sub(done).min(Z * BLOCKS) }
}
