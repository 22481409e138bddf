//! A rate kept by the time stamp counter: packets become due as time goes by.

use stoa_engine::clock;

/// What a queue may give by now.
pub(crate) struct Pace {
    /// Packets per second; 0: no limit.
    rate: u64,
    hz: u64,
    start: Option<u64>,
    /// Packets given or shed since `start`.
    done: u64,
    /// Packets that may wait; more are shed, as a card's ring would.
    backlog: u64,
}

impl Pace {
    /// `rate` packets per second (0: no limit), with `backlog` that may wait.
    pub(crate) fn new(rate: u64, backlog: u64) -> Self {
        Self { rate, hz: clock::tsc_hz().max(1), start: None, done: 0, backlog: backlog.max(1) }
    }

    /// Whether there is no limit.
    #[inline(always)]
    pub(crate) fn is_free(&self) -> bool {
        self.rate == 0
    }

    /// Packets due at `now`, and how many more were skipped because nothing received them.
    pub(crate) fn due(&mut self, now: u64) -> (u64, u64) {
        let waiting = self.produced(now).saturating_sub(self.done);
        let shed = waiting.saturating_sub(self.backlog);
        self.done += shed;
        (waiting - shed, shed)
    }

    /// Records that `packets` were received.
    #[inline(always)]
    pub(crate) fn taken(&mut self, packets: u64) {
        self.done += packets;
    }

    /// Microseconds until the next packet is due, rounded up; 0: one is due now.
    pub(crate) fn pause_us(&mut self, now: u64) -> u32 {
        if self.is_free() || self.produced(now) > self.done {
            return 0;
        }
        let start = *self.start.get_or_insert(now);
        let at = u128::from(self.done + 1) * u128::from(self.hz) / u128::from(self.rate);
        let ticks = at.saturating_sub(now.wrapping_sub(start).into());
        (ticks * 1_000_000 / u128::from(self.hz) + 1).min(1_000_000) as u32
    }

    fn produced(&mut self, now: u64) -> u64 {
        let start = *self.start.get_or_insert(now);
        // The counters of two cores may differ by a little: never go below zero.
        let ticks = now.saturating_sub(start);
        (u128::from(ticks) * u128::from(self.rate) / u128::from(self.hz)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_what_the_rate_allows_and_sheds_the_rest() {
        let mut pace = Pace::new(1000, 8);
        pace.hz = 1_000_000;
        assert_eq!(pace.due(500), (0, 0));
        assert_eq!(pace.pause_us(500), 1001);
        assert_eq!(pace.due(500 + 4_500), (4, 0));
        pace.taken(3);
        assert_eq!(pace.due(500 + 5_000), (2, 0));
        assert_eq!(pace.pause_us(500 + 5_000), 0);
        assert_eq!(pace.due(500 + 20_000), (8, 9));
        assert_eq!(pace.due(0), (0, 0));
    }
}
