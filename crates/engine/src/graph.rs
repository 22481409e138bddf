//! The graph of one worker: nodes, the vectors that wait before each, and the
//! dispatch that moves every lane to exactly one place.
//!
//! Nodes run in list order (lowest first), so a list in the order of a packet's
//! path gathers the fullest vectors; `port-output` is the last.

mod deadlines;
mod emitted;
mod relocate;

use std::any::Any;

use crate::clock;
use crate::counters::{NodeCounters, OutOfMemory, WorkerCounters};
use crate::drops::{self, Reason};
pub use crate::graph_spec::GraphError;
use crate::graph_spec::GraphSpec;
use crate::node::{Context, EMIT, Next, Node, Punts};
use crate::output::Output;
use crate::packet::Packet;
use crate::pool::{Pool, PoolCache};
use crate::processing::Processing;
use crate::quiescence::Reader;
use crate::trace_capture::TraceCapture;
use crate::trace_capture::trace::Event;
use crate::vector::{DROP, HANDED, Lanes, TAKEN, Vector};
pub(crate) use deadlines::Deadlines;
pub(crate) use relocate::relocate;

/// The name of the last node: the engine's own, which transmits.
pub const OUTPUT: &str = "port-output";

/// Vectors that may wait before one node.
const QUEUE: usize = 8;

struct Slot {
    node: Box<dyn Node>,
    edges: Box<[u16]>,
    queue: Vec<Box<Vector>>,
}

/// What a walk needs besides the graph.
pub struct Walk<'a> {
    /// The worker that walks.
    pub worker: usize,
    /// Its counters.
    pub counters: &'a WorkerCounters,
    /// Its free buffers.
    pub pool: &'a mut PoolCache,
    /// Its rings to the main thread.
    pub punts: &'a mut Punts,
    /// Access to published values.
    pub reader: &'a Reader,
    /// What is traced and captured.
    pub trace_capture: &'a mut TraceCapture,
}

impl Walk<'_> {
    /// What node `at` may use at that time.
    fn context<'a>(
        &'a mut self,
        (at, now): (usize, u64),
        (emitted, output, deadlines, local): Lent<'a>,
    ) -> Context<'a> {
        Context {
            worker: self.worker,
            now,
            reader: self.reader,
            counters: self.counters,
            pool: self.pool,
            emitted,
            punts: self.punts,
            trace_capture: self.trace_capture,
            node: at as u16,
            handoff: &mut output.handoff,
            handed: &mut output.handed,
            deadlines,
            local,
        }
    }
}

/// What a graph lends to a node that it runs.
type Lent<'a> = (
    &'a mut Vec<(u16, Packet)>,
    &'a mut Output,
    &'a mut Deadlines,
    &'a mut (dyn Any + Send + 'static),
);

/// The nodes of one worker.
pub struct Graph {
    slots: Vec<Slot>,
    outgoing: Vec<Box<Vector>>,
    pending: u128,
    spare: Vec<Box<Vector>>,
    emitted: Vec<(u16, Packet)>,
    deadlines: Deadlines,
    is_started: bool,
    pool: &'static Pool,
    /// What the nodes share.
    local: Box<dyn Any + Send>,
    /// Where `port-output` sends.
    pub output: Output,
}

impl Graph {
    /// Builds the instances of worker `worker`.
    pub fn new<S>(
        spec: &GraphSpec<S>,
        shared: &S,
        worker: usize,
        pool: &'static Pool,
    ) -> Result<Self, OutOfMemory> {
        let nodes = spec.nodes();
        let slots = nodes.iter().map(|node| Slot {
            node: node.make(shared, worker),
            // Names were checked when the graph was declared.
            edges: node.edges().iter().filter_map(|edge| spec.index_of(edge)).collect(),
            queue: Vec::with_capacity(QUEUE),
        });
        Ok(Self {
            slots: slots.collect(),
            outgoing: Vec::with_capacity(QUEUE),
            pending: 0,
            spare: (0..nodes.len() + 16).map(|_| Vector::new(pool)).collect(),
            is_started: false,
            emitted: Vec::with_capacity(EMIT),
            deadlines: Deadlines::new(nodes.len()),
            pool,
            local: spec.make_local(shared, worker),
            output: Output::new(pool, nodes.len() as u16)?,
        })
    }

    /// Nodes, `port-output` included.
    pub fn len(&self) -> usize {
        self.slots.len() + 1
    }

    /// Whether there is no node but `port-output`.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// An empty vector to receive into.
    pub fn vector(&mut self) -> Option<Box<Vector>> {
        self.spare.pop()
    }

