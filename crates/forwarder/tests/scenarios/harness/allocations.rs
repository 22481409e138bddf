//! An allocator that records allocations inside `process` of a node: there must be none.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::sync::Mutex;

use stoa_engine::processing;

struct Recording;

#[global_allocator]
static ALLOCATOR: Recording = Recording;

/// Backtraces of allocations inside `process`, a few at most.
static RECORDED: Mutex<Vec<String>> = Mutex::new(Vec::new());
const RECORDED_MAX: usize = 3;

// SAFETY: every call goes to the system's allocator with the arguments as they came.
unsafe impl GlobalAlloc for Recording {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        record();
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        record();
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn record() {
    if processing::is_processing() {
        processing::suspended(|| {
            let mut recorded = RECORDED.lock().unwrap_or_else(|broken| broken.into_inner());
            if recorded.len() < RECORDED_MAX {
                recorded.push(Backtrace::force_capture().to_string());
            }
        });
    }
}

/// Panics with the backtraces when a node has allocated since the test program began.
pub fn assert_none() {
    let recorded = RECORDED.lock().unwrap_or_else(|broken| broken.into_inner());
    assert!(recorded.is_empty(), "a node allocated in `process`:\n{}", recorded.join("\n"));
}
