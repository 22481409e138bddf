//! `arp-input`: hands ARP packets to the main thread, within a budget (RFC 826).

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::arp;

use crate::drops::Drop;
use crate::ethernet::interface_flags::IP4;
use crate::punt::Class;
use crate::shared::Shared;

/// Nothing goes on from here.
pub const EDGES: &[&str] = &[];

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(ArpInput { shared: shared.clone() })
}

struct ArpInput {
    shared: Arc<Shared>,
}

impl Node for ArpInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            let index = vector.rx_if[lane];
            if self.shared.interface(index).flags() & IP4 == 0 {
                vector.drop_lane(lane, Drop::Ip4Disabled.reason());
                continue;
            }
            let Ok(message) = arp::check(vector.bytes(lane)) else {
                vector.drop_lane(lane, Drop::ArpMalformed.reason());
                continue;
            };
            // Answers to our own questions must survive a flood of others' questions.
            let is_known = || self.shared.familiar.may_know(index, message.sender().into());
            let is_answer = message.is_reply() && is_known();
            let class = if is_answer { Class::ArpAnswer } else { Class::Arp };
            self.shared.budgets.punt(cx, vector, lane, class);
        }
        Next::Lanes
    }
}
