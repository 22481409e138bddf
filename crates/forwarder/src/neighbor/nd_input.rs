//! `nd-input`: hands neighbour discovery messages that pass their checks to the
//! main thread, within a budget (RFC 4861 7.1).

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::token_bucket::TokenBucket;
use stoa_wire::{ipv6, ndp};

use super::{Cause, budget};
use crate::drops::Drop;
use crate::shared::Shared;

/// Nothing goes on from here.
pub const EDGES: &[&str] = &[];

/// Makes the node of one worker.
pub fn make(_shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(NdInput { budget: budget() })
}

struct NdInput {
    budget: TokenBucket,
}

impl Node for NdInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            if !is_valid(vector.bytes(lane)) {
                vector.drop_lane(lane, Drop::NdMalformed.reason());
            } else if !self.budget.take(cx.now, 1) {
                vector.drop_lane(lane, Drop::NdLimited.reason());
            } else {
                cx.punt(vector, lane, Cause::Nd as u16);
            }
        }
        Next::Lanes
    }
}

fn is_valid(bytes: &[u8]) -> bool {
    let Ok(view) = ipv6::check(bytes) else { return false };
    view.upper().is_ok_and(|upper| ndp::check(view.header(), upper.payload).is_ok())
}
