//! Packets on their way between workers. One bounded ring for each ordered pair of workers keeps the
//! order of a flow. Packets enter and leave a ring many at once: one store publishes all of them, so
//! that the cache line that the two workers share moves once per burst.

use crate::VECTOR;
use crate::counters::WorkerCounters;
use crate::drops;
use crate::graph::{Graph, Walk, drop_packet, relocate};
use crate::trace_capture::TraceCapture;
use crate::trace_capture::trace::Event;
use crate::vector::{HANDED, Vector};
use crate::worker::Inject;

/// Who gets packets.
#[derive(Clone, Copy)]
pub(crate) struct Recipient {
    pub(crate) worker: usize,
    /// The node that the packets go to.
    pub(crate) node: u16,
}

/// Moves `count` lanes of a vector into a ring, in order; returns how many found space: the first
/// ones. Their `next` is [`HANDED`] afterwards; a lane that was taken before stays so.
pub(crate) fn give(
    ring: &mut rtrb::Producer<Inject>,
    to: Recipient,
    vector: &mut Vector,
    (lanes, count): (impl Iterator<Item = usize>, usize),
    (trace_capture, counters): (&mut TraceCapture, &WorkerCounters),
) -> usize {
    let space = ring.slots().min(count);
    let Ok(places) = ring.write_chunk_uninit(space) else { return 0 };
    let event = Event::HandedOver { to: to.worker as u16 };
    let packets = lanes.take(space).filter_map(|lane| {
        trace_capture.happened(vector, lane, event);
        let packet = vector.take(lane)?;
        vector.next[lane] = HANDED;
        Some(Inject { packet, node: to.node })
    });
    counters.ledger.handed_out.add(places.fill_from_iter(packets) as u64);
    space
}

/// Puts packets from other workers before their nodes, those of one node together: at most a vector
/// from each ring. Walks before more wait than fits before a node. Returns the number of packets.
pub(crate) fn take_in(
    rings: &mut [rtrb::Consumer<Inject>],
    graph: &mut Graph,
    walk: &mut Walk<'_>,
) -> usize {
    let (mut packets, mut pending) = (0, 0);
    for ring in rings {
        let taken = take_in_from(ring, graph, walk);
        packets += taken;
        pending += taken;
        // Several workers can hand over more than fits before a node.
        if pending > VECTOR / 2 {
            graph.walk(walk);
            pending = 0;
        }
    }
    packets
}

fn take_in_from(
    ring: &mut rtrb::Consumer<Inject>,
    graph: &mut Graph,
    walk: &mut Walk<'_>,
) -> usize {
    let waiting = ring.slots().min(VECTOR);
    if waiting == 0 {
        return 0;
    }
    // Without a vector, they wait in the ring.
    let Some(first) = graph.vector() else { return 0 };
    let (mut vector, mut node) = (Some(first), 0);
    for Inject { packet, node: next } in ring.read_chunk(waiting).into_iter().flatten() {
        if next != node {
            enter(node, vector.take(), graph, walk);
            node = next;
        }
        if vector.is_none() {
            vector = graph.vector();
        }
        match &mut vector {
            Some(vector) => {
                // There is space: only one of another NUMA node does not go in as it is.
                if let Err(packet) = vector.push(packet)
                    && let Some(packet) = relocate(packet, walk)
                    && let Err(packet) = vector.push(packet)
                {
                    drop_packet(packet, drops::GRAPH_FULL, walk);
                }
                // Another core has touched it last.
                vector.prefetch(vector.len().wrapping_sub(1));
            }
            None => drop_packet(packet, drops::GRAPH_FULL, walk),
        }
    }
    enter(node, vector, graph, walk);
    walk.counters.ledger.handed_in.add(waiting as u64);
    waiting
}

fn enter(node: u16, vector: Option<Box<Vector>>, graph: &mut Graph, walk: &mut Walk<'_>) {
    if let Some(vector) = vector {
        walk.trace_capture.entered_all(&vector);
        graph.enqueue(node, vector, walk);
    }
}
