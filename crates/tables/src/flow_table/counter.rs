//! Counters of two words, whose upper part has some bits of a word that others share.

use core::sync::atomic::Ordering::Acquire;

use crate::sync::AtomicU32;

/// Times that a counter is read while it carries: 2^32 packets or bytes pass between two carries.
const READS: u32 = if cfg!(loom) { 2 } else { 16 };

/// A counter of two words. `field`: where its upper part is, and the mask of that.
pub(super) fn counter(upper: &AtomicU32, (shift, mask): (u32, u32), lower: &AtomicU32) -> u64 {
    let high = || upper.load(Acquire) >> shift & mask;
    let mut before = high();
    // A carry between both loads is seen by the second one of the upper part.
    for _ in 0..READS {
        let low = lower.load(Acquire);
        let after = high();
        if before == after {
            return u64::from(before) << 32 | u64::from(low);
        }
        before = after;
    }
    u64::from(before) << 32
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use core::sync::atomic::Ordering::{Relaxed, Release};
    use loom::sync::Arc;

    /// While a counter carries, a reader gets what it was, what it is, or the new lower part with the old upper one:
    /// never more than has passed.
    #[test]
    fn a_counter_is_never_more_than_has_passed() {
        loom::model(|| {
            let words = Arc::new([AtomicU32::new(7), AtomicU32::new(u32::MAX)]);
            let writer = {
                let words = words.clone();
                loom::thread::spawn(move || {
                    words[1].store(4, Relaxed);
                    words[0].store(8, Release);
                })
            };
            let found = counter(&words[0], (0, 0xff), &words[1]);
            writer.join().unwrap();
            let all = [7 << 32 | u64::from(u32::MAX), 8 << 32 | 4, 7 << 32 | 4];
            assert!(all.contains(&found), "{found:#x}");
            assert_eq!(counter(&words[0], (0, 0xff), &words[1]), 8 << 32 | 4);
        });
    }
}
