//! How each route source does: counted by its task, read by whoever shows it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::comparison::ComparisonRequests;

/// How a route source does. All figures count since it was opened.
#[derive(Debug, Default)]
pub struct RouteSourceState {
    /// Seconds since 1970 when the session began; 0: there is none.
    since_unix_s: AtomicU64,
    /// Sessions so far.
    sessions: AtomicU64,
    /// Routes that were said, again or anew.
    updates: AtomicU64,
    /// Routes that were taken back.
    withdrawals: AtomicU64,
    /// Messages that could not be read.
    malformed: AtomicU64,
    /// Routes that were left out, as they lead through no host interface or cannot be done.
    not_imported: AtomicU64,
    /// How often everything was read again because something was lost.
    resyncs: AtomicU64,
    /// Differences that such a look found and fixed.
    repaired: AtomicU64,
    /// Whether it is open: it listens, or follows Linux.
    is_open: AtomicBool,
    /// Why the route source is not open, or the last thing that was left out.
    reason: Mutex<String>,
    /// Audits that wait for the route source.
    pub comparison_requests: ComparisonRequests,
}

/// [`RouteSourceState`] at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // as there
pub struct RouteSourceStatistics {
    pub since_unix_s: u64,
    pub sessions: u64,
    pub updates: u64,
    pub withdrawals: u64,
    pub malformed: u64,
    pub not_imported: u64,
    pub resyncs: u64,
    pub repaired: u64,
    pub is_open: bool,
    pub reason: String,
}

impl RouteSourceState {
    /// A session began.
    pub fn up(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.since_unix_s.store(now.as_secs().max(1), Relaxed);
        self.sessions.fetch_add(1, Relaxed);
        self.is_open.store(true, Relaxed);
        self.set_reason("");
    }

    /// The session ended, or there is none and why: the route source is open to the daemon.
    pub fn down(&self, reason: &str) {
        self.since_unix_s.store(0, Relaxed);
        self.is_open.store(true, Relaxed);
        self.set_reason(reason);
    }

    /// The route source is not open, and why: no daemon can come before it is tried again.
    pub fn fail(&self, reason: &str) {
        self.since_unix_s.store(0, Relaxed);
        self.is_open.store(false, Relaxed);
        self.set_reason(reason);
    }

    /// Routes that were said.
    pub fn updated(&self, routes: u64) {
        self.updates.fetch_add(routes, Relaxed);
    }

    /// Routes that were taken back.
    pub fn withdrawn(&self, routes: u64) {
        self.withdrawals.fetch_add(routes, Relaxed);
    }

    /// Messages could not be read. Gives whether they are the first ones of this route source.
    pub fn malformed(&self, messages: u64) -> bool {
        self.malformed.fetch_add(messages, Relaxed) == 0
    }

    /// Routes were left out: the last of them, and why.
    pub fn not_imported(&self, routes: u64, reason: std::fmt::Arguments<'_>) {
        self.not_imported.fetch_add(routes, Relaxed);
        self.set_reason(&reason.to_string());
    }

    /// Everything is read again.
    pub fn resynced(&self) {
        self.resyncs.fetch_add(1, Relaxed);
    }

    /// Differences were found and fixed.
    pub fn repaired(&self, routes: u64) {
        self.repaired.fetch_add(routes, Relaxed);
    }

    fn set_reason(&self, reason: &str) {
        let mut current = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if *current != reason {
            reason.clone_into(&mut current);
        }
    }

    /// What is counted now.
    pub fn statistics(&self) -> RouteSourceStatistics {
        RouteSourceStatistics {
            since_unix_s: self.since_unix_s.load(Relaxed),
            sessions: self.sessions.load(Relaxed),
            updates: self.updates.load(Relaxed),
            withdrawals: self.withdrawals.load(Relaxed),
            malformed: self.malformed.load(Relaxed),
            not_imported: self.not_imported.load(Relaxed),
            resyncs: self.resyncs.load(Relaxed),
            repaired: self.repaired.load(Relaxed),
            is_open: self.is_open.load(Relaxed),
            reason: self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

/// The states of all route sources, by type and name.
#[derive(Debug, Default)]
pub struct RouteSourceStates {
    route_sources: Mutex<BTreeMap<(&'static str, String), Arc<RouteSourceState>>>,
}

impl RouteSourceStates {
    /// A new one for a route source that is opened.
    pub(crate) fn open(&self, kind: &'static str, name: &str) -> Arc<RouteSourceState> {
        let state = Arc::new(RouteSourceState::default());
        let mut route_sources = self.route_sources.lock().unwrap_or_else(PoisonError::into_inner);
        route_sources.insert((kind, name.to_owned()), Arc::clone(&state));
        state
    }

    /// The route source was shut. Its successor of the same name stays.
    pub(super) fn close(&self, kind: &'static str, name: &str, state: &Arc<RouteSourceState>) {
        let mut route_sources = self.route_sources.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind, name.to_owned());
        if route_sources.get(&key).is_some_and(|registered| Arc::ptr_eq(registered, state)) {
            route_sources.remove(&key);
        }
    }

    /// The one of a route source, while it is open.
    pub fn get(&self, kind: &'static str, name: &str) -> Option<Arc<RouteSourceState>> {
        let route_sources = self.route_sources.lock().unwrap_or_else(PoisonError::into_inner);
        route_sources.get(&(kind, name.to_owned())).map(Arc::clone)
    }

    /// Type, name and figures of each.
    pub fn all(&self) -> Vec<(&'static str, String, RouteSourceStatistics)> {
        let route_sources = self.route_sources.lock().unwrap_or_else(PoisonError::into_inner);
        route_sources.iter().map(|((kind, name), it)| (*kind, name.clone(), it.statistics())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_source_that_was_opened_anew_is_not_shut_by_the_old_one() {
        let states = RouteSourceStates::default();
        let old = states.open("stoa-routing:fpm", "zebra");
        let new = states.open("stoa-routing:fpm", "zebra");
        new.up();
        states.close("stoa-routing:fpm", "zebra", &old);
        let all_states = states.all();
        assert_eq!((all_states.len(), all_states[0].2.sessions), (1, 1));
        assert!(all_states[0].2.since_unix_s > 0);
        new.down("the daemon went away");
        let statistics = new.statistics();
        assert_eq!((statistics.since_unix_s, statistics.reason.as_str()), (0, "the daemon went away"));
        assert!(statistics.is_open);
        new.fail("cannot listen");
        assert!(!new.statistics().is_open && new.statistics().reason == "cannot listen");
        states.close("stoa-routing:fpm", "zebra", &new);
        assert!(states.all().is_empty());
    }
}
