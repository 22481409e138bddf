//! `ip6-input`: validates IPv6 packets and, unless a feature is enabled, looks them up: the first
//! half of the fast path (RFC 8200).

use std::sync::Arc;

use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{Column, flags};
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_wire::{ipv6, vrrp};

use super::ip6_validate::{self, Scope, Validated, check};
use super::{ERROR, LOCAL, REWRITE, follow, follow_all, vrf_runs};
use crate::drops::Drop;
use crate::ethernet::interface_flags::{ADVERTISE6, FORWARD6, IP6, VRRP6};
use crate::flow;
use crate::host_interface::{Payload, is_for_host6, to_host};
use crate::icmp::IcmpCause;
use crate::shared::{Addresses, DEFAULT_VRF, Shared};

/// Next nodes; features last, in the order of the arc.
pub const EDGES: &[&str] = &[
    "ip6-rewrite",
    "ip6-local",
    "icmp6-error",
    "host-interface-output",
    "ip6-reverse-path",
    "ip6-policy",
    "ip6-redirect",
];
const HOST_INTERFACE: u16 = 3;
const FIRST_FEATURE: u16 = 4;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip6Input {
        shared: shared.clone(),
        validated: Validated::new(),
        values: Column::of(0),
    })
}

struct Ip6Input {
    shared: Arc<Shared>,
    validated: Validated,
    values: Column<u32>,
}

/// In the `next` column: the lane is on the fast path, its route is looked up with the others.
const PLAIN: u16 = 0;

impl Node for Ip6Input {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let shared = &*self.shared;
        ip6_validate::validate(shared.kernel, vector, &mut self.validated);
        let interface = vector.rx_if.uniform(lanes);
        let fast_path = is_fast_path(shared, vector, interface);
        let clean = fast_path && self.validated.is_clean();
        if !clean {
            let addresses = shared.addresses.read(cx.reader);
            let lookup = Lookup { shared, addresses, reader: cx.reader };
            for lane in 0..lanes {
                let is_exception = self.validated.exceptions[lane / 8] >> (lane % 8) & 1 == 1;
                let to = &mut self.validated.destination[lane];
                let needs_check = is_exception || !fast_path;
                vector.next[lane] =
                    if needs_check { check_lane(&lookup, vector, lane, to) } else { PLAIN };
            }
        }
        if interface.is_some_and(|interface| shared.interface(interface).vrf() == DEFAULT_VRF) {
            shared
                .ip6
                .lookup_batch(&self.validated.destination[..lanes], &mut self.values[..lanes]);
        } else {
            look_up(shared, cx.reader, vector, &self.validated.destination, &mut self.values);
        }
        if clean {
            return follow_all(shared, vector, &self.values, route);
        }
        for lane in 0..lanes {
            if vector.next[lane] == PLAIN {
                vector.next[lane] = route(shared, vector, lane, self.values[lane]);
            }
        }
        Next::Lanes
    }
}

/// Whether the lanes only need routing: one receiving interface that forwards, unicast frames, no
/// features.
#[inline(always)]
fn is_fast_path(shared: &Shared, vector: &Vector, interface: Option<u32>) -> bool {
    let any = vector.flags[..vector.len()].iter().fold(0, |any, flags| any | flags);
    any == 0
        && shared.features6.is_idle()
        && interface.is_some_and(|interface| {
            shared.interface(interface).flags() & (IP6 | FORWARD6) == IP6 | FORWARD6
        })
}

/// Looks up lanes of several VRFs, each in the table of its VRF.
#[cold]
#[inline(never)]
fn look_up(
    shared: &Shared,
    reader: &Reader,
    vector: &Vector,
    keys: &[u128; VECTOR],
    values: &mut [u32; VECTOR],
) {
    for (lanes, vrf) in vrf_runs(shared, vector) {
        let (keys, values) = (&keys[lanes.clone()], &mut values[lanes]);
        match shared.ip6_table(vrf, reader) {
            Some(table) => table.lookup_batch(keys, values),
            None => values.fill(0),
        }
    }
}

/// The tables for checking a lane.
struct Lookup<'a> {
    shared: &'a Shared,
    addresses: &'a Addresses,
    reader: &'a Reader,
}

