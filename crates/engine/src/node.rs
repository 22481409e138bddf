//! A node: one processing step, on a whole vector.

use std::any::Any;

use crate::counters::WorkerCounters;
use crate::drops::Reason;
use crate::graph::Deadlines;
use crate::packet::Packet;
use crate::pool::{JUMBO, PoolCache, SLOT};
use crate::quiescence::Reader;
use crate::trace_capture::TraceCapture;
use crate::trace_capture::trace::Event;
use crate::vector::{LaneSet, Vector, flags};
use crate::worker::Inject;
use crate::worker::hand_off::{self, Recipient};

/// Where the lanes go after [`Node::process`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// All lanes take this edge (or, with [`crate::vector::DROP`], this drop reason).
    All(u16),
    /// Each lane goes where its `next` column points.
    Lanes,
}

/// One processing step. `process` and `poll` never allocate, lock, log, call the
/// system, or panic, whatever a packet holds.
pub trait Node: Send {
    /// Called once on the thread of the worker, before anything else: takes memory of the thread.
    fn start(&mut self) {}

    /// Processes the vector: changes packets and columns, and returns where they go.
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next;

    /// Called about ten times a second, whether packets come or not, so that a node
    /// can expire its state. Packets go on by [`Context::emit`].
    fn tick(&mut self, _cx: &mut Context<'_>) {}

    /// Called once a deadline has passed, whether packets come or not: the one that the
    /// node last returned here, or one for which it asked by [`Context::wake_at`]. Returns
    /// the next, as a time stamp counter; `None`: none until the node asks. Packets go on
    /// by [`Context::emit`]. A node that has more to do than a call should take returns
    /// `cx.now`: it is polled again in the next iteration of the main loop.
    fn poll(&mut self, _cx: &mut Context<'_>) -> Option<u64> {
        None
    }
}

/// A node in the list of nodes.
pub struct NodeSpec<S> {
    /// Name, layer first, with dashes.
    pub name: &'static str,
    /// What it does, for `stoa show nodes` and the graph picture.
    pub description: &'static str,
    /// The nodes that it sends to, by name; an edge is an index into this list.
    pub edges: &'static [&'static str],
    /// Makes the instance of one worker.
    pub make: fn(shared: &S, worker: usize) -> Box<dyn Node>,
}

// Derived, they would demand the same of `S`.
impl<S> Copy for NodeSpec<S> {}

impl<S> Clone for NodeSpec<S> {
    fn clone(&self) -> Self {
        *self
    }
}

/// A packet for the control thread.
pub struct Punt {
    /// The packet.
    pub packet: Packet,
    /// Why it is punted: the forwarder's own code.
    pub cause: u16,
}

/// The rings from one worker to the control thread: urgent packets do not wait behind
/// others, and neither takes the other's space.
pub struct Punts {
    pub(crate) urgent: rtrb::Producer<Punt>,
    pub(crate) usual: rtrb::Producer<Punt>,
}

impl Punts {
    /// Whether something waits for the control thread.
    pub(crate) fn has_some(&self) -> bool {
        let holds = |ring: &rtrb::Producer<Punt>| ring.slots() < ring.buffer().capacity();
        holds(&self.urgent) || holds(&self.usual)
    }
}

/// Which of a worker's rings to the control thread a punted packet takes, and how far it may fill it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Hellos whose loss takes a session down: served first.
    Hello,
    /// Other control protocols: in the same ring, of which they leave half to hellos.
    Urgent,
    /// Everything else.
    Usual,
}

impl Urgency {
    /// Whether it is served before usual packets.
    pub fn is_first(self) -> bool {
        self != Self::Usual
    }

    /// One in so many places of its ring may be taken when a packet comes.
    fn share(self) -> usize {
        if self == Self::Urgent { 2 } else { 1 }
    }
}

/// The same for packets in jumbo buffers, and by worker: all rings together hold a fraction of these buffers,
/// also while the control thread is busy.
const JUMBO_SHARE: usize = 8;
/// Jumbo packets that a ring takes in any case.
const JUMBO_LEAST: usize = 4;

/// The most packets that nodes emit in one call.
pub(crate) const EMIT: usize = 1024;

/// What a node may use while it processes.
pub struct Context<'a> {
    /// The worker that runs the node.
    pub worker: usize,
    /// The time stamp counter at the beginning of this walk, or poll.
    pub now: u64,
    /// Access to published values, for this call.
    pub reader: &'a Reader,
    /// The worker's counters.
    pub counters: &'a WorkerCounters,
    pub(crate) pool: &'a mut PoolCache,
    pub(crate) emitted: &'a mut Vec<(u16, Packet)>,
    pub(crate) punts: &'a mut Punts,
    /// The node's index in the graph.
    pub(crate) node: u16,
    /// Rings to the other workers, by worker; the own slot is empty.
    pub(crate) handoff: &'a mut [Option<rtrb::Producer<Inject>>],
    /// Workers that got packets in this walk.
    pub(crate) handed: &'a mut u64,
    pub(crate) trace_capture: &'a mut TraceCapture,
    pub(crate) deadlines: &'a mut Deadlines,
    /// What the nodes of the worker share.
    pub(crate) local: &'a mut (dyn Any + Send + 'static),
}

