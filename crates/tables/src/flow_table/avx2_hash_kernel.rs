//! Keys of eight packets with AVX2: the lower end first, and where they belong. The same results as
//! [`Canonical`](super::key::Canonical) and [`Hash::place`].
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::hash::Hash;
use super::key::{CONTEXT, IS_IP6, REVERSED};
use crate::flow_hash::{FIRST, SECOND};

/// Lanes of a vector.
pub(super) const STEP: usize = 8;
/// The odd lanes, for blends.
const ODD: i32 = 0b1010_1010;

/// The keys of eight packets, a vector for each word.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    pub(super) words: [__m256i; 4],
    /// Of IPv6 addresses: of the lower end's four, the lowest word first; of the higher end's.
    pub(super) addresses: [[__m256i; 4]; 2],
}

/// Columns of IPv4 packets: sources, destinations, ports, contexts.
pub(super) const IP4: usize = 4;
/// The keys of eight lanes from `at` on. IPv6 packets have ten columns: the words of the sources, those of the
/// destinations, ports, contexts.
///
/// # Safety
/// All columns have these lanes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn keys<const COLUMNS: usize>(columns: &[&[u32]; COLUMNS], at: usize) -> Keys {
    // SAFETY: guaranteed by the caller.
    let load =
        |column: usize| unsafe { _mm256_loadu_si256(columns[column].as_ptr().add(at).cast()) };
    if COLUMNS == IP4 {
        return keys_ip4([load(0), load(1), load(2), load(3)]);
    }
    let sources = [load(0), load(1), load(2), load(3)];
    let destinations = [load(4), load(5), load(6), load(7)];
    keys_ip6(sources, destinations, load(8), load(9))
}

#[inline]
#[target_feature(enable = "avx2")]
fn word(value: u32) -> __m256i {
    _mm256_set1_epi32(value.cast_signed())
}

/// Whether one unsigned number is greater than the other, as a mask.
#[inline]
#[target_feature(enable = "avx2")]
fn is_greater(one: __m256i, other: __m256i) -> __m256i {
    let sign = word(REVERSED);
    _mm256_cmpgt_epi32(_mm256_xor_si256(one, sign), _mm256_xor_si256(other, sign))
}

/// Source ports, and destination ports, in the upper halves.
#[inline]
#[target_feature(enable = "avx2")]
fn is_port_greater(ports: __m256i) -> __m256i {
    is_greater(_mm256_srli_epi32::<16>(ports), _mm256_and_si256(ports, word(0xffff)))
}

