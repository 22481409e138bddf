//! Standby flows: those that only records of the partner have changed; and what leads from its connection to workers.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stoa_api::v1;
use stoa_seal::FRAME_MAX;
use stoa_tables::flow_table::{FlowEntry, FlowKey};

use super::leases::Leases;
use super::message::{ITEM_MIN, Record, SentKey};
use crate::flow::adoption::LeftOut;
use crate::flow::flow_words::FlowWords;
use crate::flow::tracker::standby_rule;

/// Records that wait for a worker. Memory that was never used takes no room.
pub const ROOM: usize = 16_384;
/// Room that each ring has left for the items of a frame, before one is opened.
pub const LEAST: usize = FRAME_MAX / ITEM_MIN;

/// What a worker is to do. Connections with partners have numbers, which distinguish what one of them has brought from
/// what was there before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// Have this flow, in the numbers and ticks of this process, by the connection with this number.
    Flow(Record, u32),
    /// A standby flow has ended. Whether it counts if this worker has none: all may be asked.
    End(SentKey, bool),
    /// The partner has the flow still, as this connection says.
    Known(SentKey, u32),
    /// End a standby flow that this connection has not named: its bulk is over, and what it brought is in front of
    /// this.
    Sweep(FlowKey, u32),
}

/// What a record gives a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// Its first tick, which is that of the flow.
    pub start: u32,
    /// Its last one.
    pub seen: u32,
    /// Its class.
    pub class: u8,
    /// The number of the connection.
    pub connection: u32,
    /// Whether the partner has packets of it, as the last record says: then it needs no name to stay there.
    pub is_theirs: bool,
}

/// The bits of numbers of connections in a word; above are [`Given::is_theirs`] and the class.
const CONNECTION: u32 = THEIRS - 1;
const THEIRS: u32 = 1 << 23;
const CLASS_SHIFT: u32 = 24;

impl Given {
    /// As words: the first one is not 0 for flows of this life of the machine.
    const fn words(self) -> [u32; 3] {
        let theirs = if self.is_theirs { THEIRS } else { 0 };
        let last = (self.class as u32) << CLASS_SHIFT | theirs | self.connection & CONNECTION;
        [!self.start, self.seen, last]
    }
}

/// So much that waits is the part of a bulk: more will come.
const MANY: usize = ROOM / 16;
/// How long a worker looks for more of it, in milliseconds.
const MORE_MS: u32 = 50;

/// The end of a worker.
pub struct Intake {
    pub(super) ring: rtrb::Consumer<Work>,
    /// When much has waited, in milliseconds.
    many: Option<u32>,
}

impl Intake {
    /// Whether something waits.
    #[inline(always)]
    pub fn has_work(&self) -> bool {
        !self.ring.is_empty()
    }

    /// Whether a worker that is idle looks for more soon: one that looked ten times a second would take no more than
    /// ten times what there is room for.
    #[inline]
    pub fn expects_more(&mut self, now_ms: u32) -> bool {
        if self.ring.slots() >= MANY {
            self.many = Some(now_ms);
        }
        self.many = self.many.filter(|it| now_ms.wrapping_sub(*it) < MORE_MS);
        self.many.is_some()
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

/// Records that were refused for causes that may pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passing {
    /// This configuration refuses them, always.
    pub by_configuration: u64,
    /// There is no room, or something else has their ends.
    pub by_room: u64,
}

impl Sums {
    /// Records that were refused for causes that may pass: those of a configuration, and want of room.
    pub fn passing(&self) -> Passing {
        let of = |why: LeftOut| self.refused.get(why as usize).copied().unwrap_or(0);
        Passing {
            by_configuration: of(LeftOut::Vrf) + of(LeftOut::Translation),
            by_room: of(LeftOut::Room),
        }
    }

    /// What has become of records since these sums.
    pub fn since(&self, before: &Self) -> Self {
        let mut refused = self.refused;
        for (refused, before) in refused.iter_mut().zip(before.refused) {
            *refused = refused.saturating_sub(before);
        }
        Self {
            created: self.created.saturating_sub(before.created),
            refreshed: self.refreshed.saturating_sub(before.refreshed),
            ignored: self.ignored.saturating_sub(before.ignored),
            ended: self.ended.saturating_sub(before.ended),
            refused,
        }
    }

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
    /// Of each IPv4 and each IPv6 flow that a record has created or changed: what the last one has given it.
    words: [FlowWords<3>; 2],
    leases: Leases,
    /// The number of the last connection.
    connection: AtomicU32,
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
        Intake { ring: intake, many: None }
    }

