//! Bulks that are asked for: what was refused for a cause that may pass comes again with them, whether its flows have
//! packets or not. What a configuration refuses is asked for once, and once more when another one is in force, here
//! or at the partner: nothing else changes that. What had no room is asked for ever more seldom while flows are still
//! refused.

use std::time::{Duration, Instant};

use super::Thread;
use crate::flow_sync::connection::{Connection, End};
use crate::flow_sync::message::put_again;
use crate::flow_sync::standby::Passing;

/// How long after a refusal a bulk is asked for at first, and at most.
const FIRST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(600);

/// Which bulks are asked for.
pub(super) struct Again {
    /// Refusals that are known.
    refused: Passing,
    /// Whether some by the configuration were found since a bulk was asked for because of them, whether that was by
    /// this configuration, and when one is due.
    is_refused: bool,
    has_asked: bool,
    due_once: Option<Instant>,
    /// When the last one for want of room was found.
    last: Option<Instant>,
    /// When a bulk is due because of them, and how long the next one waits.
    due: Option<Instant>,
    wait: Duration,
    /// The partner has asked for one, and when one began last.
    is_asked: bool,
    begun: Option<Instant>,
}

impl Default for Again {
    fn default() -> Self {
        Self {
            refused: Passing::default(),
            is_refused: false,
            has_asked: false,
            due_once: None,
            last: None,
            due: None,
            wait: FIRST,
            is_asked: false,
            begun: None,
        }
    }
}

impl Again {
    /// A connection begins, and with it a bulk in each direction.
    pub(super) fn begin(&mut self) {
        *self = Self { refused: self.refused, ..Self::default() };
    }

    /// Another configuration: what it refuses is not what the former one has, and it may have more room.
    pub(super) fn note_change(&mut self) {
        self.has_asked = false;
        self.is_refused |= self.due.is_some();
    }

    /// The partner asks for a bulk.
    pub(super) fn note_asked(&mut self) {
        self.is_asked = true;
    }

    /// Whether another bulk begins now: when it was asked for, the former one is over, and not too soon.
    pub(super) fn begins_bulk(&mut self, now: Instant, is_over: bool) -> bool {
        let is_soon = self.begun.is_some_and(|it| now.saturating_duration_since(it) < FIRST);
        let begins = self.is_asked && is_over && !is_soon;
        if begins {
            (self.is_asked, self.begun) = (false, Some(now));
        }
        begins
    }

    /// Whether to ask for a bulk now. `refused`: all refusals for causes that may pass; `is_complete`: the last bulk
    /// has come.
    fn asks(&mut self, now: Instant, refused: Passing, is_complete: bool) -> bool {
        let before = std::mem::replace(&mut self.refused, refused);
        self.is_refused |= before.by_configuration != refused.by_configuration;
        if self.is_refused && !self.has_asked {
            self.due_once.get_or_insert(now + FIRST);
        }
        let since = |it: Option<Instant>| it.map(|it| now.saturating_duration_since(it));
        if before.by_room != refused.by_room {
            self.last = Some(now);
            self.due.get_or_insert(now + self.wait);
        } else if self.due.is_none() && since(self.last).is_none_or(|it| it > 2 * self.wait) {
            self.wait = FIRST;
        }
        let is_due = |it: Option<Instant>| is_complete && it.is_some_and(|it| now >= it);
        let (once, room) = (is_due(self.due_once), is_due(self.due));
        if once {
            (self.is_refused, self.has_asked, self.due_once) = (false, true, None);
        }
        if room {
            (self.due, self.wait) = (None, (2 * self.wait).min(MOST));
        }
        once || room
    }
}

impl Thread {
    /// Asks for a bulk if records were refused that may be taken now.
    pub(super) fn ask_again(
        &mut self,
        connection: &mut Connection,
        now: Instant,
    ) -> Result<(), End> {
        let refused = self.flows.standby().sums().passing();
        if !self.again.asks(now, refused, self.state.is_bulk_received) {
            return Ok(());
        }
        let mut items = Vec::new();
        put_again(&mut items);
        connection.send(&items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(by_room: u64) -> Passing {
        Passing { by_room, ..Passing::default() }
    }

    fn configuration(by_configuration: u64) -> Passing {
        Passing { by_configuration, ..Passing::default() }
    }

    #[test]
    fn bulks_are_asked_for_ever_more_seldom() {
        let (mut again, begin) = (Again::default(), Instant::now());
        let at = |s: u64| begin + Duration::from_secs(s);
        assert!(!again.asks(at(0), room(0), true) && !again.asks(at(9), room(0), true));
        // Whatever is refused: the table is full.
        let mut asked = Vec::new();
        for second in 10..5_000 {
            if again.asks(at(second), room(second), true) {
                asked.push(second);
            }
        }
        assert_eq!(asked[..5], [11, 14, 19, 28, 45]);
        assert!(asked.len() < 20, "{asked:?}");
        assert!(asked.windows(2).skip(9).all(|it| it[1] - it[0] == 601), "{asked:?}");
        // It has room again, and is full once more later.
        assert!((5_000..9_000).filter(|it| again.asks(at(*it), room(5_000), true)).count() <= 1);
        assert!(!again.asks(at(9_000), room(5_001), true));
        assert!(again.asks(at(9_001), room(5_001), true));
    }

    #[test]
    fn another_configuration_is_asked_about_at_once_and_begins_no_series() {
        let (mut again, begin) = (Again::default(), Instant::now());
        let at = |s: u64| begin + Duration::from_secs(s);
        (0..700).for_each(|it| {
            let _ = again.asks(at(it), room(1 + it), true);
        });
        assert!(!again.asks(at(701), room(701), true));
        again.note_change();
        assert!(!again.asks(at(702), room(701), true));
        assert!(!again.asks(at(703), room(701), false), "a bulk is coming");
        assert!(again.asks(at(704), room(701), true));
        assert!((705..720).all(|it| !again.asks(at(it), room(it), true)));
    }

    #[test]
    fn what_a_configuration_refuses_is_asked_for_once() {
        let (mut again, begin) = (Again::default(), Instant::now());
        let at = |s: u64| begin + Duration::from_secs(s);
        let asks = |again: &mut Again, seconds: std::ops::Range<u64>| {
            // Each bulk has it, and it is refused again.
            let asked = seconds.filter(|it| again.asks(at(*it), configuration(1 + it), true));
            asked.collect::<Vec<_>>()
        };
        assert_eq!(asks(&mut again, 0..5_000), [1]);
        again.note_change();
        assert_eq!(asks(&mut again, 5_000..9_000), [5_001]);
        // Another connection has had a bulk by itself.
        again.begin();
        assert_eq!(asks(&mut again, 9_000..9_900), [9_001]);
    }

    #[test]
    fn a_bulk_that_is_asked_for_begins_behind_the_last_one() {
        let (mut again, now) = (Again::default(), Instant::now());
        assert!(!again.begins_bulk(now, true));
        again.note_asked();
        assert!(!again.begins_bulk(now, false) && again.begins_bulk(now, true));
        again.note_asked();
        assert!(!again.begins_bulk(now, true) && again.begins_bulk(now + FIRST, true));
    }
}
