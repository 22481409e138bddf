//! `ip4-fragment-order`, `ip6-fragment-order`: give fragments to the node that follows flows in an order in which that
//! can decide about them: none before the first one of its packet, which has the ports.
//!
//! - **A home for each packet.** A hash of addresses and identification selects a worker. Whoever receives a fragment
//!   hands it to this one, so that all fragments of a packet meet, whatever the NIC makes of them. From there they go
//!   on together: the first one to the worker that has its flow, if there is one, and those behind it to the same.
//! - **A fragment before its first one waits** in its buffer, for [`PATIENCE_MS`] at most, and follows it, in the order
//!   of offsets. What has waited in vain, and what has no room to wait, goes on alone: rules decide about it without
//!   ports, and what would need to be translated is dropped.
//! - **Overlaps** are refused here, for all workers together.
//!
//! Fragments come here from the node that follows flows (`ip4-acl-input`), if any stateful rule or translation is
//! configured, and go back to it with the flag [`ORDERED`](flags::ORDERED). No other packet passes.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use stoa_engine::pool::{Pool, SLOT};
use stoa_engine::vector::{Column, LaneSet, flags};
use stoa_engine::worker::WORKERS_MAX;
use stoa_engine::{Context, Next, Node, Packet, Vector};

use super::column::Packets;
use super::fields::{self, Kind, Place};
use super::fragments::held::{Held, Of};
use super::fragments::{Fate, Fragments, Key, PACKETS, PACKETS_OF_SOURCE, Piece, Refusal};
use super::random::random;
use super::time::ticks;
use super::tracker::{Seen, part};
use crate::acl::flow_vrf;
use crate::drops::Drop;
use crate::shared::Shared;

/// Next nodes of IPv4 packets.
pub const EDGES4: &[&str] = &["ip4-acl-input"];
/// Next nodes of IPv6 packets.
pub const EDGES6: &[&str] = &["ip6-acl-input"];
const FLOWS: u16 = 0;

/// Milliseconds that a packet is remembered. A source may use an identification again within seconds (RFC 6864).
const LIFETIME_MS: u64 = 6_000;
/// Milliseconds for which a fragment waits for the first one of its packet.
pub const PATIENCE_MS: u64 = 2_000;
/// Fragments that wait at a time, of one worker and family, and those of one source: it can send the longest packet.
pub const WAITING: u16 = 256;
/// The same of one source.
pub const WAITING_OF_SOURCE: u16 = 64;
/// One in so many buffers of each kind, plain and jumbo, may wait, of all workers together and one family.
const SHARE: usize = 16;

/// The fragments that wait, of all workers.
pub struct Waiting {
    /// By worker and family.
    used: Box<[AtomicU32]>,
    refused: AtomicU64,
}

impl Default for Waiting {
    fn default() -> Self {
        let used = (0..2 * WORKERS_MAX).map(|_| AtomicU32::new(0)).collect();
        Self { used, refused: AtomicU64::new(0) }
    }
}

impl Waiting {
    /// How many wait.
    pub fn used(&self) -> u64 {
        self.used.iter().map(|used| u64::from(used.load(Ordering::Relaxed))).sum()
    }

