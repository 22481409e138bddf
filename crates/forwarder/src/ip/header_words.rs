//! Loads one 32-bit word of each header of a vector, such as an IPv4 address: the scalar reference
//! and the choice of the SIMD kernel.

use stoa_engine::{VECTOR, Vector};

use crate::kernel::Kernel;

/// Bytes of an IPv4 header without options.
pub(super) const LENGTH: usize = 20;

/// Loads the words at bytes `at` of all lanes in host order. A lane without a whole header gets 0.
///
/// # Panics
/// If a place exceeds 16: the words of an IPv4 header without options.
#[inline(always)]
pub fn load<const N: usize>(
    kernel: Kernel,
    vector: &Vector,
    at: [usize; N],
    words: [&mut [u32; VECTOR]; N],
) {
    assert!(at.iter().all(|at| *at <= 16));
    match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 | Kernel::Avx2 => super::header_words_avx2::load(vector, at, words),
        _ => load_scalar(vector, at, words),
    }
}

/// The reference.
pub fn load_scalar<const N: usize>(
    vector: &Vector,
    at: [usize; N],
    words: [&mut [u32; VECTOR]; N],
) {
    for (at, words) in at.into_iter().zip(words) {
        for (lane, word) in words.iter_mut().enumerate().take(vector.len()) {
            *word = load_lane(vector, lane, at);
        }
    }
}

/// Loads the word of one lane.
#[inline(always)]
pub(super) fn load_lane(vector: &Vector, lane: usize, at: usize) -> u32 {
    let header = vector.bytes(lane).first_chunk::<LENGTH>();
    let word = header.and_then(|header| header.get(at..at + 4)?.first_chunk::<4>());
    word.map_or(0, |word| u32::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::OnceLock;
    use stoa_engine::PoolCache;
    use stoa_engine::pool::{HugePages, Pool};

    fn pool() -> &'static Pool {
        static POOL: OnceLock<&'static Pool> = OnceLock::new();
        POOL.get_or_init(|| Pool::leak(1024, HugePages::Never).unwrap())
    }

    proptest! {
        #[test]
        fn all_kernels_load_the_same(
            lanes in prop::collection::vec((0..40_u16, 0..2030_u16), 0..=VECTOR),
            at in prop_oneof![
                (0..=16_usize, 0..=16_usize),
                (0..=12_usize).prop_map(|at| (at, at + 4)),
            ],
            seed: u8,
        ) {
            let (mut cache, mut vector) = (PoolCache::new(pool()), Vector::new(pool()));
            prop_assert_eq!(cache.fill(&mut vector, lanes.len()), lanes.len());
            for (lane, (length, offset)) in lanes.iter().enumerate() {
                vector.slot_mut(lane).fill_with({
                    let mut byte = seed.wrapping_add(lane as u8);
                    move || { byte = byte.wrapping_mul(31).wrapping_add(7); byte }
                });
                (vector.offset[lane], vector.length[lane]) = (*offset, *length);
            }
            let at = [at.0, at.1];
            let mut expected = [[0; VECTOR]; 2];
            load_scalar(&vector, at, expected.each_mut());
            for kernel in Kernel::available() {
                let mut words = [[0; VECTOR]; 2];
                load(kernel, &vector, at, words.each_mut());
                prop_assert_eq!(words, expected, "{}", kernel.name());
            }
            cache.free_from(&mut vector, 0);
        }
    }
}
