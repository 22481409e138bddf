//! One field of all lanes of a vector, aligned so that kernels load whole lines.

use std::ops::{Deref, DerefMut};

use crate::VECTOR;

/// One field of all lanes.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Column<T>([T; VECTOR]);

impl<T: Copy> Column<T> {
    /// A column that holds `value` in all lanes.
    pub(crate) fn of(value: T) -> Self {
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
