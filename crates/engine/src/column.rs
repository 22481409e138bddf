//! One field of all lanes of a vector, aligned so that kernels load whole lines.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::VECTOR;

/// One field of all lanes.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Column<T>([T; VECTOR]);

impl<T: Copy> Column<T> {
    /// A column that holds `value` in all lanes.
    pub fn of(value: T) -> Self {
        Self([value; VECTOR])
    }
}

impl<T> Deref for Column<T> {
    type Target = [T; VECTOR];
    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T> DerefMut for Column<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Column<u32> {
    /// The value of the first `lanes` lanes, when it is the same in all of them.
    #[inline]
    pub fn uniform(&self, lanes: usize) -> Option<u32> {
        let lanes = lanes.min(VECTOR);
        let first = *self[..lanes].first()?;
        all_are(Here::now(), self, lanes, first).then_some(first)
    }
}

impl Column<u16> {
    /// The sum of the first `lanes` lanes.
    #[inline]
    pub(crate) fn sum(&self, lanes: usize) -> u32 {
        sum(Here::now(), &self[..lanes.min(VECTOR)])
    }
}

#[inline]
fn sum(here: Here, column: &[u16]) -> u32 {
    match here.width() {
        // SAFETY: the processor has the features.
        #[cfg(target_arch = "x86_64")]
        Width::Avx512 => unsafe { avx512::sum(column) },
        // SAFETY: the processor has the features.
        #[cfg(target_arch = "x86_64")]
        Width::Avx2 => unsafe { avx2::sum(column) },
        _ => column.iter().map(|it| u32::from(*it)).sum(),
    }
}

/// Whether all values are below `end`.
#[inline]
pub(crate) fn are_below(here: Here, column: &[u32], end: u32) -> bool {
    match here.width() {
        // SAFETY: the processor has the features.
        #[cfg(target_arch = "x86_64")]
        Width::Avx512 => unsafe { avx512::are_below(column, end) },
        // SAFETY: the processor has the features.
        #[cfg(target_arch = "x86_64")]
        Width::Avx2 => unsafe { avx2::are_below(column, end) },
        // One pass without branches.
        _ => column.iter().fold(true, |below, it| below & (*it < end)),
    }
}

/// Whether the first `lanes` lanes hold `value`.
#[inline]
fn all_are(here: Here, column: &[u32; VECTOR], lanes: usize, value: u32) -> bool {
    match here.width() {
        // SAFETY: the processor has the features.
        #[cfg(target_arch = "x86_64")]
        Width::Avx512 => unsafe { avx512::all_are(&column[..lanes], value) },
        // SAFETY: the processor has the features.
        #[cfg(target_arch = "x86_64")]
        Width::Avx2 => unsafe { avx2::all_are(&column[..lanes], value) },
        _ => column[..lanes].iter().fold(0, |diff, it| diff | (it ^ value)) == 0,
    }
}

/// How wide columns are compared and moved; all do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Width {
    /// Lane by lane, or what the compiler makes of it.
    Plain = 1,
    /// 8 lanes a step by AVX2.
    Avx2,
    /// 16 lanes a step by AVX-512.
    Avx512,
}

/// See [`limit`]; 0 until it is first queried.
static WIDTH: AtomicU8 = AtomicU8::new(0);

/// Has columns compared and moved no wider than so from now on, in the whole process: to
/// force a kernel. It is narrower where the processor lacks it.
pub fn limit(most: Width) {
    WIDTH.store(Here::at_most(most).0 as u8, Ordering::Relaxed);
}

/// A width that this processor has.
#[derive(Clone, Copy, Debug)]
pub struct Here(Width);

impl Here {
    /// The width in use. It is cached: a query costs one load.
    #[inline(always)]
    pub(crate) fn now() -> Self {
        Self(match WIDTH.load(Ordering::Relaxed) {
            0 => return Self::first(),
            1 => Width::Plain,
            2 => Width::Avx2,
            _ => Width::Avx512,
        })
    }

    #[cold]
    fn first() -> Self {
        limit(Width::Avx512);
        Self::at_most(Width::Avx512)
    }

