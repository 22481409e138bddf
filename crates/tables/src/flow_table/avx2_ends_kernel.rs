//! What received packets of translated flows become, 8 at once with AVX2: plain loads from the lines of their flows,
//! which are transposed to columns. As in the other kernels, the entry point checks the CPU itself.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::avx2_hash_kernel::transpose;
use super::avx2_kernel::LINES_MAX;
use super::bucket::Reference;
use super::line::{LIVE, SECOND, VERDICT};
use super::memory::{Kind, LINE_WORDS, Memory};
use super::translations::{LANES, STEP, Translations};
use crate::load_kernel::{join_8_halves, position_in};
use crate::lpm::Kernel;
use crate::sync::AtomicU32;

/// The lines of translated flows.
#[derive(Clone, Copy)]
struct Lines<'a> {
    all: &'a [[AtomicU32; LINE_WORDS]],
    /// The first id, and how many there are.
    first: u32,
    count: u32,
}

/// Finds the ends of the first steps of packets; `false`, and nothing is done, on a CPU without AVX2, and in a table of
/// more than [`LINES_MAX`] flows.
pub(super) fn translate(
    memory: &Memory,
    words: &[u32; LANES],
    steps: usize,
    to: &mut Translations,
) -> bool {
    let (ids, all) = (memory.ids_of(Kind::TranslatedIp4), memory.lines());
    if !Kernel::Avx2.is_available() || all.len() > LINES_MAX {
        return false;
    }
    let count = ids.len() as u32;
    if count == 0 {
        to.lanes = [0; _];
        return true;
    }
    assert!(ids.end as usize <= all.len());
    // SAFETY: the CPU has the features, and the ids are those of lines, both checked above.
    unsafe { translate_all(Lines { all, first: ids.start, count }, words, steps, to) };
    true
}

/// # Safety
/// There is at least one translated flow, and `lines.all` has the lines of all of them.
#[target_feature(enable = "bmi1,bmi2,avx2")]
unsafe fn translate_all(
    lines: Lines<'_>,
    words: &[u32; LANES],
    steps: usize,
    to: &mut Translations,
) {
    let words = words.as_chunks::<STEP>().0.iter();
    let sources = to.sources.as_chunks_mut::<STEP>().0.iter_mut();
    let destinations = to.destinations.as_chunks_mut::<STEP>().0.iter_mut();
    let ports = to.ports.as_chunks_mut::<STEP>().0.iter_mut();
    let to = sources.zip(destinations).zip(ports).zip(&mut to.lanes);
    for (words, (((sources, destinations), ports), lanes)) in words.zip(to).take(steps) {
        // SAFETY: what a step needs is guaranteed by the caller; each array is one vector.
        unsafe {
            let words = _mm256_loadu_si256(words.as_ptr().cast());
            let ends;
            (*lanes, ends) = translate_step(lines, words);
            _mm256_storeu_si256(sources.as_mut_ptr().cast(), ends[0]);
            _mm256_storeu_si256(destinations.as_mut_ptr().cast(), ends[1]);
            _mm256_storeu_si256(ports.as_mut_ptr().cast(), ends[2]);
        }
    }
}

/// The packets of eight that are to be translated, and their sources, destinations and ports.
///
/// # Safety
/// As for [`translate_all`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn translate_step(lines: Lines<'_>, words: __m256i) -> (u8, [__m256i; 3]) {
    let word = |value: u32| _mm256_set1_epi32(value.cast_signed());
    // Bits 31 and 30 of those that were received are equal.
    let sent = _mm256_xor_si256(words, _mm256_add_epi32(words, words));
    let id = _mm256_and_si256(words, word(Reference::SECOND - 1));
    let at = _mm256_sub_epi32(id, word(lines.first));
    let is_one = _mm256_cmpeq_epi32(_mm256_min_epu32(at, word(lines.count - 1)), at);
    let is_one = _mm256_andnot_si256(_mm256_srai_epi32::<31>(sent), is_one);
    // The first line stands in for those of others.
    let id = _mm256_blendv_epi8(word(lines.first), id, is_one);
    // Who has the second key becomes the first one, in words.
    let is_second = _mm256_srai_epi32::<31>(_mm256_add_epi32(words, words));
    let key = _mm256_andnot_si256(is_second, word(SECOND as u32));
    let mut positions = [0_u32; STEP];
    // SAFETY: the array is one vector.
    unsafe {
        let line = _mm256_slli_epi32::<{ LINE_WORDS.ilog2() as i32 }>(id);
        _mm256_storeu_si256(positions.as_mut_ptr().cast(), _mm256_or_si256(line, key));
    }
    let start: *const AtomicU32 = lines.all.as_ptr().cast();
    // SAFETY: the id is that of a translated flow, whose line the caller guarantees. Its owner may write the words at
    // this moment, if it stands in for another one or is not live: each is an aligned word, which x86-64 loads and
    // stores whole, and the lane is left out.
    let two = |lane: usize| unsafe {
        let at = |lane| start.wrapping_add(position_in(&positions, lane)).cast();
        let low = _mm256_castsi128_si256(_mm_loadu_si128(at(lane)));
        _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(at(lane + 4)))
    };
    let [low, high, ports, context] = transpose([two(0), two(1), two(2), two(3)]);
    // SAFETY: as above, one word of the same line.
    let flags = unsafe {
        join_8_halves(|lane| {
            start.wrapping_add(position_in(&positions, lane) & !(LINE_WORDS - 1) | VERDICT).cast()
        })
    };
    let is_over = _mm256_cmpeq_epi32(_mm256_and_si256(flags, word(LIVE.into())), word(0));
    let is_one = _mm256_andnot_si256(is_over, is_one);
    let turned = _mm256_or_si256(_mm256_srli_epi32::<16>(ports), _mm256_slli_epi32::<16>(ports));
    // The packet has the other key reversed.
    let is_reversed = _mm256_srai_epi32::<31>(context);
    let ends = [
        _mm256_blendv_epi8(high, low, is_reversed),
        _mm256_blendv_epi8(low, high, is_reversed),
        _mm256_blendv_epi8(turned, ports, is_reversed),
    ];
    (_mm256_movemask_ps(_mm256_castsi256_ps(is_one)) as u8, ends)
}
