//! A worker without a free vector leaves packets of other workers in the ring, and stays awake for them. What
//! finds no vector later is lost: counted, also at its interface, and the end of its trace.

use std::sync::atomic::AtomicU32;

use super::*;
use crate::counters::Counter;
use crate::drops::{ENGINE, GRAPH_FULL, TX_NO_PORT};
use crate::packet::Packet;
use crate::pool::{HugePages, Pool};
use crate::trace_capture::Selection;
use crate::trace_capture::trace::{Record, Tracer};
use crate::vector::{LaneSet, Vector, flags};
use crate::worker::{Plan, WorkerPool};
use crate::{Context, GraphSpec, Next, Node, NodeSpec};

/// Hands all packets of worker 0 to worker 1.
struct Give;

impl Node for Give {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        if cx.worker == 1 {
            return Next::All(0);
        }
        cx.hand_over(vector, &LaneSet::first_of(vector.len()), 1);
        Next::Lanes
    }
}

/// The interface that the packets name as the one that received them.
const INTERFACE: u32 = 5;

/// A traced packet.
fn traced(pool: &'static Pool) -> Packet {
    let mut packet = pool.packet().unwrap();
    assert!(packet.set_bytes(b"data"));
    (packet.rx_if, packet.flags) = (INTERFACE, flags::TRACED);
    packet
}

/// Makes two packets for each vector: one for each edge.
struct Make(&'static Pool);

impl Node for Make {
    fn process(&mut self, cx: &mut Context<'_>, _: &mut Vector) -> Next {
        for edge in [0, 1] {
            assert!(cx.emit(edge, traced(self.0)).is_ok());
        }
        Next::All(0)
    }
}

static NODES: &[NodeSpec<&'static Pool>] = &[
    NodeSpec {
        name: "give",
        description: "",
        edges: &["port-output"],
        make: |_, _| Box::new(Give),
    },
    NodeSpec {
        name: "make",
        description: "",
        edges: &["port-output", "give"],
        make: |pool, _| Box::new(Make(pool)),
    },
];

fn workers(pool: &'static Pool) -> WorkerPool {
    let spec = GraphSpec::new(NODES, &[]).unwrap();
    let plan = Plan { count: 2, is_stepped: true, ..Plan::default() };
    let (quiescence, counted) = (Quiescence::new(2), (1, ENGINE.len()));
    WorkerPool::start(&plan, &spec, &pool, |_| pool, quiescence, counted).unwrap()
}

fn tracer() -> (Box<Tracer>, rtrb::Consumer<Record>) {
    let (ring, records) = rtrb::RingBuffer::new(64);
    let (selection, left) = (Arc::new(Selection::new(None)), Arc::new(AtomicU32::new(0)));
    (Box::new(Tracer::new(0, selection, left, ring, Arc::new(Counter::default()))), records)
}

/// Packets of interface [`INTERFACE`] that were lost for want of a vector, by all three counts.
fn lost(worker: &Worker, mut records: rtrb::Consumer<Record>) -> [u64; 3] {
    let reason = GRAPH_FULL.0;
    let is_end = |record: &Record| record.event == Event::Dropped { reason };
    let ends = std::iter::from_fn(|| records.pop().ok()).filter(is_end).count();
    let counters = &worker.counters;
    let at_interface = counters.interfaces[INTERFACE as usize].rx_drops.get();
    [counters.drops[usize::from(reason)].get(), at_interface, ends as u64]
}

#[test]
fn packets_that_wait_for_a_vector_keep_their_worker_awake() {
    let pool = Pool::leak(512, HugePages::Never).unwrap();
    let mut workers = workers(pool);
    let mut packet = pool.packet().unwrap();
    assert!(packet.set_bytes(b"data"));
    assert!(workers.workers[0].inject(Inject { packet, node: 0 }).is_ok());
    workers.workers[0].step();
    let worker = workers.workers[1].is_stepped.as_mut().unwrap();
    let held: Vec<_> = std::iter::from_fn(|| worker.graph.vector()).collect();
    assert_eq!(worker.step(), 0, "it waits");
    assert_eq!((worker.sleep(), worker.counters.main_loop.sleeps.get()), (0, 0));
    worker.walk_after(|graph, walk| {
        held.into_iter().for_each(|vector| graph.enqueue(0, vector, walk));
        0
    });
    assert_eq!(worker.step(), 1);
    assert_eq!(worker.counters.ledger.handed_in.get(), 1);
    assert_eq!(worker.counters.drops[usize::from(TX_NO_PORT.0)].get(), 1);
}

/// Packets for two nodes need two vectors, and there is one.
#[test]
fn a_packet_that_is_lost_between_workers_is_counted_and_traced() {
    let pool = Pool::leak(512, HugePages::Never).unwrap();
    let mut workers = workers(pool);
    let worker = workers.workers[1].is_stepped.as_mut().unwrap();
    let (tracer, records) = tracer();
    worker.trace_capture.set_tracer(Some(tracer));
    let (mut ring, handed) = rtrb::RingBuffer::new(8);
    worker.handed = vec![handed];
    assert!(ring.push(Inject { packet: pool.packet().unwrap(), node: 0 }).is_ok());
    for _ in 0..2 {
        assert!(ring.push(Inject { packet: traced(pool), node: 1 }).is_ok());
    }
    let mut held: Vec<_> = std::iter::from_fn(|| worker.graph.vector()).collect();
    worker.walk_after(|graph, walk| {
        graph.enqueue(0, held.pop().unwrap(), walk);
        0
    });
    worker.step();
    assert_eq!(lost(worker, records), [2; 3]);
    assert_eq!(worker.counters.ledger.handed_in.get(), 3);
}

/// A packet that a node makes for a second edge needs a second vector, and there is none.
#[test]
fn a_packet_that_is_lost_after_its_node_is_counted_and_traced() {
    let pool = Pool::leak(512, HugePages::Never).unwrap();
    let mut workers = workers(pool);
    let worker = workers.workers[1].is_stepped.as_mut().unwrap();
    let (tracer, records) = tracer();
    worker.trace_capture.set_tracer(Some(tracer));
    let mut held: Vec<_> = std::iter::from_fn(|| worker.graph.vector()).collect();
    let mut vector = held.pop().unwrap();
    assert!(vector.push(pool.packet().unwrap()).is_ok());
    worker.walk_after(|graph, walk| {
        graph.enqueue(1, vector, walk);
        0
    });
    assert_eq!(lost(worker, records), [2; 3]);
}
