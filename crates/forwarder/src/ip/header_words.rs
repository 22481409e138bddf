//! Loads one 32-bit word of each IPv4 header of a vector, or one address of each IPv6 header: the scalar
//! references and the choice of the SIMD kernel.

use stoa_engine::{VECTOR, Vector};

use crate::kernel::Kernel;

/// Bytes of an IPv4 header without options.
pub(super) const LENGTH: usize = 20;
/// Bytes of an IPv6 header.
pub(super) const LENGTH6: usize = stoa_wire::ipv6::LENGTH;

/// Loads the words at bytes `at` of all lanes in host order. A lane without a whole header gets 0.
///
/// # Panics
/// If a place is no multiple of 4 up to 16: the words of an IPv4 header without options.
#[inline(always)]
pub fn load<const N: usize>(
    kernel: Kernel,
    vector: &Vector,
    at: [usize; N],
    words: [&mut [u32; VECTOR]; N],
) {
    assert!(at.iter().all(|at| *at <= 16 && at % 4 == 0));
    match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => super::header_words_avx512::load(vector, at, words),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => super::header_words_avx2::load(vector, at, words),
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

/// Loads the addresses at byte `AT` of all lanes in host order. A lane without a whole IPv6 header
/// gets 0.
#[inline(always)]
pub fn load_addresses<const AT: usize>(
    kernel: Kernel,
    vector: &Vector,
    addresses: &mut [u128; VECTOR],
) {
    const { assert!(AT + 16 <= LENGTH6) };
    match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => super::header_words_avx512::load_addresses::<AT>(vector, addresses),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => super::header_words_avx2::load_addresses::<AT>(vector, addresses),
        _ => load_addresses_scalar::<AT>(vector, addresses),
    }
}

/// The reference.
fn load_addresses_scalar<const AT: usize>(vector: &Vector, addresses: &mut [u128; VECTOR]) {
    for (lane, address) in addresses.iter_mut().enumerate().take(vector.len()) {
        *address = load_address::<AT>(vector, lane);
    }
}

/// Loads the address of one lane.
#[inline(always)]
pub(super) fn load_address<const AT: usize>(vector: &Vector, lane: usize) -> u128 {
    let header = vector.bytes(lane).first_chunk::<LENGTH6>();
    let address = header.and_then(|header| header.get(AT..)?.first_chunk::<16>());
    address.map_or(0, |address| u128::from_be_bytes(*address))
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
            lanes in prop::collection::vec((0..60_u16, 0..2030_u16), 0..=VECTOR),
            at in (0..=4_usize, 0..=4_usize),
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
            let at = [at.0 * 4, at.1 * 4];
            let mut expected = [[0; VECTOR]; 2];
            load_scalar(&vector, at, expected.each_mut());
            for kernel in Kernel::available() {
                let mut words = [[0; VECTOR]; 2];
                load(kernel, &vector, at, words.each_mut());
                prop_assert_eq!(words, expected, "{}", kernel.name());
            }
            let (mut source, mut destination) = ([0; VECTOR], [0; VECTOR]);
            load_addresses_scalar::<8>(&vector, &mut source);
            load_addresses_scalar::<24>(&vector, &mut destination);
            for kernel in Kernel::available() {
                let mut found = [[0; VECTOR]; 2];
                load_addresses::<8>(kernel, &vector, &mut found[0]);
                load_addresses::<24>(kernel, &vector, &mut found[1]);
                let found = found.each_ref().map(|found| &found[..lanes.len()]);
                let expected = [&source[..lanes.len()], &destination[..lanes.len()]];
                prop_assert_eq!(found, expected, "{}", kernel.name());
            }
            cache.free_from(&mut vector, 0);
        }
    }
}
