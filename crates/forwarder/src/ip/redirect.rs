//! `ip4-redirect` and `ip6-redirect`, features that are disabled by default. The sender of a packet
//! that leaves by its receiving interface has a better first hop; the control thread gets a copy of
//! the packet and sends a redirect (RFC 1812 5.2.7.2, RFC 4861 8.2). The packet is still forwarded.
//!
//! They are features of the output arcs: there the outgoing interface is known without a look-up of their
//! own, and it is the one that policy rules and the choice among several paths lead to.

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Vector};

use crate::arcs::{self, IP4_OUTPUT, IP6_OUTPUT};
use crate::punt::Class;
use crate::shared::Shared;

/// The most bytes of a packet that a redirect quotes.
const QUOTED: usize = 1280;

/// Makes the IPv4 node of one worker.
pub fn make4(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP4_OUTPUT, "ip4-redirect");
    Box::new(Redirect { shared: shared.clone(), hook, is_ip4: true })
}

/// Makes the IPv6 node of one worker.
pub fn make6(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP6_OUTPUT, "ip6-redirect");
    Box::new(Redirect { shared: shared.clone(), hook, is_ip4: false })
}

struct Redirect {
    shared: Arc<Shared>,
    hook: ArcHook,
    is_ip4: bool,
}

impl Node for Redirect {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let interfaces = vector.rx_if[..lanes].iter().zip(&vector.tx_if[..lanes]);
        if interfaces.fold(false, |any, (rx, tx)| any | (rx == tx)) {
            for lane in 0..lanes {
                self.detect(cx, vector, lane);
            }
        }
        let arcs = &self.shared.arcs;
        let arc = if self.is_ip4 { &arcs.ip4_output } else { &arcs.ip6_output };
        self.hook.proceed(arc, &vector.tx_if, lanes, &mut vector.next)
    }
}

impl Redirect {
    /// Copies a packet that leaves by its receiving interface to the control thread. The router's own packets have
    /// no better first hop, and translated ones have to pass the router.
    fn detect(&self, cx: &mut Context<'_>, vector: &Vector, lane: usize) {
        let interface = vector.rx_if[lane];
        const NOT_OF_SENDER: u16 = flags::OWN | flags::TRANSLATED;
        if interface != vector.tx_if[lane] || vector.flags[lane] & NOT_OF_SENDER != 0 {
            return;
        }
        if self.shared.policers.admit(cx, Class::Redirect, interface)
            && let Some(mut copy) = cx.packet()
        {
            let bytes = vector.bytes(lane);
            if copy.set_bytes(&bytes[..bytes.len().min(QUOTED)]) {
                (copy.rx_if, copy.adjacency) = (interface, vector.adjacency[lane]);
                cx.punt_packet(copy, Class::Redirect as u16);
            }
        }
    }
}
