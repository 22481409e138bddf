//! Packets that come into the graph from another NUMA node.

use super::{Walk, drop_packet};
use crate::drops;
use crate::packet::Packet;
use crate::trace_capture::trace::Event;

/// Moves a packet of another pool into the worker's own. `None`: no buffer was free, and the packet
/// is dropped as [`drops::NO_BUFFER`].
#[cold]
#[inline(never)]
pub(crate) fn relocate(packet: Packet, walk: &mut Walk<'_>) -> Option<Packet> {
    let from = packet.pool().global_id(packet.buffer());
    match walk.pool.relocate(packet) {
        Ok(packet) => {
            walk.counters.ledger.cross_node.add(1);
            walk.trace_capture.happened_to(&packet, Event::Moved { from });
            Some(packet)
        }
        Err(packet) => {
            drop_packet(packet, drops::NO_BUFFER, walk);
            None
        }
    }
}
