//! A BGP speaker for tests and benchmarks: it announces and withdraws millions of routes as fast as TCP accepts them,
//! and keeps its session alive. It imports no routes; it counts the UPDATE messages that it receives.
//!
//! It runs on its own thread in the namespace of a provider. Like a router, it announces everything again in each new
//! session.

mod session;
mod updates;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::{LabError, Namespace, Result, wait_until};

pub use updates::{Nlri, Paths, announce, end_of_rib, withdraw};

/// The two ends of the session.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Local address of the session.
    pub own: IpAddr,
    /// Address of the daemon, which listens on port 179.
    pub peer: IpAddr,
    /// Local autonomous system.
    pub asn: u32,
    /// Local BGP identifier.
    pub router_id: Ipv4Addr,
    /// Hold time in seconds, 3 to 65,535 (RFC 4271, section 4.2).
    pub hold_time: u16,
    /// Whether OPEN carries the graceful restart capability with preserved forwarding state (RFC 4724).
    pub graceful_restart: bool,
}

/// A running speaker. Dropping it ends its session with a NOTIFICATION.
#[derive(Debug)]
pub struct Speaker {
    shared: Arc<Shared>,
    requests: Sender<Request>,
    thread: Option<JoinHandle<()>>,
    requested: AtomicU64,
}

/// Requests to the thread: complete messages, in sequence.
#[derive(Debug)]
enum Request {
    /// Send now, and in each later session.
    Announce(Arc<[u8]>),
    /// Send now, and forget all earlier announcements.
    Replace(Arc<[u8]>),
}

/// State that the thread publishes.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// UPDATE messages received from the peer.
    updates_received: AtomicU64,
    state: Mutex<SessionState>,
}

#[derive(Clone, Debug, Default)]
struct SessionState {
    /// When the current session became established.
    established: Option<Instant>,
    /// Number of sessions so far.
    sessions: u64,
    /// Requests whose last byte TCP has accepted, and when.
    requests_sent: u64,
    sent_time: Option<Instant>,
    /// Why the last session ended or failed to start.
    reason: String,
}

impl Shared {
    fn state(&self) -> SessionState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn update(&self, change: impl FnOnce(&mut SessionState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Speaker {
    /// Starts the speaker in a namespace. It tries to connect ten times a second until it is dropped.
    ///
    /// # Errors
    ///
    /// The namespace is gone.
    pub fn start(namespace: &Namespace, identity: Identity) -> Result<Self> {
        let (requests, receiver) = channel();
        let shared = Arc::new(Shared::default());
        let (route_source, theirs) = (namespace.handle()?, Arc::clone(&shared));
        let thread = std::thread::spawn(move || match route_source.pass() {
            Ok(()) => session::run(&identity, &theirs, &receiver),
            Err(error) => theirs.update(|state| state.reason = error.to_string()),
        });
        Ok(Self { shared, requests, thread: Some(thread), requested: AtomicU64::new(0) })
    }

    /// Sends these messages as soon as a session is established, and again in each new one.
    pub fn announce(&self, messages: Arc<[u8]>) {
        self.request(Request::Announce(messages));
    }

    /// Sends these messages and forgets all earlier announcements: they are the new state, such as withdrawals
    /// followed by their replacements.
    pub fn replace(&self, messages: Arc<[u8]>) {
        self.request(Request::Replace(messages));
    }

    fn request(&self, request: Request) {
        self.requested.fetch_add(1, Ordering::Relaxed);
        // The thread lives as long as this speaker; if it could not enter its namespace, the wait for the session
        // reports it.
        let _ = self.requests.send(request);
    }

    /// Waits until the session is established; returns when it was.
    ///
    /// # Errors
    ///
    /// [`LabError::WaitDeadline`] with the error of the last attempt.
    pub fn wait_established(&self, deadline: Duration) -> Result<Instant> {
        wait_until("the BGP session is established", deadline, || {
            let state = self.shared.state();
            state.established.ok_or(state.reason)
        })
    }

    /// When the current session was established, if it is up.
    #[must_use]
    pub fn established(&self) -> Option<Instant> {
        self.shared.state().established
    }

    /// Number of established sessions so far.
    #[must_use]
    pub fn sessions(&self) -> u64 {
        self.shared.state().sessions
    }

    /// UPDATE messages received from the peer.
    #[must_use]
    pub fn updates_received(&self) -> u64 {
        self.shared.updates_received.load(Ordering::Relaxed)
    }

    /// When TCP accepted the last byte of all requests; `None` while some are pending.
    #[must_use]
    pub fn sent_at(&self) -> Option<Instant> {
        let state = self.shared.state();
        if state.requests_sent >= self.requested.load(Ordering::Relaxed) {
            state.sent_time
        } else {
            None
        }
    }

    /// Waits until TCP has accepted everything; returns when.
    ///
    /// # Errors
    /// [`LabError::WaitDeadline`] when it does not.
    pub fn wait_sent(&self, deadline: Duration) -> Result<Instant> {
        wait_until("the BGP peer accepts all data", deadline, || {
            self.sent_at().ok_or_else(|| self.shared.state().reason)
        })
    }

    /// Returns an error when an established session has ended.
    ///
    /// # Errors
    ///
    /// [`LabError::ParseFailed`] with the reason.
    pub fn still_established(&self) -> Result<()> {
        let state = self.shared.state();
        if state.established.is_some() {
            return Ok(());
        }
        Err(LabError::ParseFailed { what: "the BGP session".to_owned(), reason: state.reason })
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread has already published its result.
            let _ = thread.join();
        }
    }
}