impl Context<'_> {
    /// A fresh packet of our own, or `None` when buffers ran out (counted).
    pub fn packet(&mut self) -> Option<Packet> {
        let mut packet = self.pool.packet()?;
        packet.set_own();
        Some(packet)
    }

    /// The same in a buffer for jumbo frames, or `None` when all of them are in use (counted).
    pub fn jumbo_packet(&mut self) -> Option<Packet> {
        let mut packet = self.pool.jumbo_packet()?;
        packet.set_own();
        Some(packet)
    }

    /// Moves a lane to a jumbo buffer, at the same offset, so that there is space behind its data; `false` and no
    /// change when all of them are in use (counted). A lane that has one keeps it.
    pub fn enlarge(&mut self, vector: &mut Vector, lane: usize) -> bool {
        let from = vector.pool().global_id(vector.buffers()[lane]);
        let is_larger = vector.capacity(lane) < JUMBO;
        let done = self.pool.enlarge(vector, lane);
        if done && is_larger && vector.flags[lane] & flags::TRACED != 0 {
            self.trace_capture.happened(vector, lane, Event::Moved { from });
        }
        done
    }

    /// The value that the nodes of this worker share, as [`crate::GraphSpec::with_local`] made it; `None`: it is of
    /// another type. No other thread has access, so that nodes need no lock.
    #[inline(always)]
    pub fn local<T: 'static>(&mut self) -> Option<&mut T> {
        self.local.downcast_mut()
    }

    /// Asks for a [`Node::poll`] once the time stamp counter has reached `tsc`. An earlier
    /// time for which the node has asked stays.
    #[inline]
    pub fn wake_at(&mut self, tsc: u64) {
        self.deadlines.ask(self.node, tsc);
    }

    /// How many packets [`Self::emit`] still takes in this call.
    pub fn emit_room(&self) -> usize {
        EMIT - self.emitted.len()
    }

    /// Workers in all.
    pub fn workers(&self) -> usize {
        self.handoff.len().max(1)
    }

    /// Hands lanes, some or all of a vector, in order to the same node of another worker, for what
    /// only one worker may keep. Afterwards they are taken; those that find no space on the way are
    /// dropped as [`crate::drops::HANDOFF_FULL`].
    pub fn hand_over(&mut self, vector: &mut Vector, lanes: &LaneSet, worker: usize) {
        let mut given = 0;
        if let Some(Some(ring)) = self.handoff.get_mut(worker) {
            let to = Recipient { worker, node: self.node };
            let tools = (&mut *self.trace_capture, self.counters);
            given = hand_off::give(ring, to, vector, (lanes.iter(), lanes.count()), tools);
            *self.handed |= u64::from(given > 0) << worker;
        }
        for lane in lanes.iter().skip(given) {
            vector.drop_lane(lane, crate::drops::HANDOFF_FULL);
        }
    }

    /// `packets` that a node had kept (their lanes were taken) are dropped after all.
    pub fn lost(&self, reason: Reason, packets: u64) {
        if let Some(counter) = self.counters.drops.get(reason.0 as usize) {
            counter.add(packets);
            self.counters.ledger.generated.add(packets);
        }
    }

    /// Records that `packet` is made from a lane: it belongs to the same session, and when the lane is
    /// traced, so is the packet.
    pub fn descend(&mut self, vector: &Vector, lane: usize, packet: &mut Packet) {
        packet.session = vector.session(lane);
        let traced = vector.flags[lane] & flags::TRACED;
        packet.flags |= traced;
        if traced != 0 {
            let from = vector.pool().global_id(vector.buffers()[lane]);
            self.trace_capture.happened_to(packet, Event::Made { from });
        }
    }

    /// Sends a packet along an edge of this node, after the vector; gives it back
    /// when too many were made in this call.
    pub fn emit(&mut self, edge: u16, packet: Packet) -> Result<(), Packet> {
        if self.emitted.len() == EMIT {
            return Err(packet);
        }
        self.emitted.push((edge, packet));
        Ok(())
    }

    /// The packet in a lane is dropped for a reason, and its buffer will carry a packet
    /// of our own: an answer. Both are counted. To be called before the answer is
    /// written, for captures of what is dropped.
    pub fn answered(&mut self, reason: Reason, vector: &mut Vector, lane: usize) {
        self.trace_capture.dropped(vector, lane, reason);
        if let Some(counter) = self.counters.drops.get(reason.0 as usize) {
            counter.add(1);
            self.counters.ledger.generated.add(1);
        }
        self.counters.blame(vector.flags[lane], vector.rx_if[lane]);
    }

    /// Hands a packet that the node made to the control thread; dropped as
    /// [`crate::drops::PUNT_FULL`] when the ring is full.
    pub fn punt_packet(&mut self, packet: Packet, cause: u16) {
        self.counters.ledger.generated.add(1);
        let fits = self.punts.usual.push(Punt { packet, cause }).is_ok();
        let drops = &self.counters.drops[crate::drops::PUNT_FULL.0 as usize];
        if fits { self.counters.ledger.consumed.add(1) } else { drops.add(1) }
    }

    /// Hands a lane to the control thread. Afterwards the lane is taken, or dropped
    /// as [`crate::drops::PUNT_FULL`] when the ring is full: `false`.
    pub fn punt(&mut self, vector: &mut Vector, lane: usize, cause: u16, urgency: Urgency) -> bool {
        let jumbo_share = JUMBO_SHARE * self.workers();
        let ring = if urgency.is_first() { &mut self.punts.urgent } else { &mut self.punts.usual };
        let capacity = ring.buffer().capacity();
        let most = match vector.capacity(lane) > SLOT {
            true => (capacity / jumbo_share).max(JUMBO_LEAST.min(capacity)),
            false => (capacity / urgency.share()).max(1),
        };
        if capacity - ring.slots() >= most {
            vector.drop_lane(lane, crate::drops::PUNT_FULL);
            self.counters.main_loop.urgent_full.add(urgency.is_first().into());
            return false;
        }
        self.trace_capture.happened(vector, lane, Event::Punted { cause });
        if let Some(packet) = vector.take(lane) {
            // Space was checked above, and this thread is the only producer.
            let _ = ring.push(Punt { packet, cause });
        }
        true
    }
}
