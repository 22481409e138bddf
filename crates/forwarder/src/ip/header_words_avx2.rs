//! Loads words and addresses of headers with AVX2, 8 lanes a step: one load for each, which takes less
//! time than a gather.

use std::arch::x86_64::*;

use stoa_engine::{VECTOR, Vector};

use super::header_words::{LENGTH, LENGTH6, load_address, load_lane};
use crate::columns_avx2::{Columns, Places, STEP, host, load_4, load_8, load_16};

/// Same result as [`super::header_words::load_scalar`].
pub fn load<const N: usize>(vector: &Vector, at: [usize; N], words: [&mut [u32; VECTOR]; N]) {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    assert!(at.iter().all(|at| *at <= LENGTH - size_of::<u32>()));
    // SAFETY: asserted above: the processor has AVX2.
    unsafe { load_steps(vector, at, words) }
}

#[target_feature(enable = "avx2")]
fn load_steps<const N: usize>(vector: &Vector, at: [usize; N], mut words: [&mut [u32; VECTOR]; N]) {
    let lanes = vector.len();
    let mut places = Places::new();
    let located = places.locate(vector);
    for first in (0..lanes).step_by(STEP) {
        let columns = Columns::load(vector, first);
        let is_whole = _mm_movemask_epi8(columns.at_least(LENGTH)) == 0xffff;
        let is_full = first + STEP <= lanes;
        if !is_full || !is_whole || !columns.are_inside(vector.pool(), 0, LENGTH) {
            for lane in first..lanes.min(first + STEP) {
                for (at, words) in at.iter().zip(&mut words) {
                    words[lane] = load_lane(vector, lane, *at);
                }
            }
            continue;
        }
        let places = located.step(first);
        // SAFETY: the header of each lane is inside its buffer, and 8 elements follow `first`.
        let store = |words: &mut [u32; VECTOR], found| unsafe {
            _mm256_storeu_si256(words.as_mut_ptr().add(first).cast(), host(found));
        };
        if let (&[at, next], [words, others]) = (&at[..], &mut words[..])
            && next == at + size_of::<u32>()
        {
            // SAFETY: the same.
            let [found, others_found] = unsafe { load_8(vector.pool(), places, at) };
            store(words, found);
            store(others, others_found);
            continue;
        }
        for (at, words) in at.into_iter().zip(&mut words) {
            // SAFETY: the same.
            store(words, unsafe { load_4(vector.pool(), places, at) });
        }
    }
}

/// Same result as [`super::header_words::load_addresses`].
pub fn load_addresses<const AT: usize>(vector: &Vector, addresses: &mut [u128; VECTOR]) {
    assert!(crate::kernel::Kernel::Avx2.is_available());
    // SAFETY: asserted above: the processor has AVX2.
    unsafe { load_address_steps::<AT>(vector, addresses) }
}

#[target_feature(enable = "avx2")]
fn load_address_steps<const AT: usize>(vector: &Vector, addresses: &mut [u128; VECTOR]) {
    const { assert!(AT + 16 <= LENGTH6) };
    let (lanes, mut places) = (vector.len(), Places::new());
    let places = places.locate(vector);
    let host = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,
    ));
    for first in (0..lanes).step_by(STEP) {
        let columns = Columns::load(vector, first);
        let is_whole = _mm_movemask_epi8(columns.at_least(LENGTH6)) == 0xffff;
        let is_full = first + STEP <= lanes;
        if !is_full || !is_whole || !columns.are_inside(vector.pool(), 0, LENGTH6) {
            let some = addresses[first..].iter_mut().zip(first..lanes.min(first + STEP));
            some.for_each(|(address, lane)| *address = load_address::<AT>(vector, lane));
            continue;
        }
        // SAFETY: the header of each lane is inside its buffer, and 8 addresses follow `first`.
        unsafe {
            let to = addresses.as_mut_ptr().add(first).cast::<__m128i>();
            let found = load_16(vector.pool(), places.step(first), AT);
            for (lane, two) in found.into_iter().enumerate() {
                let two = _mm256_shuffle_epi8(two, host);
                _mm_storeu_si128(to.add(lane), _mm256_castsi256_si128(two));
                _mm_storeu_si128(to.add(lane + 4), _mm256_extracti128_si256::<1>(two));
            }
        }
    }
}