    /// The widest up to `most`.
    pub(crate) fn at_most(most: Width) -> Self {
        Self(most.min(widest()))
    }

    #[inline(always)]
    pub(crate) fn width(self) -> Width {
        self.0
    }
}

/// The widest that this processor has.
fn widest() -> Width {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("popcnt")
    {
        let is_wide = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        return if is_wide { Width::Avx512 } else { Width::Avx2 };
    }
    Width::Plain
}

/// What columns do 8 lanes a step.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    /// Whether all hold `value`.
    #[target_feature(enable = "avx2")]
    pub(super) fn all_are(column: &[u32], value: u32) -> bool {
        let (steps, rest) = column.as_chunks::<8>();
        let all = _mm256_set1_epi32(value as i32);
        let mut diff = _mm256_setzero_si256();
        for step in steps {
            // SAFETY: a step is one vector.
            let step = unsafe { _mm256_loadu_si256(step.as_ptr().cast()) };
            diff = _mm256_or_si256(diff, _mm256_xor_si256(step, all));
        }
        let rest = rest.iter().fold(0, |diff, it| diff | (it ^ value));
        _mm256_testz_si256(diff, diff) == 1 && rest == 0
    }

    /// Whether all are below `end`. What is left after whole steps takes no loop: bursts have all
    /// lengths, and the end of each loop would be mispredicted.
    #[target_feature(enable = "avx2")]
    pub(super) fn are_below(column: &[u32], end: u32) -> bool {
        let Some(last) = column.last_chunk::<8>() else {
            return column.iter().fold(true, |below, it| below & (*it < end));
        };
        let Some(most) = end.checked_sub(1) else { return false };
        let most = _mm256_set1_epi32(most as i32);
        let mut all = _mm256_set1_epi32(-1);
        // Some of the last ones are compared twice.
        for step in column.as_chunks::<8>().0.iter().chain([last]) {
            // SAFETY: a step is one vector.
            let step = unsafe { _mm256_loadu_si256(step.as_ptr().cast()) };
            all = _mm256_and_si256(all, _mm256_cmpeq_epi32(_mm256_min_epu32(step, most), step));
        }
        _mm256_movemask_epi8(all) == -1
    }

    /// The sum of at most 65,536 values, the last of them without a loop: see [`are_below`].
    #[target_feature(enable = "avx2")]
    pub(super) fn sum(column: &[u16]) -> u32 {
        const STEP: usize = 16;
        /// Selects the last lanes of a step, by where it is loaded from.
        static LAST: [u16; 2 * STEP] = {
            let mut lanes = [0; 2 * STEP];
            let mut lane = STEP;
            while lane < lanes.len() {
                lanes[lane] = u16::MAX;
                lane += 1;
            }
            lanes
        };
        let Some(last) = column.last_chunk::<STEP>() else {
            return column.iter().map(|it| u32::from(*it)).sum();
        };
        let (steps, rest) = column.as_chunks::<STEP>();
        let (low, zero) = (_mm256_set1_epi32(0xffff), _mm256_setzero_si256());
        let add = |sum: __m256i, values: __m256i| {
            let even = _mm256_and_si256(values, low);
            let odd = _mm256_srli_epi32::<16>(values);
            _mm256_add_epi32(sum, _mm256_add_epi32(even, odd))
        };
        let mut sum = zero;
        for step in steps {
            // SAFETY: a step is one vector.
            sum = add(sum, unsafe { _mm256_loadu_si256(step.as_ptr().cast()) });
        }
        // SAFETY: both are one vector: less than a step is left.
        unsafe {
            let lanes = _mm256_loadu_si256(LAST.as_ptr().add(rest.len()).cast());
            sum = add(sum, _mm256_and_si256(_mm256_loadu_si256(last.as_ptr().cast()), lanes));
        }
        let sum = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
        let sum = _mm_add_epi32(sum, _mm_unpackhi_epi64(sum, sum));
        let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<1>(sum));
        _mm_cvtsi128_si32(sum) as u32
    }
}

