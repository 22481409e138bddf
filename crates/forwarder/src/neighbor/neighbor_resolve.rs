//! `neighbor-resolve`: packets whose neighbour is not known yet go to the main
//! thread, which asks and keeps a few of them; within a budget, so that a scan of
//! a whole network does not drown it (RFC 6583).

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::token_bucket::TokenBucket;

use super::{Cause, NO_ADJACENCY, budget};
use crate::drops::Drop;
use crate::shared::Shared;

/// Nothing goes on from here.
pub const EDGES: &[&str] = &[];

/// Makes the node of one worker.
pub fn make(_shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(NeighborResolve { budget: budget(), answers: budget() })
}

struct NeighborResolve {
    budget: TokenBucket,
    /// Our own answers to link-local hosts, which all pass here: who pings us there
    /// must not keep others from being resolved.
    answers: TokenBucket,
}

impl Node for NeighborResolve {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            let is_answer = vector.adjacency[lane] == NO_ADJACENCY;
            let budget = if is_answer { &mut self.answers } else { &mut self.budget };
            if budget.take(cx.now, 1) {
                cx.punt(vector, lane, Cause::Resolve as u16);
            } else {
                vector.drop_lane(lane, Drop::NeighborLimited.reason());
            }
        }
        Next::Lanes
    }
}
