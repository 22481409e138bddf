//! Zeroed cells that begin at a multiple of a huge page, and take no memory until they are used.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

/// Where the cells begin: at a multiple of a huge page, so that these hold them whole, and of a cache line.
/// Loom creates each cell.
const ALIGN: usize = if cfg!(any(loom, miri)) { 64 } else { 2 << 20 };

/// A stretch of a table's memory, to advise the system about huge pages. It begins and ends at a
/// multiple of their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its first byte.
    pub start: *const u8,
    /// Its length in bytes, including what is not used yet.
    pub bytes: usize,
}

/// Cells that begin at a multiple of [`ALIGN`] bytes, somewhere in an allocation: an aligned one would
/// clear, and so touch, all of them.
#[derive(Debug)]
pub(crate) struct Aligned<T> {
    cells: Box<[T]>,
    range: core::ops::Range<usize>,
    is_leaked: AtomicBool,
}

impl<T> Drop for Aligned<T> {
    fn drop(&mut self) {
        if self.is_leaked.load(Relaxed) {
            core::mem::forget(core::mem::take(&mut self.cells));
        }
    }
}

impl<T> Aligned<T> {
    /// Zeroed cells; the last of them may share its huge page with nothing else.
    pub(crate) fn new(
        count: usize,
        zeroed: impl FnOnce(usize) -> Option<Box<[T]>>,
    ) -> Option<Self> {
        let whole = (count * size_of::<T>()).next_multiple_of(ALIGN);
        let cells = zeroed((whole + ALIGN) / size_of::<T>())?;
        let skew = cells.as_ptr().addr().wrapping_neg() % ALIGN / size_of::<T>();
        Some(Self { cells, range: skew..skew + count, is_leaked: AtomicBool::new(false) })
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> &[T] {
        self.cells.get(self.range.clone()).unwrap_or(&[])
    }

    /// The cells, and those behind them on their last huge page.
    pub(crate) fn whole(&self) -> &[T] {
        let bytes = (self.range.len() * size_of::<T>()).next_multiple_of(ALIGN);
        let end = self.range.start + bytes / size_of::<T>();
        self.cells.get(self.range.start..end).unwrap_or(&[])
    }

    /// Leaves the memory to the process when this value ends.
    #[cfg(not(loom))]
    pub(crate) fn leak(&self) {
        self.is_leaked.store(true, Relaxed);
    }

    pub(crate) fn region(&self) -> Region {
        let cells = self.get();
        let bytes = size_of_val(cells).next_multiple_of(ALIGN);
        Region { start: cells.as_ptr().cast(), bytes }
    }
}
