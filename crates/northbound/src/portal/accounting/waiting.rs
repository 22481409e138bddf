//! Reports that wait for a server, by login.
//!
//! ```text
//! event ─ add ─► waiting ─ take ─► a server ─ end ─► taken: the next report of this login
//!                   ▲                          └──► not taken: again, unless a later one says more
//!                   └──────── RETRY ────────────────┘
//! ```

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::auth::radius::accounting::Report;

/// Reports that wait at most, beside as many stops. Those beyond it are discarded.
const MOST: usize = 65_536;
/// The pause until a report that no server has taken is sent again.
const RETRY: Duration = Duration::from_secs(10);
/// How long a report is sent again, in seconds.
const AGE_S: u64 = 24 * 3_600;

/// Reports that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By the number of the login, the oldest first. Without reports: one is on its way.
    reports: HashMap<u64, VecDeque<Report>>,
    /// Logins whose first report is to be sent: when, in which order, and which.
    due: BTreeSet<(Instant, u64, u64)>,
    /// Orders logins of the same moment.
    next: u64,
    length: usize,
    /// Starts and stops that were discarded, and not yet counted.
    lost: u64,
    /// The same, not yet logged.
    pub unlogged: u64,
}

impl Waiting {
    /// Reports that wait.
    pub fn len(&self) -> usize {
        self.length
    }

    /// When the next report is to be sent.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// Starts and stops that were lost since the last call.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    fn lose(&mut self, report: &Report) {
        let lost = u64::from(!report.is_interim());
        (self.lost, self.unlogged) = (self.lost + lost, self.unlogged + lost);
    }

    fn schedule(&mut self, login: u64, at: Instant) {
        self.next += 1;
        self.due.insert((at, self.next, login));
    }

    /// Adds a report behind those of its login. A later interim report replaces an earlier one.
    pub fn add(&mut self, report: Report, now: Instant) {
        let login = report.login();
        let is_new = !self.reports.contains_key(&login);
        let own = self.reports.entry(login).or_default();
        if report.is_interim() && own.back().is_some_and(Report::is_interim) {
            own.pop_back();
            self.length -= 1;
        }
        // A session that no stop ends stays open at the server.
        let most = if report.is_stop() { 2 * MOST } else { MOST };
        if self.length >= most {
            if is_new {
                self.reports.remove(&login);
            }
            return self.lose(&report);
        }
        self.reports.entry(login).or_default().push_back(report);
        self.length += 1;
        if is_new {
            self.schedule(login, now);
        }
    }

    /// Takes a report that is to be sent; [`Self::end`] has to follow.
    pub fn take(&mut self, now: Instant) -> Option<Report> {
        while self.next_due().is_some_and(|at| at <= now) {
            let (_, _, login) = self.due.pop_first()?;
            if let Some(report) = self.reports.get_mut(&login).and_then(VecDeque::pop_front) {
                self.length -= 1;
                return Some(report);
            }
        }
        None
    }

    /// A report has come back: a server has taken it, or none. `clock` is the time of logins.
    pub fn end(&mut self, report: Report, is_taken: bool, clock: u64, now: Instant) {
        let login = report.login();
        let mut at = now;
        if !is_taken {
            at = now + RETRY;
            let is_old = clock.saturating_sub(report.at_s()) >= AGE_S;
            match self.reports.get_mut(&login) {
                // A later report says more than an interim one.
                Some(own) if !report.is_interim() && !is_old => {
                    own.push_front(report);
                    self.length += 1;
                }
                _ => self.lose(&report),
            }
        }
        match self.reports.get(&login).is_none_or(VecDeque::is_empty) {
            true => drop(self.reports.remove(&login)),
            false => self.schedule(login, at),
        }
    }
}

#[cfg(test)]
mod tests {
    use stoa_controller::login::{Cause, Event};

    use super::*;
    use crate::auth::radius::accounting::tests::session_of as of;

    fn start(id: u64) -> Report {
        Report::of(Event::Started(of(id)), 1)
    }

    fn interim(id: u64) -> Report {
        Report::of(Event::Interim(of(id)), 2)
    }

    fn stop(id: u64) -> Report {
        Report::of(Event::Stopped(of(id), Cause::User), 3)
    }

    fn taken(waiting: &mut Waiting, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| waiting.take(now)).map(|it| it.login()).collect()
    }

    #[tokio::test]
    async fn a_report_that_no_server_takes_holds_up_its_login_alone() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        waiting.add(start(1), now);
        waiting.add(start(2), now);
        waiting.add(stop(1), now);
        let first = waiting.take(now).unwrap();
        assert_eq!(first.login(), 1);
        assert_eq!(taken(&mut waiting, now), [2], "the stop of 1 waits for its start");
        waiting.end(start(2), true, 4, now);
        waiting.end(first, false, 4, now);
        waiting.add(start(3), now);
        assert_eq!(taken(&mut waiting, now), [3]);
        let later = now + RETRY;
        let again = waiting.take(later).unwrap();
        assert!(again.login() == 1 && !again.is_stop());
        waiting.end(again, true, 4, later);
        assert!(waiting.take(later).is_some_and(|it| it.is_stop()));
        assert_eq!(waiting.take_lost(), 0);
    }

    #[tokio::test]
    async fn a_report_is_given_up_after_a_day() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        waiting.add(stop(1), now);
        let report = waiting.take(now).unwrap();
        waiting.end(report, false, 3 + AGE_S, now);
        assert_eq!((waiting.take_lost(), waiting.unlogged, waiting.len()), (1, 1, 0));
        assert_eq!(waiting.next_due(), None);
    }

    #[tokio::test]
    async fn one_interim_report_of_a_login_waits() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        waiting.add(start(1), now);
        (0..9).for_each(|_| waiting.add(interim(1), now));
        assert_eq!(waiting.len(), 2);
        let first = waiting.take(now).unwrap();
        waiting.end(first, true, 4, now);
        let second = waiting.take(now).unwrap();
        assert!(second.is_interim());
        waiting.end(second, false, 4, now);
        assert_eq!((waiting.len(), waiting.take_lost(), waiting.next_due()), (0, 0, None));
    }

    #[tokio::test]
    async fn a_stop_finds_room_where_others_do_not() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        (0..MOST as u64).for_each(|id| waiting.add(start(id), now));
        waiting.add(interim(7), now);
        waiting.add(start(u64::MAX), now);
        assert_eq!((waiting.len(), waiting.take_lost()), (MOST, 1));
        (0..MOST as u64).for_each(|id| waiting.add(stop(id), now));
        assert_eq!((waiting.len(), waiting.take_lost()), (2 * MOST, 0));
        waiting.add(stop(u64::MAX), now);
        assert_eq!((waiting.len(), waiting.take_lost()), (2 * MOST, 1));
    }
}
