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

use super::avx2_hash_kernel::{IP4, Keys, STEP, keys, places, transpose};
use super::bucket::{Bucket, REFERENCES, Reference, SLOTS, WORDS};
use super::key::{ADDRESS_WORDS, CONTEXT, Canonical, KEY_WORDS, REVERSED};
use super::line::SECOND;
use super::memory::{COUNTER_WORDS, Kind, LINE_WORDS, Memory};
use super::prefetch;
use super::reader::{Match, find};
use crate::load_kernel::position_in;
use crate::lpm::Kernel;
use crate::sync::{AtomicU32, AtomicU64};

/// Packets of a group.
pub(super) const GROUP: usize = 32;
/// Passes.
const PASSES: usize = 3;
/// No flow has this id.
const ABSENT: u32 = u32::MAX;
/// The most lines whose words have positions below 2^32.
pub(super) const LINES_MAX: usize = 1 << (32 - LINE_WORDS.ilog2());

/// The keys of a group of packets and where they belong. IPv4 has no `ADDRESSES`, IPv6 as many as packets.
#[repr(align(32))]
struct Group<const ADDRESSES: usize> {
    addresses: [[u32; ADDRESS_WORDS]; ADDRESSES],
    words: [[u32; GROUP]; KEY_WORDS],
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
    /// Of translated flows; those of IPv4 come first, from this id on.
    counters: &'a [[AtomicU32; COUNTER_WORDS]],
    first_translated: u32,
}

/// Looks up packets; `false`, and nothing is done, on a CPU without AVX2, for a few packets only, and in a table
/// without flows or with more than [`LINES_MAX`].
pub(super) fn lookup<const COLUMNS: usize, const ADDRESSES: usize>(
    memory: &Memory,
    columns: &[&[u32]; COLUMNS],
    found: &mut [Match],
) -> bool {
    let lines = memory.lines();
    if !Kernel::Avx2.is_available() || lines.is_empty() || lines.len() > LINES_MAX {
        return false;
    }
    let lanes = columns.iter().map(|column| column.len()).min().unwrap_or(0).min(found.len());
    if lanes < STEP {
        return false;
    }
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
        lines,
        addresses: memory.addresses(),
        counters: memory.all_counters(),
        first_translated: memory.ids_of(Kind::TranslatedIp4).start,
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
            for (from, found) in found[at * GROUP..].chunks_mut(STEP).take(GROUP / STEP).enumerate()
            {
                compare_keys(arrays, group, from * STEP, found);
            }
        }
    }
}

impl<const ADDRESSES: usize> Group<ADDRESSES> {
    const EMPTY: Self = Self {
        addresses: [[0; _]; ADDRESSES],
        words: [[0; _]; _],
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
            prefetch_of(arrays.buckets, *home as usize);
        }
    }
}

/// Stores the keys of eight lanes: words in columns, the addresses of each IPv6 packet one behind the other.
#[inline]
#[target_feature(enable = "avx2")]
fn store_keys<const ADDRESSES: usize>(group: &mut Group<ADDRESSES>, at: usize, keys: &Keys) {
    for (column, words) in group.words.iter_mut().zip(keys.words) {
        let to: &mut [u32] = &mut column[at..at + STEP];
        // SAFETY: a step is one vector.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), words) };
    }
    let Some(to) = group.addresses.get_mut(at..at + STEP) else { return };
    for (half, words) in keys.addresses.into_iter().enumerate() {
        for (row, both) in transpose(words).into_iter().enumerate() {
            let halves = [_mm256_castsi256_si128(both), _mm256_extracti128_si256::<1>(both)];
            for (words, lane) in halves.into_iter().zip([row, row + 4]) {
                let to: &mut [u32] = &mut to[lane][half * 4..half * 4 + 4];
                // SAFETY: four words are one vector.
                unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), words) };
            }
        }
    }
}

/// The second pass: finds the candidates of all lanes.
#[inline]
#[target_feature(enable = "bmi1,bmi2,avx2")]
fn compare_signatures<const ADDRESSES: usize>(arrays: Arrays<'_>, group: &mut Group<ADDRESSES>) {
    let (mut away, mut count) = ([0_u8; GROUP], 0);
    for lane in 0..GROUP {
        let bucket = bucket(arrays, group.homes[lane]);
        let candidate = candidate(bucket, group.signatures[lane]);
        group.candidates[lane] = candidate;
        if candidate != ABSENT {
            prefetch_flow::<ADDRESSES>(arrays, candidate);
        } else if Bucket(bucket).header().has_away() {
            let signature = group.signatures[lane] as u16;
            let other = arrays.memory.index.hash.other(group.homes[lane], signature);
            prefetch_of(arrays.buckets, other as usize);
            group.homes[lane] = other;
            away[count] = lane as u8;
            count += 1;
        }
    }
    for lane in &away[..count] {
        let lane = usize::from(*lane);
        let bucket = bucket(arrays, group.homes[lane]);
        let candidate = candidate(bucket, group.signatures[lane]);
        group.candidates[lane] = candidate;
        if candidate != ABSENT {
            prefetch_flow::<ADDRESSES>(arrays, candidate);
        }
    }
}

/// A bucket to which a key belongs.
#[inline(always)]
fn bucket<'a>(arrays: Arrays<'a>, at: u32) -> &'a [AtomicU64; WORDS] {
    debug_assert!((at as usize) < arrays.buckets.len());
    // SAFETY: both homes of a key are below the number of buckets, by which they are scaled, and which is that of the
    // array, as the entry point has checked.
    unsafe { arrays.buckets.get_unchecked(at as usize) }
}

