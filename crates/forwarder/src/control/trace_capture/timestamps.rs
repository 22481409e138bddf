//! Converts TSC values of workers to the time of day.

use std::time::{SystemTime, UNIX_EPOCH};

use stoa_engine::clock;

/// The TSC and the time of day at one moment.
#[derive(Clone, Copy, Debug)]
pub struct ClockReference {
    tsc: u64,
    unix_ns: u64,
}

impl ClockReference {
    /// The current time.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { tsc: clock::tsc(), unix_ns: since.as_nanos() as u64 }
    }

    /// Nanoseconds since 1970 at which the TSC had this value, slightly in the past.
    pub fn unix_ns(&self, tsc: u64) -> u64 {
        let ticks = u128::from(self.tsc.saturating_sub(tsc));
        let ago = ticks * 1_000_000_000 / u128::from(clock::tsc_hz().max(1));
        self.unix_ns.saturating_sub(ago as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_second_of_ticks_is_one_second() {
        let clock = ClockReference { tsc: 10 * clock::tsc_hz(), unix_ns: 20_000_000_000 };
        assert_eq!(clock.unix_ns(9 * clock::tsc_hz()), 19_000_000_000);
        assert_eq!(clock.unix_ns(u64::MAX), 20_000_000_000);
    }
}
