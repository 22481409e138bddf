//! Software spreading: a worker that owns the only receive queue of a port shares its packets
//! out among all workers, flow by flow, before any work is done on them.
//!
//! One bounded ring for each pair of workers keeps the order of a flow. What does not fit is
//! shed here, where it has cost nothing yet.

use crate::VECTOR;
use crate::drops::{self, Reason};
use crate::graph::{Graph, Walk};
use crate::sight::trace::Event;
use crate::vector::Vector;
use crate::worker::Inject;

/// The flow of a received frame: the same number for both directions; `None`: it belongs to
/// none, and stays where it was received.
pub type FlowOf = fn(&[u8]) -> Option<u32>;

/// A worker's rings to and from its colleagues.
pub(crate) struct Spread {
    /// By worker; the own place is empty.
    pub(crate) to: Vec<Option<rtrb::Producer<Inject>>>,
    pub(crate) from: Vec<rtrb::Consumer<Inject>>,
}

impl Spread {
    /// Hands lanes to the workers of their flows; what stays is in `vector`. Returns one bit for
    /// each worker that got something.
    pub(crate) fn share_out(
        &mut self,
        vector: &mut Box<Vector>,
        (node, flow_of): (u16, FlowOf),
        graph: &mut Graph,
        walk: &mut Walk<'_>,
    ) -> u64 {
        // Without a vector to keep lanes in, all of them stay.
        let Some(mut kept) = graph.vector() else { return 0 };
        let workers = self.to.len() as u64;
        let (mut handed, mut out) = (0, 0);
        for lane in 0..vector.len() {
            let hash = flow_of(vector.bytes(lane));
            let worker =
                hash.map_or(walk.worker, |hash| ((u64::from(hash) * workers) >> 32) as usize);
            match self.to.get_mut(worker) {
                Some(Some(ring)) if !ring.is_full() => {
                    walk.sight.happened(vector, lane, Event::HandedOver { to: worker as u16 });
                    if let Some(packet) = vector.take(lane) {
                        // Room was checked, and this thread is the only producer.
                        let _ = ring.push(Inject { packet, node });
                        handed |= 1 << worker;
                        out += 1;
                    }
                }
                Some(Some(_)) => shed(vector, lane, drops::SPREAD_FULL, walk),
                _ => vector.move_lane(lane, &mut kept),
            }
        }
        vector.forget_lanes();
        std::mem::swap(vector, &mut kept);
        graph.enqueue(node, kept, walk);
        walk.counters.ledger.handed_out.add(out);
        handed
    }

    /// Puts packets that colleagues handed over before their nodes; returns how many.
    pub(crate) fn take_in(&mut self, graph: &mut Graph, walk: &mut Walk<'_>) -> usize {
        let mut packets = 0;
        for ring in &mut self.from {
            let Ok(first) = ring.peek() else { continue };
            let node = first.node;
            let Some(mut vector) = graph.vector() else { break };
            while vector.len() < VECTOR
                && let Ok(Inject { packet, .. }) = ring.pop()
            {
                // Room was checked, and there is one pool.
                let _ = vector.push(packet);
            }
            packets += vector.len();
            graph.enqueue(node, vector, walk);
        }
        walk.counters.ledger.handed_in.add(packets as u64);
        packets
    }

    /// Whether a colleague has handed something over.
    pub(crate) fn has_work(&self) -> bool {
        self.from.iter().any(|ring| !ring.is_empty())
    }
}

fn shed(vector: &mut Vector, lane: usize, reason: Reason, walk: &mut Walk<'_>) {
    walk.counters.drops[reason.0 as usize].add(1);
    if let Some(interface) = walk.counters.interfaces.get(vector.rx_if[lane] as usize) {
        interface.rx_drops.add(1);
    }
    walk.sight.dropped(vector, lane, reason);
    if let Some(id) = vector.release_lane(lane) {
        walk.pool.give(&[id]);
    }
}
