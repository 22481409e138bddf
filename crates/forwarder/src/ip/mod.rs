//! IP unicast: validation, lookup, rewrite. IPv4 and IPv6 have the same steps in separate files.

pub mod header_words;
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
pub mod ip6_validate;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ip6_validate_avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ip6_validate_avx512;
pub mod lookup;
pub mod noop;
pub mod policy;
pub mod reassembly;
pub mod redirect;
pub mod reverse_path;
mod rewrite;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod rewrite_avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod rewrite_avx512;

use stoa_engine::Vector;
use stoa_engine::vector::Column;
use stoa_tables::next_hop::Resolved;

use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::shared::{Shared, SpecialNextHop};

/// The first edges of `ip4-input`, `ip4-lookup` and of the same nodes of IPv6.
pub const REWRITE: u16 = 0;
/// See [`REWRITE`].
pub const LOCAL: u16 = 1;
/// See [`REWRITE`].
pub const ERROR: u16 = 2;
/// The fourth edge of `ip4-input` and `ip4-lookup`: packets with options.
pub const OPTIONS: u16 = 3;

/// Resolves the next hop of a lane: sets its adjacency and returns its edge.
#[inline(always)]
pub(crate) fn follow(shared: &Shared, vector: &mut Vector, lane: usize, value: u32) -> u16 {
    match shared.next_hops.resolve(value, vector.hash[lane]) {
        Resolved::Adjacency(adjacency) => {
            vector.adjacency[lane] = adjacency;
            REWRITE
        }
        Resolved::Special { code, .. } => special_next_hop(vector, lane, SpecialNextHop::of(code)),
        Resolved::Missing => special_next_hop(vector, lane, SpecialNextHop::NoRoute),
    }
}

/// Resolves the next hops of all lanes at once where possible: the same one for all, or next hops
/// with one adjacency each. Returns the edge of all lanes; `None`: resolve them one by one.
#[inline(always)]
pub(crate) fn follow_uniform(
    shared: &Shared,
    vector: &mut Vector,
    values: &Column<u32>,
) -> Option<u16> {
    let lanes = vector.len();
    if let Some(value) = values.uniform(lanes) {
        if shared.next_hops.is_group(value) {
            return None;
        }
        let next = follow(shared, vector, 0, value);
        let adjacency = vector.adjacency[0];
        vector.adjacency[..lanes].fill(adjacency);
        return Some(next);
    }
    let straight =
        shared.next_hops.resolve_straight(&values[..lanes], &mut vector.adjacency[..lanes]);
    straight.then_some(REWRITE)
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
    vector.adjacency[lane] = cause.code();
    ERROR
}
