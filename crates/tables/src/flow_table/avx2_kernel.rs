//! The look-up kernel for x86-64 with AVX2: packets in groups and passes, so that their cache misses overlap.
//!
//! 1. Hash the keys, 8 at once; prefetch the home buckets.
//! 2. Compare signatures, those of a bucket in one instruction; prefetch the flows. A key that is not at home
//!    may be away: look in its other bucket, which is prefetched first.
//! 3. Compare keys.
//!
//! While a group is in one pass, the next one is in the pass before: each prefetch has the time of two other
//! passes. What remains, one of 2^16 keys, goes through the scalar code. As in the other kernels, the entry
//! point checks the CPU itself, so calling it is always sound.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::avx2_hash_kernel::{IP4, Keys, STEP, keys, places};
use super::bucket::{Bucket, REFERENCES, Reference, SLOTS, WORDS};
use super::key::{ADDRESS_WORDS, CONTEXT, Canonical, KEY_WORDS, REVERSED};
use super::line::SECOND;
use super::memory::{LINE_WORDS, Memory};
use super::prefetch;
use super::reader::{Match, find};
use crate::lpm::Kernel;
use crate::sync::{AtomicU32, AtomicU64};

/// Packets of a group.
pub(super) const GROUP: usize = 32;
/// Passes.
const PASSES: usize = 3;
/// No flow has this id.
const ABSENT: u32 = u32::MAX;

/// The keys of a group of packets and where they belong. IPv4 has no `ADDRESSES`, IPv6 as many as packets.
#[repr(align(32))]
struct Group<const ADDRESSES: usize> {
    addresses: [[u32; ADDRESS_WORDS]; ADDRESSES],
    words: [[u32; KEY_WORDS]; GROUP],
    homes: [u32; GROUP],
    signatures: [u32; GROUP],
    /// References to the flows that may be theirs.
    candidates: [u32; GROUP],
}

/// What the passes read.
#[derive(Clone, Copy)]
struct Arrays<'a> {
    memory: &'a Memory,
    buckets: &'a [[AtomicU64; WORDS]],
    lines: &'a [[AtomicU32; LINE_WORDS]],
    addresses: &'a [[AtomicU32; ADDRESS_WORDS]],
}

/// Looks up packets; `false`, and nothing is done, on a CPU without AVX2.
pub(super) fn lookup<const COLUMNS: usize, const ADDRESSES: usize>(
    memory: &Memory,
    columns: &[&[u32]; COLUMNS],
    found: &mut [Match],
) -> bool {
    if !Kernel::Avx2.is_available() {
        return false;
    }
    let lanes = columns.iter().map(|column| column.len()).min().unwrap_or(0).min(found.len());
    let found = &mut found[..lanes];
    // The last group as if it were whole.
    let whole = lanes / GROUP * GROUP;
    let (mut padded, mut tail) = ([[0; GROUP]; COLUMNS], *columns);
    if whole < lanes {
        for (padded, column) in padded.iter_mut().zip(columns) {
            padded[..lanes - whole].copy_from_slice(&column[whole..lanes]);
        }
        for (tail, padded) in tail.iter_mut().zip(&padded) {
            *tail = padded;
        }
    }
    let arrays = Arrays {
        memory,
        buckets: memory.index.words(),
        lines: memory.lines(),
        addresses: memory.addresses(),
    };
    assert!(arrays.buckets.len() == memory.index.hash.buckets as usize);
    // SAFETY: the CPU has the features, checked above. The columns have the lanes of all whole groups, the
    // padded ones a whole group.
    unsafe { lookup_all::<COLUMNS, ADDRESSES>(arrays, columns, &tail, found) }
    true
}

/// # Safety
/// All columns have the lanes of the whole groups of `found`; the tail has a group.
#[target_feature(enable = "bmi1,bmi2,avx2")]
unsafe fn lookup_all<const COLUMNS: usize, const ADDRESSES: usize>(
    arrays: Arrays<'_>,
    columns: &[&[u32]; COLUMNS],
    tail: &[&[u32]; COLUMNS],
    found: &mut [Match],
) {
    let mut groups = [const { Group::<ADDRESSES>::EMPTY }; PASSES];
    let whole = found.len() / GROUP;
    let count = found.len().div_ceil(GROUP);
    for step in 0..count + PASSES - 1 {
        if step < count {
            let group = &mut groups[step % PASSES];
            // SAFETY: guaranteed by the caller.
            unsafe {
                if step < whole {
                    hash::<COLUMNS, ADDRESSES>(arrays, columns, step * GROUP, group);
                } else {
                    hash::<COLUMNS, ADDRESSES>(arrays, tail, 0, group);
                }
            }
        }
        if (1..=count).contains(&step) {
            compare_signatures(arrays, &mut groups[(step - 1) % PASSES]);
        }
        if let Some(at) = step.checked_sub(PASSES - 1) {
            let group = &groups[at % PASSES];
            for (lane, found) in found[at * GROUP..].iter_mut().take(GROUP).enumerate() {
                *found = compare_key(arrays, group, lane);
            }
        }
    }
}

