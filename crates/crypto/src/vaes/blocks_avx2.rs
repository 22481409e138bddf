//! Counter blocks, AES, and texts, with vectors of 256 bits.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::ghash_avx2::{BLOCKS, Product, Unhashed, powers, reverse, with_sum};
use super::key::{GcmKey, ROUND_KEYS};
use super::packet::Packet;

/// Bytes of a vector.
const BYTES: usize = BLOCKS * 16;

/// Counter blocks of a packet: those of `Z` vectors from block `done` of the stream on.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn counters<const Z: usize>(packet: &Packet<'_>, done: usize) -> [__m256i; Z] {
    let order = _mm_set_epi8(12, 13, 14, 15, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    let order = _mm256_broadcastsi128_si256(order);
    let mut words = [0_u8; 16];
    // SAFETY: a nonce has 12 bytes.
    unsafe { core::ptr::copy_nonoverlapping(packet.nonce, words.as_mut_ptr(), 12) };
    words[12..].copy_from_slice(&(done as u32 + 1).to_le_bytes());
    // SAFETY: it has 16 bytes.
    let first = unsafe { _mm_loadu_si128(words.as_ptr().cast()) };
    let mut it = _mm256_add_epi32(
        _mm256_broadcastsi128_si256(first),
        _mm256_set_epi32(1, 0, 0, 0, 0, 0, 0, 0),
    );
    let next = _mm256_broadcastsi128_si256(_mm_set_epi32(BLOCKS as i32, 0, 0, 0));
    let mut blocks = [it; Z];
    for block in &mut blocks {
        *block = _mm256_shuffle_epi8(it, order);
        it = _mm256_add_epi32(it, next);
    }
    blocks
}

