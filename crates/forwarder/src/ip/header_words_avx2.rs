//! Loads words of headers, 8 lanes a step, with AVX2 and with AVX-512: one load for each word, which
//! takes less time than a gather.

use std::arch::x86_64::*;

use stoa_engine::{VECTOR, Vector};

use super::header_words::{LENGTH, load_lane};
use crate::columns_avx2::{Columns, STEP, host, load_4, load_8};

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
        let places = columns.places();
        // SAFETY: the header of each lane is inside its buffer, and 8 elements follow `first`.
        let store = |words: &mut [u32; VECTOR], found| unsafe {
            _mm256_storeu_si256(words.as_mut_ptr().add(first).cast(), host(found));
        };
        if let (&[at, next], [words, others]) = (&at[..], &mut words[..])
            && next == at + size_of::<u32>()
        {
            // SAFETY: the same.
            let [found, others_found] = unsafe { load_8(vector.pool(), &places, at) };
            store(words, found);
            store(others, others_found);
            continue;
        }
        for (at, words) in at.into_iter().zip(&mut words) {
            // SAFETY: the same.
            store(words, unsafe { load_4(vector.pool(), &places, at) });
        }
    }
}