    /// Puts a vector before a node, to be processed by the next [`Self::walk`].
    pub fn enqueue(&mut self, node: u16, vector: Box<Vector>, walk: &mut Walk<'_>) {
        let mut vector = vector;
        assert!(std::ptr::eq(self.pool, vector.pool()), "a vector of another pool");
        if vector.is_empty() {
            return self.spare.push(vector);
        }
        let queue = match self.slots.get_mut(node as usize) {
            Some(slot) => &mut slot.queue,
            None => &mut self.outgoing,
        };
        if let Some(last) = queue.last_mut()
            && last.room() >= vector.len()
        {
            vector.move_all(last);
            return self.spare.push(vector);
        }
        if queue.len() < QUEUE {
            queue.push(vector);
            self.pending |= 1 << node;
        } else {
            drop_all(&mut vector, drops::GRAPH_FULL, walk);
            self.spare.push(vector);
        }
    }

    /// Puts one packet before a node.
    pub fn enqueue_packet(&mut self, node: u16, packet: Packet, walk: &mut Walk<'_>) {
        let Some(mut vector) = self.spare.pop() else {
            return drop_packet(packet, drops::GRAPH_FULL, walk);
        };
        // The vector is empty: only a packet of another NUMA node does not go in as it is.
        if let Err(packet) = vector.push(packet)
            && let Some(packet) = relocate(packet, walk)
            && let Err(packet) = vector.push(packet)
        {
            drop_packet(packet, drops::GRAPH_FULL, walk);
        }
        self.enqueue(node, vector, walk);
    }

    /// Runs nodes until nothing is pending.
    pub fn walk(&mut self, walk: &mut Walk<'_>) {
        let mut start = clock::tsc();
        let began = start;
        while self.pending != 0 {
            let at = self.pending.trailing_zeros() as usize;
            if at == self.slots.len() {
                self.transmit(walk, &mut start);
                continue;
            }
            let slot = &mut self.slots[at];
            if slot.queue.is_empty() {
                self.pending &= !(1 << at);
                continue;
            }
            // The oldest first: packets of a flow keep their order.
            let mut vector = slot.queue.remove(0);
            if slot.queue.is_empty() {
                self.pending &= !(1 << at);
            }
            let packets = vector.len() as u64;
            let lent = (&mut self.emitted, &mut self.output, &mut self.deadlines, &mut *self.local);
            let mut cx = walk.context((at, began), lent);
            let next = {
                let _processing = Processing::begin();
                slot.node.process(&mut cx, &mut vector)
            };
            self.dispatch(at, vector, next, walk);
            count(&walk.counters.nodes[at], packets, &mut start);
        }
        walk.trace_capture.walked();
    }

    /// Starts all nodes, once, on the thread that runs them.
    #[inline]
    pub fn start(&mut self) {
        if !std::mem::replace(&mut self.is_started, true) {
            self.slots.iter_mut().for_each(|slot| slot.node.start());
        }
    }

    /// Ticks all nodes; what they send waits for the next [`Self::walk`].
    pub fn tick(&mut self, walk: &mut Walk<'_>) {
        let now = clock::tsc();
        for at in 0..self.slots.len() {
            let lent = (&mut self.emitted, &mut self.output, &mut self.deadlines, &mut *self.local);
            let mut cx = walk.context((at, now), lent);
            self.slots[at].node.tick(&mut cx);
            self.send_emitted(at, walk);
        }
    }

    fn transmit(&mut self, walk: &mut Walk<'_>, start: &mut u64) {
        let node = &walk.counters.nodes[self.slots.len()];
        for mut vector in self.outgoing.drain(..) {
            let packets = vector.len() as u64;
            self.output.send(&mut vector, walk);
            self.spare.push(vector);
            count(node, packets, start);
        }
        self.pending &= !(1 << self.slots.len());
    }

    fn dispatch(&mut self, from: usize, vector: Box<Vector>, next: Next, walk: &mut Walk<'_>) {
        let all = if let Next::All(edge) = next { Some(edge) } else { None };
        walk.trace_capture.dispatched(from, &vector, all);
        match next {
            Next::All(edge) => self.move_whole(from, vector, edge, walk),
            Next::Lanes => {
                let lanes = &vector.next[..vector.len()];
                let first = lanes.first().copied().unwrap_or(0);
                // One branch-free pass: most vectors go to one place.
                if lanes.iter().fold(0, |odd, next| odd | (next ^ first)) == 0 {
                    self.move_whole(from, vector, first, walk);
                } else {
                    self.split(from, vector, walk);
                }
            }
        }
        self.send_emitted(from, walk);
    }