/// AES of counter blocks, and between its rounds the hash of other blocks: neither waits for the other.
#[inline]
#[target_feature(enable = "avx2,aes,vaes,vpclmulqdq")]
pub(super) fn encrypt<const N: usize, const Z: usize, const R: usize>(
    packets: &[Packet<'_>; N],
    pad: &mut [[__m256i; Z]; N],
    others: &[Packet<'_>; N],
    unhashed: &[Unhashed<Z>; N],
    sums: &mut [__m128i; N],
) {
    let mut product = Product::zero();
    // The compiler keeps vectors in registers only where it knows each index.
    macro_rules! rounds {
        ($($round:literal)*) => { $(
            if $round < R + 1 {
                for n in 0..N {
                    let key = round_key(packets[n].key, $round);
                    for z in 0..Z {
                        pad[n][z] = match $round {
                            0 => _mm256_xor_si256(pad[n][z], key),
                            _ if $round == R => _mm256_aesenclast_epi128(pad[n][z], key),
                            _ => _mm256_aesenc_epi128(pad[n][z], key),
                        };
                    }
                }
                // One product behind a round; behind those of a packet its sum.
                if $round < N * Z {
                    let (n, z) = ($round / Z % N, $round % Z);
                    let blocks = with_sum(unhashed[n].blocks[z], sums[n], z);
                    product.add(blocks, powers(others[n].key, unhashed[n].count, z));
                    if z == Z - 1 {
                        let all = core::mem::replace(&mut product, Product::zero());
                        if unhashed[n].count > 0 {
                            sums[n] = all.reduced();
                        }
                    }
                }
            }
        )* };
    }
    rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn round_key(key: &GcmKey, round: usize) -> __m256i {
    assert!(round < ROUND_KEYS);
    // SAFETY: there are so many round keys.
    let one = unsafe { _mm_loadu_si128(key.round_keys.as_ptr().add(round).cast()) };
    _mm256_broadcastsi128_si256(one)
}

/// Encrypts or decrypts whole vectors of the text, from block `done` of the stream on. Returns what is hashed.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn cross_whole<const Z: usize, const SEAL: bool>(
    packet: &Packet<'_>,
    done: usize,
    pad: &[__m256i; Z],
) -> Unhashed<Z> {
    assert!(done > 0 && packet.length + 16 >= done * 16 + Z * BYTES);
    let mut blocks = *pad;
    for z in 0..Z {
        // SAFETY: all of it is in the text, asserted above.
        blocks[z] = unsafe { cross_vector::<SEAL>(packet, done + z * BLOCKS, pad[z]) };
    }
    Unhashed { blocks, count: Z * BLOCKS }
}

/// Encrypts or decrypts two blocks of text. Returns what is hashed.
///
/// # Safety
/// Blocks `at` and `at + 1` of the stream are in the text.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn cross_vector<const SEAL: bool>(packet: &Packet<'_>, at: usize, pad: __m256i) -> __m256i {
    // SAFETY: as above.
    unsafe {
        let place = packet.text.add((at - 1) * 16).cast();
        let text = _mm256_loadu_si256(place);
        let crossed = _mm256_xor_si256(text, pad);
        _mm256_storeu_si256(place, crossed);
        _mm256_shuffle_epi8(if SEAL { crossed } else { text }, reverse())
    }
}

/// Encrypts or decrypts the text in a step of a stream from block `done` on. Returns what is hashed: AAD, encrypted
/// text and lengths, with the bytes of each block reversed.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn cross<const Z: usize, const SEAL: bool>(
    packet: &Packet<'_>,
    done: usize,
    pad: &[__m256i; Z],
) -> Unhashed<Z> {
    let mut blocks = *pad;
    for z in 0..Z {
        let at = done + z * BLOCKS;
        if at > 0 && packet.length + 16 >= at * 16 + BYTES {
            // SAFETY: both blocks are in the text.
            blocks[z] = unsafe { cross_vector::<SEAL>(packet, at, pad[z]) };
            continue;
        }
        let first = cross_block::<SEAL>(packet, at, _mm256_castsi256_si128(pad[z]));
        let second = cross_block::<SEAL>(packet, at + 1, _mm256_extracti128_si256::<1>(pad[z]));
        blocks[z] = _mm256_shuffle_epi8(_mm256_set_m128i(second, first), reverse());
    }
    Unhashed { blocks, count: packet.blocks().saturating_sub(done).min(Z * BLOCKS) }
}

/// One block of a stream: AAD, text, or lengths; zero behind them. What is done depends on lengths only.
#[inline]
#[target_feature(enable = "avx2")]
fn cross_block<const SEAL: bool>(packet: &Packet<'_>, block: usize, pad: __m128i) -> __m128i {
    if block == 0 {
        // SAFETY: the array of a lane has 16 bytes.
        let aad = unsafe { _mm_loadu_si128(packet.aad.cast()) };
        return _mm_and_si128(aad, first_bytes(packet.aad_length.into()));
    }
    let begin = (block - 1) * 16;
    if begin < packet.length {
        let mask = first_bytes(packet.length - begin);
        // SAFETY: behind a text is a tag of 16 bytes, so that a block that begins in the text ends in its packet. Bytes
        // of the tag are written as they are.
        unsafe {
            let place: *mut __m128i = packet.text.add(begin).cast();
            let text = _mm_loadu_si128(place);
            let crossed = _mm_xor_si128(text, _mm_and_si128(pad, mask));
            _mm_storeu_si128(place, crossed);
            return _mm_and_si128(if SEAL { crossed } else { text }, mask);
        }
    }
    if block + 1 == packet.blocks() {
        let bits = |bytes: usize| (bytes as u64 * 8).swap_bytes().cast_signed();
        return _mm_set_epi64x(bits(packet.length), bits(packet.aad_length.into()));
    }
    _mm_setzero_si128()
}

/// Ones in the first bytes of a block.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn first_bytes(count: usize) -> __m128i {
    let count = _mm_set1_epi8(count.min(16) as i8);
    _mm_cmpgt_epi8(count, _mm_set_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0))
}
