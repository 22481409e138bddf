//! The clock of a run: converts ticks of the time stamp counter to the units in signatures.

use stoa_engine::clock;

use crate::signature::UNIT_NS;

/// A run's clock: its epoch, and units of [`UNIT_NS`] since then.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: u64,
    hz: u64,
    /// Units per tick, as a fraction of 2^64.
    scale: u64,
}

impl Clock {
    /// Starts a clock now.
    pub fn start() -> Self {
        let hz = clock::tsc_hz().max(1);
        let units = 1_000_000_000 / UNIT_NS;
        // No counter is slower than the unit; the largest fraction is the limit.
        let scale = ((u128::from(units) << 64) / u128::from(hz)).min(u64::MAX.into()) as u64;
        Self { epoch: clock::tsc(), hz, scale }
    }

    /// Ticks per second.
    pub fn hz(&self) -> u64 {
        self.hz
    }

    /// Ticks in this many seconds.
    pub fn ticks(&self, seconds: f64) -> u64 {
        (seconds * self.hz as f64) as u64
    }

    /// Seconds in this many ticks.
    pub fn seconds(&self, ticks: u64) -> f64 {
        ticks as f64 / self.hz as f64
    }

    /// Units from the epoch to a reading of the counter; 0 for a reading before the epoch.
    #[inline(always)]
    pub fn units(&self, tsc: u64) -> u64 {
        let ticks = tsc.saturating_sub(self.epoch);
        ((u128::from(ticks) * u128::from(self.scale)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_a_second_to_units() {
        let clock = Clock::start();
        let second = clock.epoch + clock.hz();
        let units = clock.units(second);
        assert!((124_999_990..=125_000_000).contains(&units), "{units}");
        assert_eq!(clock.units(clock.epoch - 1), 0);
        assert_eq!(clock.ticks(2.0), 2 * clock.hz());
        let day = clock.units(clock.epoch + 86_400 * clock.hz());
        assert!(day.abs_diff(86_400 * 125_000_000) < 1_000_000);
    }
}
