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
    /// Whether accounting knows it already.
    pub(super) is_reported: bool,
    /// When it has ended, by the clock of the router that says so.
    at_s: u64,
}

impl Ended {
    pub(super) fn new(it: &Session, cause: Cause, is_reported: bool, at_s: u64) -> Self {
        let interface = it.interface.clone();
        Self { id: it.id, interface, mac: it.mac, cause, is_reported, at_s }
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

    /// The partner has got so many on this connection.
    pub(super) fn settle(&mut self, received: u64) {
        while self.settled < received && self.sent > 0 {
            self.remove_first();
        }
    }

    /// Gives up what is too old.
    pub(super) fn expire(&mut self, now: u64) {
        while self.queue.front().is_some_and(|it| now >= it.at_s.saturating_add(KEEP_S)) {
            self.remove_first();
        }
    }
}