    /// How many had no room to wait since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// Makes the node for IPv4 of one worker.
pub fn make4(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    Box::new(FragmentOrder::new(shared, Packets::Ip4, 2 * worker))
}

/// Makes the node for IPv6 of one worker.
pub fn make6(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    Box::new(FragmentOrder::new(shared, Packets::Ip6, 2 * worker + 1))
}

/// The worker at which all fragments of a packet meet.
fn home(shared: &Shared, key: &Key, workers: usize) -> usize {
    // Of a keyed hash: nobody chooses who has the work.
    (shared.identifications.hash(key) >> 32) as usize % workers.max(1)
}

/// Whether a fragment in a VRF has its home at a worker, of so many.
pub(crate) fn is_home(
    shared: &Shared,
    (packet, vrf): (&Seen<'_>, u16),
    (worker, workers): (usize, usize),
) -> bool {
    part(packet, vrf).is_some_and(|(key, _)| home(shared, &key, workers) == worker)
}

struct FragmentOrder {
    shared: Arc<Shared>,
    packets: Packets,
    /// Its counter among those of [`Waiting`].
    counter: usize,
    order: Order<Packet>,
    clock: Clock,
    /// By lane: the worker that it is handed to.
    homes: Column<u16>,
}

/// Milliseconds that do not wrap.
#[derive(Default)]
struct Clock {
    last: Option<u32>,
    ms: u64,
}

impl Clock {
    fn advance(&mut self, ms: u32) -> u64 {
        let passed = self.last.map_or(0, |last| ticks(last, ms));
        if self.last.is_none() || passed > 0 {
            (self.last, self.ms) = (Some(ms), self.ms + u64::from(passed));
        }
        self.ms
    }
}

impl Node for FragmentOrder {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        fields::of(self.shared.kernel, vector, self.packets);
        let now = self.clock.advance(self.shared.flows.now(cx.now).ms);
        let mut others = LaneSet::first_of(0);
        for lane in 0..vector.len() {
            let found = self.part(vector, lane);
            let home = found.map(|(key, _)| home(&self.shared, &key, cx.workers()));
            match (found, home) {
                (Some(_), Some(home)) if home != cx.worker => {
                    self.homes[lane] = home as u16;
                    others.insert(lane);
                }
                (Some(found), _) => self.lane(cx, (&mut *vector, lane), found, now),
                (None, _) => go_on(vector, lane),
            }
        }
        while let Some(first) = others.lowest() {
            let home = self.homes[first];
            let lanes = others.take_equal(&self.homes, home);
            cx.hand_over(vector, &lanes, home.into());
        }
        self.publish(self.order.held.len());
        Next::Lanes
    }

    fn tick(&mut self, cx: &mut Context<'_>) {
        let now = self.clock.advance(self.shared.flows.now(cx.now).ms);
        self.order.expire(now, |packet| send(cx, packet));
        self.publish(self.order.held.len());
    }
}

impl std::ops::Drop for FragmentOrder {
    fn drop(&mut self) {
        // Their buffers are free from now on.
        self.publish(0);
    }
}

/// A lane goes to the node that follows flows.
fn go_on(vector: &mut Vector, lane: usize) {
    vector.flags[lane] |= flags::ORDERED;
    vector.next[lane] = FLOWS;
}

/// A fragment that waits no more goes there.
fn send(cx: &mut Context<'_>, mut packet: Packet) {
    packet.flags |= flags::ORDERED;
    if cx.emit(FLOWS, packet).is_err() {
        cx.lost(Drop::FragmentNoBuffer.reason(), 1);
    }
}

/// The most fragments in buffers of each kind that one of so many workers keeps waiting.
fn most(pool: &Pool, workers: usize) -> [usize; 2] {
    [pool.count(), pool.jumbo_count()].map(|count| count as usize / SHARE / workers.max(1))
}

impl FragmentOrder {
    fn new(shared: &Arc<Shared>, packets: Packets, counter: usize) -> Self {
        let (order, clock, homes) = (Order::new(random()), Clock::default(), Column::of(0));
        Self { shared: shared.clone(), packets, counter, order, clock, homes }
    }

    /// So many fragments wait now.
    fn publish(&self, waiting: usize) {
        if let Some(used) = self.shared.waiting_fragments.used.get(self.counter) {
            used.store(waiting as u32, Ordering::Relaxed);
        }
    }

    fn part(&self, vector: &Vector, lane: usize) -> Option<(Key, Piece)> {
        let fields = vector.known_fields()?;
        let (kind, place) = (Kind(fields.kind[lane]), Place(fields.place[lane]));
        let vrf = flow_vrf(self.shared.attributes.vrf_of(vector.rx_if[lane]));
        part(&Seen { bytes: vector.bytes(lane), kind, place }, vrf)
    }

