//! A BGP speaker for tests and benchmarks: it says millions of routes as fast as TCP takes them, takes them back, and keeps its
//! session alive. It hears no routes; what it is told is counted.
//!
//! It runs on a thread of its own in the namespace of a provider. What was announced is said again at each new session, as by a router.

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

/// Who speaks with whom.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Our address; the session comes from it.
    pub own: IpAddr,
    /// The daemon's address, which listens at port 179.
    pub peer: IpAddr,
    /// Our autonomous system.
    pub asn: u32,
    /// Our BGP identifier.
    pub router_id: Ipv4Addr,
    /// Seconds without a word after which the session ends, 3 to 65,535 (RFC 4271, section 4.2).
    pub hold_time: u16,
    /// Whether the peer shall keep our routes while our session is down, and we say that we do so (RFC 4724).
    pub graceful_restart: bool,
}

/// A running speaker. Dropping it ends its session with a notification.
#[derive(Debug)]
pub struct Speaker {
    shared: Arc<Shared>,
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
    given: AtomicU64,
}

/// What its thread is asked to say: whole messages, one after the other.
#[derive(Debug)]
enum Order {
    /// Now, and at each session to come.
    Announce(Arc<[u8]>),
    /// Now; and all that was announced is forgotten.
    Replace(Arc<[u8]>),
}

/// What its thread tells.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// UPDATE messages that the peer sent.
    heard: AtomicU64,
    seen: Mutex<Seen>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    /// When the session that is up became established.
    established: Option<Instant>,
    /// Sessions so far.
    sessions: u64,
    /// Orders whose last byte TCP has taken, and when that was.
    said: u64,
    said_at: Option<Instant>,
    /// Why the last session ended, or could not begin.
    reason: String,
}

impl Shared {
    fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Speaker {
    /// Starts it in a namespace. It tries to connect ten times a second until it is dropped.
    ///
    /// # Errors
    /// When the namespace is gone.
    pub fn start(namespace: &Namespace, identity: Identity) -> Result<Self> {
        let (orders, receiver) = channel();
        let shared = Arc::new(Shared::default());
        let (route_source, theirs) = (namespace.handle()?, Arc::clone(&shared));
        let thread = std::thread::spawn(move || match route_source.pass() {
            Ok(()) => session::run(&identity, &theirs, &receiver),
            Err(error) => theirs.note(|seen| seen.reason = error.to_string()),
        });
        Ok(Self { shared, orders, thread: Some(thread), given: AtomicU64::new(0) })
    }

    /// Says these messages as soon as there is a session, and at each new one again.
    pub fn announce(&self, messages: Arc<[u8]>) {
        self.give(Order::Announce(messages));
    }

    /// Says these messages, and forgets all that was announced before: they are what is to hold from now on, such as withdrawals
    /// and what comes in their place.
    pub fn replace(&self, messages: Arc<[u8]>) {
        self.give(Order::Replace(messages));
    }

    fn give(&self, order: Order) {
        self.given.fetch_add(1, Ordering::Relaxed);
        // The thread lives as long as this speaker; one that could not enter its namespace says so when it is waited for.
        let _ = self.orders.send(order);
    }

    /// Waits until the session is established, and says since when.
    ///
    /// # Errors
    /// [`LabError::WaitDeadline`] with what ended the last attempt.
    pub fn wait_established(&self, deadline: Duration) -> Result<Instant> {
        wait_until("the BGP session is established", deadline, || {
            let seen = self.shared.seen();
            seen.established.ok_or(seen.reason)
        })
    }

    /// Since when the session is established, if it is.
    #[must_use]
    pub fn established(&self) -> Option<Instant> {
        self.shared.seen().established
    }

    /// Sessions that were established so far.
    #[must_use]
    pub fn sessions(&self) -> u64 {
        self.shared.seen().sessions
    }

    /// UPDATE messages that the peer has sent.
    #[must_use]
    pub fn heard(&self) -> u64 {
        self.shared.heard.load(Ordering::Relaxed)
    }

    /// When TCP took the last byte of all that this speaker was given to say; `None` while it has not.
    #[must_use]
    pub fn said(&self) -> Option<Instant> {
        let seen = self.shared.seen();
        if seen.said >= self.given.load(Ordering::Relaxed) { seen.said_at } else { None }
    }

    /// Waits until TCP took all, and says when that was.
    ///
    /// # Errors
    /// [`LabError::WaitDeadline`] when it does not.
    pub fn wait_said(&self, deadline: Duration) -> Result<Instant> {
        wait_until("the BGP peer takes what is said", deadline, || {
            self.said().ok_or_else(|| self.shared.seen().reason)
        })
    }

    /// An error when the session has ended that was established before.
    ///
    /// # Errors
    /// [`LabError::NotUnderstood`] with why it ended.
    pub fn still_established(&self) -> Result<()> {
        let seen = self.shared.seen();
        if seen.established.is_some() {
            return Ok(());
        }
        Err(LabError::NotUnderstood { what: "the BGP session".to_owned(), reason: seen.reason })
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say beyond what it noted.
            let _ = thread.join();
        }
    }
}
