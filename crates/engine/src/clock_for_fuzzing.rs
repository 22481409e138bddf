//! The clock under the fuzzer, in the place of `clock.rs`: it moves only when set, so that runs are
//! deterministic.

use std::sync::atomic::{AtomicU64, Ordering};

static NOW: AtomicU64 = AtomicU64::new(1);

/// The time: nanoseconds, as set.
pub fn tsc() -> u64 {
    NOW.load(Ordering::Relaxed)
}

/// Ticks of [`tsc`] per second.
pub fn tsc_hz() -> u64 {
    1_000_000_000
}

/// Sets the time, in nanoseconds.
pub fn set(now: u64) {
    NOW.store(now, Ordering::Relaxed);
}
