//! `nd-input`: hands neighbour discovery messages that pass their checks to the
//! main thread, within a budget (RFC 4861 7.1).

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::token_bucket::TokenBucket;
use stoa_wire::icmp6::kind::{NEIGHBOR_ADVERTISEMENT, NEIGHBOR_SOLICITATION};
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
            let Some(kind) = kind(vector.bytes(lane)) else {
                vector.drop_lane(lane, Drop::NdMalformed.reason());
                continue;
            };
            if !matches!(kind, NEIGHBOR_SOLICITATION | NEIGHBOR_ADVERTISEMENT) {
                // Nobody here acts on routers' messages: they must not use up the budget.
                vector.drop_lane(lane, Drop::Icmp6Ignored.reason());
            } else if !self.budget.take(cx.now, 1) {
                vector.drop_lane(lane, Drop::NdLimited.reason());
            } else {
                cx.punt(vector, lane, Cause::Nd as u16);
            }
        }
        Next::Lanes
    }
}

/// The type of a message that passes its checks.
fn kind(bytes: &[u8]) -> Option<u8> {
    let view = ipv6::check(bytes).ok()?;
    let upper = view.upper().ok()?;
    ndp::check(view.header(), upper.payload).ok()?;
    upper.payload.first().copied()
}
