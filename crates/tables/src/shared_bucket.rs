//! Token buckets of one word that several threads share without a lock: limits that hold for
//! the whole router and not for each worker (GCRA, ITU-T I.371: the time at which the bucket
//! would be full again stands for its contents).

use core::sync::atomic::Ordering;

use crate::sync::AtomicU64;

/// Rate and depth of buckets. One writer changes it while others take.
pub struct SharedLimit {
    /// Ticks that one token takes to come; `u64::MAX`: none ever comes.
    interval: AtomicU64,
    /// Ticks that the bucket may be ahead of the clock: `(burst - 1) * interval`.
    ahead: AtomicU64,
}

/// A bucket; the caller passes the limit when it takes a token. All zero: full.
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(transparent)]
pub struct SharedBucket(AtomicU64);

/// `count` full buckets that take no memory until they are used; `None` when the system has not
/// the address space.
pub fn buckets(count: usize) -> Option<Box<[SharedBucket]>> {
    crate::sync::zeroed(count)
}

impl SharedLimit {
    /// `rate` tokens per second, `burst` deep, on a clock with `ticks_per_second`. A rate or a
    /// burst of 0 lets nothing pass.
    pub fn new(rate: u64, burst: u64, ticks_per_second: u64) -> Self {
        let limit = Self { interval: AtomicU64::new(0), ahead: AtomicU64::new(0) };
        limit.set(rate, burst, ticks_per_second);
        limit
    }

    /// Changes the limit; see [`SharedLimit::new`]. Buckets that are drawn on by the old limit
    /// go on from where they are.
    pub fn set(&self, rate: u64, burst: u64, ticks_per_second: u64) {
        let (interval, ahead) = if rate == 0 || burst == 0 {
            (u64::MAX, 0)
        } else {
            let interval = (ticks_per_second / rate).max(1);
            (interval, interval.saturating_mul(burst - 1))
        };
        self.ahead.store(ahead, Ordering::Relaxed);
        self.interval.store(interval, Ordering::Relaxed);
    }
}

impl Default for SharedBucket {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl SharedBucket {
    /// Takes a token if one is there. An empty bucket is only read, so that a flood costs the
    /// threads that share it nothing.
    #[inline]
    pub fn take(&self, limit: &SharedLimit, now: u64) -> bool {
        let interval = limit.interval.load(Ordering::Relaxed);
        let latest = now.saturating_add(limit.ahead.load(Ordering::Relaxed));
        let mut full_at = self.0.load(Ordering::Relaxed);
        loop {
            if full_at > latest || interval == u64::MAX {
                return false;
            }
            let next = full_at.max(now).saturating_add(interval);
            match self.0.compare_exchange_weak(full_at, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return true,
                // Another thread took one: each lost race means that another thread made progress.
                Err(current) => full_at = current,
            }
        }
    }

    /// Whether there would be a token after so many were taken. None is taken.
    #[inline]
    pub fn has_token(&self, limit: &SharedLimit, now: u64, after: u32) -> bool {
        let interval = limit.interval.load(Ordering::Relaxed);
        let latest = now.saturating_add(limit.ahead.load(Ordering::Relaxed));
        let taken = interval.saturating_mul(after.into());
        let full_at = self.0.load(Ordering::Relaxed).max(now).saturating_add(taken);
        interval != u64::MAX && full_at <= latest
    }

    /// Fills the bucket. A full one is only read: it may be memory that is not mapped yet.
    pub fn fill(&self) {
        if self.0.load(Ordering::Relaxed) != 0 {
            self.0.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn burst_then_rate() {
        let (limit, bucket) = (SharedLimit::new(10, 3, 1000), SharedBucket::default());
        let start = 5000;
        assert!((0..3).all(|_| bucket.has_token(&limit, start, 0) && bucket.take(&limit, start)));
        assert!(!bucket.has_token(&limit, start, 0) && !bucket.take(&limit, start));
        assert!(!bucket.take(&limit, start + 99));
        assert!(bucket.take(&limit, start + 100));
        assert!(!bucket.take(&limit, start + 50), "a clock that goes back gives nothing");
        assert_eq!((0..9).filter(|_| bucket.take(&limit, u64::MAX / 2)).count(), 3);
        bucket.fill();
        assert!(bucket.take(&limit, start));
    }

    #[test]
    fn tokens_that_will_be_taken_are_not_there() {
        let (limit, bucket) = (SharedLimit::new(10, 3, 1000), SharedBucket::default());
        for taken in 0..=3 {
            let there = (0..5).filter(|after| bucket.has_token(&limit, 5000, *after)).count();
            assert_eq!(there, 3 - taken);
            bucket.take(&limit, 5000);
        }
    }

    #[test]
    fn nothing_passes_a_closed_limit() {
        for (rate, burst) in [(0, 9), (9, 0), (0, 0)] {
            let limit = SharedLimit::new(rate, burst, u64::MAX);
            assert!(!SharedBucket::default().take(&limit, u64::MAX));
            assert!(!SharedBucket::default().has_token(&limit, u64::MAX, 0));
        }
        let open = SharedLimit::new(u64::MAX, u64::MAX, 1);
        assert!(SharedBucket::default().take(&open, 0));
    }

    #[test]
    fn threads_share_one_burst() {
        let (limit, bucket) = (SharedLimit::new(1, 1000, 1 << 40), SharedBucket::default());
        let taken: usize = std::thread::scope(|scope| {
            let thread = || (0..1000).filter(|_| bucket.take(&limit, 1)).count();
            let all: Vec<_> = (0..4).map(|_| scope.spawn(thread)).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken, 1000);
    }

    proptest! {
        #[test]
        fn never_more_than_rate_and_burst(
            rate in 1u64..5000, burst in 1u64..100,
            gaps in prop::collection::vec(0u64..50_000, 1..200),
        ) {
            let ticks = 1_000_000;
            let (limit, bucket) = (SharedLimit::new(rate, burst, ticks), SharedBucket::default());
            let (mut now, mut taken) = (0u64, 0u64);
            for gap in gaps {
                now += gap;
                taken += u64::from(bucket.take(&limit, now));
                let interval = ticks / rate;
                prop_assert!(taken <= burst + now / interval);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Two threads that take at once never get more than there is.
    #[test]
    fn a_token_is_taken_once() {
        loom::model(|| {
            let limit = Arc::new(SharedLimit::new(1, 1, 1000));
            let bucket = Arc::new(SharedBucket::default());
            let other = {
                let (limit, bucket) = (limit.clone(), bucket.clone());
                loom::thread::spawn(move || bucket.take(&limit, 5))
            };
            let mine = bucket.take(&limit, 5);
            assert!(mine != other.join().unwrap());
        });
    }
}