    fn move_whole(&mut self, from: usize, vector: Box<Vector>, next: u16, walk: &mut Walk<'_>) {
        let mut vector = vector;
        if let Some(node) = self.slots[from].edges.get(next as usize) {
            return self.enqueue(*node, vector, walk);
        }
        if next == TAKEN {
            walk.counters.ledger.consumed.add(vector.len() as u64);
            walk.pool.free_from(&mut vector, 0);
        } else if next == HANDED {
            // Counted when they were handed over; no lane is left.
            walk.pool.free_from(&mut vector, 0);
        } else {
            drop_all(&mut vector, Reason(next & !DROP), walk);
        }
        self.spare.push(vector);
    }

    /// Sends lanes to several places.
    fn split(&mut self, from: usize, vector: Box<Vector>, walk: &mut Walk<'_>) {
        let mut vector = vector;
        assert!(std::ptr::eq(self.pool, vector.pool()), "a vector of another pool");
        let mut left = Lanes::first_of(vector.len());
        while let Some(lane) = left.lowest() {
            let next = vector.next[lane];
            let lanes = left.take_equal(&vector.next, next);
            match self.slots[from].edges.get(next as usize) {
                Some(node) => self.move_lanes(*node, &mut vector, lanes, walk),
                None if next == TAKEN => walk.counters.ledger.consumed.add(lanes.count() as u64),
                None if next == HANDED => {}
                None => lanes
                    .iter()
                    .for_each(|lane| drop_lane(&mut vector, lane, Reason(next & !DROP), walk)),
            }
        }
        vector.forget_lanes();
        self.spare.push(vector);
    }

    /// Puts lanes before a node, so many together as the last vector there has space for: each
    /// is filled before the next begins.
    fn move_lanes(&mut self, node: u16, from: &mut Vector, lanes: Lanes, walk: &mut Walk<'_>) {
        let queue = match self.slots.get_mut(node as usize) {
            Some(slot) => &mut slot.queue,
            None => &mut self.outgoing,
        };
        let mut left = lanes;
        while left.lowest().is_some() {
            if queue.last().is_none_or(|last| last.room() == 0) {
                let fresh = if queue.len() < QUEUE { self.spare.pop() } else { None };
                let Some(fresh) = fresh else { break };
                queue.push(fresh);
            }
            let Some(last) = queue.last_mut() else { break };
            from.move_lanes(&left.take_first(last.room()), last);
            self.pending |= 1 << node;
        }
        left.iter().for_each(|lane| drop_lane(from, lane, drops::GRAPH_FULL, walk));
    }
}

fn count(node: &NodeCounters, packets: u64, start: &mut u64) {
    let end = clock::tsc();
    node.calls.add(1);
    node.packets.add(packets);
    // A worker that moved to another core may see an older counter there.
    node.cycles.add(end.saturating_sub(*start));
    *start = end;
}

/// The counter of a reason; an unknown reason counts as the graph's own fault.
fn reason_counter<'a>(reason: Reason, walk: &'a Walk<'_>) -> &'a crate::counters::Counter {
    let drops = &walk.counters.drops;
    drops.get(reason.0 as usize).unwrap_or(&drops[drops::GRAPH_FULL.0 as usize])
}

fn drop_all(vector: &mut Vector, reason: Reason, walk: &mut Walk<'_>) {
    reason_counter(reason, walk).add(vector.len() as u64);
    for lane in 0..vector.len() {
        blame(vector, lane, walk);
        walk.trace_capture.dropped(vector, lane, reason);
    }
    walk.pool.free_from(vector, 0);
}

fn drop_lane(vector: &mut Vector, lane: usize, reason: Reason, walk: &mut Walk<'_>) {
    reason_counter(reason, walk).add(1);
    blame(vector, lane, walk);
    walk.trace_capture.dropped(vector, lane, reason);
    if let Some(id) = vector.release_lane(lane) {
        walk.pool.give(&[id]);
    }
}

/// Drops a packet outside of a vector: counted by its reason and at the interface that received it, and the
/// last step of its trace.
#[cold]
#[inline(never)]
pub(crate) fn drop_packet(packet: Packet, reason: Reason, walk: &mut Walk<'_>) {
    reason_counter(reason, walk).add(1);
    walk.counters.blame(packet.flags, packet.rx_if);
    walk.trace_capture.happened_to(&packet, Event::Dropped { reason: reason.0 });
}

/// Counts a drop at the interface that received the packet.
fn blame(vector: &Vector, lane: usize, walk: &Walk<'_>) {
    walk.counters.blame(vector.flags[lane], vector.rx_if[lane]);
}
