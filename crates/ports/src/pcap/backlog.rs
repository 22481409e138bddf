//! Whether an output file is behind: then the input files of this process wait. The frames of a file
//! come as fast as workers read them, and a disk is slower; without this, most of them would be dropped.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Output files that are behind. Any of them may be where the frames of an input file go.
static BEHIND: AtomicUsize = AtomicUsize::new(0);

/// Whether any output file is behind.
#[inline]
pub(super) fn is_any() -> bool {
    BEHIND.load(Ordering::Relaxed) > 0
}

/// Whether one output file is behind.
#[derive(Default)]
pub(super) struct Backlog(AtomicBool);

impl Backlog {
    /// The file is behind.
    pub(super) fn set(&self) {
        if !self.0.swap(true, Ordering::AcqRel) {
            BEHIND.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It is not any more.
    pub(super) fn clear(&self) {
        if self.0.swap(false, Ordering::AcqRel) {
            BEHIND.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.clear();
    }
}
