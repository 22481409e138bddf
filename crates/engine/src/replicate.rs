//! Copies of packets, for flooding, mirroring and multicast. A copy has a buffer of its own, so that
//! each buffer keeps one owner, which may change it (decision 46).

use crate::drops;
use crate::node::{Context, EMIT};
use crate::packet::Packet;
use crate::pool::{HEADROOM, SLOT};
use crate::vector::{LaneSet, Vector, flags};

/// Where a copy of a packet goes, and the columns in which it differs from the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyTo {
    /// An edge of the node.
    pub edge: u16,
    /// The interface that sends it.
    pub tx_if: u32,
    /// The `arg` for the node at the end of the edge.
    pub arg: u32,
}

impl Context<'_> {
    /// Sends copies of `lanes` along edges of this node, after the vector: for each of `places`, one
    /// of each lane in order. The lanes themselves stay where they are. Returns the number of copies.
    ///
    /// Copies that find no buffer are dropped as [`drops::COPY_NO_BUFFER`]; those beyond
    /// [`Self::emit_room`] as [`drops::GRAPH_FULL`]. The interface that received the packet counts
    /// neither these nor copies that are dropped later. A node that needs more copies at once keeps the
    /// packets and goes on in [`crate::Node::poll`].
    ///
    /// # Panics
    /// When a lane is not in use or was taken: an error of the caller, never of a packet.
    pub fn replicate(&mut self, vector: &mut Vector, lanes: &LaneSet, places: &[CopyTo]) -> usize {
        let requested = lanes.count() * places.len();
        let fitting = requested.min(self.emit_room());
        let copies = places.iter().flat_map(|place| lanes.iter().map(move |lane| (place, lane)));
        let mut sent = 0;
        for (place, lane) in copies.take(fitting) {
            let Some(mut copy) = self.copy(vector, lane) else {
                // Where jumbo buffers have run out, others may be free.
                if vector.capacity(lane) == SLOT { break } else { continue }
            };
            (copy.tx_if, copy.arg) = (place.tx_if, place.arg);
            self.descend(vector, lane, &mut copy);
            self.emitted.push((place.edge, copy));
            sent += 1;
        }
        self.lost(drops::COPY_NO_BUFFER, (fitting - sent) as u64);
        self.lost(drops::GRAPH_FULL, (requested - fitting) as u64);
        sent
    }

    /// A copy of a lane with its columns; `None` when no buffer is free. It contains what lies in
    /// front of the data, too: the link-layer header of a received packet.
    fn copy(&mut self, vector: &mut Vector, lane: usize) -> Option<Packet> {
        let (offset, length) = (vector.offset[lane].into(), vector.bytes(lane).len());
        let (start, end) = (HEADROOM.min(offset), offset + length);
        let mut copy = if end <= SLOT { self.pool.packet() } else { self.pool.jumbo_packet() }?;
        let bytes = vector.buffer_mut(lane).get(start..end).unwrap_or(&[]);
        if copy.set_span(start, bytes.len()) {
            copy.bytes_mut().copy_from_slice(bytes);
        }
        // The offset of a lane may lie behind its buffer: then it has no data.
        let _ = copy.set_span(offset, length);
        (copy.rx_if, copy.adjacency) = (vector.rx_if[lane], vector.adjacency[lane]);
        copy.flags = vector.flags[lane] | flags::COPY;
        Some(copy)
    }
}

// A full vector can be copied to one place at least.
const _: () = assert!(EMIT >= crate::VECTOR);
