//! The look-up kernel for x86-64 with AVX2: 64 packets in passes, so that their cache misses overlap.
//!
//! 1. Hash the keys, 8 at once; prefetch the home buckets.
//! 2. Compare signatures, those of a bucket in one instruction; prefetch the flows. A key that is not at home
//!    may be away: prefetch its other bucket.
//! 3. The same in the other buckets.
//! 4. Compare keys.
//!
//! What remains, one of 2^16 keys, goes through the scalar code. As in the other kernels, the entry point
//! checks the CPU itself, so calling it is always sound.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::avx2_hash_kernel::{Columns, Keys, STEP, places};
use super::bucket::{Bucket, REFERENCES, Reference, SLOTS, WORDS};
use super::key::{ADDRESS_WORDS, CONTEXT, Canonical, KEY_WORDS, REVERSED};
use super::line::SECOND;
use super::memory::{LINE_WORDS, Memory};
use super::prefetch;
use super::reader::{Match, find};
use crate::lpm::Kernel;
use crate::sync::{AtomicU32, AtomicU64};

/// Packets of a pass.
const GROUP: usize = 64;
/// No flow has this id.
const ABSENT: u32 = u32::MAX;

/// The keys of a group of packets and where they belong.
#[repr(align(32))]
struct Group {
    addresses: [[u32; ADDRESS_WORDS]; GROUP],
    words: [[u32; KEY_WORDS]; GROUP],
    homes: [u32; GROUP],
    signatures: [u32; GROUP],
    /// References to the flows that may be theirs.
    candidates: [u32; GROUP],
}

/// Looks up packets; `false`, and nothing is done, on a CPU without AVX2.
pub(super) fn lookup<C: Columns>(memory: &Memory, columns: &C, found: &mut [Match]) -> bool {
    let lanes = columns.lanes().min(found.len());
    if !Kernel::Avx2.is_available() {
        return false;
    }
    let mut group = Group {
        addresses: [[0; _]; GROUP],
        words: [[0; _]; GROUP],
        homes: [0; GROUP],
        signatures: [0; GROUP],
        candidates: [0; GROUP],
    };
    for (at, found) in found[..lanes].chunks_mut(GROUP).enumerate() {
        // SAFETY: the CPU has the features, checked just now.
        unsafe { lookup_group(memory, columns, at * GROUP, &mut group, found) }
    }
    true
}

/// # Safety
/// The CPU has AVX2.
#[target_feature(enable = "bmi1,bmi2,avx2")]
unsafe fn lookup_group<C: Columns>(
    memory: &Memory,
    columns: &C,
    from: usize,
    group: &mut Group,
    found: &mut [Match],
) {
    let lanes = found.len().min(GROUP);
    let buckets = memory.index.words();
    assert!(buckets.len() == memory.index.hash.buckets as usize);
    for at in (0..lanes).step_by(STEP) {
        let keys = columns.keys(from + at);
        store_keys::<C>(group, at, &keys);
        let [homes, signatures] = if C::IS_IP4 {
            places::<true>(&memory.index.hash, &keys)
        } else {
            places::<false>(&memory.index.hash, &keys)
        };
        // SAFETY: `at` is a multiple of 8 below 64.
        unsafe {
            _mm256_storeu_si256(group.homes.as_mut_ptr().add(at).cast(), homes);
            _mm256_storeu_si256(group.signatures.as_mut_ptr().add(at).cast(), signatures);
        }
        for home in &group.homes[at..at + STEP] {
            prefetch(buckets, *home as usize);
        }
    }
    compare_signatures::<C>(memory, buckets, group, lanes);
    for (lane, found) in found.iter_mut().enumerate() {
        *found = compare_key::<C>(memory, group, lane);
    }
}

