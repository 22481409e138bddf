//! Standby flows: those that only records of the partner have changed; and what leads from its connection to workers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stoa_api::v1;
use stoa_tables::flow_table::{FlowEntry, FlowKey};

use super::message::Record;
use crate::flow::adoption::LeftOut;
use crate::flow::flow_words::FlowWords;

/// Records that wait for a worker: an idle one looks ten times a second. Memory that was never used takes no room.
pub const ROOM: usize = 16_384;

/// What a worker is to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// Have this flow, in the numbers and ticks of this process.
    Flow(Record),
    /// A standby flow has ended.
    End(FlowKey),
}

/// The end of a worker.
pub struct Intake(pub(super) rtrb::Consumer<Work>);

impl Intake {
    /// Whether something waits.
    #[inline(always)]
    pub fn has_work(&self) -> bool {
        !self.0.is_empty()
    }
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is a new flow.
    Created,
    /// A flow that was there has its state.
    Refreshed,
    /// The flow is one of this router, or the record says nothing new.
    Ignored,
    /// A standby flow was removed.
    Ended,
    /// There is no such flow.
    Refused(LeftOut),
}

/// What became of all records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// See [`Outcome`].
    pub created: u64,
    /// See [`Outcome`].
    pub refreshed: u64,
    /// See [`Outcome`].
    pub ignored: u64,
    /// See [`Outcome`].
    pub ended: u64,
    /// By reason, in the order of [`LeftOut::ALL`].
    pub refused: [u64; LeftOut::ALL.len()],
}

impl Sums {
    /// Sets them in the state.
    pub fn add_to(&self, state: &mut v1::FlowSyncState) {
        let refused = |why: LeftOut| self.refused.get(why as usize).copied().unwrap_or(0);
        state.created_flows = self.created;
        state.refreshed_flows = self.refreshed;
        state.ignored_records = self.ignored;
        state.ended_flows = self.ended;
        state.refused_expired = refused(LeftOut::Expired);
        state.refused_vrf = refused(LeftOut::Vrf);
        state.refused_translation = refused(LeftOut::Translation);
        state.refused_room = refused(LeftOut::Room);
        state.refused_damaged = refused(LeftOut::Damaged) + refused(LeftOut::Altered);
    }
}

/// What workers and the thread of the partner share.
#[derive(Default)]
pub struct Standby {
    rings: Mutex<Vec<(usize, rtrb::Producer<Work>)>>,
    /// Of each IPv4 and each IPv6 flow that a record has created or changed: its first tick, inverted, and the last one
    /// that a record has given it.
    words: [FlowWords<2>; 2],
    /// [`Sums`] but for what was refused, and that.
    counts: [AtomicU64; 4],
    refused: [AtomicU64; LeftOut::ALL.len()],
}

impl Standby {
    /// Makes room to say which flows are standby; whether there is memory. `capacities`: flows of both families.
    pub fn prepare(&self, [four, six]: [u32; 2]) -> bool {
        self.words[0].prepare(four) && self.words[1].prepare(six)
    }

    /// The end of a worker.
    pub fn intake(&self, worker: usize) -> Intake {
        let (ring, intake) = rtrb::RingBuffer::new(ROOM);
        let mut rings = self.rings();
        rings.retain(|(of, _)| *of != worker);
        rings.push((worker, ring));
        Intake(intake)
    }

    /// The ends of the thread, by worker. Locked by threads that start and by that of the partner, never for a packet.
    pub fn rings(&self) -> MutexGuard<'_, Vec<(usize, rtrb::Producer<Work>)>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing but records of the partner has changed a live flow since the last of them.
    pub fn is_standby(&self, flow: &FlowEntry<'_>) -> bool {
        let words = self.words[usize::from(flow.key().is_ip6())].load(flow.id());
        words == Some([!flow.start(), flow.seen()])
    }

    /// A record gives a flow these ticks. Called in front of these changes: whoever reads them in between takes the
    /// flow for one of the partner, which it is.
    pub fn note(&self, (is_ip4, id): (bool, u32), (start, seen): (u32, u32)) {
        self.words[usize::from(!is_ip4)].store(id, [!start, seen]);
    }

    /// A record has become this.
    pub fn count(&self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Created => &self.counts[0],
            Outcome::Refreshed => &self.counts[1],
            Outcome::Ignored => &self.counts[2],
            Outcome::Ended => &self.counts[3],
            Outcome::Refused(why) => &self.refused[why as usize],
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// What became of all records since the start.
    pub fn sums(&self) -> Sums {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let [created, refreshed, ignored, ended] = self.counts.each_ref().map(of);
        let refused = self.refused.each_ref().map(of);
        Sums { created, refreshed, ignored, ended, refused }
    }
}
