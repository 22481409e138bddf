//! Ends that the partner may not know: kept until it says that it has got them.

use std::collections::{HashSet, VecDeque};

use serde::{Deserialize, Serialize};
use stoa_api::login::LOGINS;

use crate::login::cause::Cause;
use crate::login::session::Session;

/// Seconds for which ends are kept for a partner that cannot be reached.
const KEEP_S: u64 = 86_400;

/// The end of a login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(super) id: u64,
    pub(super) interface: String,
    pub(super) mac: [u8; 6],
    pub(super) cause: Cause,
    /// When it has ended, by the clock of the router that says so.
    at_s: u64,
}

impl Ended {
    pub(super) fn new(it: &Session, cause: Cause, at_s: u64) -> Self {
        Self { id: it.id, interface: it.interface.clone(), mac: it.mac, cause, at_s }
    }

    /// Whether the partner ends it, too, if it owns it: its host may send there, and need a login there.
    pub(super) fn is_for_both(&self) -> bool {
        !matches!(self.cause, Cause::IdleTimeout | Cause::Withdrawn)
    }
}

/// Ends, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends {
    queue: VecDeque<Ended>,
    /// The logins that are over for both routers.
    ids: HashSet<u64>,
    /// How many were sent on this connection.
    sent: usize,
    /// How many of those that were sent on this connection the partner has got, or this router has given up.
    settled: u64,
}

impl Ends {
    /// Adds one; the oldest goes if there are too many.
    pub(super) fn add(&mut self, ended: Ended) {
        if self.queue.len() >= LOGINS {
            self.remove_first();
        }
        if ended.is_for_both() {
            self.ids.insert(ended.id);
        }
        self.queue.push_back(ended);
    }

    fn remove_first(&mut self) {
        let Some(first) = self.queue.pop_front() else { return };
        self.ids.remove(&first.id);
        if self.sent > 0 {
            self.sent -= 1;
            self.settled += 1;
        }
    }

    /// Whether a login has ended for both routers.
    pub(super) fn has(&self, id: u64) -> bool {
        self.ids.contains(&id)
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Ended> {
        self.queue.iter()
    }

    /// Another connection: the partner may have got none of them.
    pub(super) fn restart(&mut self) {
        (self.sent, self.settled) = (0, 0);
    }

    /// The next ones to be sent, at most `room`.
    pub(super) fn take(&mut self, room: usize) -> Vec<Ended> {
        let due: Vec<_> = self.queue.iter().skip(self.sent).take(room).cloned().collect();
        self.sent += due.len();
        due
    }

    /// The partner has got so many on this connection. Returns whether these are fewer now.
    pub(super) fn settle(&mut self, received: u64) -> bool {
        let before = self.queue.len();
        while self.settled < received && self.sent > 0 {
            self.remove_first();
        }
        self.queue.len() < before
    }

    /// Gives up what is too old.
    pub(super) fn expire(&mut self, now: u64) {
        while self.queue.front().is_some_and(|it| now >= it.at_s.saturating_add(KEEP_S)) {
            self.remove_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(id: u64, cause: Cause) -> Ended {
        Ended { id, interface: "guests".to_owned(), mac: [2; 6], cause, at_s: id }
    }

    #[test]
    fn ends_stay_until_the_partner_has_got_them() {
        let mut ends = Ends::default();
        (1..=5).for_each(|id| ends.add(ended(id, Cause::User)));
        ends.add(ended(6, Cause::IdleTimeout));
        assert!(ends.has(5) && !ends.has(6), "an idle end is none of both");
        assert_eq!(ends.take(2).len(), 2);
        assert!(!ends.settle(0) && ends.settle(1));
        assert!(!ends.has(1) && ends.has(2));
        assert_eq!(ends.take(9).iter().map(|it| it.id).collect::<Vec<_>>(), [3, 4, 5, 6]);
        // Another connection: all that the partner has not got come again.
        ends.restart();
        assert_eq!(ends.take(9).len(), 5);
        // More than were sent cannot have been got.
        ends.settle(99);
        assert_eq!(ends.all().count(), 0);
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_or_they_are_too_old() {
        let mut ends = Ends::default();
        (0..LOGINS as u64).for_each(|id| ends.add(ended(id, Cause::User)));
        ends.take(10);
        ends.add(ended(70_000, Cause::User));
        assert!(!ends.has(0) && ends.has(70_000));
        assert_eq!(ends.all().count(), LOGINS);
        // One of the ten has gone already.
        ends.settle(10);
        assert!(!ends.has(9) && ends.has(10));
        ends.expire(20 + KEEP_S);
        assert!(!ends.has(20) && ends.has(21));
    }
}
