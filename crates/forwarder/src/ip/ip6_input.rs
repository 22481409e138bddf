//! `ip6-input`: validates IPv6 packets and, unless a feature is enabled, looks them up: the first
//! half of the fast path (RFC 8200).

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::gather::{Plain, gather_plain};
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{Column, LaneSet, flags};
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::lpm::Counted;
use stoa_wire::{ipv6, vrrp};

use super::ip6_validate::{self, Scope, Validated, check};
use super::lookup::Lookup;
use super::{ERROR, LOCAL, REWRITE, are_featured, follow, follow_all, follow_some};
use crate::acl;
use crate::addresses::Addresses;
use crate::arcs::{self, IP6_INPUT};
use crate::attributes::interface_flags::{ADVERTISE6, FEATURES6, FORWARD6, IN_VRF, IP6, VRRP6};
use crate::drops::Drop;
use crate::flow;
use crate::host_interface::{Payload, is_for_host6, to_host};
use crate::icmp::IcmpCause;
use crate::login;
use crate::shared::Shared;

/// Next nodes besides those of the arc.
pub const EDGES: &[&str] = &["ip6-rewrite", "ip6-local", "icmp6-error", "host-interface-output"];
const HOST_INTERFACE: u16 = 3;

/// Attributes of an interface that decide about a packet.
const DECIDING: u32 = IP6 | FORWARD6 | FEATURES6;
/// Their values where packets need only routing.
const FORWARDING: u32 = IP6 | FORWARD6;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    Box::new(Ip6Input {
        shared: shared.clone(),
        worker,
        hook: arcs::hook(IP6_INPUT, "ip6-input"),
        validated: Validated::new(),
        attributes: Column::of(0),
        is_default: false,
        lookup: Lookup::new(),
        values: Column::of(0),
    })
}

struct Ip6Input {
    shared: Arc<Shared>,
    worker: usize,
    hook: ArcHook,
    validated: Validated,
    attributes: Column<u32>,
    /// Whether all interfaces of the vector are in the default VRF.
    is_default: bool,
    lookup: Box<Lookup>,
    values: Column<u32>,
}

/// In the `next` column: the lane is on the fast path, its route is looked up with the others.
const PLAIN: u16 = 0;

impl Node for Ip6Input {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        ip6_validate::validate(self.shared.kernel, vector, &mut self.validated);
        let interface = vector.rx_if.uniform(lanes);
        let any = vector.flags[..lanes].iter().fold(0, |any, flags| any | flags);
        if any == 0
            && self.validated.is_clean()
            && let Some(interface) = interface
        {
            let flags = self.shared.attributes.flags_of(interface);
            self.is_default = flags & IN_VRF == 0;
            match flags & DECIDING {
                FORWARDING => return self.forward_all(cx.reader, vector),
                flags if flags & (IP6 | FEATURES6) == IP6 | FEATURES6 => {
                    let enabled = self.shared.arcs.ip6_input.enabled(interface);
                    return Next::All(self.hook.edge(enabled));
                }
                _ => {}
            }
        }
        self.sort(cx.reader, vector)
    }
}

impl Ip6Input {
    /// Looks up all lanes together.
    #[inline(always)]
    fn look_up(&mut self, reader: &Reader, vector: &Vector) {
        let lanes = vector.len();
        let (keys, values) = (&self.validated.destination[..lanes], &mut self.values[..lanes]);
        if self.is_default {
            return self.shared.ip6.lookup_batch(keys, values);
        }
        self.lookup.run((&self.shared, reader), &vector.rx_if, keys, values, Counted::All);
    }

    /// Routes all lanes.
    #[inline(always)]
    fn forward_all(&mut self, reader: &Reader, vector: &mut Vector) -> Next {
        self.look_up(reader, vector);
        follow_all(&self.shared, vector, &self.values, route)
    }

