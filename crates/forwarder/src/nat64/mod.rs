//! Translation between IPv6 hosts and IPv4 servers (NAT64, RFC 6146): what comes before and behind NAT44.
//!
//! An IPv6 host has a stand-in, an IPv4 address of a range that no host has. `ip6-nat64-input` makes IPv4 packets of
//! stand-ins (RFC 7915) of packets to the prefix of NAT64, and gives them to `ip4-acl-input`, which follows their
//! flows: mappings, ports, filtering and hairpins are those of NAT44. No IPv4 input list decides about them.
//! `ip4-nat64-input` makes IPv6 packets of what NAT44 sends to a stand-in. Both have the flag
//! [`CROSSED`](stoa_engine::vector::flags::CROSSED), so that an ICMP error about them is made in the family in which
//! they came. Nothing with a stand-in leaves the router: only routes by external interfaces of NAT64 policies are
//! open to it.

mod errors;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod grow_avx2;
pub mod hosts;
pub(crate) mod identifications;
mod input4;
mod input6;
pub(crate) mod keys;
pub(crate) mod lanes;
pub(crate) mod pieces;
pub(crate) mod plain;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod shrink_avx2;

pub use errors::{former_cause, turn_back};
pub use input4::make_input4;
pub use input6::make_input6;

pub(crate) use stoa_wire::siit::is_host as is_host4;

use std::net::Ipv4Addr;

use stoa_engine::vector::{DROP, flags};
use stoa_engine::{Next, Vector};
use stoa_wire::siit::Prefix;

use crate::attributes::interface_flags::NAT64;
use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::ip::{ERROR, LOCAL, REWRITE};
use crate::shared::Shared;

/// The node that makes IPv4 packets.
pub const INPUT6_NODE: &str = "ip6-nat64-input";
/// The node that makes IPv6 packets.
pub const INPUT4_NODE: &str = "ip4-nat64-input";

/// Next nodes of [`INPUT6_NODE`] besides those of the arc.
pub const EDGES6: &[&str] = &["ip4-acl-input", "icmp6-error"];
const TO_FLOWS: u16 = 0;
const ERROR6: u16 = 1;
/// Next nodes of [`INPUT4_NODE`] besides those of the arc: the first edges of `ip6-input`, and the look-up.
pub const EDGES4: &[&str] = &["ip6-rewrite", "ip6-local", "icmp6-error", "ip6-lookup"];
const TO_LOOKUP: u16 = 3;

/// Which prefixes are translated.
#[derive(Debug, Default)]
pub struct Nat64 {
    /// By VRF (an id of [`crate::shared::vrf_id`]), in order: each has one at most.
    pub prefixes: Vec<(u32, Prefix)>,
}

impl Nat64 {
    /// That of a VRF.
    #[inline]
    pub fn prefix(&self, vrf: u32) -> Option<Prefix> {
        let at = self.prefixes.binary_search_by_key(&vrf, |it| it.0).ok()?;
        self.prefixes.get(at).map(|it| it.1)
    }

    /// Whether packets of a VRF to an IPv6 address are translated.
    #[inline]
    pub fn translates(&self, vrf: u32, destination: u128) -> bool {
        let Some(prefix) = self.prefix(vrf) else { return false };
        prefix.extract(std::net::Ipv6Addr::from_bits(destination)).is_some()
    }
}

/// Where a lane goes that a look-up of IPv4 sends to `next`: one of a stand-in leaves by external interfaces of NAT64
/// only, and one that was an IPv6 packet reaches no service of the router, which could not answer it.
#[inline]
pub fn confined(shared: &Shared, vector: &mut Vector, lane: usize, next: u16) -> u16 {
    if vector.flags[lane] & flags::CROSSED == 0 {
        next
    } else {
        confine(shared, vector, lane, next)
    }
}

