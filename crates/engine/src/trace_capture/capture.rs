//! Capture: copies of whole frames as they were received, sent or dropped, in a ring
//! of bytes that another thread empties.

use std::sync::Arc;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Selection;
use crate::clock;
use crate::counters::Counter;
use crate::drops::Reason;
use crate::vector::{NONE, Vector, flags};

/// Where a frame was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Direction {
    /// Received, before any processing.
    Rx = 1,
    /// Taken by the port.
    Tx = 2,
    /// Dropped.
    Drop = 4,
}

/// What stands before the bytes of each captured frame in the ring.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Head {
    /// Time stamp counter.
    pub at: u64,
    /// The interface that it is shown at.
    pub interface: u32,
    /// Bytes that follow.
    pub kept: u32,
    /// Bytes of the frame.
    pub length: u32,
    /// Why it was dropped.
    pub reason: u16,
    /// A [`Direction`] as a number.
    pub direction: u8,
    /// 1: the bytes may be a packet without its link layer, and no filter has run on it.
    pub bare: u8,
}

/// One worker's part of a capture.
pub struct Tap {
    selection: Arc<Selection>,
    /// [`Direction`]s, one bit each.
    directions: u8,
    /// Bytes of a frame that are kept.
    snap: usize,
    ring: rtrb::Producer<u8>,
    /// Frames that found no space.
    missed: Arc<Counter>,
}

impl Tap {
    /// For one worker.
    pub fn new(
        selection: Arc<Selection>,
        directions: u8,
        snap: usize,
        ring: rtrb::Producer<u8>,
        missed: Arc<Counter>,
    ) -> Self {
        Self { selection, directions, snap, ring, missed }
    }

    pub(super) fn captures(&self, direction: Direction) -> bool {
        self.directions & direction as u8 != 0
    }

    pub(super) fn received(&mut self, vector: &Vector, lanes: usize, port: u32) {
        if !self.captures(Direction::Rx) || !self.selection.has_port(port) {
            return;
        }
        let now = clock::tsc();
        for lane in 0..lanes {
            let frame = vector.bytes(lane);
            if self.selection.takes_received(port, frame) {
                self.write(frame, (Direction::Rx, port), (0, false), now);
            }
        }
    }

    pub(super) fn sent(&mut self, vector: &Vector, taken: usize, base: u32) {
        if !self.captures(Direction::Tx) {
            return;
        }
        let (now, by_port) = (clock::tsc(), self.selection.has(base));
        for lane in 0..taken {
            let at = if by_port { base } else { vector.tx_if[lane] };
            let is_sent = vector.flags[lane] & flags::REFUSED == 0;
            // A driver that keeps the buffer takes the bytes along.
            let is_there = is_sent && vector.buffers()[lane] != NONE;
            if is_there && self.selection.has(at) && self.selection.takes(vector.bytes(lane)) {
                self.write(vector.bytes(lane), (Direction::Tx, at), (0, false), now);
            }
        }
    }

    pub(super) fn not_sent(
        &mut self,
        vector: &Vector,
        (taken, reason): (usize, Reason),
        base: u32,
    ) {
        // One branch-free pass: most vectors are sent whole, and other interfaces must not pay.
        let any = vector.flags[..vector.len()].iter().fold(0, |any, flags| any | flags);
        let all_sent = taken >= vector.len() && any & flags::REFUSED == 0;
        if all_sent || !self.captures(Direction::Drop) {
            return;
        }
        let now = clock::tsc();
        for lane in 0..vector.len() {
            let Some(reason) = super::unsent(vector, lane, (taken, reason)) else { continue };
            let interface = vector.tx_if[lane];
            let is_meant = [interface, base, vector.rx_if[lane]].map(|at| self.selection.has(at));
            let is_there = vector.buffers()[lane] != NONE;
            if is_there && is_meant.contains(&true) && self.selection.takes(vector.bytes(lane)) {
                self.write(
                    vector.bytes(lane),
                    (Direction::Drop, interface),
                    (reason.0, false),
                    now,
                );
            }
        }
    }

    pub(super) fn dropped(
        &mut self,
        vector: &Vector,
        lane: usize,
        (reason, at_start): (Reason, bool),
    ) {
        let interface = vector.rx_if[lane];
        if !self.captures(Direction::Drop)
            || vector.buffers()[lane] == NONE
            || !self.selection.has(interface)
        {
            return;
        }
        let now = clock::tsc();
        // A packet of our own may have no link layer yet: its filter runs where
        // the frame type is known.
        let bare = at_start && vector.flags[lane] & flags::OWN != 0;
        if bare || self.selection.takes(vector.bytes(lane)) {
            self.write(vector.bytes(lane), (Direction::Drop, interface), (reason.0, bare), now);
        }
    }

    fn write(
        &mut self,
        frame: &[u8],
        (direction, interface): (Direction, u32),
        (reason, bare): (u16, bool),
        at: u64,
    ) {
        let kept = &frame[..frame.len().min(self.snap)];
        let head = Head {
            at,
            interface,
            kept: kept.len() as u32,
            length: frame.len() as u32,
            reason,
            direction: direction as u8,
            bare: bare.into(),
        };
        if self.ring.slots() < size_of::<Head>() + kept.len() {
            return self.missed.add(1);
        }
        // Space was checked, and this thread is the only producer.
        let _ = self.ring.push_entire_slice(head.as_bytes());
        let _ = self.ring.push_entire_slice(kept);
    }
}

/// Takes the oldest frame out of a ring, its bytes into `bytes`; `None` when no whole
/// frame is there.
pub fn take(ring: &mut rtrb::Consumer<u8>, bytes: &mut Vec<u8>) -> Option<Head> {
    let mut head = [0; size_of::<Head>()];
    let peek = ring.read_chunk(head.len()).ok()?;
    let (first, second) = peek.as_slices();
    head[..first.len()].copy_from_slice(first);
    head[first.len()..].copy_from_slice(second);
    let head = Head::read_from_bytes(&head).ok()?;
    // The worker writes the head first: the bytes may not all be written yet.
    let whole = size_of::<Head>() + head.kept as usize;
    let chunk = ring.read_chunk(whole).ok()?;
    bytes.clear();
    let (first, second) = chunk.as_slices();
    bytes.extend_from_slice(first);
    bytes.extend_from_slice(second);
    bytes.drain(..size_of::<Head>());
    chunk.commit_all();
    Some(head)
}
