//! State and statistics of each route source: its task writes them, monitoring reads them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::comparison::ComparisonRequests;

/// State of a route source. All counters count since it was opened.
#[derive(Debug, Default)]
pub struct RouteSourceState {
    /// Start of the session, seconds since 1970; 0: none.
    since_unix_s: AtomicU64,
    /// Number of sessions.
    sessions: AtomicU64,
    /// Announced routes.
    updates: AtomicU64,
    /// Withdrawn routes.
    withdrawals: AtomicU64,
    /// Malformed messages.
    malformed: AtomicU64,
    /// Routes that were not imported: without a host interface, or unsupported.
    not_imported: AtomicU64,
    /// Resynchronizations after a loss.
    resyncs: AtomicU64,
    /// Differences that resynchronizations repaired.
    repaired: AtomicU64,
    /// Whether it is open: it listens, or monitors a kernel table.
    is_open: AtomicBool,
    /// Why the route source is not open, or why a route was last not imported.
    reason: Mutex<String>,
    /// Refused connections.
    refused_connections: AtomicU64,
    /// Why the last connection was refused since the session began; "": none was.
    last_refusal: Mutex<String>,
    /// Comparisons requested by audits.
    pub comparison_requests: ComparisonRequests,
}

/// A snapshot of [`RouteSourceState`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // documented there
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
    pub refused_connections: u64,
    pub last_refusal: String,
}

impl RouteSourceState {
    /// A session began.
    pub fn up(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.since_unix_s.store(now.as_secs().max(1), Relaxed);
        self.sessions.fetch_add(1, Relaxed);
        self.is_open.store(true, Relaxed);
        self.set_reason("");
        self.last_refusal.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Counts a refused connection; returns whether the reason is another one than that of the last.
    pub fn refused_connection(&self, reason: &str) -> bool {
        self.refused_connections.fetch_add(1, Relaxed);
        let mut last = self.last_refusal.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = *last != reason;
        if is_other {
            reason.clone_into(&mut last);
        }
        is_other
    }

    /// There is no session, for this reason; the route source accepts connections.
    pub fn down(&self, reason: &str) {
        self.since_unix_s.store(0, Relaxed);
        self.is_open.store(true, Relaxed);
        self.set_reason(reason);
    }

    /// The route source is not open, for this reason; it will be tried again.
    pub fn fail(&self, reason: &str) {
        self.since_unix_s.store(0, Relaxed);
        self.is_open.store(false, Relaxed);
        self.set_reason(reason);
    }

    /// Counts announced routes.
    pub fn updated(&self, routes: u64) {
        self.updates.fetch_add(routes, Relaxed);
    }

    /// Counts withdrawn routes.
    pub fn withdrawn(&self, routes: u64) {
        self.withdrawals.fetch_add(routes, Relaxed);
    }

    /// Counts malformed messages; returns whether they are the first ones.
    pub fn malformed(&self, messages: u64) -> bool {
        self.malformed.fetch_add(messages, Relaxed) == 0
    }

    /// Counts routes that were not imported; `reason` names the last one.
    pub fn not_imported(&self, routes: u64, reason: std::fmt::Arguments<'_>) {
        self.not_imported.fetch_add(routes, Relaxed);
        self.set_reason(&reason.to_string());
    }

    /// Counts a resynchronization.
    pub fn resynced(&self) {
        self.resyncs.fetch_add(1, Relaxed);
    }

    /// Counts repaired differences.
    pub fn repaired(&self, routes: u64) {
        self.repaired.fetch_add(routes, Relaxed);
    }

    fn set_reason(&self, reason: &str) {
        let mut current = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if *current != reason {
            reason.clone_into(&mut current);
        }
    }

    /// The current statistics.
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
            refused_connections: self.refused_connections.load(Relaxed),
            last_refusal: self.last_refusal.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

/// The states of all route sources, by type and name.
#[derive(Debug, Default)]
pub struct RouteSourceStates {
    route_sources: Mutex<BTreeMap<(&'static str, String), Arc<RouteSourceState>>>,
}

impl RouteSourceStates {
    /// Creates the state of a route source that is opened.
    pub(crate) fn open(&self, kind: &'static str, name: &str) -> Arc<RouteSourceState> {
        let state = Arc::new(RouteSourceState::default());
        let mut route_sources = self.route_sources.lock().unwrap_or_else(PoisonError::into_inner);
        route_sources.insert((kind, name.to_owned()), Arc::clone(&state));
        state
    }

    /// Removes the state of a closed route source, but not that of a successor with the same name.
    pub(super) fn close(&self, kind: &'static str, name: &str, state: &Arc<RouteSourceState>) {
        let mut route_sources = self.route_sources.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind, name.to_owned());
        if route_sources.get(&key).is_some_and(|registered| Arc::ptr_eq(registered, state)) {
            route_sources.remove(&key);
        }
    }

    /// The state of a route source while it is open.
    pub fn get(&self, kind: &'static str, name: &str) -> Option<Arc<RouteSourceState>> {
        let route_sources = self.route_sources.lock().unwrap_or_else(PoisonError::into_inner);
        route_sources.get(&(kind, name.to_owned())).map(Arc::clone)
    }

    /// Type, name and statistics of each.
    pub fn all(&self) -> Vec<(&'static str, String, RouteSourceStatistics)> {
        let route_sources = self.route_sources.lock().unwrap_or_else(PoisonError::into_inner);
        route_sources
            .iter()
            .map(|((kind, name), it)| (*kind, name.clone(), it.statistics()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_a_replaced_route_source_keeps_its_successor() {
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
        assert_eq!(
            (statistics.since_unix_s, statistics.reason.as_str()),
            (0, "the daemon went away")
        );
        assert!(statistics.is_open);
        let is_new = ["user x", "user x", "user y"].map(|why| new.refused_connection(why));
        assert_eq!(is_new, [true, false, true]);
        let statistics = new.statistics();
        let refused = (statistics.refused_connections, statistics.last_refusal.as_str());
        assert_eq!(refused, (3, "user y"));
        new.up();
        assert_eq!(new.statistics().last_refusal, "");
        new.fail("cannot listen");
        assert!(!new.statistics().is_open && new.statistics().reason == "cannot listen");
        states.close("stoa-routing:fpm", "zebra", &new);
        assert!(states.all().is_empty());
    }
}