    /// The ends of the thread, by worker. Locked by threads that start and by that of the partner, never for a packet.
    pub fn rings(&self) -> MutexGuard<'_, Vec<(usize, rtrb::Producer<Work>)>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leases of this router, and what the partner has sent of its own.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    fn given(&self, flow: &FlowEntry<'_>) -> Option<[u32; 3]> {
        self.words[usize::from(flow.key().is_ip6())].load(flow.id())
    }

    /// Whether nothing but records of the partner has changed a flow since the last of them: no packet of another
    /// second, none that has given it another class, and no rule. One that has just ended is asked about as well: its
    /// fields are those of its end.
    pub fn is_standby(&self, flow: &FlowEntry<'_>) -> bool {
        self.given(flow).is_some_and(|[start, seen, last]| {
            let class = (last >> CLASS_SHIFT) as u8;
            [start, seen] == [!flow.start(), flow.seen()]
                && class == flow.class()
                && flow.rule() == standby_rule(seen)
        })
    }

    /// Whether a record has created or changed a flow, whatever has happened since: the partner has it, or had it.
    pub fn is_from_partner(&self, flow: &FlowEntry<'_>) -> bool {
        self.given(flow).is_some_and(|[start, ..]| start == !flow.start())
    }

    /// Whether a connection has named a flow that is from the partner.
    pub fn is_named(&self, flow: &FlowEntry<'_>, connection: u32) -> bool {
        let last = self.given(flow).map(|[.., last]| last & CONNECTION);
        last == Some(connection & CONNECTION)
    }

    /// Whether the last name of a flow by this connection was a record of packets that the partner has. A name alone
    /// says that it is there, not that it stays if this router does not name it.
    pub fn is_theirs(&self, flow: &FlowEntry<'_>, connection: u32) -> bool {
        let last = self.given(flow).map(|[.., last]| last & (THEIRS | CONNECTION));
        last == Some(THEIRS | connection & CONNECTION)
    }

    /// A record gives a flow this. Whoever reads it before the changes themselves takes the flow for one of this
    /// router, and looks again before that matters.
    pub fn note(&self, (is_ip4, id): (bool, u32), given: Given) {
        self.words[usize::from(!is_ip4)].store(id, given.words());
    }

    /// A connection has begun; its number.
    pub fn next_connection(&self) -> u32 {
        self.connection.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Has a worker do something, by its number; `false`: it has no room, or must keep that for a frame.
    pub fn hand(&self, of: usize, work: Work, least: usize) -> bool {
        let rings = &mut *self.rings();
        let count = rings.len().max(1);
        let at = rings.iter().position(|(worker, _)| *worker == of).unwrap_or(of % count);
        rings.get_mut(at).is_some_and(|(_, ring)| ring.slots() > least && ring.push(work).is_ok())
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

#[cfg(test)]
mod tests {
    use stoa_tables::flow_hash::Flow;

    use super::*;

    fn work() -> Work {
        let flow =
            Flow { source: 1, destination: 2, source_port: 3, destination_port: 4, protocol: 5 };
        Work::Known(FlowKey::ip4(flow, 0).into(), 1)
    }

    #[test]
    fn a_worker_looks_for_more_while_much_comes() {
        let standby = Standby::default();
        let mut intake = standby.intake(3);
        assert!(!intake.expects_more(0));
        assert!((1..MANY).all(|_| standby.hand(3, work(), 0)));
        assert!(!intake.expects_more(1));
        assert!(standby.hand(3, work(), 0) && intake.expects_more(2));
        while intake.ring.pop().is_ok() {}
        assert!(intake.expects_more(1 + MORE_MS));
        assert!(!intake.expects_more(2 + MORE_MS) && !intake.expects_more(3));
    }

    #[test]
    fn sweeps_leave_room_for_a_frame() {
        let standby = Standby::default();
        let _intake = standby.intake(3);
        let count = (0..).take_while(|_| standby.hand(9, work(), LEAST)).count();
        assert_eq!(count, ROOM - LEAST);
        assert!(standby.hand(3, work(), 0));
    }
}
