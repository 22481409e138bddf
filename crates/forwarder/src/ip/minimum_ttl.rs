//! `ip4-minimum-ttl` and `ip6-minimum-ttl`: drop packets whose TTL or hop limit is below the minimum
//! of the interface that received them. With a minimum of 255, only packets that no router has
//! forwarded pass: the Generalized TTL Security Mechanism (GTSM, RFC 5082).

use std::sync::Arc;

use stoa_engine::arc::{ArcHook, FeatureArc};
use stoa_engine::gather::gather_32;
use stoa_engine::vector::Column;
use stoa_engine::{Context, Next, Node, Vector};

use crate::arcs::{self, IP4_INPUT, IP6_INPUT};
use crate::drops::Drop;
use crate::shared::Shared;

/// The byte of the TTL in an IPv4 header.
const TTL: usize = 8;
/// The byte of the hop limit in an IPv6 header.
const HOP_LIMIT: usize = 7;

/// Makes the IPv4 node of one worker.
pub fn make4(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    MinimumTtl::boxed(shared, arcs::hook(IP4_INPUT, "ip4-minimum-ttl"), true)
}

/// Makes the IPv6 node of one worker.
pub fn make6(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    MinimumTtl::boxed(shared, arcs::hook(IP6_INPUT, "ip6-minimum-ttl"), false)
}

struct MinimumTtl {
    shared: Arc<Shared>,
    hook: ArcHook,
    is_ip4: bool,
    /// The minimum of the interface of each lane: the argument of the feature.
    minimum: Column<u32>,
    ttl: Column<u32>,
}

impl Node for MinimumTtl {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let small = self.are_small(vector, lanes);
        let arc = arc_of(&self.shared, self.is_ip4);
        let next = self.hook.proceed(arc, &vector.rx_if, lanes, &mut vector.next);
        if small { self.drop_small(vector, lanes, next) } else { next }
    }
}

/// The arc of the node of a family.
#[inline(always)]
fn arc_of(shared: &Shared, is_ip4: bool) -> &FeatureArc {
    if is_ip4 { &shared.arcs.ip4_input } else { &shared.arcs.ip6_input }
}

impl MinimumTtl {
    fn boxed(shared: &Arc<Shared>, hook: ArcHook, is_ip4: bool) -> Box<dyn Node> {
        let (minimum, ttl) = (Column::of(0), Column::of(0));
        Box::new(Self { shared: shared.clone(), hook, is_ip4, minimum, ttl })
    }

    /// Loads the TTL and the minimum of each lane; whether any TTL is below its minimum.
    #[inline(always)]
    fn are_small(&mut self, vector: &Vector, lanes: usize) -> bool {
        let at = if self.is_ip4 { TTL } else { HOP_LIMIT };
        let minimum = self.hook.arguments(arc_of(&self.shared, self.is_ip4));
        gather_32(minimum, &vector.rx_if, lanes, &mut self.minimum);
        let columns = self.ttl.iter_mut().zip(self.minimum.iter()).take(lanes);
        columns.enumerate().fold(false, |any, (lane, (ttl, minimum))| {
            // A packet without a whole header has the TTL 0.
            *ttl = vector.bytes(lane).get(at).copied().unwrap_or(0).into();
            any | (*ttl < *minimum)
        })
    }

    /// Drops the lanes whose TTL is too small; the others go where `next` says.
    #[inline(never)]
    fn drop_small(&self, vector: &mut Vector, lanes: usize, next: Next) -> Next {
        if let Next::All(edge) = next {
            vector.next[..lanes].fill(edge);
        }
        let reason = if self.is_ip4 { Drop::Ip4MinimumTtl } else { Drop::Ip6MinimumTtl };
        for lane in 0..lanes {
            if self.ttl[lane] < self.minimum[lane] {
                vector.next[lane] = reason.next();
            }
        }
        Next::Lanes
    }
}
