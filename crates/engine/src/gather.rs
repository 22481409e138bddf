//! Loads a table's entries for all lanes at once: `values[lane] = table[index[lane]]`, 8 or 16 lanes
//! a step.
//!
//! An index is reduced to the size of the table, a power of two, so that no index is out of range:
//! lanes that are not in use load something, too.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::VECTOR;
use crate::column::{Column, Here, Width};
use crate::vector::LaneSet;

/// Loads the entries of the first `lanes` lanes. Values of other lanes mean nothing afterwards.
///
/// # Panics
/// If the size of the table is not a power of two.
#[inline]
pub fn gather_32(table: &[AtomicU32], index: &Column<u32>, lanes: usize, values: &mut Column<u32>) {
    assert!(table.len().is_power_of_two() && lanes <= VECTOR);
    match Here::now().width() {
        // SAFETY: the processor has the features; the size is a power of two.
        #[cfg(target_arch = "x86_64")]
        Width::Avx512 => unsafe { avx512::gather_32(table, index, lanes, values) },
        // SAFETY: the same.
        #[cfg(target_arch = "x86_64")]
        Width::Avx2 => unsafe { avx2::gather_32(table, index, lanes, values) },
        _ => plain_32(table, index, lanes, values),
    }
}

/// What decides about a lane: its entry of the table under `mask` must be `expected`, and its flags 0.
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    /// The bits of the entry that count.
    pub mask: u32,
    /// Their values.
    pub expected: u32,
}

/// Loads the entries of the first `lanes` lanes. Returns the lanes that are plain, and all bits that
/// any entry has.
///
/// # Panics
/// If the size of the table is not a power of two.
#[inline]
pub fn gather_plain(
    table: &[AtomicU32],
    (index, flags): (&Column<u32>, &Column<u16>),
    lanes: usize,
    plain: Plain,
    values: &mut Column<u32>,
) -> (LaneSet, u32) {
    assert!(table.len().is_power_of_two() && lanes <= VECTOR);
    match Here::now().width() {
        // SAFETY: the processor has the features; the size is a power of two.
        #[cfg(target_arch = "x86_64")]
        Width::Avx512 => unsafe {
            avx512::gather_plain(table, (index, flags), lanes, plain, values)
        },
        // SAFETY: the same.
        #[cfg(target_arch = "x86_64")]
        Width::Avx2 => unsafe { avx2::gather_plain(table, (index, flags), lanes, plain, values) },
        _ => {
            gather_32(table, index, lanes, values);
            sort_plain(flags, lanes, plain, values)
        }
    }
}

/// The reference of [`gather_plain`], after the load.
fn sort_plain(
    flags: &Column<u16>,
    lanes: usize,
    plain: Plain,
    values: &Column<u32>,
) -> (LaneSet, u32) {
    let (mut set, mut any) = (LaneSet::first_of(0), 0);
    for (lane, value) in values[..lanes].iter().enumerate() {
        any |= value;
        if value & plain.mask == plain.expected && flags[lane] == 0 {
            set.insert(lane);
        }
    }
    (set, any)
}

/// The reference of [`gather_32`].
fn plain_32(table: &[AtomicU32], index: &Column<u32>, lanes: usize, values: &mut Column<u32>) {
    for (value, index) in values.iter_mut().zip(&index[..lanes]) {
        *value = table[*index as usize & (table.len() - 1)].load(Ordering::Relaxed);
    }
}

