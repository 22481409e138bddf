//! Software RSS: a worker that owns the only receive queue of a port distributes its packets
//! over all workers, by flow, before any other work.
//!
//! One bounded ring for each pair of workers keeps the order of a flow. Packets that do not fit
//! are dropped here, before they cost anything.

use crate::VECTOR;
use crate::drops::{self, Reason};
use crate::graph::{Graph, Walk};
use crate::trace_capture::trace::Event;
use crate::vector::Vector;
use crate::worker::Inject;

/// The flow of a received frame: the same number for both directions; `None`: it belongs to
/// none, and stays where it was received.
pub type FlowOf = fn(&[u8]) -> Option<u32>;

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
        (node, flow_of): (u16, FlowOf),
        graph: &mut Graph,
        walk: &mut Walk<'_>,
    ) -> u64 {
        if walk.worker >= self.to.len() {
            return 0;
        }
        // Without a vector to keep lanes in, all of them stay.
        let Some(mut kept) = graph.vector() else { return 0 };
        self.sort(vector, flow_of, walk.worker);
        let (mut handed, mut out) = (0, 0);
        for (worker, ring) in self.to.iter_mut().enumerate() {
            let (begin, end) =
                (usize::from(self.begin[worker]), usize::from(self.begin[worker + 1]));
            let lanes = self.order[begin..end].iter().map(|lane| usize::from(*lane));
            let Some(ring) = ring else {
                lanes.for_each(|lane| vector.move_lane(lane, &mut kept));
                continue;
            };
            let space = ring.slots().min(lanes.len());
            for lane in lanes.clone().skip(space) {
                shed(vector, lane, drops::SOFTWARE_RSS_FULL, walk);
            }
            let event = Event::HandedOver { to: worker as u16 };
            lanes
                .clone()
                .take(space)
                .for_each(|lane| walk.trace_capture.happened(vector, lane, event));
            let packets = lanes.take(space).filter_map(|lane| vector.take(lane));
            // One store publishes all of them: the cache line that the two workers share moves
            // once per burst.
            if space > 0
                && let Ok(places) = ring.write_chunk_uninit(space)
            {
                out += places.fill_from_iter(packets.map(|packet| Inject { packet, node }));
                handed |= 1 << worker;
            }
        }
        vector.forget_lanes();
        std::mem::swap(vector, &mut kept);
        graph.enqueue(node, kept, walk);
        walk.counters.ledger.handed_out.add(out as u64);
        handed
    }

    /// Groups the lanes by worker; lanes without a flow stay with `own`.
    fn sort(&mut self, vector: &Vector, flow_of: FlowOf, own: usize) {
        let workers = self.to.len();
        let mut owner = [0_u8; VECTOR];
        self.begin.fill(0);
        for (lane, owner) in owner[..vector.len()].iter_mut().enumerate() {
            let of_hash = |hash: u32| ((u64::from(hash) * workers as u64) >> 32) as usize;
            let worker = flow_of(vector.bytes(lane)).map_or(own, of_hash);
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

    /// Enqueues packets that other workers handed over, and walks between full vectors;
    /// returns the number of packets.
    pub(crate) fn take_in(&mut self, graph: &mut Graph, walk: &mut Walk<'_>) -> usize {
        let (mut packets, mut pending) = (0, 0);
        for ring in &mut self.from {
            let Ok(first) = ring.peek() else { continue };
            let node = first.node;
            let Some(mut vector) = graph.vector() else { break };
            let waiting = ring.slots().min(VECTOR);
            for Inject { packet, .. } in ring.read_chunk(waiting).into_iter().flatten() {
                // Space was checked, and there is one pool.
                let _ = vector.push(packet);
                // Another core has touched it last.
                vector.prefetch(vector.len() - 1);
            }
            let taken = vector.len();
            (packets, pending) = (packets + taken, pending + taken);
            walk.counters.ledger.handed_in.add(taken as u64);
            walk.trace_capture.entered_all(&vector);
            graph.enqueue(node, vector, walk);
            // Several workers can hand over more than fits before a node.
            if pending > VECTOR / 2 {
                graph.walk(walk);
                pending = 0;
            }
        }
        packets
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
