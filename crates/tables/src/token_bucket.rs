//! A token bucket in exact integers, for one owner: limits of ICMP answers, punts, log lines.
//!
//! Tokens are counted in fractions of one tick of the caller's clock, so no rate is too slow or
//! too fast to be kept exactly over any time.

/// Fills with `rate` tokens a second up to `burst`; starts full.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: u64,
    ticks_per_second: u64,
    /// `burst * ticks_per_second`.
    full: u128,
    /// Tokens times `ticks_per_second`.
    credit: u128,
    last: u64,
}

impl TokenBucket {
    /// A full bucket: `rate` tokens per second, `burst` tokens deep, on a clock with
    /// `ticks_per_second` (at least 1) that reads `now`. A rate of 0 never fills again.
    pub fn new(rate: u64, burst: u64, ticks_per_second: u64, now: u64) -> Self {
        let ticks_per_second = ticks_per_second.max(1);
        let full = u128::from(burst) * u128::from(ticks_per_second);
        Self { rate, ticks_per_second, full, credit: full, last: now }
    }

    /// Takes `tokens` if that many are there. A clock that goes backwards gives nothing.
    #[inline]
    pub fn take(&mut self, now: u64, tokens: u64) -> bool {
        self.fill(now);
        let cost = u128::from(tokens) * u128::from(self.ticks_per_second);
        let is_enough = self.credit >= cost;
        if is_enough {
            self.credit -= cost;
        }
        is_enough
    }

    /// Whole tokens that are there.
    pub fn available(&mut self, now: u64) -> u64 {
        self.fill(now);
        (self.credit / u128::from(self.ticks_per_second)) as u64
    }

    #[inline]
    fn fill(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.last);
        if elapsed > 0 {
            self.last = now;
            let earned = u128::from(elapsed) * u128::from(self.rate);
            self.credit = self.credit.saturating_add(earned).min(self.full);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn burst_then_rate() {
        let mut bucket = TokenBucket::new(10, 3, 1000, 0);
        assert!((0..3).all(|_| bucket.take(0, 1)));
        assert!(!bucket.take(0, 1));
        assert!(!bucket.take(99, 1));
        assert!(bucket.take(100, 1));
        assert!(!bucket.take(50, 1), "a clock that goes back gives nothing");
        assert_eq!(bucket.available(1_000_000), 3);
        assert!(!bucket.take(1_000_000, 4), "never more than the burst");
        assert!(bucket.take(1_000_000, 0));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut bucket = TokenBucket::new(u64::MAX, u64::MAX, u64::MAX, 0);
        assert!(bucket.take(0, u64::MAX));
        assert_eq!(bucket.available(u64::MAX), u64::MAX);
        let mut none = TokenBucket::new(0, 0, 0, 5);
        assert!(!none.take(u64::MAX, 1));
    }

    proptest! {
        #[test]
        fn no_token_is_lost_or_made(
            rate in 1u64..5000, burst in 0u64..100, ticks in 1u64..10_000,
            gaps in prop::collection::vec(0u64..5000, 1..100),
        ) {
            let mut bucket = TokenBucket::new(rate, burst, ticks, 0);
            let (mut now, mut taken) = (0u64, 0u64);
            // The same, in one exact sum that is capped at each step.
            let mut model = u128::from(burst * ticks);
            for gap in gaps {
                now += gap;
                model = (model + u128::from(gap * rate)).min(u128::from(burst * ticks));
                let can = model >= u128::from(ticks);
                prop_assert_eq!(bucket.take(now, 1), can);
                if can {
                    model -= u128::from(ticks);
                    taken += 1;
                }
            }
            prop_assert!(taken <= burst + (u128::from(now) * u128::from(rate)
                / u128::from(ticks)) as u64);
        }
    }
}
