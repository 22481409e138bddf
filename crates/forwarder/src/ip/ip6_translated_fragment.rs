//! `ip6-translated-fragment`, the last feature of the arc `ip6-output`: cuts IPv6 packets that were IPv4 packets
//! without DF to the least MTU of IPv6 (RFC 7915 section 4). The features before have decided about the whole packet:
//! later fragments have no ports. It is on at interfaces with other output features, in VRFs whose packets are
//! translated.

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};

use super::ip6_fragment::cut;
use crate::arcs::{self, IP6_OUTPUT};
use crate::shared::Shared;

/// The node.
pub const NODE: &str = "ip6-translated-fragment";

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Cut { shared: shared.clone(), hook: arcs::hook(IP6_OUTPUT, NODE) })
}

struct Cut {
    shared: Arc<Shared>,
    hook: ArcHook,
}

impl Node for Cut {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let arc = &self.shared.arcs.ip6_output;
        let next = self.hook.proceed(arc, &vector.tx_if, lanes, &mut vector.next);
        let any = vector.flags[..lanes].iter().fold(0, |any, flags| any | flags);
        if any & flags::CUT == 0 {
            return next;
        }
        if let Next::All(edge) = next {
            vector.next[..lanes].fill(edge);
        }
        for lane in 0..lanes {
            if vector.flags[lane] & (flags::CUT | flags::OWN) == flags::CUT {
                let edge = vector.next[lane];
                cut(cx, (vector, lane, edge), || self.shared.identifications.ip6());
            }
        }
        Next::Lanes
    }
}
