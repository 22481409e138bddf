//! `ip4-flow-hash` and `ip6-flow-hash`: features that ask for the flow of each packet and do nothing
//! with it. `stoa bench forward --feature flow` measures what flows cost.

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::{Context, Next, Node, Vector};

use crate::arcs::{self, IP4_INPUT, IP6_INPUT};
use crate::flow::{self, Packets};
use crate::shared::Shared;

/// Makes the IPv4 node of one worker.
pub fn make4(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP4_INPUT, "ip4-flow-hash");
    Box::new(FlowHash { shared: shared.clone(), hook, is_ip4: true })
}

/// Makes the IPv6 node of one worker.
pub fn make6(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP6_INPUT, "ip6-flow-hash");
    Box::new(FlowHash { shared: shared.clone(), hook, is_ip4: false })
}

struct FlowHash {
    shared: Arc<Shared>,
    hook: ArcHook,
    is_ip4: bool,
}

impl Node for FlowHash {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) -> Next {
        let packets = if self.is_ip4 { Packets::Ip4 } else { Packets::Ip6 };
        flow::of(self.shared.kernel, vector, packets);
        let arcs = &self.shared.arcs;
        let arc = if self.is_ip4 { &arcs.ip4_input } else { &arcs.ip6_input };
        let lanes = vector.len();
        self.hook.proceed(arc, &vector.rx_if, lanes, &mut vector.next)
    }
}
