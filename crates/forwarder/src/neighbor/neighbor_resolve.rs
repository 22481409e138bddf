//! `neighbor-resolve`: packets whose neighbour is not known yet go to the main
//! thread, which asks and keeps a few of them; within a budget, so that a scan of
//! a whole network does not drown it (RFC 6583).

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};

use super::NO_ADJACENCY;
use crate::punt::Class;
use crate::shared::Shared;

/// Nothing goes on from here.
pub const EDGES: &[&str] = &[];

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(NeighborResolve { shared: shared.clone() })
}

struct NeighborResolve {
    shared: Arc<Shared>,
}

impl Node for NeighborResolve {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            // Our own answers to link-local hosts all pass here: who pings us there must
            // not keep others from being resolved.
            let is_answer = vector.adjacency[lane] == NO_ADJACENCY;
            // Ids of adjacencies are used again; the neighbour's name tells for whom the
            // packet waits however long that takes. 0: for its destination.
            let line = self.shared.adjacencies.get(vector.adjacency[lane]);
            vector.hash[lane] = line.map_or(0, |line| line.context() as u32);
            let class = if is_answer { Class::LocalResolve } else { Class::Resolve };
            self.shared.policers.punt(cx, vector, lane, class);
        }
        Next::Lanes
    }
}
