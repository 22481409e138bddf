//! The clock under the fuzzer, in the place of `clock.rs`: it stands still until it is told to go on, so that a run
//! comes out the same every time.

use std::sync::atomic::{AtomicU64, Ordering};

static NOW: AtomicU64 = AtomicU64::new(1);

/// The time: nanoseconds, as told.
pub fn tsc() -> u64 {
    NOW.load(Ordering::Relaxed)
}

/// Ticks of [`tsc`] per second.
pub fn tsc_hz() -> u64 {
    1_000_000_000
}

/// Says what time it is, in nanoseconds.
pub fn set(now: u64) {
    NOW.store(now, Ordering::Relaxed);
}