/// Ports and contexts of keys, in those lanes reversed whose mask is set.
#[inline]
#[target_feature(enable = "avx2")]
fn ports_and_contexts(
    is_reversed: __m256i,
    ports: __m256i,
    contexts: __m256i,
    family: u32,
) -> [__m256i; 2] {
    let turned = _mm256_or_si256(_mm256_srli_epi32::<16>(ports), _mm256_slli_epi32::<16>(ports));
    let direction = _mm256_and_si256(is_reversed, word(REVERSED));
    let contexts = _mm256_and_si256(contexts, word(IS_IP6 - 1));
    [
        _mm256_blendv_epi8(ports, turned, is_reversed),
        _mm256_or_si256(_mm256_or_si256(contexts, word(family)), direction),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn keys_ip4([sources, destinations, ports, contexts]: [__m256i; 4]) -> Keys {
    let is_equal = _mm256_cmpeq_epi32(sources, destinations);
    let is_reversed = _mm256_or_si256(
        is_greater(sources, destinations),
        _mm256_and_si256(is_equal, is_port_greater(ports)),
    );
    let low = _mm256_min_epu32(sources, destinations);
    let high = _mm256_max_epu32(sources, destinations);
    let [ports, contexts] = ports_and_contexts(is_reversed, ports, contexts, 0);
    Keys { words: [low, high, ports, contexts], addresses: [[_mm256_setzero_si256(); 4]; 2] }
}

#[inline]
#[target_feature(enable = "avx2")]
fn keys_ip6(
    sources: [__m256i; 4],
    destinations: [__m256i; 4],
    ports: __m256i,
    contexts: __m256i,
) -> Keys {
    let mut is_reversed = is_port_greater(ports);
    // From the lowest word to the highest, which decides over the others.
    for (source, destination) in sources.iter().zip(&destinations) {
        let is_equal = _mm256_cmpeq_epi32(*source, *destination);
        is_reversed = _mm256_or_si256(
            is_greater(*source, *destination),
            _mm256_and_si256(is_equal, is_reversed),
        );
    }
    let low = |at: usize| _mm256_blendv_epi8(sources[at], destinations[at], is_reversed);
    let high = |at: usize| _mm256_blendv_epi8(destinations[at], sources[at], is_reversed);
    let addresses = [[low(0), low(1), low(2), low(3)], [high(0), high(1), high(2), high(3)]];
    let [ports, contexts] = ports_and_contexts(is_reversed, ports, contexts, IS_IP6);
    let zero = _mm256_setzero_si256();
    Keys { words: [zero, zero, ports, contexts], addresses }
}

/// The products of the even lanes of two vectors, and of the odd ones, after adding a pad to each.
#[inline]
#[target_feature(enable = "avx2")]
fn products(words: [__m256i; 2], pads: [u32; 2]) -> [__m256i; 2] {
    let first = _mm256_add_epi32(words[0], word(pads[0]));
    let second = _mm256_add_epi32(words[1], word(pads[1]));
    [_mm256_mul_epu32(first, second), _mm256_mul_epu32(upper(first), upper(second))]
}

/// The odd lanes in place of the even ones.
#[inline]
#[target_feature(enable = "avx2")]
fn upper(words: __m256i) -> __m256i {
    _mm256_srli_epi64::<32>(words)
}

#[inline]
#[target_feature(enable = "avx2")]
fn sum(one: [__m256i; 2], other: [__m256i; 2]) -> [__m256i; 2] {
    [_mm256_add_epi64(one[0], other[0]), _mm256_add_epi64(one[1], other[1])]
}

/// The homes and signatures of keys.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn places<const IS_IP4: bool>(hash: &Hash, keys: &Keys) -> [__m256i; 2] {
    let pads = &hash.pads;
    let context = _mm256_andnot_si256(word(REVERSED), keys.words[CONTEXT]);
    let mut all = products([keys.words[2], context], [pads[2], pads[CONTEXT]]);
    if IS_IP4 {
        all = sum(all, products([keys.words[0], keys.words[1]], [pads[0], pads[1]]));
    } else {
        let [low, high] = keys.addresses;
        all = sum(all, products([low[0], high[0]], [pads[4], pads[8]]));
        all = sum(all, products([low[1], high[1]], [pads[5], pads[9]]));
        all = sum(all, products([low[2], high[2]], [pads[6], pads[10]]));
        all = sum(all, products([low[3], high[3]], [pads[7], pads[11]]));
    }
    let [even, odd] = all;
    let low = _mm256_blend_epi32::<ODD>(even, _mm256_slli_epi64::<32>(odd));
    let high = _mm256_blend_epi32::<ODD>(upper(even), odd);
    let [first, second, third, _] = hash.factors;
    let mixed = mix(_mm256_add_epi32(low, _mm256_mullo_epi32(high, word(first))));
    let signature = _mm256_add_epi32(high, _mm256_mullo_epi32(low, word(second)));
    let signature = _mm256_xor_si256(signature, _mm256_srli_epi32::<15>(signature));
    let signature = _mm256_srli_epi32::<16>(_mm256_mullo_epi32(signature, word(third)));
    [scaled(hash, mixed), _mm256_max_epu32(signature, word(1))]
}

/// [`crate::flow_hash::mix`].
#[inline]
#[target_feature(enable = "avx2")]
fn mix(hash: __m256i) -> __m256i {
    let hash = _mm256_xor_si256(hash, _mm256_srli_epi32::<16>(hash));
    let hash = _mm256_mullo_epi32(hash, word(FIRST));
    let hash = _mm256_xor_si256(hash, _mm256_srli_epi32::<13>(hash));
    let hash = _mm256_mullo_epi32(hash, word(SECOND));
    _mm256_xor_si256(hash, _mm256_srli_epi32::<16>(hash))
}

/// Numbers below that of the buckets.
#[inline]
#[target_feature(enable = "avx2")]
fn scaled(hash: &Hash, words: __m256i) -> __m256i {
    let buckets = word(hash.buckets);
    let even = _mm256_mul_epu32(words, buckets);
    let odd = _mm256_mul_epu32(upper(words), buckets);
    _mm256_blend_epi32::<ODD>(upper(even), odd)
}

/// Between four words of eight lanes, in columns, and those of two lanes each in a vector: lanes 0 and 4, 1 and 5, 2
/// and 6, 3 and 7. It is its own inverse.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn transpose([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let (low_ab, low_cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
    let (high_ab, high_cd) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(low_ab, low_cd),
        _mm256_unpackhi_epi64(low_ab, low_cd),
        _mm256_unpacklo_epi64(high_ab, high_cd),
        _mm256_unpackhi_epi64(high_ab, high_cd),
    ]
}
