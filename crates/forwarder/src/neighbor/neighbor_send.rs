//! `neighbor-send`: sends packets that were queued for a neighbour, with the adjacency that it had
//! when they were released. If another neighbour has reused that adjacency in the meantime, the
//! packets are looked up again.

use std::sync::Arc;

use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};

use crate::shared::Shared;

/// Next nodes.
pub const EDGES: &[&str] = &["ip4-rewrite", "ip6-rewrite", "ip4-lookup", "ip6-lookup"];

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(NeighborSend { shared: shared.clone() })
}

struct NeighborSend {
    shared: Arc<Shared>,
}

impl Node for NeighborSend {
    fn process(&mut self, _cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            // The argument is the serial number of the neighbour: see `control/neighbors`.
            let line = self.shared.adjacencies.get(vector.adjacency[lane]);
            let is_current = line.is_some_and(|line| line.context() == u64::from(vector.arg[lane]));
            let is_ip4 = vector.bytes(lane).first().is_some_and(|byte| byte >> 4 == 4);
            vector.next[lane] = u16::from(!is_ip4) + if is_current { 0 } else { 2 };
            // A look-up knows the bit as that of another flag.
            if !is_current && vector.flags[lane] & flags::OWN == 0 {
                vector.flags[lane] &= !flags::CUT;
            }
        }
        Next::Lanes
    }
}
