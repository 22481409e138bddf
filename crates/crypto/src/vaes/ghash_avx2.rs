//! GHASH (NIST SP 800-38D section 6.4) with vectors of 256 bits: sums of products of blocks with powers of H.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::key::{GcmKey, POLYNOMIAL, POWERS};

/// Blocks of a vector.
pub(super) const BLOCKS: usize = 2;

/// Blocks that are not in the sum of their packet yet, with their bytes reversed.
#[derive(Clone, Copy)]
pub(super) struct Unhashed<const Z: usize> {
    pub(super) blocks: [__m256i; Z],
    /// How many there are, in a row.
    pub(super) count: usize,
}

impl<const Z: usize> Unhashed<Z> {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn none() -> Self {
        Self { blocks: [_mm256_setzero_si256(); Z], count: 0 }
    }
}

/// Reverses the bytes of each block.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn reverse() -> __m256i {
    _mm256_broadcastsi128_si256(_mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
}

/// The tag of a sum: `pad` is the first counter block, encrypted.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn tag(sum: __m128i, pad: __m128i) -> __m128i {
    _mm_xor_si128(_mm_shuffle_epi8(sum, _mm256_castsi256_si128(reverse())), pad)
}

/// Adds blocks to a sum: each times a power of H, the last one times H.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq")]
pub(super) fn hash<const Z: usize>(key: &GcmKey, sum: __m128i, unhashed: &Unhashed<Z>) -> __m128i {
    if unhashed.count == 0 {
        return sum;
    }
    let mut product = Product::zero();
    for z in 0..Z {
        product.add(with_sum(unhashed.blocks[z], sum, z), powers(key, unhashed.count, z));
    }
    product.reduced()
}

/// The sum is added to the first block.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn with_sum(blocks: __m256i, sum: __m128i, z: usize) -> __m256i {
    if z == 0 { _mm256_xor_si256(blocks, _mm256_zextsi128_si256(sum)) } else { blocks }
}

/// Two powers: those for vector `z` of `count` blocks. Behind the last one come round keys, which no block is
/// multiplied by: there are zeros in their places.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn powers(key: &GcmKey, count: usize, z: usize) -> __m256i {
    let at = POWERS - count + z * BLOCKS;
    assert!((at + BLOCKS) * 16 <= size_of::<GcmKey>());
    // SAFETY: these 32 bytes are of the key.
    unsafe { _mm256_loadu_si256(core::ptr::from_ref(key).cast::<u8>().add(at * 16).cast()) }
}

/// A sum of products of 128 bits, in each lane of 128 bits, not reduced.
#[derive(Clone, Copy)]
pub(super) struct Product {
    low: __m256i,
    middle: __m256i,
    high: __m256i,
}

impl Product {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn zero() -> Self {
        let zero = _mm256_setzero_si256();
        Self { low: zero, middle: zero, high: zero }
    }

    #[inline]
    #[target_feature(enable = "avx2,vpclmulqdq")]
    pub(super) fn add(&mut self, one: __m256i, other: __m256i) {
        let cross = _mm256_xor_si256(
            _mm256_clmulepi64_epi128::<0x01>(one, other),
            _mm256_clmulepi64_epi128::<0x10>(one, other),
        );
        self.middle = _mm256_xor_si256(self.middle, cross);
        self.low = _mm256_xor_si256(self.low, _mm256_clmulepi64_epi128::<0x00>(one, other));
        self.high = _mm256_xor_si256(self.high, _mm256_clmulepi64_epi128::<0x11>(one, other));
    }

    /// The sum of all lanes modulo the polynomial.
    #[inline]
    #[target_feature(enable = "avx2,vpclmulqdq")]
    pub(super) fn reduced(self) -> __m128i {
        let polynomial = _mm256_broadcastsi128_si256(_mm_set_epi64x(POLYNOMIAL, 1));
        let low = _mm256_clmulepi64_epi128::<0x10>(self.low, polynomial);
        let swapped = _mm256_shuffle_epi32::<0x4e>(self.low);
        let middle = _mm256_xor_si256(self.middle, _mm256_xor_si256(swapped, low));
        let swapped = _mm256_shuffle_epi32::<0x4e>(middle);
        let middle = _mm256_clmulepi64_epi128::<0x10>(middle, polynomial);
        let all = _mm256_xor_si256(self.high, _mm256_xor_si256(swapped, middle));
        _mm_xor_si128(_mm256_castsi256_si128(all), _mm256_extracti128_si256::<1>(all))
    }
}
