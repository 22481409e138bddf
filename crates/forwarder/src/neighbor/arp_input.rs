//! `arp-input`: hands ARP packets to the main thread, within a budget (RFC 826).

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::token_bucket::TokenBucket;
use stoa_wire::arp;

use super::{Cause, budget};
use crate::drops::Drop;
use crate::ethernet::interface_flags::IP4;
use crate::shared::Shared;

/// Nothing goes on from here.
pub const EDGES: &[&str] = &[];

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(ArpInput { shared: shared.clone(), budget: budget() })
}

struct ArpInput {
    shared: Arc<Shared>,
    budget: TokenBucket,
}

impl Node for ArpInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            let interface = self.shared.interface(vector.rx_if[lane]);
            if interface.flags() & IP4 == 0 {
                vector.drop_lane(lane, Drop::Ip4Disabled.reason());
            } else if arp::check(vector.bytes(lane)).is_err() {
                vector.drop_lane(lane, Drop::ArpMalformed.reason());
            } else if !self.budget.take(cx.now, 1) {
                vector.drop_lane(lane, Drop::ArpLimited.reason());
            } else {
                cx.punt(vector, lane, Cause::Arp as u16);
            }
        }
        Next::Lanes
    }
}
