//! Pacing of a stream by the time stamp counter.

/// A rate, sent evenly or in bursts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Packets per tick, as a fraction of 2^64; `None`: as many as the port accepts.
    step: Option<u64>,
    /// Packets per burst.
    burst: u64,
    start: u64,
}

impl Pace {
    /// `rate` packets per second from `start` on, in bursts.
    pub(crate) fn new(rate: Option<f64>, hz: u64, start: u64, burst: u64) -> Self {
        let step = rate.map(|rate| ((rate / hz as f64) * 2_f64.powi(64)) as u64);
        Self { step, burst: burst.max(1), start }
    }

    /// Packets per burst; 1: evenly.
    pub(crate) fn burst(&self) -> u64 {
        self.burst
    }

    /// Packets due until `now`.
    #[inline(always)]
    pub(crate) fn due(&self, now: u64) -> u64 {
        let Some(step) = self.step else { return u64::MAX };
        let ticks = u128::from(now.saturating_sub(self.start));
        let due = ((ticks * u128::from(step)) >> 64) as u64;
        // The first packet or burst is due immediately.
        if self.burst == 1 { due + 1 } else { (due / self.burst + 1) * self.burst }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HZ: u64 = 2_600_000_000;

    #[test]
    fn keeps_the_rate_to_the_packet() {
        for rate in [1.0, 3.0, 1e3, 14_880_952.0, 60e6, 1e9] {
            let pace = Pace::new(Some(rate), HZ, 100, 1);
            assert_eq!(pace.due(100), 1);
            assert_eq!(pace.due(0), 1, "the counters of two processors may differ");
            for seconds in [1_u64, 10, 3600, 86_400] {
                let due = pace.due(100 + seconds * HZ) as f64;
                let desired = rate * seconds as f64;
                assert!((due - desired).abs() <= 1.0 + desired * 1e-9, "{rate} {seconds} {due}");
            }
        }
    }

    #[test]
    fn bursts_keep_the_rate() {
        let pace = Pace::new(Some(1000.0), HZ, 0, 100);
        assert_eq!(pace.due(0), 100);
        assert_eq!(pace.due(HZ / 20), 100);
        assert_eq!(pace.due(HZ / 9), 200);
        assert_eq!(Pace::new(None, HZ, 0, 1).due(0), u64::MAX);
    }
}
