//! `ip6-rewrite`: the second half of the fast path: hop limit, MTU, link-layer header (RFC 8200 3,
//! RFC 8201).

use std::sync::Arc;

use stoa_engine::arc::FeatureArc;
use stoa_engine::counters::AdjacencyCounters;
use stoa_engine::vector::flags;
use stoa_engine::{Node, Vector};
use stoa_tables::adjacency::AdjacencyLine;

use super::rewrite::{Counts, Exceptions, Family, HEADER, Left, Rewrite};
use crate::arcs::{Arcs, IP6_OUTPUT};
use crate::drops::Drop;
use crate::shared::Shared;

/// Next nodes; the arc of output features adds more.
pub const EDGES: &[&str] =
    &["port-output", "neighbor-resolve", "icmp6-error", "ip6-fragment", "tunnel-output"];

/// Next nodes of the instance behind the output features.
pub const OUTPUT_EDGES: &[&str] =
    &["interface-output", "neighbor-resolve", "icmp6-error", "ip6-fragment", "tunnel-output"];

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Rewrite::<Ip6>::new(shared))
}

/// Makes the node of one worker behind the output features: `ip6-output-rewrite`.
pub fn make_output(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Rewrite::<Ip6>::behind_features(shared))
}

/// IPv6.
pub(super) struct Ip6;

impl Family for Ip6 {
    const TTL: usize = 7;
    const TRUNCATED: Drop = Drop::Ip6Truncated;
    const NO_ROUTE: Drop = Drop::Ip6NoRoute;
    const ARC: &'static str = IP6_OUTPUT;
    const START: &'static str = "ip6-rewrite";

    fn arc(arcs: &Arcs) -> &FeatureArc {
        &arcs.ip6_output
    }

    #[inline(always)]
    fn decrement_ttl(header: &mut [u8; HEADER]) {
        header[Self::TTL] -= 1;
    }

    /// Only the source of a packet fragments it (RFC 8200 5), or who translates one of IPv4 (RFC 7915 section 4).
    fn may_fragment(_packet: &[u8], flags: u16) -> bool {
        flags & (flags::OWN | flags::CUT) != 0
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn uniform_avx512(
        vector: &mut Vector,
        line: &AdjacencyLine,
        sends: u8,
        counts: &mut Counts,
    ) -> Exceptions {
        super::rewrite_avx512::rewrite::<Self>(vector, line, sends, counts)
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn each_avx512(
        vector: &mut Vector,
        lines: &[AdjacencyLine],
        sends: u8,
        counters: &[AdjacencyCounters],
    ) -> Left {
        super::rewrite_avx512::rewrite_each::<Self>(vector, lines, sends, counters)
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn uniform_avx2(
        vector: &mut Vector,
        line: &AdjacencyLine,
        sends: u8,
        counts: &mut Counts,
    ) -> Exceptions {
        super::rewrite_avx2::rewrite::<Self>(vector, line, sends, counts)
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn each_avx2(
        vector: &mut Vector,
        lines: &[AdjacencyLine],
        sends: u8,
        counters: &[AdjacencyCounters],
    ) -> Exceptions {
        super::rewrite_avx2::rewrite_each::<Self>(vector, lines, sends, counters)
    }
}
