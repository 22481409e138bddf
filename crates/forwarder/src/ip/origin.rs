//! `ip4-origin` and `ip6-origin`: where packets begin that the router itself sends: echo replies, ICMP errors and
//! redirects, BFD, packets of the controller; with features also the outer packets of tunnels, and what the control
//! thread has completed as frames (VRRP, neighbour discovery, router advertisements, listener reports). Forwarded
//! packets do not pass these nodes, nor do packets of Linux (decision 60).

use std::sync::Arc;

use stoa_engine::arc::{ArcHook, FeatureArc};
use stoa_engine::{Context, Next, Node, Vector};

use crate::arcs::{self, Arcs, IP4_ORIGIN, IP6_ORIGIN, ROUTER};
use crate::shared::Shared;

/// No next nodes besides those of the arc.
pub const EDGES: &[&str] = &[];

/// Makes the IPv4 node of one worker.
pub fn make4(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP4_ORIGIN, "ip4-origin");
    Box::new(Origin { shared: shared.clone(), hook, arc: |arcs| &arcs.ip4_origin })
}

/// Makes the IPv6 node of one worker.
pub fn make6(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP6_ORIGIN, "ip6-origin");
    Box::new(Origin { shared: shared.clone(), hook, arc: |arcs| &arcs.ip6_origin })
}

struct Origin {
    shared: Arc<Shared>,
    hook: ArcHook,
    arc: fn(&Arcs) -> &FeatureArc,
}

impl Node for Origin {
    fn process(&mut self, _: &mut Context<'_>, _: &mut Vector) -> Next {
        self.hook.proceed_all((self.arc)(&self.shared.arcs), ROUTER)
    }
}
