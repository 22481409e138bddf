//! Packets that a node makes: they follow its vector, those for one edge together.

use super::{Graph, Walk, drop_lane, drop_packet};
use crate::drops;
use crate::trace_capture::trace::Event;
use crate::vector::{Lanes, Vector};

impl Graph {
    /// Puts packets that a node made before the nodes that they go to.
    #[inline]
    pub(super) fn send_emitted(&mut self, from: usize, walk: &mut Walk<'_>) {
        if !self.emitted.is_empty() {
            self.send_some(from, walk);
        }
    }

    #[inline(never)]
    fn send_some(&mut self, from: usize, walk: &mut Walk<'_>) {
        let mut emitted = std::mem::take(&mut self.emitted);
        walk.counters.ledger.generated.add(emitted.len() as u64);
        let (mut run, mut edge) = (None::<Box<Vector>>, 0);
        for (next, packet) in emitted.drain(..) {
            walk.trace_capture.happened_to(&packet, Event::Passed { node: from as u16, next });
            if next != edge || run.as_ref().is_some_and(|run| run.room() == 0) {
                self.send_run((from, edge), run.take(), walk);
                edge = next;
            }
            if run.is_none() {
                run = self.spare.pop();
            }
            let lost = match &mut run {
                Some(run) => run.push(packet).err(),
                None => Some(packet),
            };
            if let Some(packet) = lost {
                drop_packet(packet, drops::GRAPH_FULL, walk);
            }
        }
        self.send_run((from, edge), run, walk);
        self.emitted = emitted;
    }

    /// Puts packets for one edge before its node.
    fn send_run(
        &mut self,
        (from, edge): (usize, u16),
        run: Option<Box<Vector>>,
        walk: &mut Walk<'_>,
    ) {
        let Some(mut run) = run else { return };
        let lanes = Lanes::first_of(run.len());
        match self.slots[from].edges.get(edge as usize) {
            Some(node) => self.move_lanes(*node, &mut run, lanes, walk),
            None => {
                lanes.iter().for_each(|lane| drop_lane(&mut run, lane, drops::GRAPH_FULL, walk));
            }
        }
        run.forget_lanes();
        self.spare.push(run);
    }
}
