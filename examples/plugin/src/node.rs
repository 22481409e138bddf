//! `ip4-dscp-filter` and `ip6-dscp-filter`: drop packets with a DSCP that their receiving interface drops.

use std::sync::Arc;

use stoa_engine::arc::{ArcHook, FeatureSpec};
use stoa_engine::vector::DROP;
use stoa_engine::{Context, Next, Node, NodeSpec, Vector};
use stoa_forwarder::arcs::{self, IP4_INPUT, IP6_INPUT};
use stoa_forwarder::drops;
use stoa_forwarder::plugin::Feature;
use stoa_forwarder::shared::Shared;

use crate::forwarder::{Filter, REASON, Total, dscps};

/// One feature for each family, in front of policy routing.
pub const FEATURES: &[Feature] = &[
    feature(
        IP4_INPUT,
        NodeSpec {
            name: "ip4-dscp-filter",
            description: "drops IPv4 packets by their DSCP",
            edges: &[],
            make: |shared, worker| {
                let hook = arcs::hook(IP4_INPUT, "ip4-dscp-filter");
                DscpFilter::boxed(shared, hook, worker, true)
            },
        },
        &["ip4-policy"],
    ),
    feature(
        IP6_INPUT,
        NodeSpec {
            name: "ip6-dscp-filter",
            description: "drops IPv6 packets by their DSCP",
            edges: &[],
            make: |shared, worker| {
                let hook = arcs::hook(IP6_INPUT, "ip6-dscp-filter");
                DscpFilter::boxed(shared, hook, worker, false)
            },
        },
        &["ip6-policy"],
    ),
];

/// A feature that is on where an interface drops any DSCP.
const fn feature(
    arc: &'static str,
    node: NodeSpec<Arc<Shared>>,
    before: &'static [&'static str],
) -> Feature {
    let argument = |settings: &[u8]| u32::from(dscps(settings).is_some_and(|dscps| dscps != 0));
    Feature { arc, spec: FeatureSpec { node, after: &[], before }, argument }
}

struct DscpFilter {
    shared: Arc<Shared>,
    filter: Arc<Filter>,
    hook: ArcHook,
    is_ip4: bool,
    /// Survives the process.
    total: Option<Total>,
    /// The value of the column `next` that drops a packet.
    drop: u16,
}

impl DscpFilter {
    /// # Panics
    /// Without the plugin: at start, before any packet.
    fn boxed(shared: &Arc<Shared>, hook: ArcHook, worker: usize, is_ip4: bool) -> Box<dyn Node> {
        let filter: Arc<Filter> = shared.part().expect("the plugin is installed");
        let reason = drops::named(REASON).expect("the plugin has the reason");
        let total = filter.take_total(worker, is_ip4);
        let drop = DROP | reason.0;
        Box::new(Self { shared: shared.clone(), filter, hook, is_ip4, total, drop })
    }
}

impl Node for DscpFilter {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let arcs = &self.shared.arcs;
        let arc = if self.is_ip4 { &arcs.ip4_input } else { &arcs.ip6_input };
        let lanes = vector.len();
        let mut next = self.hook.proceed(arc, &vector.rx_if, lanes, &mut vector.next);
        let mut dropped = 0;
        for lane in 0..lanes {
            let interface = vector.rx_if[lane];
            if self.filter.drops(interface, dscp(vector.bytes(lane), self.is_ip4)) {
                if let Next::All(edge) = next {
                    vector.next[..lanes].fill(edge);
                    next = Next::Lanes;
                }
                vector.next[lane] = self.drop;
                self.filter.count(cx.worker, interface);
                dropped += 1;
            }
        }
        if let Some(total) = self.total.as_mut().filter(|_| dropped > 0) {
            total.add(dropped);
        }
        next
    }
}

/// The DSCP of a packet (RFC 2474).
#[inline(always)]
fn dscp(packet: &[u8], is_ip4: bool) -> u8 {
    match packet {
        [_, traffic_class, ..] if is_ip4 => traffic_class >> 2,
        [first, second, ..] => (first & 0xf) << 2 | second >> 6,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_have_a_dscp() {
        assert_eq!(dscp(&[0x45, 46 << 2 | 1], true), 46);
        assert_eq!(dscp(&[0x60 | 46 >> 2, (46 & 3) << 6], false), 46);
        assert_eq!(dscp(&[0x45], true), 0);
    }
}