impl<const ADDRESSES: usize> Group<ADDRESSES> {
    const EMPTY: Self = Self {
        addresses: [[0; _]; ADDRESSES],
        words: [[0; _]; GROUP],
        homes: [0; GROUP],
        signatures: [0; GROUP],
        candidates: [0; GROUP],
    };
}

/// The first pass, over the lanes from `from` on.
///
/// # Safety
/// All columns have a group of lanes there.
#[inline]
#[target_feature(enable = "bmi1,bmi2,avx2")]
unsafe fn hash<const COLUMNS: usize, const ADDRESSES: usize>(
    arrays: Arrays<'_>,
    columns: &[&[u32]; COLUMNS],
    from: usize,
    group: &mut Group<ADDRESSES>,
) {
    for at in (0..GROUP).step_by(STEP) {
        // SAFETY: guaranteed by the caller.
        let keys = unsafe { keys(columns, from + at) };
        store_keys(group, at, &keys);
        let hash = &arrays.memory.index.hash;
        let [homes, signatures] =
            if COLUMNS == IP4 { places::<true>(hash, &keys) } else { places::<false>(hash, &keys) };
        // SAFETY: `at` is a multiple of 8 below the size of a group.
        unsafe {
            _mm256_storeu_si256(group.homes.as_mut_ptr().add(at).cast(), homes);
            _mm256_storeu_si256(group.signatures.as_mut_ptr().add(at).cast(), signatures);
        }
        for home in &group.homes[at..at + STEP] {
            prefetch(arrays.buckets, *home as usize);
        }
    }
}

/// Stores the keys of eight lanes one behind the other.
#[inline]
#[target_feature(enable = "avx2")]
fn store_keys<const ADDRESSES: usize>(group: &mut Group<ADDRESSES>, at: usize, keys: &Keys) {
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
    if let Some(to) = group.addresses.get_mut(at..at + STEP) {
        let to: *mut u32 = to.as_mut_ptr().cast();
        store(to, ADDRESS_WORDS, keys.addresses[0]);
        store(to.wrapping_add(4), ADDRESS_WORDS, keys.addresses[1]);
    }
}

/// The second pass: finds the candidates of all lanes.
#[inline]
#[target_feature(enable = "bmi1,bmi2,avx2")]
fn compare_signatures<const ADDRESSES: usize>(arrays: Arrays<'_>, group: &mut Group<ADDRESSES>) {
    let (mut away, mut count) = ([0_u8; GROUP], 0);
    for lane in 0..GROUP {
        let bucket = &arrays.buckets[group.homes[lane] as usize];
        let candidate = candidate(bucket, group.signatures[lane]);
        group.candidates[lane] = candidate;
        if candidate != ABSENT {
            prefetch_flow::<ADDRESSES>(arrays, candidate);
        } else if Bucket(bucket).header().has_away() {
            let signature = group.signatures[lane] as u16;
            let other = arrays.memory.index.hash.other(group.homes[lane], signature);
            prefetch(arrays.buckets, other as usize);
            group.homes[lane] = other;
            away[count] = lane as u8;
            count += 1;
        }
    }
    for lane in &away[..count] {
        let lane = usize::from(*lane);
        let bucket = &arrays.buckets[group.homes[lane] as usize];
        let candidate = candidate(bucket, group.signatures[lane]);
        group.candidates[lane] = candidate;
        if candidate != ABSENT {
            prefetch_flow::<ADDRESSES>(arrays, candidate);
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
fn prefetch_flow<const ADDRESSES: usize>(arrays: Arrays<'_>, candidate: u32) {
    let reference = Reference(candidate);
    prefetch(arrays.lines, reference.flow() as usize);
    if ADDRESSES > 0 {
        let at = arrays.memory.address_at(reference.flow(), reference.is_second());
        prefetch(arrays.addresses, at);
    }
}

/// The third pass: what a lane has found.
#[inline]
#[target_feature(enable = "bmi1,bmi2,avx2")]
fn compare_key<const ADDRESSES: usize>(
    arrays: Arrays<'_>,
    group: &Group<ADDRESSES>,
    lane: usize,
) -> Match {
    let candidate = group.candidates[lane];
    if candidate == ABSENT {
        return Match::NONE;
    }
    let reference = Reference(candidate);
    let Some(line) = arrays.lines.get(reference.flow() as usize) else { return Match::NONE };
    let difference = difference(line, reference.is_second(), &group.words[lane]);
    let all = _mm_setr_epi32(-1, -1, -1, (!REVERSED).cast_signed());
    let mut is_equal = _mm_testz_si128(difference, all) == 1;
    if ADDRESSES > 0 && is_equal {
        let at = arrays.memory.address_at(reference.flow(), reference.is_second());
        let own = arrays.addresses.get(at);
        is_equal = own.is_some_and(|own| has_addresses(own, &group.addresses[lane]));
    }
    if !is_equal {
        return find_again(arrays, group, lane);
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
fn find_again<const ADDRESSES: usize>(
    arrays: Arrays<'_>,
    group: &Group<ADDRESSES>,
    lane: usize,
) -> Match {
    let addresses = group.addresses.get(lane).copied().unwrap_or([0; _]);
    find(arrays.memory, &Canonical { words: group.words[lane], addresses })
}
