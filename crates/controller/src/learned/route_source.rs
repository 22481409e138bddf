//! What a route source says: routes in runs that share their ways, groups that change as one, and how its session does.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stoa_api::v1;
use tokio::sync::{mpsc, oneshot};

use crate::routes::VrfName;

/// A route source as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name in the configuration.
    pub name: String,
    /// The VRF that its routes are for.
    pub vrf: VrfName,
    /// How much its routes count against those of other route sources, less is better; `None`: as is usual for their protocol.
    pub preference: Option<u8>,
    /// How long its routes stay when its session ends, and are swept when it comes back and does not say that it is done.
    pub stale_time: Duration,
}

/// One way to a destination, as a daemon says it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NextHopPath {
    /// Our interface; `None`: the gateway is to be resolved by other routes.
    pub interface: Option<Arc<str>>,
    /// The gateway; `None`: the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Share of the flows, at least 1.
    pub weight: u16,
}

/// What the routes of a run do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Send by one of the first, or while none of them can be used by one of the second.
    Paths(Arc<[NextHopPath]>, Arc<[NextHopPath]>),
    /// What [`Event::Group`] says of this number: all routes on it change with it.
    Group(u32),
    /// Something else.
    Special(v1::Special),
}

/// Routes that share what they do. Addresses without host bits, in host byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Who has learned them.
    pub protocol: v1::Protocol,
    /// What they do; `None`: they go.
    pub target: Option<Target>,
    /// IPv4 prefixes: address and length.
    pub ip4: Vec<(u32, u8)>,
    /// IPv6 prefixes.
    pub ip6: Vec<(u128, u8)>,
}

/// What a route source tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A session began: what is held of it is stale until it is said again.
    Up,
    /// All was said since: what is stale still goes.
    Complete,
    /// Nothing came for a while: that was probably all. As `Complete`, but of what a former controller has left nothing goes until as much
    /// was said as there was.
    PresumedComplete,
    /// The session ended: what is held stays for [`Source::stale_time`].
    Down,
    /// The route source is shut for good, by the configuration: what is held goes.
    Closed,
    /// What is held of these families goes at once, said in this session or not.
    Clear {
        /// IPv4 routes do.
        ip4: bool,
        /// IPv6 routes do.
        ip6: bool,
    },
    /// The configuration says these of the route source now. Its routes stay, and are weighed anew.
    Reconfigure {
        /// As [`Source::preference`].
        preference: Option<u8>,
        /// As [`Source::stale_time`]: it takes effect when a session begins or ends next.
        stale_time: Duration,
    },
    /// A group of the daemon's own number, new or changed; [`Target::Group`] is not allowed within.
    Group(u32, Target),
    /// The daemon forgot a group. Routes that are still on it lead nowhere.
    GroupDeleted(u32),
    /// Routes.
    Update(Update),
    /// Everything before this was heard: how much the table has of the route source is answered.
    Count(CountReply),
}

/// Who waits for the answer to [`Event::Count`]: the first of its clones that is heard answers.
#[derive(Clone, Debug)]
pub struct CountReply(Arc<Mutex<Option<oneshot::Sender<u64>>>>);

impl CountReply {
    /// Answers; who asked may have gone away.
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

/// The end of the queue that a route source holds.
#[derive(Clone, Debug)]
pub struct RouteSource {
    source: Arc<Source>,
    /// [`Source::stale_time`] as it is now, milliseconds.
    stale_time_ms: Arc<AtomicU64>,
    queue: mpsc::Sender<(Arc<Source>, Vec<Event>)>,
}

impl RouteSource {
    /// For a source, into the queue of the table.
    pub(crate) fn new(source: Source, queue: mpsc::Sender<(Arc<Source>, Vec<Event>)>) -> Self {
        let stale_time_ms = Arc::new(AtomicU64::new(source.stale_time.as_millis() as u64));
        Self { source: Arc::new(source), stale_time_ms, queue }
    }

    /// What the route source was opened as. What may change since is told by [`stale_time`](Self::stale_time).
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// How long routes stay when a session ends, as the configuration says now.
    pub fn stale_time(&self) -> Duration {
        Duration::from_millis(self.stale_time_ms.load(Relaxed))
    }

    /// The configuration says something else of an open route source, whose name and VRF are the same: it stays open.
    pub async fn reconfigure(&self, source: &Source) {
        let Source { preference, stale_time, .. } = *source;
        self.stale_time_ms.store(stale_time.as_millis() as u64, Relaxed);
        self.send(vec![Event::Reconfigure { preference, stale_time }]).await;
    }

    /// Asks how many routes the table has of the route source once it has heard all that was told until now. Waits as [`send`](Self::send) does,
    /// not for the answer.
    pub async fn count(&self) -> oneshot::Receiver<u64> {
        let (asker, answer) = oneshot::channel();
        self.send(vec![Event::Count(CountReply(Arc::new(Mutex::new(Some(asker)))))]).await;
        answer
    }

    /// Says what was heard, in its order. Waits while the queue is full: read no more of the daemon meanwhile.
    /// A few thousand routes at a time are best.
    pub async fn send(&self, events: Vec<Event>) {
        // The table lives as long as the controller.
        let _ = self.queue.send((Arc::clone(&self.source), events)).await;
    }
}
