//! Look-up kernels for x86-64: bit-counting instructions, and IPv4 with 16 lanes of AVX-512.
//!
//! Each entry point checks the CPU itself and falls back to
//! the scalar kernel, so calling it is always sound.
#![allow(unsafe_code)]

use crate::sync::{AtomicU32, AtomicU64};
use core::arch::x86_64::*;

use super::chunk::POSITION;
use super::fib::{LANES, SLACK_WORDS, lookup_lanes, lookup_scalar};
use super::key::Key;
use super::run_kernel::{half_words, narrow, runs_before, runs_in};
use crate::load_kernel::{join_16, load_16, load_words};

/// Groups of 16 addresses that walk down together.
const GROUPS: usize = 4;

/// Prefetches the cache line of an element, if there is one.
#[inline(always)]
pub(crate) fn prefetch<T>(slice: &[T], index: usize) {
    if let Some(element) = slice.get(index) {
        // SAFETY: a prefetch of any address is harmless, and every x86-64 CPU has SSE.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(element).cast()) };
    }
}

pub(crate) fn has_bits() -> bool {
    !cfg!(miri)
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
}

pub(crate) fn has_avx512() -> bool {
    has_bits()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vpopcntdq")
}

/// The scalar kernel compiled with `popcnt` and the shifts of BMI2.
pub(crate) fn lookup_bits<K: Key>(
    root: &[AtomicU32],
    words: &[AtomicU64],
    rest: u32,
    keys: &[K],
    out: &mut [u32],
) {
    #[target_feature(enable = "popcnt,bmi1,bmi2")]
    fn compiled<K: Key>(
        root: &[AtomicU32],
        words: &[AtomicU64],
        rest: u32,
        keys: &[K],
        out: &mut [u32],
    ) {
        let (keys16, keys_rest) = keys.as_chunks::<LANES>();
        let (out16, out_rest) = out.as_chunks_mut::<LANES>();
        for (keys, out) in keys16.iter().zip(out16.iter_mut()) {
            lookup_lanes(root, words, rest, keys, out);
        }
        if keys16.len() == out16.len() {
            lookup_lanes(root, words, rest, keys_rest, out_rest);
        } else {
            let done = LANES * keys16.len().min(out16.len());
            lookup_scalar(root, words, rest, &keys[done..], &mut out[done..]);
        }
    }
    if has_bits() {
        // SAFETY: the CPU has the features, checked just now.
        unsafe { compiled(root, words, rest, keys, out) }
    } else {
        lookup_scalar(root, words, rest, keys, out);
    }
}

/// Whether the arrays meet the AVX-512 kernels' requirements and the CPU can run them.
fn fits_avx512<K: Key>(root: &[AtomicU32], words: &[AtomicU64]) -> bool {
    root.len() == 1 << K::ROOT_BITS && words.len() > SLACK_WORDS && has_avx512()
}

/// IPv4, 16 lanes at a time with gathers.
pub(crate) fn lookup_ip4_avx512(
    root: &[AtomicU32],
    words: &[AtomicU64],
    rest: u32,
    keys: &[u32],
    out: &mut [u32],
) {
    if !fits_avx512::<u32>(root, words) {
        return lookup_scalar(root, words, rest, keys, out);
    }
    let lanes = keys.len().min(out.len());
    // SAFETY: the CPU has the features and the arrays their sizes, checked just now.
    unsafe { ip4_avx512(root, words, rest, &keys[..lanes], &mut out[..lanes]) }
}

