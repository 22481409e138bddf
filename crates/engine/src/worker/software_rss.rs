//! Software RSS: a worker that owns the only receive queue of a port distributes its packets
//! over all workers, by flow, before any other work.
//!
//! One bounded ring for each pair of workers keeps the order of a flow. Packets that do not fit
//! are dropped here, before they cost anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::VECTOR;
use crate::drops::{self, Reason};
use crate::graph::{Graph, Walk};
use crate::vector::Vector;
use crate::worker::Inject;
use crate::worker::hand_off::{self, Recipient};

/// The flow of a received frame by a seed: the same number for both directions; `None`: it belongs
/// to none, and stays where it was received.
pub type FlowOf = fn(&[u8], u32) -> Option<u32>;

/// The flows of a queue's frames, and their seed, which may change at any time.
pub type SeededFlows = (FlowOf, Arc<AtomicU32>);

/// A worker's rings to and from the other workers.
pub(crate) struct SoftwareRss {
    /// By worker; the own slot is empty.
    to: Vec<Option<rtrb::Producer<Inject>>>,
    from: Vec<rtrb::Consumer<Inject>>,
    /// Where the lanes of each worker begin in `order`, and after the last where they end.
    begin: Vec<u16>,
    /// Lanes by worker, each worker's in the order of their arrival.
    order: [u8; VECTOR],
}

impl SoftwareRss {
    pub(crate) fn new(
        to: Vec<Option<rtrb::Producer<Inject>>>,
        from: Vec<rtrb::Consumer<Inject>>,
    ) -> Self {
        let begin = vec![0; to.len() + 1];
        Self { to, from, begin, order: [0; VECTOR] }
    }

    /// Hands lanes to the workers of their flows; what stays is in `vector`. Returns one bit for
    /// each worker that got something.
    pub(crate) fn share_out(
        &mut self,
        vector: &mut Box<Vector>,
        (node, flows): (u16, &SeededFlows),
        graph: &mut Graph,
        walk: &mut Walk<'_>,
    ) -> u64 {
        if walk.worker >= self.to.len() {
            return 0;
        }
        // Without a vector to keep lanes in, all of them stay.
        let Some(mut kept) = graph.vector() else { return 0 };
        self.sort(vector, flows, walk.worker);
        let mut handed = 0;
        for (worker, ring) in self.to.iter_mut().enumerate() {
            let (begin, end) =
                (usize::from(self.begin[worker]), usize::from(self.begin[worker + 1]));
            let lanes = self.order[begin..end].iter().map(|lane| usize::from(*lane));
            let Some(ring) = ring else {
                lanes.for_each(|lane| vector.move_lane(lane, &mut kept));
                continue;
            };
            let to = Recipient { worker, node };
            let tools = (&mut *walk.trace_capture, walk.counters);
            let space = hand_off::give(ring, to, vector, (lanes.clone(), lanes.len()), tools);
            for lane in lanes.skip(space) {
                shed(vector, lane, drops::SOFTWARE_RSS_FULL, walk);
            }
            handed |= u64::from(space > 0) << worker;
        }
        vector.forget_lanes();
        std::mem::swap(vector, &mut kept);
        graph.enqueue(node, kept, walk);
        handed
    }

    /// Groups the lanes by worker; lanes without a flow stay with `own`.
    fn sort(&mut self, vector: &Vector, (flow_of, seed): &SeededFlows, own: usize) {
        let (workers, seed) = (self.to.len(), seed.load(Ordering::Relaxed));
        let mut owner = [0_u8; VECTOR];
        self.begin.fill(0);
        for (lane, owner) in owner[..vector.len()].iter_mut().enumerate() {
            let of_hash = |hash: u32| ((u64::from(hash) * workers as u64) >> 32) as usize;
            let worker = flow_of(vector.bytes(lane), seed).map_or(own, of_hash);
            *owner = worker as u8;
            self.begin[worker] += 1;
        }
        // From counts to ends; filling from the back turns ends into beginnings.
        let mut end = 0;
        for begin in &mut self.begin {
            end += *begin;
            *begin = end;
        }
        for lane in (0..vector.len()).rev() {
            let begin = &mut self.begin[usize::from(owner[lane])];
            *begin -= 1;
            self.order[usize::from(*begin)] = lane as u8;
        }
    }

    /// Enqueues packets that other workers handed over; returns the number of packets.
    pub(crate) fn take_in(&mut self, graph: &mut Graph, walk: &mut Walk<'_>) -> usize {
        hand_off::take_in(&mut self.from, graph, walk)
    }

    /// Packets handed over by other workers that still wait.
    pub(crate) fn waiting(&self) -> usize {
        self.from.iter().map(rtrb::Consumer::slots).sum()
    }

    /// Whether another worker has handed packets over.
    pub(crate) fn has_work(&self) -> bool {
        self.from.iter().any(|ring| !ring.is_empty())
    }
}

fn shed(vector: &mut Vector, lane: usize, reason: Reason, walk: &mut Walk<'_>) {
    walk.counters.drops[reason.0 as usize].add(1);
    if let Some(interface) = walk.counters.interfaces.get(vector.rx_if[lane] as usize) {
        interface.rx_drops.add(1);
    }
    walk.trace_capture.dropped(vector, lane, reason);
    if let Some(id) = vector.release_lane(lane) {
        walk.pool.give(&[id]);
    }
}
