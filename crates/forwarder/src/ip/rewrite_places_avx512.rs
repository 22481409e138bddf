//! Where the packets are that `rewrite_avx512` changes.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use stoa_engine::{VECTOR, Vector};

use super::rewrite_columns_avx512::{Columns, STEP};

/// Where the data of each lane begin, in bytes from the start of the pool, by step of 16 lanes. Those of
/// all steps are stored before the first is used: a load that has to wait for the store of its place takes
/// longer. Of a place that is stored and used in one step, the compiler keeps the vector, and takes each
/// lane out of it by two instructions, on one port of the processor.
#[repr(align(64))]
pub(super) struct Places([MaybeUninit<[u64; STEP]>; VECTOR / STEP]);

impl Places {
    /// Those of no vector yet.
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self([const { MaybeUninit::uninit() }; VECTOR / STEP])
    }

    /// Stores those of a vector, and returns these steps. A lane whose buffer is not in the pool has a
    /// place, too, which means nothing.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    pub(super) fn locate(&mut self, vector: &Vector) -> &[[u64; STEP]] {
        let steps = vector.len().div_ceil(STEP);
        let places = &mut self.0[..steps];
        for (step, places) in places.iter_mut().enumerate() {
            let [low, high] = Columns::load(vector, step * STEP).place();
            let to = places.as_mut_ptr().cast::<__m512i>();
            // SAFETY: the places of a step are two vectors.
            unsafe {
                _mm512_storeu_si512(to, low);
                _mm512_storeu_si512(to.add(1), high);
            }
        }
        // SAFETY: each of them was stored just now.
        unsafe { places.assume_init_ref() }
    }
}
