//! `ip4-input`: validates IPv4 packets and, unless a feature is enabled, looks them up: the first
//! half of the fast path (RFC 1812 5.2).

use std::net::Ipv4Addr;
use std::sync::Arc;

use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{Column, flags};
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_wire::ipv4;

use super::ip4_options::{self, through_options};
use super::ip4_punt::punt_class;
use super::ip4_validate::{self, Validated};
use super::{ERROR, LOCAL, REWRITE, follow, follow_all, vrf_runs};
use crate::drops::Drop;
use crate::ethernet::interface_flags::{FORWARD4, IP4};
use crate::flow;
use crate::host_interface::{Payload, is_for_host4, to_host};
use crate::shared::{DEFAULT_VRF, Shared};

/// Next nodes; features last, in the order of the arc.
pub const EDGES: &[&str] = &[
    "ip4-rewrite",
    "ip4-local",
    "icmp4-error",
    "ip4-options",
    "host-interface-output",
    "ip4-reverse-path",
    "ip4-policy",
    "ip4-redirect",
];
const HOST_INTERFACE: u16 = 4;
const FIRST_FEATURE: u16 = 5;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip4Input {
        shared: shared.clone(),
        validated: Validated::new(),
        values: Column::of(0),
    })
}

struct Ip4Input {
    shared: Arc<Shared>,
    validated: Validated,
    values: Column<u32>,
}

impl Node for Ip4Input {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let shared = &*self.shared;
        ip4_validate::validate(shared.kernel, vector, &mut self.validated);
        let interface = vector.rx_if.uniform(lanes);
        if interface.is_some_and(|interface| shared.interface(interface).vrf() == DEFAULT_VRF) {
            shared
                .ip4
                .lookup_batch(&self.validated.destination[..lanes], &mut self.values[..lanes]);
        } else {
            look_up(shared, cx.reader, vector, &self.validated.destination, &mut self.values);
        }
        if self.validated.is_clean() && is_fast_path(shared, vector, interface) {
            return follow_all(shared, vector, &self.values, route);
        }
        for lane in 0..lanes {
            vector.next[lane] = self.slow_path(cx.reader, vector, lane);
        }
        Next::Lanes
    }
}

/// Whether the lanes only need routing: one receiving interface that forwards, unicast frames, no
/// features.
#[inline(always)]
fn is_fast_path(shared: &Shared, vector: &Vector, interface: Option<u32>) -> bool {
    let lanes = vector.len();
    let any = vector.flags[..lanes].iter().fold(0, |any, flags| any | flags);
    any == 0
        && shared.features4.is_idle()
        && interface.is_some_and(|interface| {
            shared.interface(interface).flags() & (IP4 | FORWARD4) == IP4 | FORWARD4
        })
}

/// Looks up lanes of several VRFs, each in the table of its VRF.
#[cold]
#[inline(never)]
fn look_up(
    shared: &Shared,
    reader: &Reader,
    vector: &Vector,
    keys: &[u32; VECTOR],
    values: &mut [u32; VECTOR],
) {
    for (lanes, vrf) in vrf_runs(shared, vector) {
        let (keys, values) = (&keys[lanes.clone()], &mut values[lanes]);
        match shared.ip4_table(vrf, reader) {
            Some(table) => table.lookup_batch(keys, values),
            None => values.fill(0),
        }
    }
}

/// Resolves the route of a lane; computes the flow hash only for next hops with several paths.
#[inline(always)]
pub(super) fn route(shared: &Shared, vector: &mut Vector, lane: usize, value: u32) -> u16 {
    if shared.next_hops.is_group(value) {
        vector.hash[lane] = flow::hash4(vector.bytes(lane));
    }
    follow(shared, vector, lane, value)
}