/// # Safety
/// `root` has 2^18 words, `words` more than `SLACK_WORDS`, `keys` is as long as `out`.
#[target_feature(enable = "popcnt,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn ip4_avx512(
    root: &[AtomicU32],
    words: &[AtomicU64],
    rest: u32,
    keys: &[u32],
    out: &mut [u32],
) {
    let (keys16, keys_rest) = keys.as_chunks::<LANES>();
    let (out16, out_rest) = out.as_chunks_mut::<LANES>();
    let (keys_groups, keys16) = keys16.as_chunks::<GROUPS>();
    let (out_groups, out16) = out16.as_chunks_mut::<GROUPS>();
    for (keys, out) in keys_groups.iter().zip(out_groups) {
        // SAFETY: groups are arrays of 64 bytes; `ip4_lanes` as above.
        unsafe {
            let found = ip4_lanes(root, words, rest, keys);
            for (out, found) in out.iter_mut().zip(found) {
                _mm512_storeu_si512(out.as_mut_ptr().cast(), found);
            }
        }
    }
    for (keys, out) in keys16.iter().zip(out16) {
        // SAFETY: both are arrays of 64 bytes; `ip4_lanes` as above.
        unsafe {
            let [found] = ip4_lanes(root, words, rest, core::array::from_ref(keys));
            _mm512_storeu_si512(out.as_mut_ptr().cast(), found);
        }
    }
    if !keys_rest.is_empty() {
        let lanes = (1u16 << keys_rest.len()) - 1;
        let mut keys = [[0; LANES]];
        keys[0][..keys_rest.len()].copy_from_slice(keys_rest);
        // SAFETY: the mask keeps the store within the slice; `ip4_lanes` as above.
        unsafe {
            let [found] = ip4_lanes(root, words, rest, &keys);
            _mm512_mask_storeu_epi32(out_rest.as_mut_ptr().cast(), lanes, found);
        }
    }
}

/// The words of the root array for sixteen addresses.
///
/// # Safety
/// `root` has 2^18 words.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
unsafe fn roots(root: &[AtomicU32], keys: &[u32; LANES]) -> __m512i {
    let at = |lane: usize| {
        // SAFETY: a place of an array. Volatile: see `load_kernel`.
        let key = unsafe { core::ptr::from_ref(&keys[lane]).read_volatile() };
        root.as_ptr().wrapping_add(key as usize >> 14).cast()
    };
    // SAFETY: an index is the upper 18 bits of a key and the array has 2^18 words.
    unsafe { join_16(at) }
}

/// # Safety
/// As [`ip4_avx512`].
#[inline]
#[target_feature(enable = "popcnt,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn ip4_lanes<const N: usize>(
    root: &[AtomicU32],
    words: &[AtomicU64],
    rest: u32,
    keys: &[[u32; LANES]; N],
) -> [__m512i; N] {
    let (mut found, mut addresses) = ([_mm512_setzero_si512(); N], [_mm512_setzero_si512(); N]);
    for group in 0..N {
        // SAFETY: as required of the caller; a group is one vector.
        unsafe {
            found[group] = roots(root, &keys[group]);
            addresses[group] = _mm512_loadu_si512(keys[group].as_ptr().cast());
        }
    }
    let keys = addresses;
    // Bits 18..24, 24..30 and 30..36 of an address, as shifts to the right and to the left.
    for (right, left) in [(8, 0), (2, 0), (0, 4)] {
        let next = |group: usize| {
            let six = _mm512_srl_epi32(keys[group], _mm_cvtsi32_si128(right));
            let six = _mm512_sll_epi32(six, _mm_cvtsi32_si128(left));
            let beyond = _mm512_andnot_si512(six, _mm512_set1_epi32(63));
            let low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(beyond));
            let high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(beyond));
            [low, high]
        };
        // SAFETY: as required of the caller.
        if !unsafe { step_down(words, &mut found, next) } {
            break;
        }
    }
    for found in &mut found {
        *found = or_rest(*found, rest);
    }
    found
}

/// The rest where nothing was found.
#[inline]
#[target_feature(enable = "avx512f")]
fn or_rest(found: __m512i, rest: u32) -> __m512i {
    let nothing = _mm512_testn_epi32_mask(found, found);
    _mm512_mask_set1_epi32(found, nothing, rest as i32)
}