    /// Decides about a lane of a packet that is at home here.
    fn lane(
        &mut self,
        cx: &mut Context<'_>,
        (vector, lane): (&mut Vector, usize),
        (key, piece): (Key, Piece),
        now: u64,
    ) {
        let kind = usize::from(vector.capacity(lane) > SLOT);
        let most = most(vector.pool(), cx.workers());
        match self.order.decide((&key, piece), (kind, most), now, |packet| send(cx, packet)) {
            Decision::Pass => go_on(vector, lane),
            Decision::Full => {
                self.shared.waiting_fragments.refused.fetch_add(1, Ordering::Relaxed);
                go_on(vector, lane);
            }
            Decision::Wait(of) => {
                if let Some(packet) = vector.take(lane)
                    && self.order.held.push(&of, packet).is_err()
                {
                    cx.lost(Drop::FragmentNoBuffer.reason(), 1);
                }
            }
            Decision::Overlap => {
                vector.drop_lane(lane, Drop::FragmentOverlap.reason());
                let lost = self.order.forget(&key);
                if lost > 0 {
                    cx.lost(Drop::FragmentOverlap.reason(), lost);
                }
            }
        }
    }
}

/// What becomes of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// It goes on.
    Pass,
    /// It waits.
    Wait(Of),
    /// It would have to wait, and has no room: it goes on.
    Full,
    /// It is dropped, with those of its packet that wait if nothing of that passes any more.
    Overlap,
}

/// The packets that are at home at one worker, and the fragments that wait.
struct Order<T> {
    packets: Fragments<()>,
    held: Held<T>,
}

impl<T> Order<T> {
    fn new(seed: [u64; 2]) -> Self {
        let packets = Fragments::new(PACKETS, PACKETS_OF_SOURCE, LIFETIME_MS, seed);
        let packets = packets.with_patience(PATIENCE_MS);
        let held = Held::new(WAITING, WAITING_OF_SOURCE, packets.capacity());
        Self { packets, held }
    }

    /// Decides about a fragment in a buffer of a kind, of which so many may wait. `release`: gets fragments that have
    /// waited, which go on behind it.
    fn decide(
        &mut self,
        (key, piece): (&Key, Piece),
        (kind, most): (usize, [usize; 2]),
        now: u64,
        mut release: impl FnMut(T),
    ) -> Decision {
        let Self { packets, held } = self;
        let mut free = |entry: u32, held: &mut Held<T>| {
            while let Some(item) = held.pop(entry) {
                release(item);
            }
        };
        if piece.start == 0 {
            return match packets.first(key, piece, (), now) {
                // Those of another packet, whose entry this one has got, or those of its own.
                Ok(entry) => {
                    free(entry, held);
                    Decision::Pass
                }
                Err(refusal) => match self.refused(key, refusal) {
                    Decision::Full => Decision::Pass,
                    decision => decision,
                },
            };
        }
        match packets.later(key, piece, now) {
            Fate::Follow(()) => Decision::Pass,
            Fate::Drop(refusal) => self.refused(key, refusal),
            Fate::Wait { entry, is_new } => {
                if is_new {
                    free(entry, held);
                }
                let of = Of { entry, share: packets.share(entry), kind, start: piece.start };
                if held.has_room(&of, most) { Decision::Wait(of) } else { Decision::Full }
            }
        }
    }

    /// A fragment that the table refuses. Without a place there, it has no order.
    fn refused(&self, key: &Key, refusal: Refusal) -> Decision {
        match refusal {
            // Of what cannot be noted, nobody could see whether others overlap it.
            Refusal::Overlap | Refusal::Scattered => Decision::Overlap,
            Refusal::BadRange if self.packets.poisoned(key).is_some() => Decision::Overlap,
            Refusal::BadRange => Decision::Pass,
            Refusal::SourceLimit => Decision::Full,
        }
    }

    /// Frees what waits of a packet of which nothing passes any more; returns how many fragments these were.
    fn forget(&mut self, key: &Key) -> u64 {
        let Some(entry) = self.packets.poisoned(key) else { return 0 };
        std::iter::from_fn(|| self.held.pop(entry)).count() as u64
    }

    /// Releases fragments that have waited for too long.
    fn expire(&mut self, now: u64, mut release: impl FnMut(T)) {
        let Self { packets, held } = self;
        let capacity = packets.capacity();
        let some = if held.is_empty() { capacity / 8 } else { capacity };
        packets.sweep(now, some, |entry| {
            while let Some(item) = held.pop(entry) {
                release(item);
            }
        });
    }
}