impl Ip4Input {
    /// Multicast and broadcast packets: for Linux where there is a host interface, else local
    /// delivery of joined groups.
    #[cold]
    #[inline(never)]
    fn not_unicast(&self, vector: &mut Vector, lane: usize, (reason, line): (Drop, u32)) -> u16 {
        let local = |vector: &mut Vector| match reason {
            Drop::Ip4Multicast => multicast(vector, lane, line),
            _ => reason.next(),
        };
        let header = vector.bytes(lane).first_chunk::<20>();
        if let Some(header) = header
            && vector.flags[lane] & flags::MULTICAST != 0
            && (matches!(reason, Drop::Ip4Multicast | Drop::Ip4Broadcast)
                || reason == Drop::Ip4MartianSource && header[12..16] == [0; 4])
            && punt_class(line, vector.bytes(lane)).is_some()
        {
            // `check` validates the length before the addresses.
            vector.length[lane] = u16::from_be_bytes([header[2], header[3]]);
            return LOCAL;
        }
        let host_device = self.shared.interface(vector.rx_if[lane]).host_pair();
        let (Some(host_device), Some(header)) = (host_device, header) else { return local(vector) };
        let destination = [header[16], header[17], header[18], header[19]];
        let is_for_host = match reason {
            Drop::Ip4Multicast | Drop::Ip4Broadcast => is_for_host4(destination),
            // DHCP client without an address (RFC 2131 4.1).
            Drop::Ip4MartianSource => header[12..16] == [0; 4] && destination == [255; 4],
            _ => false,
        };
        if !is_for_host || vector.flags[lane] & flags::MULTICAST == 0 {
            return local(vector);
        }
        // It was checked before the addresses were.
        vector.length[lane] = u16::from_be_bytes([header[2], header[3]]);
        to_host(vector, lane, (host_device, Payload::Ip4), HOST_INTERFACE)
    }

    /// A lane of a vector with exceptions or features.
    #[cold]
    #[inline(never)]
    fn slow_path(&self, reader: &Reader, vector: &mut Vector, lane: usize) -> u16 {
        let shared = &*self.shared;
        let interface = vector.rx_if[lane];
        let line = shared.interface(interface).flags();
        if line & IP4 == 0 {
            return Drop::Ip4Disabled.next();
        }
        let mut value = self.values[lane];
        if self.validated.exceptions[lane / 16] & 1 << (lane % 16) != 0 {
            let packet = match ip4_validate::check(vector.bytes(lane)) {
                Ok(packet) => packet,
                Err(reason) => return self.not_unicast(vector, lane, (reason, line)),
            };
            vector.length[lane] = packet.length;
            if let Some(cause) = ip4_options::fault(vector.bytes(lane)) {
                vector.adjacency[lane] = cause.code();
                return ERROR;
            }
            let table = shared.ip4_table(shared.interface(interface).vrf(), reader);
            value = table.map_or(0, |table| table.lookup(packet.destination));
        }
        if vector.flags[lane] & flags::MULTICAST != 0 {
            return Drop::Ip4LinkBroadcast.next();
        }
        if let Some(feature) = shared.features4.next(interface, 0) {
            return FIRST_FEATURE + feature as u16;
        }
        let next = route(shared, vector, lane, value);
        through_options(forwardable(next, line & FORWARD4 != 0), vector.bytes(lane))
    }
}

/// A valid packet to a multicast group: delivered if the interface has joined the group.
fn multicast(vector: &mut Vector, lane: usize, line: u32) -> u16 {
    let bytes = vector.bytes(lane);
    let Ok(view) = ipv4::check(bytes) else { return Drop::Ip4Truncated.next() };
    let length = view.packet().len() as u16;
    let is_group_frame = vector.flags[lane] & flags::MULTICAST != 0;
    if !is_group_frame || !has_joined(view.destination(), line) {
        return Drop::Ip4Multicast.next();
    }
    if let Some(cause) = ip4_options::fault(bytes) {
        return cause.drop(true).next();
    }
    vector.length[lane] = length;
    LOCAL
}

/// Whether an interface has joined a group: all hosts; on a router also all routers and IGMPv3
/// (RFC 1112 4, RFC 1812 4.2.3.1, RFC 3376 4.2.14).
fn has_joined(group: Ipv4Addr, line: u32) -> bool {
    match group.octets() {
        [224, 0, 0, 1] => true,
        [224, 0, 0, 2 | 22] => line & FORWARD4 != 0,
        _ => false,
    }
}

/// Drops transit packets from an interface that does not forward.
pub(super) fn forwardable(next: u16, forwards: bool) -> u16 {
    if forwards || next == LOCAL || !matches!(next, REWRITE | ERROR) {
        next
    } else {
        Drop::Ip4NotForwarding.next()
    }
}
