//! Trace and capture: what one worker records of packets in the graph: steps of traced
//! packets ([`trace`]) and copies of captured frames ([`capture`]).
//!
//! The control thread arms a worker by a command that brings the memory to write into:
//! a worker allocates nothing, and what finds no space is counted and left out. While
//! nothing is armed, each hook is one test of a word of the worker's own.

pub mod capture;
pub mod filter;
mod selection;
pub mod trace;

pub use selection::Selection;

use crate::clock;
use crate::drops::{self, Reason};
use crate::packet::Packet;
use crate::pool::HEADROOM;
use crate::vector::{Vector, flags};
use capture::{Direction, Tap};
use trace::{Event, Tracer};

/// Captures that may run at once.
pub const CAPTURES: usize = 4;

/// What one worker watches.
#[derive(Default)]
pub struct TraceCapture {
    /// A trace is armed, or traced packets may still be in the graph.
    tracing: bool,
    /// Traced packets are in the graph: true from the moment that one comes in until the
    /// walk ends, for then nothing is left in it.
    is_hot: bool,
    receiving: bool,
    sending: bool,
    dropping: bool,
    tracer: Option<Box<Tracer>>,
    taps: [Option<Box<Tap>>; CAPTURES],
}

impl TraceCapture {
    /// Begins or ends a trace; returns the old one.
    pub(crate) fn set_tracer(&mut self, tracer: Option<Box<Tracer>>) -> Option<Box<Tracer>> {
        let old = std::mem::replace(&mut self.tracer, tracer);
        self.review();
        old
    }

    /// Begins or ends a capture; returns the old one.
    pub(crate) fn set_tap(&mut self, slot: usize, tap: Option<Box<Tap>>) -> Option<Box<Tap>> {
        let place = self.taps.get_mut(slot)?;
        let old = std::mem::replace(place, tap);
        self.review();
        old
    }

    fn review(&mut self) {
        let captures = |direction| self.taps.iter().flatten().any(|tap| tap.captures(direction));
        let [rx, tx, drop] = [Direction::Rx, Direction::Tx, Direction::Drop].map(captures);
        self.tracing = self.tracer.is_some();
        self.is_hot &= self.tracing;
        self.receiving = rx || self.tracing;
        self.sending = tx || drop;
        self.dropping = drop;
    }

