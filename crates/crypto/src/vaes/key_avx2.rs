//! Preparation of keys.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use zeroize::Zeroizing;

use super::Vaes256;
use super::ghash_avx2::Product;
use super::gmac_avx2::encrypted;
use super::key::{GcmKey, POWERS, ROUND_KEYS};

/// Prepares a key of 16 or 32 bytes.
pub(super) fn prepare(_: &Vaes256, bytes: &[u8]) -> Box<GcmKey> {
    let mut key = Box::new(GcmKey {
        powers: [[0; 16]; POWERS],
        round_keys: [[0; 16]; ROUND_KEYS],
        rounds: 10,
        _rest: [0; 15],
    });
    // SAFETY: there is a `Vaes256` only where the processor has the features.
    unsafe { prepare_here(bytes, &mut key) };
    key
}

#[target_feature(enable = "avx2,aes,vaes,vpclmulqdq")]
fn prepare_here(bytes: &[u8], key: &mut GcmKey) {
    expand(bytes, key);
    let h = encrypted(key, _mm_setzero_si128());
    let mut bytes = Zeroizing::new([0; 16]);
    // SAFETY: it has 16 bytes.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), h) };
    // Times x: products of reflected polynomials are one bit short.
    let h = Zeroizing::new(u128::from_be_bytes(*bytes));
    let carry = 0_u128.wrapping_sub(*h >> 127);
    let one = from_u128((*h << 1) ^ (carry & 0xc200_0000_0000_0000_0000_0000_0000_0001));
    let mut power = one;
    for place in (0..POWERS).rev() {
        // SAFETY: it has 16 bytes.
        unsafe { _mm_storeu_si128(key.powers[place].as_mut_ptr().cast(), power) };
        let mut product = Product::zero();
        product.add(_mm256_zextsi128_si256(power), _mm256_zextsi128_si256(one));
        power = product.reduced();
    }
}

#[inline]
#[target_feature(enable = "sse2")]
fn from_u128(it: u128) -> __m128i {
    _mm_set_epi64x(((it >> 64) as u64).cast_signed(), (it as u64).cast_signed())
}

/// The round keys (FIPS 197 section 5.2).
#[target_feature(enable = "aes")]
fn expand(bytes: &[u8], key: &mut GcmKey) {
    let words = bytes.len() / 4;
    key.rounds = words as u8 + 6;
    let mut all = Zeroizing::new([0_u32; 4 * ROUND_KEYS]);
    for (word, bytes) in all.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut constant = 1_u32;
    for at in words..4 * (usize::from(key.rounds) + 1) {
        let mut word = all[at - 1];
        if at % words == 0 {
            word = substituted(word).rotate_right(8) ^ constant;
            constant = (constant << 1) ^ ((constant >> 7) * 0x11b);
        } else if words > 6 && at % words == 4 {
            word = substituted(word);
        }
        all[at] = all[at - words] ^ word;
    }
    for (round_key, words) in key.round_keys.iter_mut().zip(all.as_chunks::<4>().0) {
        for (bytes, word) in round_key.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
    }
}

/// The S-box of each byte of a word, without a table: what an attacker could measure.
#[inline]
#[target_feature(enable = "aes")]
fn substituted(word: u32) -> u32 {
    let all = _mm_set1_epi32(word.cast_signed());
    _mm_cvtsi128_si32(_mm_aeskeygenassist_si128::<0>(all)).cast_unsigned()
}