/// Checks one lane: its next node, or [`PLAIN`].
#[inline(always)]
fn check_lane(
    lookup: &Lookup<'_>,
    vector: &mut Vector,
    lane: usize,
    destination: &mut u128,
) -> u16 {
    let packet = match check(vector.bytes(lane)) {
        Ok(packet) => packet,
        Err(reason) => return reason.next(),
    };
    vector.length[lane] = packet.length;
    *destination = packet.destination;
    let shared = lookup.shared;
    let line = shared.interface(vector.rx_if[lane]).flags();
    let fast_path = vector.flags[lane] == 0
        && packet.scope == Scope::Global
        && line & (IP6 | FORWARD6) == IP6 | FORWARD6
        && shared.features6.is_idle();
    if fast_path { PLAIN } else { slow_path(lookup, vector, lane, (packet.scope, line)) }
}

/// A lane that is not on the fast path.
#[cold]
#[inline(never)]
fn slow_path(
    lookup: &Lookup<'_>,
    vector: &mut Vector,
    lane: usize,
    (scope, line): (Scope, u32),
) -> u16 {
    let Lookup { shared, addresses, reader } = *lookup;
    if line & IP6 == 0 {
        return Drop::Ip6Disabled.next();
    }
    let destination = destination_of(vector.bytes(lane));
    let interface = vector.rx_if[lane];
    match scope {
        Scope::Group if has_joined(addresses, interface, destination, line) => return LOCAL,
        Scope::Group => {
            return match shared
                .interface(interface)
                .host_pair()
                .filter(|_| is_for_host6(destination))
            {
                Some(host_device) => {
                    to_host(vector, lane, (host_device, Payload::Ip6), HOST_INTERFACE)
                }
                None => Drop::Ip6Multicast.next(),
            };
        }
        _ if vector.flags[lane] & flags::MULTICAST != 0 => return Drop::Ip6LinkMulticast.next(),
        Scope::ToLink => {
            let is_ours = addresses.of(interface).is_some_and(|own| {
                let all = own.link_local.iter().chain(&own.virtual6);
                all.into_iter().any(|own| u128::from(*own) == destination)
            });
            return if is_ours { LOCAL } else { Drop::Ip6LinkLocal.next() };
        }
        Scope::Global | Scope::FromLink => {}
    }
    if let Some(feature) = shared.features6.next(interface, 0)
        && scope == Scope::Global
    {
        return FIRST_FEATURE + feature as u16;
    }
    let table = shared.ip6_table(shared.interface(interface).vrf(), reader);
    let value = table.map_or(0, |table| table.lookup(destination));
    match route(shared, vector, lane, value) {
        REWRITE | ERROR if scope == Scope::FromLink => {
            vector.adjacency[lane] = IcmpCause::BeyondScope.code();
            ERROR
        }
        REWRITE | ERROR if line & FORWARD6 == 0 => Drop::Ip6NotForwarding.next(),
        // `REWRITE` equals `PLAIN`: the lane is routed again with the others.
        next => next,
    }
}

fn destination_of(bytes: &[u8]) -> u128 {
    let octets = bytes.get(24..ipv6::LENGTH).and_then(<[u8]>::first_chunk::<16>);
    octets.map_or(0, |octets| u128::from_be_bytes(*octets))
}

/// Whether an interface has joined a group: all nodes, the solicited-node groups of its addresses
/// and, on a router, all routers (RFC 4291 2.8).
fn has_joined(addresses: &Addresses, interface: u32, group: u128, line: u32) -> bool {
    let is_router = line & (FORWARD6 | ADVERTISE6) != 0;
    // Hosts send MLDv2 reports to ff02::16 (RFC 3810 5.2.14).
    let of_routers = [u128::from(ipv6::ALL_ROUTERS), 0xff02 << 112 | 0x16];
    let all_routers = is_router && of_routers.contains(&group);
    if group == u128::from(ipv6::ALL_NODES) || all_routers {
        return true;
    }
    if line & VRRP6 != 0 && group == u128::from(vrrp::GROUP6) {
        return true;
    }
    let Some(own) = addresses.of(interface) else { return false };
    let all = own.ip6.iter().map(|(address, _)| *address).chain(own.link_local);
    let mut all = all.chain(own.virtual6.iter().copied());
    all.any(|address| u128::from(ipv6::solicited_node(address)) == group)
}

/// Resolves the route of a lane; computes the flow hash only for next hops with several paths.
#[inline(always)]
pub(super) fn route(shared: &Shared, vector: &mut Vector, lane: usize, value: u32) -> u16 {
    if shared.next_hops.is_group(value) {
        vector.hash[lane] = flow::hash6(vector.bytes(lane));
    }
    follow(shared, vector, lane, value)
}
