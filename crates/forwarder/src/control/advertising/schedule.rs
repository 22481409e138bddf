//! When a router advertises: at random intervals, and soon after a solicitation (RFC 4861 6.2.4 and 6.2.6,
//! RFC 1256 4.3). The caller passes time and random numbers.

use crate::neighbor::entry::Millis;

/// Number of initial advertisements, which are sent sooner: MAX_INITIAL_RTR_ADVERTISEMENTS.
const FIRST: u8 = 3;
/// Longest interval between these: MAX_INITIAL_RTR_ADVERT_INTERVAL.
const FIRST_MS: Millis = 16_000;

/// The intervals of one interface and family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Shortest and longest interval between unsolicited advertisements, in milliseconds.
    pub interval_ms: (Millis, Millis),
    /// Longest random delay of an answer.
    pub max_response_delay_ms: Millis,
    /// Shortest interval between any two advertisements.
    pub min_gap_ms: Millis,
}

/// The timer of one interface.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    due: Millis,
    first: u8,
    sent: Option<Millis>,
}

impl Schedule {
    /// The first one is due at once.
    pub fn begin(now: Millis) -> Self {
        Self { due: now, first: FIRST, sent: None }
    }

    /// The advertisement has changed: the initial phase begins again.
    pub fn renew(&mut self, now: Millis, intervals: &Intervals) {
        self.first = FIRST;
        self.due = self.sent.map_or(now, |sent| now.max(sent + intervals.min_gap_ms));
    }

    /// The next one is not due before that time.
    pub fn hold(&mut self, until: Millis) {
        self.due = self.due.max(until);
    }

    /// When the next one is due.
    pub fn due(&self) -> Millis {
        self.due
    }

    /// Handles a solicitation; `random` is any number.
    pub fn solicited(&mut self, now: Millis, intervals: &Intervals, random: u64) {
        let earliest = self.sent.map_or(now, |sent| now.max(sent + intervals.min_gap_ms));
        self.due = self.due.min(earliest + random % (intervals.max_response_delay_ms + 1));
    }

    /// An advertisement was sent; `random` is any number.
    pub fn sent(&mut self, now: Millis, intervals: &Intervals, random: u64) {
        let (min, max) = intervals.interval_ms;
        let mut pause = min + random % (max.saturating_sub(min) + 1);
        if self.first > 0 {
            self.first -= 1;
            pause = pause.min(FIRST_MS);
        }
        self.sent = Some(now);
        self.due = now + pause.max(intervals.min_gap_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INTERVALS: Intervals =
        Intervals { interval_ms: (200_000, 600_000), max_response_delay_ms: 500, min_gap_ms: 3000 };

    #[test]
    fn initial_advertisements_follow_soon() {
        let mut schedule = Schedule::begin(7);
        assert_eq!(schedule.due(), 7);
        let mut at = 7;
        for pause in [16_000, 16_000, 16_000, 600_000, 600_000] {
            schedule.sent(at, &INTERVALS, 400_000);
            assert_eq!(schedule.due() - at, pause);
            at = schedule.due();
        }
        schedule.renew(at - 1, &INTERVALS);
        assert_eq!(schedule.due(), at - 1);
        schedule.sent(at, &INTERVALS, 0);
        schedule.renew(at + 1, &INTERVALS);
        assert_eq!(schedule.due(), at + 3000);
    }

    proptest! {
        /// Whatever hosts do, advertisements keep their shortest and longest interval, and each solicitation
        /// is answered in time.
        #[test]
        fn solicitations_keep_the_intervals(
            steps in prop::collection::vec((0_u64..2000, any::<bool>(), any::<u64>()), 1..400),
            min in 3000_u64..20_000,
            more in 0_u64..20_000,
        ) {
            let intervals = Intervals { interval_ms: (min, min + more), ..INTERVALS };
            let mut schedule = Schedule::begin(0);
            let (mut now, mut last, mut solicited_at) = (0, None::<u64>, None::<u64>);
            for (pause, is_solicited, random) in steps {
                let until = now + pause;
                // The control thread is punctual here.
                while schedule.due() <= until {
                    now = now.max(schedule.due());
                    if let Some(last) = last {
                        prop_assert!(now - last >= intervals.min_gap_ms, "{last} {now}");
                        prop_assert!(now - last <= min + more);
                    }
                    if let Some(solicited_at) = solicited_at.take() {
                        prop_assert!(now - solicited_at <= intervals.min_gap_ms + intervals.max_response_delay_ms);
                    }
                    schedule.sent(now, &intervals, random);
                    last = Some(now);
                }
                now = until;
                if is_solicited {
                    solicited_at = solicited_at.or(Some(now));
                    schedule.solicited(now, &intervals, random);
                    prop_assert!(schedule.due() >= now);
                }
            }
        }
    }
}