/// 8 lanes a step.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::*;

    /// The entries of 8 lanes, as `avx512::load_16` loads them: a gather takes longer.
    ///
    /// # Safety
    /// The size of the table is a power of two.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load_8(table: &[AtomicU32], index: &[u32; 8]) -> __m256i {
        let mask = table.len() - 1;
        let one = |lane: usize| {
            // SAFETY: a place of an array. Volatile: else the compiler loads all of them at once. The mask
            // keeps the index inside the table; each load is an aligned one of 4 bytes, which x86-64
            // performs whole.
            unsafe {
                let at = std::ptr::from_ref(&index[lane]).read_volatile() as usize & mask;
                _mm_loadu_si32(table.as_ptr().add(at).cast())
            }
        };
        let two = |lane: usize| _mm_unpacklo_epi32(one(lane), one(lane + 1));
        let four = |lane: usize| _mm_unpacklo_epi64(two(lane), two(lane + 2));
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(four(0)), four(4))
    }

    /// # Safety
    /// The size of the table is a power of two.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn gather_32(
        table: &[AtomicU32],
        index: &Column<u32>,
        lanes: usize,
        values: &mut Column<u32>,
    ) {
        let steps = index.as_chunks::<8>().0.iter().zip(values.as_chunks_mut::<8>().0);
        for (index, values) in steps.take(lanes.div_ceil(8)) {
            // SAFETY: a step is one vector; the rest is guaranteed by the caller.
            unsafe {
                _mm256_storeu_si256(values.as_mut_ptr().cast(), load_8(table, index));
            }
        }
    }

    /// # Safety
    /// The size of the table is a power of two.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn gather_plain(
        table: &[AtomicU32],
        (index, flags): (&Column<u32>, &Column<u16>),
        lanes: usize,
        plain: Plain,
        values: &mut Column<u32>,
    ) -> (LaneSet, u32) {
        let mask = _mm256_set1_epi32(plain.mask as i32);
        let expected = _mm256_set1_epi32(plain.expected as i32);
        let zero = _mm256_setzero_si256();
        let (mut set, mut any) = (LaneSet::first_of(lanes), zero);
        let columns = index.as_chunks::<8>().0.iter().zip(flags.as_chunks::<8>().0);
        let columns = columns.zip(values.as_chunks_mut::<8>().0);
        for (step, ((index, flags), values)) in columns.enumerate().take(lanes.div_ceil(8)) {
            // SAFETY: a step is one vector, half a vector of flags; the rest is guaranteed by the caller.
            let (found, flags) = unsafe {
                let found = load_8(table, index);
                _mm256_storeu_si256(values.as_mut_ptr().cast(), found);
                (found, _mm256_cvtepu16_epi32(_mm_loadu_si128(flags.as_ptr().cast())))
            };
            let odd = _mm256_xor_si256(_mm256_and_si256(found, mask), expected);
            let same = _mm256_cmpeq_epi32(_mm256_or_si256(odd, flags), zero);
            let odd = !_mm256_movemask_ps(_mm256_castsi256_ps(same)) as u64 & 0xff;
            set.0[step / 8] &= !(odd << (step % 8 * 8));
            // Of lanes that are not in use, too: those of the last step are summed up below.
            if step < lanes / 8 {
                any = _mm256_or_si256(any, found);
            }
        }
        let rest = values[lanes / 8 * 8..lanes].iter().fold(0, |any, value| any | value);
        let any = _mm_or_si128(_mm256_castsi256_si128(any), _mm256_extracti128_si256::<1>(any));
        let any = _mm_or_si128(any, _mm_unpackhi_epi64(any, any));
        let any = _mm_or_si128(any, _mm_shuffle_epi32::<1>(any));
        (set, _mm_cvtsi128_si32(any) as u32 | rest)
    }
}

