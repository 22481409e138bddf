//! Trace: what happens to single packets, step by step. A packet is known by its
//! buffer from the moment it is received until it leaves the graph.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Selection;
use crate::clock;
use crate::counters::Counter;
use crate::packet::Packet;
use crate::vector::{NONE, Vector, flags};

/// Bytes of a packet that a record holds.
pub const HEAD: usize = 128;

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Received by the input with that number (its port: `rx_if`). The packet is new.
    Received {
        /// The input, numbered like nodes.
        input: u16,
    },
    /// A node has processed it and decided where it goes: an edge, or `DROP | reason`.
    Passed {
        /// The node.
        node: u16,
        /// As in the `next` column.
        next: u16,
    },
    /// Handed to the control thread, for the forwarder's own cause.
    Punted {
        /// The cause.
        cause: u16,
    },
    /// Put before a node by the control thread.
    Injected {
        /// The node.
        node: u16,
    },
    /// Given to the worker that owns the transmit queue.
    HandedOver {
        /// The worker.
        to: u16,
    },
    /// Taken by the port.
    Sent,
    /// Dropped outside of a node.
    Dropped {
        /// The reason.
        reason: u16,
    },
    /// Made from another traced packet, which has that buffer.
    Made {
        /// The buffer of the other, as [`Pool::global_id`](crate::Pool::global_id).
        from: u64,
    },
    /// Moved to a larger buffer, or to one of the worker's NUMA node: it is known by that from now on.
    Moved {
        /// The former buffer, as [`Pool::global_id`](crate::Pool::global_id).
        from: u64,
    },
}

/// One step of one packet.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Time stamp counter.
    pub at: u64,
    /// What happened.
    pub event: Event,
    /// The packet's buffer, as [`Pool::global_id`](crate::Pool::global_id).
    pub buffer: u64,
    /// The worker.
    pub worker: u16,
    /// Columns of the lane: see [`Vector`].
    pub flags: u16,
    /// See [`Vector`].
    pub rx_if: u32,
    /// See [`Vector`].
    pub tx_if: u32,
    /// See [`Vector`].
    pub adjacency: u32,
    /// See [`Vector`].
    pub arg: u32,
    /// Start of the data in the buffer.
    pub offset: u16,
    /// Bytes of data.
    pub length: u16,
    /// The first bytes of the data.
    pub head: [u8; HEAD],
}

impl Record {
    /// The data as far as it was kept.
    pub fn bytes(&self) -> &[u8] {
        &self.head[..HEAD.min(self.length as usize)]
    }
}

/// One worker's part of a trace.
pub struct Tracer {
    worker: u16,
    selection: Arc<Selection>,
    /// Packets that may still be traced, all workers together.
    left: Arc<AtomicU32>,
    ring: rtrb::Producer<Record>,
    /// Steps that found no space.
    lost: Arc<Counter>,
}

impl Tracer {
    /// For one worker. `left` is shared by all of them.
    pub fn new(
        worker: usize,
        selection: Arc<Selection>,
        left: Arc<AtomicU32>,
        ring: rtrb::Producer<Record>,
        lost: Arc<Counter>,
    ) -> Self {
        Self { worker: worker as u16, selection, left, ring, lost }
    }

    /// Marks the matching packets; returns whether there are any.
    pub(super) fn received(
        &mut self,
        vector: &mut Vector,
        lanes: usize,
        (port, input): (u32, u16),
    ) -> bool {
        if !self.selection.has_port(port) || self.left.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let (now, mut is_any) = (clock::tsc(), false);
        for lane in 0..lanes {
            if !self.selection.takes_received(port, vector.bytes(lane)) {
                continue;
            }
            let one = |left: u32| left.checked_sub(1);
            if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one).is_err() {
                break;
            }
            is_any = true;
            vector.flags[lane] |= flags::TRACED;
            self.lane(vector, lane, Event::Received { input }, now);
        }
        is_any
    }

    /// Writes down what happened to a lane, when it is traced and still there.
    pub(super) fn lane(&mut self, vector: &Vector, lane: usize, event: Event, now: u64) {
        let buffer = vector.buffers()[lane];
        if vector.flags[lane] & flags::TRACED == 0 || buffer == NONE {
            return;
        }
        self.write(
            vector.bytes(lane),
            Record {
                at: now,
                event,
                buffer: vector.pool().global_id(buffer),
                worker: self.worker,
                flags: vector.flags[lane],
                rx_if: vector.rx_if[lane],
                tx_if: vector.tx_if[lane],
                adjacency: vector.adjacency[lane],
                arg: vector.arg[lane],
                offset: vector.offset[lane],
                length: vector.length[lane],
                head: [0; HEAD],
            },
        );
    }

    pub(super) fn packet(&mut self, packet: &Packet, event: Event, now: u64) {
        if packet.flags & flags::TRACED == 0 {
            return;
        }
        self.write(
            packet.bytes(),
            Record {
                at: now,
                event,
                buffer: packet.pool().global_id(packet.buffer()),
                worker: self.worker,
                flags: packet.flags,
                rx_if: packet.rx_if,
                tx_if: packet.tx_if,
                adjacency: packet.adjacency,
                arg: packet.arg,
                offset: packet.offset(),
                length: packet.bytes().len() as u16,
                head: [0; HEAD],
            },
        );
    }

    fn write(&mut self, bytes: &[u8], mut record: Record) {
        let kept = bytes.len().min(HEAD);
        record.head[..kept].copy_from_slice(&bytes[..kept]);
        if self.ring.push(record).is_err() {
            self.lost.add(1);
        }
    }
}
