//! The atomic cells of shared tables, and arenas of them.
//!
//! Built with `--cfg loom` they are loom's, which tries every order in which threads may see
//! each other's stores.

use core::ops::Deref;
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, fence};

#[cfg(not(loom))]
use zerocopy::FromZeros;

/// `len` zero cells that take no memory until they are used; `None` when the system has not the
/// address space.
#[cfg(not(loom))]
pub(crate) fn zeroed<T: FromZeros>(len: usize) -> Option<Box<[T]>> {
    <[T]>::new_box_zeroed_with_elems(len).ok()
}

/// `len` zero cells.
#[cfg(loom)]
pub(crate) fn zeroed<T: Default>(len: usize) -> Option<Box<[T]>> {
    Some((0..len).map(|_| T::default()).collect())
}

/// Cells that a table shares with its readers.
#[derive(Debug)]
pub(crate) struct Cells<T>(pub(crate) Box<[T]>);

impl<T> Deref for Cells<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// Lets another thread go on, in a spin.
#[inline]
pub(crate) fn wait() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}