/// 16 lanes a step.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::*;

    /// The entries of 16 lanes: plain loads that shuffles join take about half the time of a gather (0.41
    /// TSC cycles an entry in place of 0.76 on a Zen 5). The indexes are loaded from the column one by one:
    /// taking them out of a register needs two instructions each, and one port of the processor does it.
    ///
    /// # Safety
    /// The size of the table is a power of two.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_16(table: &[AtomicU32], index: &[u32; 16]) -> __m512i {
        let mask = table.len() - 1;
        let one = |lane: usize| {
            // SAFETY: a place of an array. Volatile: else the compiler loads all of them at once. The mask
            // keeps the index inside the table; each load is an aligned one of 4 bytes, which x86-64
            // performs whole.
            unsafe {
                let at = std::ptr::from_ref(&index[lane]).read_volatile() as usize & mask;
                _mm_loadu_si32(table.as_ptr().add(at).cast())
            }
        };
        let two = |lane: usize| _mm_unpacklo_epi32(one(lane), one(lane + 1));
        let four = |lane: usize| _mm_unpacklo_epi64(two(lane), two(lane + 2));
        let eight = |lane: usize| {
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(four(lane)), four(lane + 4))
        };
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(eight(0)), eight(8))
    }

    /// # Safety
    /// The size of the table is a power of two.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn gather_32(
        table: &[AtomicU32],
        index: &Column<u32>,
        lanes: usize,
        values: &mut Column<u32>,
    ) {
        let steps = index.as_chunks::<16>().0.iter().zip(values.as_chunks_mut::<16>().0);
        for (index, values) in steps.take(lanes.div_ceil(16)) {
            // SAFETY: a step is one vector; the rest is guaranteed by the caller.
            unsafe {
                _mm512_storeu_si512(values.as_mut_ptr().cast(), load_16(table, index));
            }
        }
    }

    /// # Safety
    /// The size of the table is a power of two.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn gather_plain(
        table: &[AtomicU32],
        (index, flags): (&Column<u32>, &Column<u16>),
        lanes: usize,
        plain: Plain,
        values: &mut Column<u32>,
    ) -> (LaneSet, u32) {
        let mask = _mm512_set1_epi32(plain.mask as i32);
        let expected = _mm512_set1_epi32(plain.expected as i32);
        let (mut words, mut any) = ([0; VECTOR / 64], _mm512_setzero_si512());
        let columns = index.as_chunks::<16>().0.iter().zip(flags.as_chunks::<16>().0);
        let columns = columns.zip(values.as_chunks_mut::<16>().0);
        for (step, ((index, flags), values)) in columns.enumerate().take(lanes.div_ceil(16)) {
            let in_use = ((1_u32 << (lanes - step * 16).min(16)) - 1) as __mmask16;
            // SAFETY: a step is one vector, half a vector of flags; the rest is guaranteed by the caller.
            let (found, flags) = unsafe {
                let found = load_16(table, index);
                _mm512_storeu_si512(values.as_mut_ptr().cast(), found);
                (found, _mm512_cvtepu16_epi32(_mm256_loadu_si256(flags.as_ptr().cast())))
            };
            any = _mm512_mask_or_epi32(any, in_use, any, found);
            let same =
                _mm512_mask_cmpeq_epi32_mask(in_use, _mm512_and_si512(found, mask), expected);
            let same = _mm512_mask_testn_epi32_mask(same, flags, flags);
            words[step / 4] |= u64::from(same) << (step % 4 * 16);
        }
        (LaneSet(words), _mm512_reduce_or_epi32(any) as u32)
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All widths that this processor has.
    fn widths() -> impl Iterator<Item = Width> {
        [Width::Avx2, Width::Avx512].into_iter().filter(|it| Here::at_most(*it).width() == *it)
    }

    proptest! {
        #[test]
        fn plain_lanes_are_found(
            entries in prop::collection::vec(0..4_u32, 8),
            index in prop::collection::vec(any::<u32>(), VECTOR),
            odd in prop::collection::vec(0..VECTOR, 0..4),
            lanes in 0..=VECTOR,
        ) {
            let table: Vec<_> = entries.iter().map(|entry| AtomicU32::new(*entry)).collect();
            let (mut column, mut flags) = (Column::of(0), Column::of(0));
            column.copy_from_slice(&index);
            odd.iter().for_each(|lane| flags[*lane] = 1 << (lane % 16));
            let plain = Plain { mask: 1, expected: 1 };
            let mut values = Column::of(0);
            let (set, any) = gather_plain(&table, (&column, &flags), lanes, plain, &mut values);
            for (lane, value) in values[..lanes].iter().enumerate() {
                prop_assert_eq!(*value, entries[index[lane] as usize % 8]);
            }
            prop_assert_eq!(any, values[..lanes].iter().fold(0, |any, value| any | value));
            let is_plain = |lane: &usize| values[*lane] & 1 == 1 && flags[*lane] == 0;
            let expected: Vec<_> = (0..lanes).filter(is_plain).collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), expected);
            prop_assert_eq!(sort_plain(&flags, lanes, plain, &values), (set, any));
        }

        #[test]
        fn all_widths_load_the_same(
            log2 in 0..8_u32,
            index in prop::collection::vec(any::<u32>(), VECTOR),
            lanes in 0..=VECTOR,
        ) {
            let table: Vec<_> = (0..1 << log2).map(|at| AtomicU32::new(at * 7)).collect();
            let mut column = Column::of(0);
            column.copy_from_slice(&index);
            let mut expected = Column::of(0);
            plain_32(&table, &column, lanes, &mut expected);
            for lane in 0..lanes {
                let at = index[lane] % (1 << log2);
                prop_assert_eq!(expected[lane], at * 7);
            }
            for width in widths() {
                let mut found = Column::of(0);
                // SAFETY: the processor has the features; the size is a power of two.
                #[cfg(target_arch = "x86_64")]
                unsafe {
                    if width == Width::Avx512 {
                        avx512::gather_32(&table, &column, lanes, &mut found);
                    } else {
                        avx2::gather_32(&table, &column, lanes, &mut found);
                    }
                }
                prop_assert_eq!(&found[..lanes], &expected[..lanes], "{:?}", width);
            }
        }
    }
}
