//! Outages of the forwarder: logged once each, after a moment.

use std::time::{Duration, Instant};

/// Delay before an outage is logged: each start takes a moment.
const OUTAGE_LOG_DELAY: Duration = Duration::from_secs(2);

/// An outage of the forwarder.
#[derive(Debug, Default)]
pub(super) struct Outage {
    since: Option<Instant>,
    is_logged: bool,
}

impl Outage {
    /// Whether to log the outage: once, after a delay.
    pub(super) fn should_log(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let is_long = now.duration_since(since) >= OUTAGE_LOG_DELAY;
        let was_logged = self.is_logged;
        self.is_logged |= is_long;
        is_long && !was_logged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_logged_once_after_a_delay() {
        let (begin, mut outage) = (Instant::now(), Outage::default());
        let logged = [0, 300, 1_900, 2_100, 2_400]
            .map(|ms| outage.should_log(begin + Duration::from_millis(ms)));
        assert_eq!(logged, [false, false, false, true, false]);
    }
}
