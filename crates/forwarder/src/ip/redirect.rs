//! `ip4-redirect` and `ip6-redirect`, features that are disabled by default. The sender of a packet
//! that leaves by its receiving interface has a better first hop; the control thread gets a copy of
//! the packet and sends a redirect (RFC 1812 5.2.7.2, RFC 4861 8.2). The packet is still forwarded.

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::adjacency::AdjacencyKind;
use stoa_tables::next_hop::Resolved;

use crate::arcs::{self, IP4_INPUT, IP6_INPUT};
use crate::punt::Class;
use crate::shared::Shared;

/// The most bytes of a packet that a redirect quotes.
const QUOTED: usize = 1280;

/// Makes the IPv4 node of one worker.
pub fn make4(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP4_INPUT, "ip4-redirect");
    Box::new(Redirect { shared: shared.clone(), hook, is_ip4: true })
}

/// Makes the IPv6 node of one worker.
pub fn make6(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP6_INPUT, "ip6-redirect");
    Box::new(Redirect { shared: shared.clone(), hook, is_ip4: false })
}

struct Redirect {
    shared: Arc<Shared>,
    hook: ArcHook,
    is_ip4: bool,
}

impl Node for Redirect {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            let interface = vector.rx_if[lane];
            if let Some(adjacency) = self.hairpin_adjacency(cx, vector.bytes(lane), interface)
                && self.shared.policers.admit(cx, Class::Redirect, interface)
                && let Some(mut copy) = cx.packet()
            {
                let bytes = vector.bytes(lane);
                if copy.set_bytes(&bytes[..bytes.len().min(QUOTED)]) {
                    (copy.rx_if, copy.adjacency) = (interface, adjacency);
                    cx.punt_packet(copy, Class::Redirect as u16);
                }
            }
        }
        let arcs = &self.shared.arcs;
        let arc = if self.is_ip4 { &arcs.ip4_input } else { &arcs.ip6_input };
        let lanes = vector.len();
        self.hook.proceed(arc, &vector.rx_if, lanes, &mut vector.next)
    }
}

impl Redirect {
    /// The adjacency of a packet that leaves by its receiving `interface`.
    fn hairpin_adjacency(&self, cx: &Context<'_>, bytes: &[u8], interface: u32) -> Option<u32> {
        let shared = &self.shared;
        let vrf = shared.attributes.vrf_of(interface);
        let value = if self.is_ip4 {
            let to = bytes.get(16..20)?.first_chunk::<4>()?;
            shared.ip4_table(vrf, cx.reader)?.lookup(u32::from_be_bytes(*to))
        } else {
            let to = bytes.get(24..40)?.first_chunk::<16>()?;
            shared.ip6_table(vrf, cx.reader)?.lookup(u128::from_be_bytes(*to))
        };
        let Resolved::Adjacency(adjacency) = shared.next_hops.resolve(value, 0) else {
            return None;
        };
        let head = shared.adjacencies.get(adjacency)?.head();
        let leaves = head.interface() == interface && head.kind() != AdjacencyKind::Drop;
        leaves.then_some(adjacency)
    }
}
