//! `ip4-rewrite`: the second half of the fast path: TTL, checksum, MTU, link-layer header
//! (RFC 1812 5.3.1, RFC 1624).

use std::sync::Arc;

use stoa_engine::arc::FeatureArc;
use stoa_engine::counters::AdjacencyCounters;
use stoa_engine::{Node, Vector};
use stoa_tables::adjacency::AdjacencyLine;
use stoa_wire::{checksum, ipv4};

use super::rewrite::{Counts, Exceptions, Family, HEADER, Left, Rewrite};
use crate::arcs::{Arcs, IP4_OUTPUT};
use crate::drops::Drop;
use crate::shared::Shared;

/// Next nodes; the arc of output features adds more.
pub const EDGES: &[&str] =
    &["port-output", "neighbor-resolve", "icmp4-error", "ip4-fragment", "tunnel-output"];

/// Next nodes of the instance behind the output features.
pub const OUTPUT_EDGES: &[&str] =
    &["interface-output", "neighbor-resolve", "icmp4-error", "ip4-fragment", "tunnel-output"];

/// "Don't fragment" in the first byte of flags and offset.
const DONT_FRAGMENT: u8 = (ipv4::DONT_FRAGMENT >> 8) as u8;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Rewrite::<Ip4>::new(shared))
}

/// Makes the node of one worker behind the output features: `ip4-output-rewrite`.
pub fn make_output(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Rewrite::<Ip4>::behind_features(shared))
}

/// IPv4.
pub(super) struct Ip4;

impl Family for Ip4 {
    const TTL: usize = 8;
    const TRUNCATED: Drop = Drop::Ip4Truncated;
    const NO_ROUTE: Drop = Drop::Ip4NoRoute;
    const ARC: &'static str = IP4_OUTPUT;
    const START: &'static str = "ip4-rewrite";

    fn arc(arcs: &Arcs) -> &FeatureArc {
        &arcs.ip4_output
    }

    #[inline(always)]
    fn decrement_ttl(header: &mut [u8; HEADER]) {
        header[Self::TTL] -= 1;
        let sum = checksum::ttl_decremented(u16::from_be_bytes([header[10], header[11]]));
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }

    fn may_fragment(packet: &[u8], _flags: u16) -> bool {
        packet.get(6).is_some_and(|flags| flags & DONT_FRAGMENT == 0)
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
