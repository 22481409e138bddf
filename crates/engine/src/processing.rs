//! Tracks whether the current thread runs [`crate::Node::process`], in builds with debug assertions.
//!
//! A test's allocator uses it to report a node that allocates. Release builds omit it.

use std::cell::Cell;

std::thread_local! {
    static IS_PROCESSING: Cell<bool> = const { Cell::new(false) };
}

/// Marks the current thread as processing until the value is dropped.
pub(crate) struct Processing(());

impl Processing {
    #[inline(always)]
    pub(crate) fn begin() -> Self {
        set(true);
        Self(())
    }
}

impl Drop for Processing {
    #[inline(always)]
    fn drop(&mut self) {
        set(false);
    }
}

#[inline(always)]
fn set(is_processing: bool) {
    if cfg!(debug_assertions) {
        IS_PROCESSING.set(is_processing);
    }
}

/// Whether the current thread runs a node's `process`. Always false without debug assertions.
pub fn is_processing() -> bool {
    cfg!(debug_assertions) && IS_PROCESSING.get()
}

/// Runs `work` as if outside of `process`: for a test that reports what it found inside.
pub fn suspended<T>(work: impl FnOnce() -> T) -> T {
    let before = is_processing();
    set(false);
    let result = work();
    set(before);
    result
}

#[cfg(all(test, not(loom), debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn only_process_is_marked() {
        assert!(!is_processing());
        let processing = Processing::begin();
        assert!(is_processing());
        assert!(!suspended(is_processing) && is_processing());
        drop(processing);
        assert!(!is_processing());
    }
}
