//! Polls nodes at the times for which they asked, so that a node can send what it holds, and serve
//! its timers, without packets that arrive.

use super::{Graph, Walk};
use crate::VECTOR;
use crate::clock;
use crate::processing::Processing;

/// When a node has asked for no poll.
const NEVER: u64 = u64::MAX;

/// When each node is to be polled: values of [`clock::tsc`].
pub(crate) struct Deadlines {
    by_node: Box<[u64]>,
    /// Never later than any of them; the only one that the main loop reads.
    earliest: u64,
}

impl Deadlines {
    pub(super) fn new(nodes: usize) -> Self {
        Self { by_node: vec![NEVER; nodes].into_boxed_slice(), earliest: NEVER }
    }

    /// A node asks to be polled at `tsc`, or before when it has asked for that.
    #[inline]
    pub(crate) fn ask(&mut self, node: u16, tsc: u64) {
        if let Some(deadline) = self.by_node.get_mut(usize::from(node)) {
            *deadline = tsc.min(*deadline);
            self.earliest = tsc.min(self.earliest);
        }
    }

    /// Whether the deadline of a node has passed; then it has none any more.
    fn take_due(&mut self, node: usize, now: u64) -> bool {
        let is_due = self.by_node[node] <= now;
        if is_due {
            self.by_node[node] = NEVER;
        }
        is_due
    }

    fn find_earliest(&mut self) {
        self.earliest = self.by_node.iter().copied().min().unwrap_or(NEVER);
    }
}

impl Graph {
    /// When the next [`Self::poll`] has something to do, as a value of [`clock::tsc`]; `u64::MAX`:
    /// never.
    #[inline(always)]
    pub(crate) fn next_poll(&self) -> u64 {
        self.deadlines.earliest
    }

    /// Polls the nodes whose deadlines have passed, each of them once, in list order; returns how
    /// many packets they sent. Up to half a vector of these wait for the next [`Self::walk`].
    pub fn poll(&mut self, walk: &mut Walk<'_>) -> usize {
        let (mut packets, mut waiting) = (0, 0);
        let mut now = clock::tsc();
        for at in 0..self.slots.len() {
            if !self.deadlines.take_due(at, now) {
                continue;
            }
            let lent = (&mut self.emitted, &mut self.output, &mut self.deadlines, &mut *self.local);
            let mut cx = walk.context((at, now), lent);
            let next = {
                let _processing = Processing::begin();
                self.slots[at].node.poll(&mut cx)
            };
            if let Some(tsc) = next {
                cx.wake_at(tsc);
            }
            waiting += self.emitted.len();
            packets += self.emitted.len();
            self.send_emitted(at, walk);
            // A call is one with a vector: a poll counts by its cycles only.
            let end = clock::tsc();
            walk.counters.nodes[at].cycles.add(end.saturating_sub(now));
            now = end;
            // Several nodes can send more than fits before one.
            if waiting > VECTOR / 2 {
                self.walk(walk);
                waiting = 0;
                now = clock::tsc();
            }
        }
        self.deadlines.find_earliest();
        packets
    }
}
