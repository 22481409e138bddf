//! The time of flows and fragments.

use std::sync::atomic::{AtomicU64, Ordering};

use stoa_engine::clock;

/// Seconds and milliseconds of workers, with any origin; both wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Ticks of flow tables: seconds.
    pub tick: u32,
    /// Milliseconds.
    pub ms: u32,
}

/// Ticks from one to another; the clock of a worker may be ahead.
pub(crate) fn ticks(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from).cast_signed().max(0).cast_unsigned()
}

/// The time of flows and fragments: that of the router, which tests stop and advance.
#[derive(Default)]
pub struct FlowTime {
    skipped: AtomicU64,
    /// When it was stopped, by the time stamp counter; 0: it runs.
    stopped: AtomicU64,
}

impl FlowTime {
    /// The time at this value of the time stamp counter.
    #[inline]
    pub(super) fn now(&self, tsc: u64) -> Now {
        let stopped = self.stopped.load(Ordering::Relaxed);
        let tsc = if stopped == 0 { tsc } else { stopped };
        let tsc = tsc.wrapping_add(self.skipped.load(Ordering::Relaxed));
        let ms = clock::duration(tsc).as_millis() as u64;
        Now { tick: (ms / 1000) as u32, ms: ms as u32 }
    }

    /// Stops the time: from now on only [`Self::skip`] advances it. A second call changes nothing.
    pub fn stop(&self) {
        let now = clock::tsc();
        let _ = self.stopped.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Advances the time by milliseconds.
    pub fn skip(&self, ms: u64) {
        self.skipped.fetch_add(ms * clock::tsc_hz() / 1000, Ordering::Relaxed);
    }
}
