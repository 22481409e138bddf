//! `ip4-noop` and `ip6-noop`: features that do nothing. `stoa bench forward --feature noop` measures
//! what a feature costs that costs nothing itself.

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::{Context, Next, Node, Vector};

use crate::arcs::{self, IP4_INPUT, IP6_INPUT};
use crate::shared::Shared;

/// Makes the IPv4 node of one worker.
pub fn make4(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP4_INPUT, "ip4-noop");
    Box::new(Noop { shared: shared.clone(), hook, is_ip4: true })
}

/// Makes the IPv6 node of one worker.
pub fn make6(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP6_INPUT, "ip6-noop");
    Box::new(Noop { shared: shared.clone(), hook, is_ip4: false })
}

struct Noop {
    shared: Arc<Shared>,
    hook: ArcHook,
    is_ip4: bool,
}

impl Node for Noop {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) -> Next {
        let arcs = &self.shared.arcs;
        let arc = if self.is_ip4 { &arcs.ip4_input } else { &arcs.ip6_input };
        let lanes = vector.len();
        self.hook.proceed(arc, &vector.rx_if, lanes, &mut vector.next)
    }
}