/// What columns do 16 lanes a step.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    /// Whether all hold `value`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn all_are(column: &[u32], value: u32) -> bool {
        let value = _mm512_set1_epi32(value as i32);
        let mut diff = _mm512_setzero_si512();
        let (steps, rest) = column.as_chunks::<16>();
        for step in steps {
            // SAFETY: a step is one vector.
            let step = unsafe { _mm512_loadu_si512(step.as_ptr().cast()) };
            diff = _mm512_or_si512(diff, _mm512_xor_si512(step, value));
        }
        let left = ((1_u32 << rest.len()) - 1) as __mmask16;
        // SAFETY: no more than what is left is loaded.
        let rest = unsafe { _mm512_maskz_loadu_epi32(left, rest.as_ptr().cast()) };
        let diff = _mm512_mask_or_epi32(diff, left, diff, _mm512_xor_si512(rest, value));
        _mm512_test_epi32_mask(diff, diff) == 0
    }

    /// Whether all are below `end`. What is left after whole steps takes no loop: bursts have all
    /// lengths, and the end of each loop would be mispredicted.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn are_below(column: &[u32], end: u32) -> bool {
        let (steps, rest) = column.as_chunks::<16>();
        let end = _mm512_set1_epi32(end as i32);
        let left = ((1_u32 << rest.len()) - 1) as __mmask16;
        // SAFETY: no more than what is left is loaded.
        let rest = unsafe { _mm512_maskz_loadu_epi32(left, rest.as_ptr().cast()) };
        let mut odd = _mm512_mask_cmpge_epu32_mask(left, rest, end);
        for step in steps {
            // SAFETY: a step is one vector.
            let step = unsafe { _mm512_loadu_si512(step.as_ptr().cast()) };
            odd |= _mm512_cmpge_epu32_mask(step, end);
        }
        odd == 0
    }

    /// The sum of at most 65,536 values.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn sum(column: &[u16]) -> u32 {
        let (steps, rest) = column.as_chunks::<16>();
        let left = ((1_u32 << rest.len()) - 1) as __mmask16;
        // SAFETY: no more than what is left is loaded.
        let rest = unsafe { _mm256_maskz_loadu_epi16(left, rest.as_ptr().cast()) };
        let mut sum = _mm512_cvtepu16_epi32(rest);
        for step in steps {
            // SAFETY: a step is one vector.
            let step = unsafe { _mm256_loadu_si256(step.as_ptr().cast()) };
            sum = _mm512_add_epi32(sum, _mm512_cvtepu16_epi32(step));
        }
        _mm512_reduce_add_epi32(sum) as u32
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn one_odd_lane_is_seen(lanes in 0..=VECTOR, value: u32, at in 0..VECTOR, by: u32) {
            let mut column = Column::of(value);
            column[at] ^= by;
            let is_odd = by != 0 && lanes > 1 && at < lanes;
            prop_assert_eq!(column.uniform(lanes), (lanes > 0 && !is_odd).then_some(column[0]));
            for width in [Width::Plain, Width::Avx2, Width::Avx512] {
                let found = all_are(Here::at_most(width), &column, lanes, column[0]);
                prop_assert_eq!(found, !is_odd, "{:?}", width);
            }
        }

        #[test]
        fn sums_and_bounds_are_those_of_the_lanes(
            values in prop::collection::vec(any::<u16>(), 0..=VECTOR),
            end in any::<u16>(),
        ) {
            let wide: Vec<_> = values.iter().map(|it| u32::from(*it) << 16).collect();
            let expected: u32 = values.iter().map(|it| u32::from(*it)).sum();
            let most = values.iter().max().copied();
            for width in [Width::Plain, Width::Avx2, Width::Avx512] {
                let here = Here::at_most(width);
                prop_assert_eq!(sum(here, &values), expected, "{:?}", width);
                for end in [end, most.unwrap_or(end)] {
                    let is_below = most.is_none_or(|most| most < end);
                    prop_assert_eq!(are_below(here, &wide, u32::from(end) << 16), is_below);
                }
            }
        }
    }
}
