//! The clock of the control thread. Tests stop it and advance it by hand.

use std::time::{Duration, Instant};

use crate::neighbor::entry::Millis;

/// The clock.
pub(super) struct Clock {
    /// Start time; `None`: it is stopped, and only [`Self::skip`] advances it.
    started: Option<Instant>,
    /// Time that was skipped, in microseconds.
    skipped_us: u64,
}

impl Clock {
    /// A clock that begins at 0.
    pub(super) fn new(is_stopped: bool) -> Self {
        Self { started: (!is_stopped).then(Instant::now), skipped_us: 0 }
    }

    /// Milliseconds since the start.
    pub(super) fn now(&self) -> Millis {
        self.micros() / 1_000
    }

    /// The same in microseconds.
    pub(super) fn micros(&self) -> u64 {
        let elapsed = self.started.map_or(0, |started| started.elapsed().as_micros() as u64);
        elapsed + self.skipped_us
    }

    /// Advances the time.
    pub(super) fn skip(&mut self, time: Duration) {
        self.skipped_us += time.as_micros() as u64;
    }

    /// Stops the clock.
    pub(super) fn stop(&mut self) {
        self.skipped_us = self.micros();
        self.started = None;
    }
}
