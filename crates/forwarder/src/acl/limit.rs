//! Rate limits of rules.

use std::fmt;

use stoa_engine::clock;
use stoa_tables::shared_bucket::{SharedBucket, SharedLimit};

/// How many packets a rule accepts, of all workers together.
pub struct RuleLimit {
    limit: SharedLimit,
    bucket: SharedBucket,
}

impl RuleLimit {
    /// So many packets per second, and so many at once.
    pub fn new(packets_per_second: u32, burst: u32) -> Self {
        let limit = SharedLimit::new(packets_per_second.into(), burst.into(), clock::tsc_hz());
        Self { limit, bucket: SharedBucket::default() }
    }

    /// Whether one more packet is within the limit at this value of the time stamp counter.
    #[inline]
    pub(super) fn take(&self, now: u64) -> bool {
        self.bucket.take(&self.limit, now)
    }
}

impl fmt::Debug for RuleLimit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("RuleLimit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let (limit, second) = (RuleLimit::new(10, 3), clock::tsc_hz());
        let mut now = second;
        let mut passed = |ahead: u64| {
            now += ahead;
            (0..20).filter(|_| limit.take(now)).count()
        };
        assert_eq!([passed(0), passed(second / 5), passed(second * 60)], [3, 2, 3]);
    }
}