    /// Sends lanes to features, routes plain ones together, and others one by one.
    #[inline(never)]
    fn sort(&mut self, reader: &Reader, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let mut routed = self.plain(vector);
        let mut others = LaneSet::first_of(lanes);
        others.remove_all(&routed);
        if others.is_empty() {
            return self.forward_all(reader, vector);
        }
        let featured = IP6 | FEATURES6;
        if routed.is_empty()
            && self.validated.is_clean()
            && are_featured(featured, &self.attributes, vector)
        {
            let arc = &self.shared.arcs.ip6_input;
            return self.hook.proceed(arc, &vector.rx_if, lanes, &mut vector.next);
        }
        let shared = &*self.shared;
        let addresses = shared.addresses.read(reader);
        let (hook, worker) = (self.hook, self.worker);
        let tables = Tables { shared, hook, addresses, reader, worker };
        for lane in others.iter() {
            let is_exception = self.validated.is_exception(lane);
            let destination = &mut self.validated.destination[lane];
            let has_features = self.attributes[lane] & featured == featured;
            if has_features && vector.flags[lane] == 0 && !is_exception {
                vector.next[lane] =
                    self.hook.edge(shared.arcs.ip6_input.enabled(vector.rx_if[lane]));
                // Looked up behind its features.
                *destination = 0;
                continue;
            }
            vector.next[lane] = check_lane(&tables, vector, lane, destination);
            if vector.next[lane] == PLAIN {
                routed.insert(lane);
            }
        }
        if routed.is_empty() {
            return Next::Lanes;
        }
        self.look_up(reader, vector);
        follow_some(&self.shared, vector, (&routed, &self.values), route);
        Next::Lanes
    }

    /// The valid lanes that need only routing. Loads the attributes of all lanes.
    #[inline(always)]
    fn plain(&mut self, vector: &Vector) -> LaneSet {
        let table = self.shared.attributes.flags();
        let columns = (&vector.rx_if, &vector.flags);
        let expected = Plain { mask: DECIDING, expected: FORWARDING };
        let (mut plain, any) =
            gather_plain(table, columns, vector.len(), expected, &mut self.attributes);
        self.is_default = any & IN_VRF == 0;
        plain.remove(&self.validated.exceptions);
        plain
    }
}

/// The tables for checking a lane.
struct Tables<'a> {
    shared: &'a Shared,
    hook: ArcHook,
    addresses: &'a Addresses,
    reader: &'a Reader,
    worker: usize,
}

/// Checks one lane: its next node, or [`PLAIN`].
#[inline(always)]
fn check_lane(
    tables: &Tables<'_>,
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
    let shared = tables.shared;
    let line = shared.attributes.flags_of(vector.rx_if[lane]);
    let fast_path =
        vector.flags[lane] == 0 && packet.scope == Scope::Global && line & DECIDING == FORWARDING;
    if fast_path {
        return PLAIN;
    }
    let mut next = slow_path(tables, vector, lane, (packet.scope, line));
    let place = (shared, tables.reader, tables.worker);
    if line & FEATURES6 != 0 && matches!(next, LOCAL | HOST_INTERFACE) {
        next = login::beside_arc6((shared, tables.reader), (vector, lane), (next, ERROR));
        if next != ERROR {
            next = acl::beside_arc6(place, (vector, lane), (next, ERROR));
        }
    }
    if next == HOST_INTERFACE {
        next = acl::pair_to_host6(place, (vector, lane), (next, ERROR));
    }
    next
}

/// A lane that is not on the fast path.
#[cold]
#[inline(never)]
fn slow_path(
    tables: &Tables<'_>,
    vector: &mut Vector,
    lane: usize,
    (scope, line): (Scope, u32),
) -> u16 {
    let Tables { shared, hook, addresses, reader, worker: _ } = *tables;
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
    if line & FEATURES6 != 0 && scope == Scope::Global {
        return hook.edge(shared.arcs.ip6_input.enabled(interface));
    }
    let table = shared.ip6_table(shared.attributes.vrf_of(interface), reader);
    let value = table.map_or(0, |table| table.lookup(destination));
    match route(shared, vector, lane, value) {
        REWRITE | ERROR if scope == Scope::FromLink => {
            vector.arg[lane] = IcmpCause::BeyondScope.code();
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
    let mut all = all.chain(own.virtual6.iter().copied()).chain(own.anycast6.iter().copied());
    all.any(|address| u128::from(ipv6::solicited_node(address)) == group)
}

/// Resolves the route of a lane; computes the flow hash only for next hops with several paths.
#[inline(always)]
pub(crate) fn route(shared: &Shared, vector: &mut Vector, lane: usize, value: u32) -> u16 {
    let is_group = shared.next_hops.is_group(value);
    let flow_hash =
        if is_group { flow::hash6(vector.bytes(lane), shared.seeds.paths()) } else { 0 };
    follow(shared, vector, lane, (value, flow_hash))
}
