//! Arrays that few routers need: there is no memory before somebody does.

use std::ops::Deref;
use std::sync::OnceLock;

use zerocopy::FromZeros;

use crate::counters::zeroed;

/// An array of zeroed values that threads share; it is empty before the control thread [prepares](Self::prepare) it.
/// What nobody writes then takes no memory.
#[derive(Debug)]
pub struct Prepared<T>(OnceLock<Box<[T]>>);

impl<T> Default for Prepared<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T: FromZeros> Prepared<T> {
    /// Makes room for so many values, unless there is some already; whether there is memory. Only the control thread
    /// calls it.
    pub fn prepare(&self, count: usize) -> bool {
        if self.0.get().is_none()
            && let Ok(values) = zeroed(count)
        {
            let _ = self.0.set(values);
        }
        self.is_prepared()
    }
}

impl<T> Prepared<T> {
    /// Whether there is room.
    #[inline(always)]
    pub fn is_prepared(&self) -> bool {
        self.0.get().is_some()
    }
}

impl<T> Deref for Prepared<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        self.0.get().map_or(&[], |values| values)
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_empty_until_it_is_prepared_once() {
        let array = Prepared::<u64>::default();
        assert!(!array.is_prepared() && array.is_empty());
        assert!(!array.prepare(1 << 60) && !array.is_prepared());
        assert!(array.prepare(3) && array.prepare(5));
        assert_eq!(*array, [0; 3]);
    }
}
