//! `neighbor-resolve`: packets whose neighbour is not known yet go to the main
//! thread, which asks and keeps a few of them; within a budget, so that a scan of
//! a whole network does not drown it (RFC 6583).

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::token_bucket::TokenBucket;

use super::{Cause, budget};
use crate::drops::Drop;
use crate::shared::Shared;

/// Nothing goes on from here.
pub const EDGES: &[&str] = &[];

/// Makes the node of one worker.
pub fn make(_shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(NeighborResolve { budget: budget() })
}

struct NeighborResolve {
    budget: TokenBucket,
}

impl Node for NeighborResolve {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            if self.budget.take(cx.now, 1) {
                cx.punt(vector, lane, Cause::Resolve as u16);
            } else {
                vector.drop_lane(lane, Drop::NeighborLimited.reason());
            }
        }
        Next::Lanes
    }
}
