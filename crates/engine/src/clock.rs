//! Time in cycles: the time stamp counter and its rate.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The time stamp counter now. On machines without one: nanoseconds.
#[inline(always)]
pub fn tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the counter.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Ticks of [`tsc`] per second, measured once over 20 ms against the monotonic clock.
pub fn tsc_hz() -> u64 {
    static HZ: OnceLock<u64> = OnceLock::new();
    *HZ.get_or_init(|| {
        // The best of three, so that a preemption does not spoil it.
        (0..3).map(|_| measure()).min_by_key(|(error, _)| *error).map_or(1, |(_, hz)| hz)
    })
}

/// How long so many ticks of [`tsc`] take.
pub fn duration(ticks: u64) -> Duration {
    let nanoseconds = u128::from(ticks) * 1_000_000_000 / u128::from(tsc_hz().max(1));
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

fn measure() -> (u64, u64) {
    let bracket = |_: ()| {
        let before = tsc();
        let now = Instant::now();
        (before, now, tsc())
    };
    let (a0, start, a1) = bracket(());
    std::thread::sleep(Duration::from_millis(20));
    let (b0, end, b1) = bracket(());
    let ticks = (b0 + b1) / 2 - (a0 + a1) / 2;
    let hz = ticks as f64 / end.duration_since(start).as_secs_f64();
    ((a1 - a0) + (b1 - b0), hz as u64)
}
