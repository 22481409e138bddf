//! IP unicast: validation, lookup, rewrite. IPv4 and IPv6 have the same steps in separate files.

pub mod flow_hash;
pub mod header_words;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod header_words_avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod header_words_avx512;
pub mod identification;
pub mod ip4_fragment;
pub mod ip4_input;
pub mod ip4_local;
pub mod ip4_lookup;
pub mod ip4_options;
pub mod ip4_punt;
pub mod ip4_rewrite;
pub mod ip4_validate;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ip4_validate_avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ip4_validate_avx512;
pub mod ip6_chain;
pub mod ip6_fragment;
pub mod ip6_input;
pub mod ip6_local;
pub mod ip6_lookup;
pub mod ip6_rewrite;
pub mod ip6_translated_fragment;
pub mod ip6_validate;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ip6_validate_avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ip6_validate_avx512;
pub mod ip_demux;
pub mod lookup;
pub mod minimum_ttl;
pub mod mss_clamp;
pub mod origin;
mod output_arc;
pub mod policy;
pub mod reassembly;
#[cfg(test)]
mod recomputed;
pub mod redirect;
pub mod reverse_path;
mod rewrite;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod rewrite_avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod rewrite_avx512;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod rewrite_columns_avx512;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod rewrite_header_avx512;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod rewrite_places_avx512;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod rewrite_wide_avx2;

pub(crate) use header_words::load_addresses;
pub(crate) use ip6_fragment::cut as cut6;
pub(crate) use ip6_input::route as route6;

use stoa_engine::vector::{Column, LaneSet};
use stoa_engine::{Next, VECTOR, Vector};
use stoa_tables::next_hop::{BATCH, Others, Resolved};

use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::shared::{Shared, SpecialNextHop};

// A vector is resolved in one batch.
const _: () = assert!(VECTOR == BATCH);

/// The first edges of `ip4-input`, `ip4-lookup` and of the same nodes of IPv6.
pub const REWRITE: u16 = 0;
/// See [`REWRITE`].
pub const LOCAL: u16 = 1;
/// See [`REWRITE`].
pub const ERROR: u16 = 2;
/// The fourth edge of `ip4-input` and `ip4-lookup`: packets with options.
pub const OPTIONS: u16 = 3;

/// Resolves the next hop of a lane: sets its adjacency and returns its edge. The flow hash chooses
/// among several paths.
#[inline(always)]
pub(crate) fn follow(
    shared: &Shared,
    vector: &mut Vector,
    lane: usize,
    (value, flow_hash): (u32, u32),
) -> u16 {
    match shared.next_hops.resolve(value, flow_hash) {
        Resolved::Adjacency(adjacency) => {
            vector.adjacency[lane] = adjacency;
            REWRITE
        }
        Resolved::Special { code, .. } => special_next_hop(vector, lane, SpecialNextHop::of(code)),
        Resolved::Missing => special_next_hop(vector, lane, SpecialNextHop::NoRoute),
    }
}

/// Whether all lanes have the bits `featured` of their interfaces, and no flags: valid ones go to features
/// together. The interfaces of a router mostly have the same.
#[inline(always)]
pub(crate) fn are_featured(featured: u32, attributes: &Column<u32>, vector: &Vector) -> bool {
    let lanes = vector.len();
    let all = attributes[..lanes].iter().fold(featured, |all, it| all & it);
    let flags = vector.flags[..lanes].iter().fold(0, |any, flags| any | flags);
    all == featured && flags == 0
}

/// What [`follow_batch`] has resolved.
pub(crate) enum Followed {
    /// All lanes: they have this edge.
    All(u16),
    /// The lanes whose bit is not set: their edge is [`REWRITE`]. The others are to be resolved one
    /// by one.
    Except(Others),
}

/// Resolves the next hops of all lanes at once where possible: the same one for all, or those that
/// are one adjacency each.
#[inline(always)]
pub(crate) fn follow_batch(shared: &Shared, vector: &mut Vector, values: &Column<u32>) -> Followed {
    let lanes = vector.len();
    if let Some(value) = values.uniform(lanes)
        && !shared.next_hops.is_group(value)
    {
        let next = follow(shared, vector, 0, (value, 0));
        let adjacency = vector.adjacency[0];
        vector.adjacency[..lanes].fill(adjacency);
        if next == ERROR {
            let cause = vector.arg[0];
            vector.arg[..lanes].fill(cause);
        }
        return Followed::All(next);
    }
    let (kernel, adjacencies) = (shared.kernel.lookup(), &mut vector.adjacency[..lanes]);
    match shared.next_hops.resolve_batch(kernel, &values[..lanes], adjacencies) {
        [0, 0, 0, 0] => Followed::All(REWRITE),
        others => Followed::Except(others),
    }
}

/// Resolves the next hops of all lanes, with `route` where [`follow_batch`] leaves a lane.
#[inline(always)]
pub(crate) fn follow_all(
    shared: &Shared,
    vector: &mut Vector,
    values: &Column<u32>,
    route: impl Fn(&Shared, &mut Vector, usize, u32) -> u16,
) -> Next {
    let others = match follow_batch(shared, vector, values) {
        Followed::All(next) => return Next::All(next),
        Followed::Except(others) => others,
    };
    let lanes = vector.len();
    vector.next[..lanes].fill(REWRITE);
    for (word, others) in others.into_iter().enumerate() {
        let mut left = others;
        while left != 0 {
            let lane = word * 64 + left.trailing_zeros() as usize;
            vector.next[lane] = route(shared, vector, lane, values[lane]);
            left &= left - 1;
        }
    }
    Next::Lanes
}

/// Resolves the next hops of some lanes, with `route` where a lane has not one adjacency. The
/// adjacencies of other lanes mean nothing afterwards.
#[inline(always)]
pub(crate) fn follow_some(
    shared: &Shared,
    vector: &mut Vector,
    (some, values): (&LaneSet, &Column<u32>),
    route: impl Fn(&Shared, &mut Vector, usize, u32) -> u16,
) {
    let lanes = vector.len();
    let (kernel, adjacencies) = (shared.kernel.lookup(), &mut vector.adjacency[..lanes]);
    let others = shared.next_hops.resolve_batch(kernel, &values[..lanes], adjacencies);
    for lane in some.iter() {
        vector.next[lane] = if others[lane / 64] >> (lane % 64) & 1 == 0 {
            REWRITE
        } else {
            route(shared, vector, lane, values[lane])
        };
    }
}

/// The edge or drop of a lane with a special next hop.
#[cold]
#[inline(never)]
fn special_next_hop(vector: &mut Vector, lane: usize, special: SpecialNextHop) -> u16 {
    let is_ip4 = vector.bytes(lane).first().is_some_and(|byte| byte >> 4 == 4);
    let pick = |ip4: Drop, ip6: Drop| if is_ip4 { ip4.next() } else { ip6.next() };
    let cause = match special {
        SpecialNextHop::Local => return LOCAL,
        SpecialNextHop::Blackhole => return pick(Drop::Ip4Blackhole, Drop::Ip6Blackhole),
        SpecialNextHop::Broadcast => return Drop::Ip4Broadcast.next(),
        SpecialNextHop::NoRoute => IcmpCause::NoRoute,
        SpecialNextHop::Unreachable => IcmpCause::Unreachable,
        SpecialNextHop::Prohibited => IcmpCause::Prohibited,
        SpecialNextHop::LinkDown => IcmpCause::LinkDown,
    };
    vector.arg[lane] = cause.code();
    ERROR
}
