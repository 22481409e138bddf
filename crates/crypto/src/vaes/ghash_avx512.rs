//! GHASH (NIST SP 800-38D section 6.4): sums of products of blocks with powers of H.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::blocks_avx512::{BLOCKS, reverse};
use super::key::{GcmKey, POLYNOMIAL, POWERS};

/// Blocks that are not in the sum of their packet yet.
#[derive(Clone, Copy)]
pub(super) struct Unhashed<const Z: usize> {
    pub(super) blocks: [__m512i; Z],
    /// How many there are, in a row.
    pub(super) count: usize,
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn tags<const N: usize>(mut sums: [__m128i; N], pads: [__m128i; N]) -> [__m128i; N] {
    for n in 0..N {
        sums[n] =
            _mm_xor_si128(_mm_shuffle_epi8(sums[n], _mm512_castsi512_si128(reverse())), pads[n]);
    }
    sums
}

/// Adds blocks to four sums, which are one behind another: each times a power of H, the last one times H. Returns the
/// sum of all.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,vpclmulqdq")]
pub(super) fn hash<const Z: usize>(key: &GcmKey, sums: __m512i, unhashed: &Unhashed<Z>) -> __m128i {
    let mut product = Product::zero();
    for z in (0..Z).rev() {
        let mut blocks = unhashed.blocks[z];
        if z == 0 {
            blocks = _mm512_xor_si512(blocks, sums);
        }
        product.add(blocks, powers(key, POWERS - unhashed.count + z * BLOCKS));
    }
    folded(product.reduced())
}

/// Adds 16 blocks to four sums, with others to follow: every fourth block belongs to the same one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,vpclmulqdq")]
pub(super) fn hash_four<const Z: usize>(
    key: &GcmKey,
    sums: __m512i,
    blocks: &[__m512i; Z],
) -> __m512i {
    let mut product = Product::zero();
    for z in (0..Z).rev() {
        let mut it = blocks[z];
        if z == 0 {
            it = _mm512_xor_si512(it, sums);
        }
        // H^16, H^12, H^8, H^4.
        // SAFETY: there are so many powers.
        let power =
            unsafe { _mm_loadu_si128(key.powers.as_ptr().add(POWERS - (Z - z) * BLOCKS).cast()) };
        product.add(it, _mm512_broadcast_i32x4(power));
    }
    product.reduced()
}

/// Four powers from a position on. Behind the last one come round keys, which no block is multiplied by: there are
/// zeros in their places.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn powers(key: &GcmKey, at: usize) -> __m512i {
    assert!((at + BLOCKS) * 16 <= size_of::<GcmKey>());
    // SAFETY: these 64 bytes are of the key.
    unsafe { _mm512_loadu_si512(core::ptr::from_ref(key).cast::<u8>().add(at * 16).cast()) }
}

/// A sum of products of 128 bits, in each lane of 128 bits, not reduced.
#[derive(Clone, Copy)]
pub(super) struct Product {
    low: __m512i,
    middle: __m512i,
    high: __m512i,
}

impl Product {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn zero() -> Self {
        let zero = _mm512_setzero_si512();
        Self { low: zero, middle: zero, high: zero }
    }

    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    pub(super) fn add(&mut self, one: __m512i, other: __m512i) {
        let cross = _mm512_clmulepi64_epi128::<0x01>(one, other);
        self.middle = _mm512_ternarylogic_epi64::<0x96>(
            self.middle,
            cross,
            _mm512_clmulepi64_epi128::<0x10>(one, other),
        );
        self.low = _mm512_xor_si512(self.low, _mm512_clmulepi64_epi128::<0x00>(one, other));
        self.high = _mm512_xor_si512(self.high, _mm512_clmulepi64_epi128::<0x11>(one, other));
    }

    /// The sum of each lane modulo the polynomial.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,vpclmulqdq")]
    pub(super) fn reduced(self) -> __m512i {
        let polynomial = _mm512_broadcast_i32x4(_mm_set_epi64x(POLYNOMIAL, 1));
        let low = _mm512_clmulepi64_epi128::<0x10>(self.low, polynomial);
        let swapped = _mm512_shuffle_epi32::<0x4e>(self.low);
        let middle = _mm512_ternarylogic_epi64::<0x96>(self.middle, swapped, low);
        let swapped = _mm512_shuffle_epi32::<0x4e>(middle);
        let middle = _mm512_clmulepi64_epi128::<0x10>(middle, polynomial);
        _mm512_ternarylogic_epi64::<0x96>(self.high, swapped, middle)
    }
}

/// The lanes, added.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
pub(super) fn folded(all: __m512i) -> __m128i {
    let half = _mm512_extracti64x4_epi64::<1>(all);
    let half = _mm256_xor_si256(_mm512_castsi512_si256(all), half);
    _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
}