/// Stores the keys of eight lanes one behind the other.
#[inline]
#[target_feature(enable = "avx2")]
fn store_keys<C: Columns>(group: &mut Group, at: usize, keys: &Keys) {
    let store = |to: *mut u32, stride: usize, columns: [__m256i; 4]| {
        let [a, b, c, d] = columns;
        let (low_ab, low_cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
        let (high_ab, high_cd) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
        let rows = [
            _mm256_unpacklo_epi64(low_ab, low_cd),
            _mm256_unpackhi_epi64(low_ab, low_cd),
            _mm256_unpacklo_epi64(high_ab, high_cd),
            _mm256_unpackhi_epi64(high_ab, high_cd),
        ];
        for (row, keys) in rows.iter().enumerate() {
            // SAFETY: the caller's pointer has four words for eight lanes, `stride` words apart.
            unsafe {
                _mm_storeu_si128(to.add(row * stride).cast(), _mm256_castsi256_si128(*keys));
                let upper = _mm256_extracti128_si256::<1>(*keys);
                _mm_storeu_si128(to.add((row + 4) * stride).cast(), upper);
            }
        }
    };
    store(group.words[at..at + STEP].as_mut_ptr().cast(), KEY_WORDS, keys.words);
    if !C::IS_IP4 {
        let to: *mut u32 = group.addresses[at..at + STEP].as_mut_ptr().cast();
        store(to, ADDRESS_WORDS, keys.addresses[0]);
        store(to.wrapping_add(4), ADDRESS_WORDS, keys.addresses[1]);
    }
}

/// Finds the candidates of all lanes.
#[inline]
#[target_feature(enable = "bmi1,bmi2,avx2")]
fn compare_signatures<C: Columns>(
    memory: &Memory,
    buckets: &[[AtomicU64; WORDS]],
    group: &mut Group,
    lanes: usize,
) {
    let (mut away, mut count) = ([0_u8; GROUP], 0);
    for lane in 0..lanes {
        let bucket = &buckets[group.homes[lane] as usize];
        let candidate = candidate(bucket, group.signatures[lane]);
        group.candidates[lane] = candidate;
        if candidate != ABSENT {
            prefetch_flow::<C>(memory, candidate);
        } else if Bucket(bucket).header().has_away() {
            let signature = group.signatures[lane] as u16;
            let other = memory.index.hash.other(group.homes[lane], signature);
            prefetch(buckets, other as usize);
            group.homes[lane] = other;
            away[count] = lane as u8;
            count += 1;
        }
    }
    for lane in &away[..count] {
        let lane = usize::from(*lane);
        let bucket = &buckets[group.homes[lane] as usize];
        let candidate = candidate(bucket, group.signatures[lane]);
        group.candidates[lane] = candidate;
        if candidate != ABSENT {
            prefetch_flow::<C>(memory, candidate);
        }
    }
}

/// The first reference of a bucket with a signature, or [`ABSENT`].
#[inline]
#[target_feature(enable = "bmi1,bmi2,avx2")]
fn candidate(bucket: &[AtomicU64; WORDS], signature: u32) -> u32 {
    let words: *const u8 = bucket.as_ptr().cast();
    // SAFETY: the first half of a bucket. Writers store its words atomically while we load them: each is an
    // aligned 8 bytes, which x86-64 loads whole.
    let head = unsafe { _mm256_loadu_si256(words.cast()) };
    let is_it = _mm256_cmpeq_epi16(head, _mm256_set1_epi16(signature as i16));
    // Two bits for each signature, behind the 4 bytes of the header.
    let bits = (_mm256_movemask_epi8(is_it).cast_unsigned() >> 4) & ((1 << (2 * SLOTS)) - 1);
    if bits == 0 {
        return ABSENT;
    }
    let slot = bits.trailing_zeros() as usize / 2;
    // SAFETY: there are ten references of 4 bytes, and the slot is below ten. A load of an aligned 4 bytes of
    // a word that is stored atomically. Loads are not reordered with the one before.
    unsafe { words.add(REFERENCES * 8 + slot * 4).cast::<u32>().read_volatile() }
}

#[inline]
#[target_feature(enable = "bmi1,bmi2,avx2")]
fn prefetch_flow<C: Columns>(memory: &Memory, candidate: u32) {
    let reference = Reference(candidate);
    prefetch(memory.lines(), reference.flow() as usize);
    if !C::IS_IP4 {
        let at = memory.address_at(reference.flow(), reference.is_second());
        prefetch(memory.addresses(), at);
    }
}

/// What a lane has found.
#[inline]
#[target_feature(enable = "bmi1,bmi2,avx2")]
fn compare_key<C: Columns>(memory: &Memory, group: &Group, lane: usize) -> Match {
    let candidate = group.candidates[lane];
    if candidate == ABSENT {
        return Match::NONE;
    }
    let reference = Reference(candidate);
    let Some(line) = memory.lines().get(reference.flow() as usize) else { return Match::NONE };
    let difference = difference(line, reference.is_second(), &group.words[lane]);
    let all = _mm_setr_epi32(-1, -1, -1, (!REVERSED).cast_signed());
    let mut is_equal = _mm_testz_si128(difference, all) == 1;
    if !C::IS_IP4 && is_equal {
        let at = memory.address_at(reference.flow(), reference.is_second());
        let own = memory.addresses().get(at);
        is_equal = own.is_some_and(|own| has_addresses(own, &group.addresses[lane]));
    }
    if !is_equal {
        return find_again(memory, group, lane);
    }
    let is_reversed = _mm_movemask_ps(_mm_castsi128_ps(difference)) >> CONTEXT != 0;
    Match::new(reference, is_reversed)
}

/// The bits in which a key differs from the one of a flow.
#[inline]
#[target_feature(enable = "avx2")]
fn difference(line: &[AtomicU32; LINE_WORDS], is_second: bool, key: &[u32; KEY_WORDS]) -> __m128i {
    let own: *const AtomicU32 = line.as_ptr().wrapping_add(usize::from(is_second) * SECOND);
    // SAFETY: four of the words of a line, which are written before their flow is published.
    let own = unsafe { _mm_loadu_si128(own.cast()) };
    // SAFETY: the array is one vector.
    let key = unsafe { _mm_loadu_si128(key.as_ptr().cast()) };
    _mm_xor_si128(own, key)
}

#[inline]
#[target_feature(enable = "avx2")]
fn has_addresses(own: &[AtomicU32; ADDRESS_WORDS], key: &[u32; ADDRESS_WORDS]) -> bool {
    // SAFETY: both arrays are one vector; the first is written before its flow is published.
    unsafe {
        let own = _mm256_loadu_si256(own.as_ptr().cast());
        let key = _mm256_loadu_si256(key.as_ptr().cast());
        let difference = _mm256_xor_si256(own, key);
        _mm256_testz_si256(difference, difference) == 1
    }
}

/// Another key of the bucket has the same signature, or the candidate has been replaced just now.
#[cold]
#[inline(never)]
fn find_again(memory: &Memory, group: &Group, lane: usize) -> Match {
    find(memory, &Canonical { words: group.words[lane], addresses: group.addresses[lane] })
}
