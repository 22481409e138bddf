//! Features that do nothing, one on each arc. `stoa bench forward --feature noop` measures what a
//! feature costs that costs nothing itself.

use std::sync::Arc;

use stoa_engine::arc::{ArcHook, FeatureArc};
use stoa_engine::{Context, Next, Node, Vector};

use crate::arcs::{
    self, Arcs, ETHERNET_INPUT, IP_LOCAL, IP4_INPUT, IP4_ORIGIN, IP4_OUTPUT, IP6_INPUT, IP6_ORIGIN,
    IP6_OUTPUT, PORT_OUTPUT, ROUTER,
};
use crate::shared::Shared;

/// Makes the node for frames of one worker.
pub fn make_ethernet(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Noop::boxed(shared, (ETHERNET_INPUT, "ethernet-noop"), |arcs| &arcs.ethernet_input)
}

/// Makes the IPv4 node of one worker.
pub fn make_ip4(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Noop::boxed(shared, (IP4_INPUT, "ip4-noop"), |arcs| &arcs.ip4_input)
}

/// Makes the IPv6 node of one worker.
pub fn make_ip6(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Noop::boxed(shared, (IP6_INPUT, "ip6-noop"), |arcs| &arcs.ip6_input)
}

/// Makes the node for local packets of one worker.
pub fn make_local(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Noop::boxed(shared, (IP_LOCAL, "ip-local-noop"), |arcs| &arcs.ip_local)
}

/// Makes the node for own IPv4 packets of one worker.
pub fn make_origin4(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Noop::of_router(shared, (IP4_ORIGIN, "ip4-origin-noop"), |arcs| &arcs.ip4_origin)
}

/// Makes the node for own IPv6 packets of one worker.
pub fn make_origin6(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Noop::of_router(shared, (IP6_ORIGIN, "ip6-origin-noop"), |arcs| &arcs.ip6_origin)
}

/// Makes the node for IPv4 packets on their way out of one worker.
pub fn make_output4(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Noop::of_sender(shared, (IP4_OUTPUT, "ip4-output-noop"), |arcs| &arcs.ip4_output)
}

/// Makes the node for IPv6 packets on their way out of one worker.
pub fn make_output6(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Noop::of_sender(shared, (IP6_OUTPUT, "ip6-output-noop"), |arcs| &arcs.ip6_output)
}

/// Makes the node for frames on their way to a port of one worker.
pub fn make_port(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Noop::of_sender(shared, (PORT_OUTPUT, "port-output-noop"), |arcs| &arcs.port_output)
}

struct Noop {
    shared: Arc<Shared>,
    hook: ArcHook,
    arc: fn(&Arcs) -> &FeatureArc,
    scope: Scope,
}

/// What the arc depends on.
#[derive(Clone, Copy)]
enum Scope {
    Receiver,
    Sender,
    Router,
}

impl Noop {
    /// The node of an arc that depends on the receiving interface.
    fn boxed(
        shared: &Arc<Shared>,
        names: (&str, &str),
        arc: fn(&Arcs) -> &FeatureArc,
    ) -> Box<dyn Node> {
        Self::make(shared, names, (arc, Scope::Receiver))
    }

    /// The node of an arc that depends on the sending interface.
    fn of_sender(
        shared: &Arc<Shared>,
        names: (&str, &str),
        arc: fn(&Arcs) -> &FeatureArc,
    ) -> Box<dyn Node> {
        Self::make(shared, names, (arc, Scope::Sender))
    }

    /// The node of an arc of the whole router.
    fn of_router(
        shared: &Arc<Shared>,
        names: (&str, &str),
        arc: fn(&Arcs) -> &FeatureArc,
    ) -> Box<dyn Node> {
        Self::make(shared, names, (arc, Scope::Router))
    }

    fn make(
        shared: &Arc<Shared>,
        (name, node): (&str, &str),
        (arc, scope): (fn(&Arcs) -> &FeatureArc, Scope),
    ) -> Box<dyn Node> {
        let (shared, hook) = (shared.clone(), arcs::hook(name, node));
        Box::new(Self { shared, hook, arc, scope })
    }
}

impl Node for Noop {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) -> Next {
        let (arc, lanes) = ((self.arc)(&self.shared.arcs), vector.len());
        match self.scope {
            Scope::Receiver => self.hook.proceed(arc, &vector.rx_if, lanes, &mut vector.next),
            Scope::Sender => self.hook.proceed(arc, &vector.tx_if, lanes, &mut vector.next),
            Scope::Router => self.hook.proceed_all(arc, ROUTER),
        }
    }
}