/// The upper 64 bits of sixteen addresses, in order.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
pub(super) fn upper_halves(keys: &[u128; LANES]) -> (__m512i, __m512i) {
    let upper = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    let from = keys.as_ptr().cast::<__m512i>();
    // SAFETY: 16 keys are four vectors.
    let [a, b, c, d] = unsafe {
        [
            _mm512_loadu_si512(from),
            _mm512_loadu_si512(from.add(1)),
            _mm512_loadu_si512(from.add(2)),
            _mm512_loadu_si512(from.add(3)),
        ]
    };
    (_mm512_permutex2var_epi64(a, upper, b), _mm512_permutex2var_epi64(c, upper, d))
}

/// Sixteen lanes of 32 bits from the lower halves of twice eight lanes of 64.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
pub(super) fn join(low: __m512i, high: __m512i) -> __m512i {
    let lower = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    _mm512_permutex2var_epi32(low, lower, high)
}

/// One step down in all lanes that have children; `false`: there is none. `beyond` has, by group, 63 less
/// the next six bits of the addresses (lanes 0 to 7, and 8 to 15). The positions of all groups are
/// computed before the first word is loaded. What the words mean: [`chunk`](super::chunk).
///
/// # Safety
/// `words` has more than `SLACK_WORDS` words.
#[inline]
#[target_feature(enable = "popcnt,bmi1,bmi2,avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn step_down<const N: usize>(
    words: &[AtomicU64],
    found: &mut [__m512i; N],
    beyond: impl Fn(usize) -> [__m512i; 2],
) -> bool {
    // A chunk ends before the slack does, wherever up to here it begins. Right chunks do; this is
    // for the sake of soundness alone.
    let last = (words.len() - SLACK_WORDS).min(POSITION as usize) as i32;
    let mut any = 0;
    let mut places = [_mm512_setzero_si512(); N];
    for group in 0..N {
        let children = _mm512_movepi32_mask(found[group]);
        any |= children;
        let at = _mm512_and_si512(found[group], _mm512_set1_epi32(POSITION as i32));
        places[group] = _mm512_maskz_min_epu32(children, at, _mm512_set1_epi32(last));
    }
    if any == 0 {
        return false;
    }
    let mut befores = places;
    for group in 0..N {
        let at = places[group];
        // SAFETY: a place is at most `last`, so the word is in the arena. Lanes without a chunk load the
        // first word, of which any bits can be set: what comes of it is not used.
        let heads = unsafe { load_words(words.as_ptr(), &places[group]) };
        let beyond = beyond(group);
        befores[group] = runs_before::<u32>(found[group], heads, beyond, beyond);
        let narrow = narrow::<u32>(found[group], _mm512_movepi32_mask(found[group]));
        let first = _mm512_add_epi32(at, _mm512_set1_epi32(1));
        places[group] = half_words(first, befores[group], narrow);
    }
    for group in 0..N {
        let children = _mm512_movepi32_mask(found[group]);
        let narrow = narrow::<u32>(found[group], children);
        // SAFETY: at most 63 runs are before the selected one, so its half-word is within 33 words after
        // the place, which is at least `SLACK_WORDS` words before the end of the arena. With an empty first
        // word -1 runs are before it, and the half-word is in that word: only children are narrow, so that
        // nothing shifts the -1.
        let halves = unsafe { load_16(words.as_ptr().cast::<u32>(), &places[group]) };
        let runs = runs_in::<u32>(halves, befores[group], narrow);
        found[group] = _mm512_mask_mov_epi32(found[group], children, runs);
    }
    true
}

/// The function of three bits `(a ^ b) & !(b ^ c)` for the ternary logic instruction.
pub(super) const LONE_DIFFERS: i32 = {
    let (a, b, c) = (0xf0, 0xcc, 0xaa);
    (a ^ b) & !(b ^ c)
};