/// Prefetches the cache line of an element.
#[inline(always)]
fn prefetch_of<T>(array: &[T], at: usize) {
    // SAFETY: a prefetch of whatever address has no other effect.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(array.as_ptr().wrapping_add(at).cast()) }
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
    prefetch_of(arrays.lines, reference.flow() as usize);
    // Translated flows have their counters there. The position of others is past the end.
    prefetch(arrays.counters, reference.flow().wrapping_sub(arrays.first_translated) as usize);
    if ADDRESSES > 0 {
        let at = arrays.memory.address_at(reference.flow(), reference.is_second());
        prefetch(arrays.addresses, at);
    }
}

/// The third pass: what up to eight lanes from `at` on have found.
#[inline]
#[target_feature(enable = "bmi1,bmi2,avx2")]
fn compare_keys<const ADDRESSES: usize>(
    arrays: Arrays<'_>,
    group: &Group<ADDRESSES>,
    at: usize,
    found: &mut [Match],
) {
    let (mut others, matches) = compare_words(arrays, group, at);
    if ADDRESSES > 0 {
        for (lane, found) in matches.iter().enumerate() {
            let has = |found: &u32| {
                let reference = Reference(*found);
                let own = arrays.memory.address_at(reference.flow(), reference.is_second());
                let own = arrays.addresses.get(own);
                own.is_some_and(|own| has_addresses(own, &group.addresses[at + lane]))
            };
            if *found != ABSENT && !has(found) {
                others |= 1 << lane;
            }
        }
    }
    for (found, it) in found.iter_mut().zip(matches) {
        *found = Match(it);
    }
    while others != 0 {
        let lane = others.trailing_zeros() as usize;
        if let Some(found) = found.get_mut(lane) {
            *found = find_again(arrays, group, at + lane);
        }
        others &= others - 1;
    }
}

/// The lanes of eight whose candidate has other words than their key, as bits, and what the others have found.
#[inline]
#[target_feature(enable = "bmi1,bmi2,avx2")]
fn compare_words<const ADDRESSES: usize>(
    arrays: Arrays<'_>,
    group: &Group<ADDRESSES>,
    at: usize,
) -> (u32, [u32; STEP]) {
    let word = |value: u32| _mm256_set1_epi32(value.cast_signed());
    let load = |column: &[u32; GROUP]| {
        let step: &[u32] = &column[at..at + STEP];
        // SAFETY: a step is one vector.
        unsafe { _mm256_loadu_si256(step.as_ptr().cast()) }
    };
    let candidates = load(&group.candidates);
    let flow = _mm256_and_si256(candidates, word(Reference::SECOND - 1));
    let last = word(arrays.lines.len() as u32 - 1);
    // The last line stands in for those that are not there.
    let line = _mm256_min_epu32(flow, last);
    let is_there = _mm256_cmpeq_epi32(line, flow);
    let is_second = _mm256_slli_epi32::<1>(candidates);
    let from = _mm256_and_si256(_mm256_srai_epi32::<31>(is_second), word(SECOND as u32));
    let mut places = [0_u32; STEP];
    let place = _mm256_or_si256(_mm256_slli_epi32::<{ LINE_WORDS.ilog2() as i32 }>(line), from);
    // SAFETY: the array is one vector.
    unsafe { _mm256_storeu_si256(places.as_mut_ptr().cast(), place) };
    let start: *const AtomicU32 = arrays.lines.as_ptr().cast();
    // SAFETY: four of the words of a line that the array has. Its owner may write them at this moment, if the reference
    // is older than the flow: each is an aligned word, which x86-64 loads and stores whole. The comparison of keys, or
    // whoever asks whether the flow is live, refuses what it gets then.
    let two = |lane: usize| unsafe {
        let key = |lane| start.wrapping_add(position_in(&places, lane)).cast();
        let low = _mm256_castsi128_si256(_mm_loadu_si128(key(lane)));
        _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(key(lane + 4)))
    };
    let own = transpose([two(0), two(1), two(2), two(3)]);
    let difference = |at: usize| _mm256_xor_si256(own[at], load(&group.words[at]));
    let context = difference(CONTEXT);
    let differs = _mm256_or_si256(
        _mm256_or_si256(difference(0), difference(1)),
        _mm256_or_si256(difference(2), _mm256_andnot_si256(word(REVERSED), context)),
    );
    const { assert!(CONTEXT == 3) };
    let is_equal = _mm256_cmpeq_epi32(differs, _mm256_setzero_si256());
    let others = _mm256_andnot_si256(is_equal, is_there);
    // As [`Match::new`]: the packet is a reply if it has one of: the second key, the other direction.
    let reply = _mm256_and_si256(_mm256_xor_si256(is_second, context), word(Match::REPLY));
    let found = _mm256_or_si256(_mm256_andnot_si256(word(Reference::AWAY), candidates), reply);
    let found = _mm256_blendv_epi8(word(ABSENT), found, is_there);
    let mut matches = [0; STEP];
    // SAFETY: the array is one vector.
    unsafe { _mm256_storeu_si256(matches.as_mut_ptr().cast(), found) };
    (_mm256_movemask_ps(_mm256_castsi256_ps(others)).cast_unsigned(), matches)
}

#[inline]
#[target_feature(enable = "avx2")]
fn has_addresses(own: &[AtomicU32; ADDRESS_WORDS], key: &[u32; ADDRESS_WORDS]) -> bool {
    // SAFETY: both arrays are one vector; see `compare_words` about writers of the first one.
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
    let [low, high, ports, context] = &group.words;
    let words = [low[lane], high[lane], ports[lane], context[lane]];
    find(arrays.memory, &Canonical { words, addresses })
}
