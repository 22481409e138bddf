//! How addresses walk down, each in its own table, for x86-64 with AVX-512: 16 lanes a step. Where the
//! words are is computed for several steps before any is loaded.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::chunk::POSITION;
use super::key::Key;
use super::run_kernel::{half_words, narrow, runs_before, runs_in};
use crate::load_kernel::{load_16_at, load_words_at};

/// An arena for each lane: addresses of their first words, and their last positions.
#[derive(Clone, Copy)]
pub(super) struct ManyArenas {
    pub(super) words: [__m512i; 2],
    pub(super) last: __m512i,
}

/// Twice eight addresses: `bases` and so many times `1 << SHIFT` bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
pub(super) fn addresses<const SHIFT: u32>(bases: [__m512i; 2], at: __m512i) -> [__m512i; 2] {
    let low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(at));
    let high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(at));
    let (low, high) = (_mm512_slli_epi64::<SHIFT>(low), _mm512_slli_epi64::<SHIFT>(high));
    [_mm512_add_epi64(bases[0], low), _mm512_add_epi64(bases[1], high)]
}

impl ManyArenas {
    /// The addresses of the words at these positions.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    fn places_of_words(self, at: __m512i) -> [__m512i; 2] {
        addresses::<3>(self.words, at)
    }

    /// The addresses of the half-words at these positions, which count half-words.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    fn places_of_halves(self, at: __m512i) -> [__m512i; 2] {
        addresses::<2>(self.words, at)
    }
}

/// Walks `N` times 16 IPv4 addresses down together, from the words of their roots.
///
/// # Safety
/// The arenas are readable.
#[inline]
#[target_feature(enable = "popcnt,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
pub(super) unsafe fn walk_ip4<const N: usize>(
    found: &mut [__m512i; N],
    keys: &[__m512i; N],
    arenas: &[ManyArenas; N],
) {
    // Bits 18..24, 24..30 and 30..36 of an address, as shifts to the right and to the left.
    for (right, left) in [(8, 0), (2, 0), (0, 4)] {
        let (right, left) = (_mm_cvtsi32_si128(right), _mm_cvtsi32_si128(left));
        let next = |group: usize| {
            let six = _mm512_sll_epi32(_mm512_srl_epi32(keys[group], right), left);
            let beyond = _mm512_andnot_si512(six, _mm512_set1_epi32(63));
            let low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(beyond));
            let high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(beyond));
            ([low, high], [low, high])
        };
        // SAFETY: as required of the caller.
        if !unsafe { step::<u32, N>(found, arenas, next) } {
            break;
        }
    }
}

/// Walks `N` times 16 IPv6 addresses down together, from the words of their roots, with the upper
/// halves of the addresses. Children that are left have prefixes longer than 62 bits. A level is two
/// loads of which the second waits for the first, and IPv6 has many levels: other groups fill the time.
///
/// # Safety
/// The arenas are readable.
#[inline]
#[target_feature(enable = "popcnt,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
pub(super) unsafe fn walk_ip6<const N: usize>(
    found: &mut [__m512i; N],
    upper: &[[__m512i; 2]; N],
    arenas: &[ManyArenas; N],
) {
    // Bits 20..26 to 56..62 of the addresses, all among the 64 after the first.
    for right in [39, 33, 27, 21, 15, 9, 3] {
        let right = _mm_cvtsi32_si128(right);
        let next = |group: usize| {
            let [low, high] = upper[group];
            let keys = [_mm512_slli_epi64::<1>(low), _mm512_slli_epi64::<1>(high)];
            let six = _mm512_set1_epi64(63);
            let beyond = |keys| _mm512_andnot_si512(_mm512_srl_epi64(keys, right), six);
            ([beyond(keys[0]), beyond(keys[1])], keys)
        };
        // SAFETY: as required of the caller.
        if !unsafe { step::<u128, N>(found, arenas, next) } {
            break;
        }
    }
}

/// One step down in all lanes that have children; `false`: there is none. `next` has, by group, 63 less
/// the next six bits of the addresses (lanes 0 to 7, and 8 to 15), and their bits after the first, in a
/// family that has lone prefixes. What the words mean: [`chunk`](super::chunk).
///
/// # Safety
/// The arenas are readable.
#[inline]
#[target_feature(enable = "popcnt,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn step<K: Key, const N: usize>(
    found: &mut [__m512i; N],
    arenas: &[ManyArenas; N],
    next: impl Fn(usize) -> ([__m512i; 2], [__m512i; 2]),
) -> bool {
    let mut ats = [_mm512_setzero_si512(); N];
    let mut befores = ats;
    let mut any = 0;
    // SAFETY: a chunk ends before the slack does, wherever up to the last position it begins. (Right
    // chunks do; the last position is for the sake of soundness alone.) Lanes without a chunk load the
    // first word, of which any bits can be set: what comes of it is not used. At most 63 runs are before
    // the selected one, so its half-word is within 33 words after that position. With an empty first word
    // -1 runs are before it, and the half-word is in that word: only children are narrow, so that nothing
    // shifts the -1.
    unsafe {
        let mut words = [[_mm512_setzero_si512(); 2]; N];
        for group in 0..N {
            let children = _mm512_movepi32_mask(found[group]);
            any |= children;
            let at = _mm512_and_si512(found[group], _mm512_set1_epi32(POSITION as i32));
            ats[group] = _mm512_maskz_min_epu32(children, at, arenas[group].last);
            words[group] = arenas[group].places_of_words(ats[group]);
        }
        if any == 0 {
            return false;
        }
        for group in 0..N {
            let (beyond, keys) = next(group);
            let heads = load_words_at(&words[group]);
            let before = runs_before::<K>(found[group], heads, beyond, keys);
            befores[group] = before;
            let narrow = narrow::<K>(found[group], _mm512_movepi32_mask(found[group]));
            let first = _mm512_add_epi32(ats[group], _mm512_set1_epi32(1));
            words[group] = arenas[group].places_of_halves(half_words(first, before, narrow));
        }
        for group in 0..N {
            let children = _mm512_movepi32_mask(found[group]);
            let narrow = narrow::<K>(found[group], children);
            let runs = runs_in::<K>(load_16_at(&words[group]), befores[group], narrow);
            found[group] = _mm512_mask_mov_epi32(found[group], children, runs);
        }
    }
    true
}
