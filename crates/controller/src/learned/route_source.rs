//! The interface of a route source to the table: runs of routes with a common target, next-hop groups, and
//! session events.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stoa_api::v1;
use tokio::sync::{mpsc, oneshot};

pub use crate::config::route_sources::Source;

/// One next hop of a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NextHopPath {
    /// Our interface; `None`: the gateway is resolved through other routes.
    pub interface: Option<Arc<str>>,
    /// The gateway; `None`: the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Weight for load balancing, at least 1.
    pub weight: u16,
}

/// The target of routes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The first paths; the second are used while none of the first is usable.
    Paths(Arc<[NextHopPath]>, Arc<[NextHopPath]>),
    /// The group with this number, which [`Event::Group`] defines: its routes change with it.
    Group(u32),
    /// A blackhole or similar route.
    Special(v1::Special),
}

/// Routes with a common target. Addresses without host bits, in host byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Protocol that learned them.
    pub protocol: v1::Protocol,
    /// Their target; `None` withdraws them.
    pub target: Option<Target>,
    /// IPv4 prefixes: address and length.
    pub ip4: Vec<(u32, u8)>,
    /// IPv6 prefixes.
    pub ip6: Vec<(u128, u8)>,
}

/// An event of a route source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A session began: existing routes are stale until they are announced again.
    Up,
    /// Exactly the existing routes were announced: those that are still stale are removed.
    Complete,
    /// The daemon has marked the end of its announcements of these families, or went quiet. Stale routes of a family
    /// are removed once about as many were announced as before.
    EndOfRib {
        /// Of IPv4 routes.
        ip4: bool,
        /// Of IPv6 routes.
        ip6: bool,
    },
    /// The session ended: routes are stale, and are retained for [`Source::stale_time`].
    Down,
    /// The route source was removed from the configuration: its routes are removed.
    Closed,
    /// Removes all routes of these families at once, stale or not.
    Clear {
        /// IPv4 routes do.
        ip4: bool,
        /// IPv6 routes do.
        ip6: bool,
    },
    /// The configuration of the route source has changed. Its routes are kept and selected again.
    Reconfigure {
        /// See [`Source::preference`].
        preference: Option<u8>,
        /// See [`Source::stale_time`]; takes effect when a session begins or ends next.
        stale_time: Duration,
    },
    /// A next-hop group with the daemon's number, new or changed. [`Target::Group`] is not allowed as its
    /// target.
    Group(u32, Target),
    /// The daemon deleted a group. Routes that still refer to it are unresolved.
    GroupDeleted(u32),
    /// Routes.
    Update(Update),
    /// Reply with the number of routes of the route source, after all earlier events.
    Count(CountReply),
}

/// The reply channel of [`Event::Count`]: the first clone to be processed replies.
#[derive(Clone, Debug)]
pub struct CountReply(Arc<Mutex<Option<oneshot::Sender<u64>>>>);

impl CountReply {
    /// Replies; the requester may have given up.
    pub(super) fn answer(&self, routes: u64) {
        let asker = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(asker) = asker {
            let _ = asker.send(routes);
        }
    }
}

impl PartialEq for CountReply {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CountReply {}

/// The sending end of the table's queue for one route source.
#[derive(Clone, Debug)]
pub struct RouteSource {
    source: Arc<Source>,
    /// Current [`Source::stale_time`], milliseconds.
    stale_time_ms: Arc<AtomicU64>,
    queue: mpsc::Sender<(Arc<Source>, Vec<Event>)>,
}

impl RouteSource {
    /// Opens a route source on the table's queue.
    pub(crate) fn new(source: Source, queue: mpsc::Sender<(Arc<Source>, Vec<Event>)>) -> Self {
        let stale_time_ms = Arc::new(AtomicU64::new(source.stale_time.as_millis() as u64));
        Self { source: Arc::new(source), stale_time_ms, queue }
    }

    /// The configuration the route source was opened with; see [`stale_time`](Self::stale_time) for the
    /// current stale time.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The current stale time.
    pub fn stale_time(&self) -> Duration {
        Duration::from_millis(self.stale_time_ms.load(Relaxed))
    }

    /// Changes the configuration of an open route source. Name and VRF must be the same.
    pub async fn reconfigure(&self, source: &Source) {
        let Source { preference, stale_time, .. } = *source;
        self.stale_time_ms.store(stale_time.as_millis() as u64, Relaxed);
        self.send(vec![Event::Reconfigure { preference, stale_time }]).await;
    }

    /// Requests the number of routes in the table after all earlier events. Waits for the queue as
    /// [`send`](Self::send) does, but not for the reply.
    pub async fn count(&self) -> oneshot::Receiver<u64> {
        let (asker, answer) = oneshot::channel();
        self.send(vec![Event::Count(CountReply(Arc::new(Mutex::new(Some(asker)))))]).await;
        answer
    }

    /// Sends events in order. Waits while the queue is full; the caller must not read from the daemon
    /// meanwhile. Batches of a few thousand routes are best.
    pub async fn send(&self, events: Vec<Event>) {
        // The table lives as long as the controller.
        let _ = self.queue.send((Arc::clone(&self.source), events)).await;
    }
}
