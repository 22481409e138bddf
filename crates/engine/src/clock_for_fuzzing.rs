//! The clock under the fuzzer, in the place of `clock.rs`: it moves only when set, so that runs are
//! deterministic.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

static NOW: AtomicU64 = AtomicU64::new(1);

/// The time: nanoseconds, as set.
pub fn tsc() -> u64 {
    NOW.load(Ordering::Relaxed)
}

/// Ticks of [`tsc`] per second.
pub fn tsc_hz() -> u64 {
    1_000_000_000
}

/// How long so many ticks of [`tsc`] take.
pub fn duration(ticks: u64) -> Duration {
    Duration::from_nanos(ticks)
}

/// Sets the time, in nanoseconds.
pub fn set(now: u64) {
    NOW.store(now, Ordering::Relaxed);
}
