//! `neighbor-resolve`: punts packets to unresolved neighbours to the control thread, which resolves
//! the neighbour and queues a few packets; under the control-plane policer, so that a scan of a
//! network does not overload it (RFC 6583).

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};

use super::NO_ADJACENCY;
use crate::punt::Class;
use crate::shared::Shared;

/// No next nodes.
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
            // All replies to link-local hosts pass this node: a host that pings the router must not
            // prevent the resolution of others.
            let is_reply = vector.adjacency[lane] == NO_ADJACENCY;
            // Adjacency ids are reused; the serial number of the neighbour identifies it as long as
            // the packet is queued. 0: the destination is the neighbour.
            let line = self.shared.adjacencies.get(vector.adjacency[lane]);
            vector.arg[lane] = line.map_or(0, |line| line.context() as u32);
            let class = if is_reply { Class::LocalResolve } else { Class::Resolve };
            self.shared.policers.punt(cx, vector, lane, class);
        }
        Next::Lanes
    }
}
