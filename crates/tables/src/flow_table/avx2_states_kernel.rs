//! What packets read of their flows, 8 at once with AVX2: plain loads from the lines of the flows, which are transposed
//! to columns. As in the other kernels, the entry point checks the CPU itself.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::avx2_hash_kernel::transpose;
use super::avx2_kernel::LINES_MAX;
use super::bucket::Reference;
use super::line::{SEEN, TCP, VERDICT};
use super::memory::LINE_WORDS;
use super::owned_flows::OwnedFlows;
use super::reader::Match;
use super::states::FlowStates;
use super::translations::{LANES, STEP};
use crate::load_kernel::{join_8_halves, position_in};
use crate::lpm::Kernel;
use crate::sync::AtomicU32;

/// The words of a line that are loaded together, of which these are the last two.
const FROM: usize = 12;
const _: () = assert!(SEEN == FROM + 2 && VERDICT == FROM + 3);

/// The lines of the flows that packets may have.
#[derive(Clone, Copy)]
struct Lines<'a> {
    all: &'a [[AtomicU32; LINE_WORDS]],
    /// The last id.
    last: u32,
    /// Where the ids of translated IPv4 flows begin, and how many there are.
    translated: [u32; 2],
}

/// Reads the flows of the first packets, of any owner; `false`, and nothing is done, on a CPU without AVX2, and in a
/// table that is empty or has more than [`LINES_MAX`] flows.
pub(super) fn read(
    flows: &OwnedFlows<'_>,
    found: &[Match; LANES],
    count: usize,
    to: &mut FlowStates,
) -> bool {
    let ([translated, ip6, end], all) = (flows.first, flows.lines);
    if !Kernel::Avx2.is_available() || end == 0 || all.len() > LINES_MAX {
        return false;
    }
    assert!(end as usize <= all.len());
    let lines = Lines { all, last: end - 1, translated: [translated, ip6 - translated] };
    // SAFETY: the CPU has the features, and the last id is that of a line, both checked above.
    unsafe { read_all(lines, found, count.div_ceil(STEP), to) };
    true
}

/// # Safety
/// `lines.all` has the lines of all ids up to the last one.
#[target_feature(enable = "avx2")]
unsafe fn read_all(lines: Lines<'_>, found: &[Match; LANES], steps: usize, to: &mut FlowStates) {
    let found = found.as_chunks::<STEP>().0.iter();
    let judged = to.judged.as_chunks_mut::<STEP>().0.iter_mut();
    let seen = to.seen.as_chunks_mut::<STEP>().0.iter_mut();
    let tcp = to.tcp.as_chunks_mut::<STEP>().0.iter_mut();
    for (found, ((judged, seen), tcp)) in found.zip(judged.zip(seen).zip(tcp)).take(steps) {
        // SAFETY: what a step needs is guaranteed by the caller; each array is one vector, and a match one word.
        unsafe {
            let of = read_step(lines, _mm256_loadu_si256(found.as_ptr().cast()));
            _mm256_storeu_si256(judged.as_mut_ptr().cast(), of[0]);
            _mm256_storeu_si256(seen.as_mut_ptr().cast(), of[1]);
            _mm256_storeu_si256(tcp.as_mut_ptr().cast(), of[2]);
        }
    }
}

/// The columns of eight packets, in the order of [`FlowStates`].
///
/// # Safety
/// As for [`read_all`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn read_step(lines: Lines<'_>, words: __m256i) -> [__m256i; 3] {
    let word = |value: u32| _mm256_set1_epi32(value.cast_signed());
    let id = _mm256_and_si256(words, word(Reference::SECOND - 1));
    // The last line stands in for those that are not there.
    let line = _mm256_min_epu32(id, word(lines.last));
    let is_there = _mm256_cmpeq_epi32(line, id);
    let [first, count] = lines.translated;
    let (at, count) = (_mm256_sub_epi32(id, word(first)), word(count));
    let is_other = _mm256_cmpeq_epi32(_mm256_max_epu32(at, count), at);
    // Bits 31 and 30 of packets of translated flows that were received are equal.
    let sent = _mm256_srai_epi32::<31>(_mm256_xor_si256(words, _mm256_add_epi32(words, words)));
    let is_one = _mm256_andnot_si256(_mm256_andnot_si256(is_other, sent), is_there);
    let mut positions = [0_u32; STEP];
    // SAFETY: the array is one vector.
    unsafe {
        let line = _mm256_slli_epi32::<{ LINE_WORDS.ilog2() as i32 }>(line);
        _mm256_storeu_si256(positions.as_mut_ptr().cast(), line);
    }
    let start: *const AtomicU32 = lines.all.as_ptr().cast();
    let at = |lane, word| start.wrapping_add(position_in(&positions, lane) + word);
    // SAFETY: the words are those of a line, which the caller guarantees. Its owner may write them at this moment: each
    // is an aligned word, which x86-64 loads and stores whole.
    let two = |lane: usize| unsafe {
        let low = _mm256_castsi128_si256(_mm_loadu_si128(at(lane, FROM).cast()));
        _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(at(lane + 4, FROM).cast()))
    };
    let [_, _, seen, judged] = transpose([two(0), two(1), two(2), two(3)]);
    // SAFETY: as above.
    let tcp = unsafe { join_8_halves(|lane| at(lane, TCP).cast()) };
    [_mm256_and_si256(judged, is_one), seen, tcp]
}