#[cold]
#[inline(never)]
fn confine(shared: &Shared, vector: &mut Vector, lane: usize, next: u16) -> u16 {
    let is_stateless = vector.flags[lane] & flags::STATELESS != 0;
    let is_open = match next {
        REWRITE => is_stateless || is_outside(shared, vector.adjacency[lane]),
        next => next == ERROR || next & DROP != 0,
    };
    if is_open {
        return next;
    }
    vector.arg[lane] = IcmpCause::Prohibited.code();
    ERROR
}

/// The same for all lanes of a vector with lanes that were IPv6 packets, whose look-up has returned `next`.
#[inline(never)]
pub fn all_confined(shared: &Shared, vector: &mut Vector, next: Next) -> Next {
    let lanes = vector.len();
    let stateless = |all: u16, flags: &u16| all & flags & flags::STATELESS;
    if next == Next::All(REWRITE)
        && (vector.flags[..lanes].iter().fold(flags::STATELESS, stateless) != 0
            || vector.adjacency.uniform(lanes).is_some_and(|it| is_outside(shared, it)))
    {
        return next;
    }
    if let Next::All(edge) = next {
        vector.next[..lanes].fill(edge);
    }
    let mut open = None;
    for lane in 0..lanes {
        if vector.next[lane] == REWRITE && open == Some(vector.adjacency[lane]) {
            continue;
        }
        vector.next[lane] = confined(shared, vector, lane, vector.next[lane]);
        // One without state may go where others may not.
        let is_confined =
            vector.flags[lane] & (flags::CROSSED | flags::STATELESS) == flags::CROSSED;
        if vector.next[lane] == REWRITE && is_confined {
            open = Some(vector.adjacency[lane]);
        }
    }
    Next::Lanes
}

/// Where a lane goes that a look-up of IPv6 sends to `next`: one that was an IPv4 packet, or went to the prefix of
/// SIIT, is for hosts, and for no service of the router.
#[inline]
pub fn forwarded(vector: &Vector, lane: usize, next: u16) -> u16 {
    let flags = vector.flags[lane];
    if flags & (flags::CROSSED | flags::STATELESS) == 0 || next != LOCAL {
        return next;
    }
    match flags & flags::STATELESS {
        0 => Drop::Nat64Address.next(),
        _ => Drop::SiitAddress.next(),
    }
}

/// The same for all lanes of a vector with lanes that were IPv4 packets, whose look-up has returned `next`.
#[inline(never)]
pub fn all_forwarded(vector: &mut Vector, next: Next) -> Next {
    let lanes = vector.len();
    if matches!(next, Next::All(edge) if edge != LOCAL) {
        return next;
    }
    if let Next::All(edge) = next {
        vector.next[..lanes].fill(edge);
    }
    for lane in 0..lanes {
        vector.next[lane] = forwarded(vector, lane, vector.next[lane]);
    }
    Next::Lanes
}

/// Whether an adjacency is at an external interface of NAT64.
fn is_outside(shared: &Shared, adjacency: u32) -> bool {
    let line = shared.adjacencies.get(adjacency);
    line.is_some_and(|it| shared.attributes.flags_of(it.head().interface()) & NAT64 != 0)
}

/// Whether packets to an IPv4 address are translated.
fn is_translatable(prefix: Prefix, address: Ipv4Addr) -> bool {
    is_host4(address) && prefix.may_have(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_well_known_prefix_is_for_global_addresses() {
        let own = Prefix::new("2001:db8:64::".parse().unwrap(), 96).unwrap();
        for (address, with_own, with_well_known) in [
            ("198.41.0.4", true, true),
            ("10.0.0.1", true, false),
            ("100.64.0.1", true, false),
            ("198.19.0.1", true, false),
            ("192.0.2.1", true, false),
            ("0.0.0.0", false, false),
            ("127.0.0.1", false, false),
            ("169.254.1.1", false, false),
            ("224.0.0.1", false, false),
            ("255.255.255.255", false, false),
            ("240.0.0.1", false, false),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(is_translatable(own, address), with_own, "{address}");
            assert_eq!(is_translatable(Prefix::WELL_KNOWN, address), with_well_known, "{address}");
        }
    }
}
