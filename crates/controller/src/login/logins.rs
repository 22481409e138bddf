//! The logins of all hosts, shared by the portal, the operator and the task that drives them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use stoa_api::login::{Key, LOGINS};
use tokio::sync::Notify;

use super::cause::Cause;
use super::partner::shown::Shown;
use super::sessions::{Event, Full, New, Session, Sessions};

/// Events that wait for accounting at most: a start or a stop of twice as many hosts as may log in.
const EVENTS: usize = 2 * LOGINS;

/// All logins at a moment.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The moment, see [`clock_s`].
    pub now_s: u64,
    /// The logins.
    pub sessions: Vec<Session>,
    /// Starts and stops of logins that no accounting server has got, and that are reported no more.
    pub lost_reports: u64,
}

impl Listed {
    /// When a login began, in seconds since 1970 by the clock of Linux, which may have been set meanwhile.
    pub fn since_unix_s(&self, session: &Session) -> u64 {
        unix_s().saturating_sub(session.age_s(self.now_s))
    }
}

/// The logins of all hosts, shared by the portal, the operator and the task that drives them.
#[derive(Debug, Default)]
pub struct Logins {
    sessions: Mutex<Sessions>,
    pub(super) changed: Notify,
    /// What has happened, and when, until accounting takes it.
    events: Mutex<VecDeque<(Event, u64)>>,
    happened: Notify,
    lost_reports: AtomicU64,
    pub(super) shown: Shown,
}

/// Seconds since 1970 by the clock of Linux, which may be set.
pub fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The time of logins, in seconds: that since 1970 when the program started, and what has passed since. Whoever sets
/// the clock of Linux neither ends logins nor prolongs them.
pub fn clock_s() -> u64 {
    static START: LazyLock<(Instant, u64)> = LazyLock::new(|| (Instant::now(), unix_s()));
    let (begun, at) = *START;
    at + begun.elapsed().as_secs()
}

impl Logins {
    pub(super) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds events for accounting. When nobody takes them, starts and stops push out others.
    pub(super) fn add_events(&self, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let now = clock_s();
        let mut waiting = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            if waiting.len() >= EVENTS {
                if matches!(event, Event::Interim(_)) {
                    continue;
                }
                if !matches!(waiting.pop_front(), Some((Event::Interim(_), _))) {
                    self.count_lost_reports(1);
                }
            }
            waiting.push_back((event, now));
        }
        drop(waiting);
        self.happened.notify_one();
    }

    /// Waits until something has happened to logins; takes all of it, each event with its time (see [`clock_s`]). For
    /// accounting alone.
    pub async fn take_events(&self) -> VecDeque<(Event, u64)> {
        loop {
            let events =
                std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner));
            if !events.is_empty() {
                return events;
            }
            self.happened.notified().await;
        }
    }

    /// All logins now.
    pub fn list(&self) -> Listed {
        let sessions = self.sessions().all().cloned().collect();
        let lost_reports = self.lost_reports.load(Ordering::Relaxed);
        Listed { now_s: clock_s(), sessions, lost_reports }
    }

    /// Counts starts and stops that accounting has given up.
    pub fn count_lost_reports(&self, reports: u64) {
        self.lost_reports.fetch_add(reports, Ordering::Relaxed);
    }

    /// That of a host.
    pub fn of(&self, host: &Key) -> Option<Session> {
        self.sessions().of(host).cloned()
    }

    /// A host has logged in.
    ///
    /// # Errors
    /// There is no room for it, or its user has enough hosts.
    pub fn begin(&self, new: New) -> Result<(), Full> {
        let begun = self.sessions().begin(new, clock_s());
        self.changed.notify_one();
        begun
    }

    /// Logs out a host; whether it had logged in.
    pub fn end_host(&self, host: &Key, cause: Cause) -> bool {
        let is_ended = self.sessions().end(host, cause);
        self.changed.notify_one();
        is_ended
    }

    /// Logs out all hosts that meet a condition; how many.
    pub fn end(&self, cause: Cause, meets: impl Fn(&Session) -> bool) -> u32 {
        let mut sessions = self.sessions();
        let hosts: Vec<Key> = sessions.all().filter(|it| meets(it)).map(Session::key).collect();
        let ended = hosts.iter().filter(|host| sessions.end(host, cause)).count();
        drop(sessions);
        self.changed.notify_one();
        ended as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::login::sessions::{Limits, Method};

    fn new(number: u32) -> New {
        let [.., a, b] = number.to_be_bytes();
        New {
            host: Key { interface: "guests".to_owned(), mac: [2, 0, 0, 0, a, b] },
            id: number.into(),
            user: String::new(),
            method: Method::Local,
            limits: Limits::default(),
            hosts_most: None,
            address: String::new(),
            class: Vec::new(),
            interim_s: None,
        }
    }

    #[tokio::test]
    async fn no_stop_is_lost_when_all_hosts_are_logged_out_at_once() {
        let logins = Logins::default();
        let mut sessions = Sessions::default();
        for number in 0..10_000 {
            sessions.begin(new(number), 1).unwrap();
        }
        logins.add_events(sessions.take_events());
        sessions.retain_interfaces(|_| false);
        logins.add_events(sessions.take_events());
        let events = logins.take_events().await;
        let stops = events.iter().filter(|(it, _)| matches!(it, Event::Stopped(..))).count();
        assert_eq!((events.len(), stops, logins.list().lost_reports), (20_000, 10_000, 0));
    }

    #[tokio::test]
    async fn a_stop_pushes_out_another_event_and_an_interim_one_none() {
        let logins = Logins::default();
        let mut sessions = Sessions::default();
        sessions.begin(new(1), 1).unwrap();
        let session = sessions.all().next().unwrap().clone();
        logins.add_events(vec![Event::Started(session.clone()); EVENTS]);
        logins.add_events(vec![Event::Interim(session.clone())]);
        assert_eq!(logins.list().lost_reports, 0);
        logins.add_events(vec![Event::Stopped(session, Cause::User)]);
        assert_eq!(logins.list().lost_reports, 1);
        let events = logins.take_events().await;
        assert_eq!(events.len(), EVENTS);
        assert!(matches!(events.back(), Some((Event::Stopped(..), _))));
        assert!(events.iter().all(|(it, _)| !matches!(it, Event::Interim(_))));
    }

    #[test]
    fn a_host_logs_out_alone() {
        let logins = Logins::default();
        (1..4).for_each(|number| logins.begin(new(number)).unwrap());
        assert!(logins.end_host(&new(2).host, Cause::User));
        assert!(!logins.end_host(&new(2).host, Cause::User));
        let rest: Vec<_> = logins.list().sessions.iter().map(|it| it.id).collect();
        assert_eq!(rest, [1, 3]);
    }
}
