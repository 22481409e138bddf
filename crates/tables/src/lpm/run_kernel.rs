//! Which run of a chunk an address selects, and where it is, for 16 lanes of AVX-512: what all walks have
//! in common. What the words mean: [`chunk`](super::chunk).

use core::arch::x86_64::*;

use super::chunk::{LONE, NARROW};
use super::kernel::{LONE_DIFFERS, join};
use super::key::Key;

/// How many runs are before the selected ones, in the chunks of the words `found` with these heads (lanes 0
/// to 7, and 8 to 15): by the next six bits of the addresses, which are 63 less `beyond`, or in a lone prefix
/// by whether `keys` hit it. `keys` are the bits after the first, in a family that has lone prefixes. At most
/// 63, or -1 with an empty head, which no chunk has.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
pub(super) fn runs_before<K: Key>(
    found: __m512i,
    heads: [__m512i; 2],
    beyond: [__m512i; 2],
    keys: [__m512i; 2],
) -> __m512i {
    let (all, one) = (_mm512_set1_epi64(-1), _mm512_set1_epi32(1));
    let count = |half: usize| {
        _mm512_popcnt_epi64(_mm512_and_si512(heads[half], _mm512_srlv_epi64(all, beyond[half])))
    };
    let before = _mm512_sub_epi32(join(count(0), count(1)), one);
    if !K::LONES {
        return before;
    }
    let misses = |half: usize| -> __mmask8 {
        let less = _mm512_add_epi64(heads[half], all);
        // (key ^ head) & !(head ^ (head - 1)): where the key differs above the marker.
        let differs = _mm512_ternarylogic_epi64::<LONE_DIFFERS>(keys[half], heads[half], less);
        _mm512_test_epi64_mask(differs, differs)
    };
    let misses = u16::from(misses(0)) | u16::from(misses(1)) << 8;
    let lones = _mm512_test_epi32_mask(found, _mm512_set1_epi32(LONE as i32));
    _mm512_mask_mov_epi32(before, lones, _mm512_maskz_mov_epi32(misses, one))
}

/// The lanes of `children` whose chunks are narrow. A leaf may have the bit of a narrow chunk in its value.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn narrow<K: Key>(found: __m512i, children: __mmask16) -> __mmask16 {
    if !K::NARROWS {
        return 0;
    }
    _mm512_mask_test_epi32_mask(children, found, _mm512_set1_epi32(NARROW as i32))
}

/// The half-words with the selected runs, counted from the beginning of the arena. `first`: the words that
/// the first runs are in.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn half_words(first: __m512i, before: __m512i, narrow: __mmask16) -> __m512i {
    let half = _mm512_slli_epi32::<1>(first);
    _mm512_add_epi32(half, _mm512_mask_srli_epi32::<1>(before, narrow, before))
}

/// The runs in half-words: in narrow chunks, one of two.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn runs_in<K: Key>(halves: __m512i, before: __m512i, narrow: __mmask16) -> __m512i {
    if !K::NARROWS {
        return halves;
    }
    // Rotations are by their lower five bits.
    let by = _mm512_slli_epi32::<4>(before);
    let runs = _mm512_mask_rorv_epi32(halves, narrow, halves, by);
    _mm512_mask_and_epi32(runs, narrow, runs, _mm512_set1_epi32(0xffff))
}
