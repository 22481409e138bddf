//! One field of all lanes of a vector, aligned so that kernels load whole lines.

use std::ops::{Deref, DerefMut};

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
        #[cfg(target_arch = "x86_64")]
        if avx512::is_here() {
            return avx512::all_are(self, lanes, first).then_some(first);
        }
        all_are(self, lanes, first).then_some(first)
    }
}

/// Has columns compared and moved by plain code from now on, in the whole process, or again by the
/// best that the processor has. All do the same; this is for who forces a kernel.
pub fn narrow(is: bool) {
    #[cfg(target_arch = "x86_64")]
    avx512::narrow(is);
    let _ = is;
}

/// The reference.
fn all_are(column: &[u32; VECTOR], lanes: usize, value: u32) -> bool {
    column[..lanes].iter().fold(0, |odd, it| odd | (it ^ value)) == 0
}

/// What columns do 16 lanes a step.
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512 {
    use std::arch::x86_64::*;
    use std::sync::atomic::{AtomicU8, Ordering};

    use crate::VECTOR;

    /// See [`super::narrow`].
    static WIDTH: AtomicU8 = AtomicU8::new(UNKNOWN);
    const UNKNOWN: u8 = 0;
    const NARROW: u8 = 1;
    const WIDE: u8 = 2;

    /// Whether this processor can, and may. The answer is kept: asking costs a load.
    #[inline(always)]
    pub(crate) fn is_here() -> bool {
        match WIDTH.load(Ordering::Relaxed) {
            UNKNOWN => detect(),
            width => width == WIDE,
        }
    }

    #[cold]
    fn detect() -> bool {
        let can = !cfg!(miri)
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        WIDTH.store(if can { WIDE } else { NARROW }, Ordering::Relaxed);
        can
    }

    pub(super) fn narrow(is: bool) {
        WIDTH.store(if is { NARROW } else { UNKNOWN }, Ordering::Relaxed);
    }

    /// Whether the first `lanes` lanes hold `value`.
    #[inline]
    pub(super) fn all_are(column: &[u32; VECTOR], lanes: usize, value: u32) -> bool {
        assert!(is_here() && lanes <= VECTOR);
        // SAFETY: the processor has the features: asked just now.
        unsafe { compare(column, lanes, value) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn compare(column: &[u32; VECTOR], lanes: usize, value: u32) -> bool {
        let value = _mm512_set1_epi32(value as i32);
        let mut odd = _mm512_setzero_si512();
        let (steps, rest) = column[..lanes].as_chunks::<16>();
        for step in steps {
            // SAFETY: a step is one vector.
            let step = unsafe { _mm512_loadu_si512(step.as_ptr().cast()) };
            odd = _mm512_or_si512(odd, _mm512_xor_si512(step, value));
        }
        let left = ((1_u32 << rest.len()) - 1) as __mmask16;
        // SAFETY: no more than what is left is loaded.
        let rest = unsafe { _mm512_maskz_loadu_epi32(left, rest.as_ptr().cast()) };
        let odd = _mm512_mask_or_epi32(odd, left, odd, _mm512_xor_si512(rest, value));
        _mm512_test_epi32_mask(odd, odd) == 0
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
            let expected = (lanes > 0 && all_are(&column, lanes, column[0])).then_some(column[0]);
            prop_assert_eq!(column.uniform(lanes), expected);
            if lanes > 0 {
                prop_assert_eq!(expected.is_none(), by != 0 && lanes > 1 && at < lanes);
            }
        }
    }
}
