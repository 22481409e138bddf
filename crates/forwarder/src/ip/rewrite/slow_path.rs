//! The packets of `ip4-rewrite` and `ip6-rewrite` that are not sent as they are: to the control thread,
//! to a tunnel, in fragments, or not at all.

use stoa_engine::Vector;
use stoa_engine::vector::flags;
use stoa_tables::adjacency::{AdjacencyHead, AdjacencyKind};

use super::{FRAGMENT, Family, HEADER, ICMP_ERROR, RESOLVE, TUNNEL};
use crate::icmp::IcmpCause;

/// A packet with an incomplete adjacency or larger than the MTU.
#[cold]
#[inline(never)]
pub(super) fn slow_path<F: Family>(vector: &mut Vector, lane: usize, head: AdjacencyHead) -> u16 {
    if let Some(error) = icmp_error::<F>(vector, lane, head) {
        return error;
    }
    vector.tx_if[lane] = head.interface();
    // Before the MTU: a packet that waits for its neighbour stays whole, so that the features of the output arcs see
    // it whole.
    if matches!(head.kind(), AdjacencyKind::Incomplete | AdjacencyKind::Glean) {
        return RESOLVE;
    }
    if vector.length[lane] > head.mtu() {
        return FRAGMENT;
    }
    if head.kind() != AdjacencyKind::Tunnel {
        return RESOLVE;
    }
    let own = vector.flags[lane] & flags::OWN != 0;
    let header = vector.bytes_mut(lane).first_chunk_mut::<HEADER>();
    let Some(header) = header else { return F::TRUNCATED.next() };
    if !own {
        F::decrement_ttl(header);
    }
    TUNNEL
}

/// The edge of a packet that gets an ICMP error in place of being sent.
#[cold]
#[inline(never)]
pub(in crate::ip) fn icmp_error<F: Family>(
    vector: &mut Vector,
    lane: usize,
    head: AdjacencyHead,
) -> Option<u16> {
    let own = vector.flags[lane] & flags::OWN != 0;
    let bytes = vector.bytes(lane);
    // TTL expiry comes before neighbour resolution.
    let cause = if !own && bytes.get(F::TTL).is_none_or(|ttl| *ttl <= 1) {
        IcmpCause::Expired
    } else if head.kind() == AdjacencyKind::Drop {
        IcmpCause::Neighbor
    } else if vector.length[lane] > head.mtu() && !F::may_fragment(bytes, vector.flags[lane]) {
        IcmpCause::TooBig(head.mtu())
    } else {
        return None;
    };
    vector.arg[lane] = cause.code();
    Some(ICMP_ERROR)
}