    /// The first `lanes` of a vector were received by `port`.
    #[inline(always)]
    pub(crate) fn received(&mut self, vector: &mut Vector, lanes: usize, port: u32, input: u16) {
        if self.receiving {
            self.write_received(vector, lanes, port, input);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_received(&mut self, vector: &mut Vector, lanes: usize, port: u32, input: u16) {
        for tap in self.taps.iter_mut().flatten() {
            tap.received(vector, lanes, port);
        }
        if let Some(tracer) = &mut self.tracer {
            self.is_hot |= tracer.received(vector, lanes, (port, input));
        }
    }

    /// A packet comes into the graph from another thread.
    #[inline(always)]
    pub(crate) fn entered(&mut self, packet: &Packet) {
        self.is_hot |= self.tracing && packet.flags & flags::TRACED != 0;
    }

    /// Packets come into the graph from another thread.
    #[inline(always)]
    pub(crate) fn entered_all(&mut self, vector: &Vector) {
        if self.tracing {
            let lanes = &vector.flags[..vector.len()];
            self.is_hot |= lanes.iter().fold(0, |any, flags| any | flags) & flags::TRACED != 0;
        }
    }

    /// The walk has ended.
    #[inline(always)]
    pub(crate) fn walked(&mut self) {
        self.is_hot = false;
    }

    /// A node decided where the lanes go; `all` when all go to one place.
    #[inline(always)]
    pub(crate) fn dispatched(&mut self, node: usize, vector: &Vector, all: Option<u16>) {
        if self.is_hot {
            self.write_dispatched(node, vector, all);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_dispatched(&mut self, node: usize, vector: &Vector, all: Option<u16>) {
        let lanes = &vector.flags[..vector.len()];
        // One branch-free pass: most vectors hold no traced packet.
        if lanes.iter().fold(0, |any, flags| any | flags) & flags::TRACED == 0 {
            return;
        }
        let Some(tracer) = &mut self.tracer else { return };
        let now = clock::tsc();
        for lane in 0..vector.len() {
            let next = all.unwrap_or(vector.next[lane]);
            tracer.lane(vector, lane, Event::Passed { node: node as u16, next }, now);
        }
    }

    /// What happens to one lane now. Traced lanes only.
    #[inline(always)]
    pub(crate) fn happened(&mut self, vector: &Vector, lane: usize, event: Event) {
        if self.is_hot
            && let Some(tracer) = &mut self.tracer
        {
            tracer.lane(vector, lane, event, clock::tsc());
        }
    }

    /// What happens to a packet outside a vector now. Traced packets only.
    #[inline(always)]
    pub(crate) fn happened_to(&mut self, packet: &Packet, event: Event) {
        self.entered(packet);
        if self.is_hot
            && let Some(tracer) = &mut self.tracer
        {
            tracer.packet(packet, event, clock::tsc());
        }
    }

    /// A lane is dropped in the graph; its front is as it was received, unless the
    /// packet is our own.
    #[inline(always)]
    pub(crate) fn dropped(&mut self, vector: &mut Vector, lane: usize, reason: Reason) {
        if self.dropping || self.is_hot {
            self.write_dropped(vector, lane, reason);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_dropped(&mut self, vector: &mut Vector, lane: usize, reason: Reason) {
        // No node has dropped these lanes itself.
        if [drops::GRAPH_FULL, drops::SOFTWARE_RSS_FULL].contains(&reason) {
            self.happened(vector, lane, Event::Dropped { reason: reason.0 });
        }
        if self.taps.iter().flatten().all(|tap| !tap.captures(Direction::Drop)) {
            return;
        }
        let is_own = vector.flags[lane] & flags::OWN != 0;
        let front = vector.offset[lane].saturating_sub(HEADROOM as u16);
        let front = if is_own { 0 } else { i32::from(front) };
        if !vector.advance(lane, -front) {
            return;
        }
        for tap in self.taps.iter_mut().flatten() {
            tap.dropped(vector, lane, (reason, front == 0));
        }
        // Back to where it was: it came from there.
        let _ = vector.advance(lane, front);
    }

    /// Whether [`Self::sent`] reads lanes now.
    #[inline(always)]
    pub(crate) fn sees_sent(&self) -> bool {
        self.sending || self.is_hot
    }

    /// Port `base` took the first `taken` lanes and left the rest for `reason`. Of those that it took,
    /// its device refused the marked ones; what it refuses later counts as sent here.
    #[inline(always)]
    pub(crate) fn sent(&mut self, vector: &Vector, (taken, reason): (usize, Reason), base: u32) {
        if self.sees_sent() {
            self.write_sent(vector, (taken, reason), base);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_sent(&mut self, vector: &Vector, (taken, reason): (usize, Reason), base: u32) {
        for tap in self.taps.iter_mut().flatten() {
            tap.sent(vector, taken, base);
            tap.not_sent(vector, (taken, reason), base);
        }
        let Some(tracer) = self.tracer.as_mut().filter(|_| self.is_hot) else { return };
        let now = clock::tsc();
        for lane in 0..vector.len() {
            let event = match unsent(vector, lane, (taken, reason)) {
                Some(reason) => Event::Dropped { reason: reason.0 },
                None => Event::Sent,
            };
            tracer.lane(vector, lane, event, now);
        }
    }
}

/// Why a lane was not sent; `None`: it was.
fn unsent(vector: &Vector, lane: usize, (taken, reason): (usize, Reason)) -> Option<Reason> {
    match vector.flags[lane] & flags::REFUSED {
        _ if lane >= taken => Some(reason),
        0 => None,
        _ => Some(drops::TX_REFUSED),
    }
}
