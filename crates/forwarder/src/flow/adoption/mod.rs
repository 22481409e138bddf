//! Flows of a forwarder that was killed, in the next one.
//!
//! The flow tables lie in memory that the supervisor holds ([`stoa_warm_restart::Arrays`]). A forwarder has tables of
//! its own; with its first configuration in force, and before ports receive, each worker reads the lines of the former
//! tables ([`former`]) and creates what it believes anew: with the time that is left, the state of TCP, the counters,
//! and the same external port, for which it makes mappings, blocks and quotas as for a new flow. So nothing of the
//! former process is held twice or for ever. Rules judge these flows by their next packets, as after a change.
//!
//! Left out is what cannot be used: [`LeftOut`] says why.

pub mod former;
pub mod head;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use former::FormerFlows;
pub use worker::{adopt, create};

/// How long workers adopt flows: what is left then is left out, so that packets do not wait.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Why a flow was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum LeftOut {
    /// Its content is that of no flow.
    Damaged,
    /// Its timeout has passed.
    Expired,
    /// Its VRF does not exist any more.
    Vrf,
    /// Its policy or mapping of address translation does not exist any more, or is another one.
    Translation,
    /// It has a gateway or began with a SYN cookie, and what that keeps beside the table is lost.
    Altered,
    /// There is no room, or another flow has its key.
    Room,
    /// A worker has not read all of a family in time: how many flows that were is not known.
    Late,
    /// The memory cannot be read: how many flows it had is not known.
    Unreadable,
}

impl LeftOut {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Damaged,
        Self::Expired,
        Self::Vrf,
        Self::Translation,
        Self::Altered,
        Self::Room,
        Self::Late,
        Self::Unreadable,
    ];

    /// The reason, for the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Expired => "expired",
            Self::Vrf => "without VRF",
            Self::Translation => "without policy of NAT",
            Self::Altered => "with a gateway or a SYN cookie",
            Self::Room => "without room",
            Self::Late => "not in time",
            Self::Unreadable => "unreadable",
        }
    }
}

/// What workers are to adopt.
#[derive(Debug)]
pub struct Request {
    former: FormerFlows,
    until: Instant,
    is_over: AtomicBool,
}

impl Request {
    /// To adopt these flows until then.
    pub fn new(former: FormerFlows, until: Instant) -> Self {
        Self { former, until, is_over: AtomicBool::new(false) }
    }

    /// Whether packets come first from now on.
    fn is_late(&self) -> bool {
        Instant::now() > self.until || self.is_over.load(Ordering::Relaxed)
    }
}

/// The adoption of flows by all workers.
#[derive(Debug, Default)]
pub struct Adoption {
    /// Workers that have not ended it; 0: there is nothing to do.
    left: AtomicU32,
    /// Locked by workers that begin and by the control thread, never for a packet.
    request: Mutex<Option<Arc<Request>>>,
    left_out: [AtomicU64; LeftOut::ALL.len()],
}

impl Adoption {
    /// Has so many workers adopt flows.
    pub fn begin(&self, former: FormerFlows, workers: usize) {
        let request = Request::new(former, Instant::now() + PATIENCE);
        *self.request.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(request));
        self.left.store(workers as u32, Ordering::Release);
    }

    /// Whether workers have something to adopt, as far as they have not done so.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.left.load(Ordering::Acquire) > 0
    }

    /// What a worker is to adopt.
    pub fn request(&self) -> Option<Arc<Request>> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A worker has ended.
    pub fn note_done(&self) {
        // One that was late may end after the adoption has.
        let fewer = |left: u32| left.checked_sub(1);
        let _ = self.left.fetch_update(Ordering::AcqRel, Ordering::Relaxed, fewer);
    }

    /// Has workers that are late stop, and lets go of the memory of the former process once they have.
    pub fn end(&self) {
        self.left.store(0, Ordering::Release);
        if let Some(request) = self.request.lock().unwrap_or_else(PoisonError::into_inner).take() {
            request.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// A flow is left out.
    pub fn leave_out(&self, why: LeftOut) {
        self.left_out[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many flows were left out, by reason.
    pub fn left_out(&self) -> [(LeftOut, u64); LeftOut::ALL.len()] {
        LeftOut::ALL.map(|why| (why, self.left_out[why as usize].load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests;
