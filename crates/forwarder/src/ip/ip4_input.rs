//! `ip4-input`: validates IPv4 packets and, unless a feature is enabled, looks them up: the first
//! half of the fast path (RFC 1812 5.2).

use std::net::Ipv4Addr;
use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::gather::{Plain, gather_plain};
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{Column, LaneSet, flags};
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::lpm::Counted;
use stoa_wire::ipv4;

use super::ip4_options::{self, through_options};
use super::ip4_punt::punt_class;
use super::ip4_validate::{self, Validated};
use super::lookup::Lookup;
use super::{ERROR, LOCAL, REWRITE, are_featured, follow, follow_all, follow_some};
use crate::acl;
use crate::arcs::{self, IP4_INPUT};
use crate::attributes::interface_flags::{FEATURES4, FORWARD4, IN_VRF, IP4};
use crate::drops::Drop;
use crate::flow;
use crate::host_interface::{Payload, is_for_host4, to_host};
use crate::login;
use crate::shared::Shared;

/// Next nodes besides those of the arc.
pub const EDGES: &[&str] =
    &["ip4-rewrite", "ip4-local", "icmp4-error", "ip4-options", "host-interface-output"];
const HOST_INTERFACE: u16 = 4;

/// Attributes of an interface that decide about a packet.
const DECIDING: u32 = IP4 | FORWARD4 | FEATURES4;
/// Their values where packets need only routing.
const PLAIN: u32 = IP4 | FORWARD4;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    Box::new(Ip4Input {
        shared: shared.clone(),
        worker,
        hook: arcs::hook(IP4_INPUT, "ip4-input"),
        validated: Validated::new(),
        attributes: Column::of(0),
        is_default: false,
        lookup: Lookup::new(),
        values: Column::of(0),
    })
}

struct Ip4Input {
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

impl Node for Ip4Input {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        ip4_validate::validate(self.shared.kernel, vector, &mut self.validated);
        let interface = vector.rx_if.uniform(lanes);
        let any = vector.flags[..lanes].iter().fold(0, |any, flags| any | flags);
        if any == 0
            && self.validated.is_clean()
            && let Some(interface) = interface
        {
            let flags = self.shared.attributes.flags_of(interface);
            self.is_default = flags & IN_VRF == 0;
            match flags & DECIDING {
                PLAIN => return self.forward_all(cx.reader, vector),
                flags if flags & (IP4 | FEATURES4) == IP4 | FEATURES4 => {
                    let enabled = self.shared.arcs.ip4_input.enabled(interface);
                    return Next::All(self.hook.edge(enabled));
                }
                _ => {}
            }
        }
        self.sort(cx.reader, vector)
    }
}

impl Ip4Input {
    /// Looks up all lanes together.
    #[inline(always)]
    fn look_up(&mut self, reader: &Reader, vector: &Vector) {
        let lanes = vector.len();
        let (keys, values) = (&self.validated.destination[..lanes], &mut self.values[..lanes]);
        if self.is_default {
            return self.shared.ip4.lookup_batch(keys, values);
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
        let plain = self.plain(vector);
        let mut others = LaneSet::first_of(lanes);
        others.remove_all(&plain);
        if others.is_empty() {
            return self.forward_all(reader, vector);
        }
        let featured = IP4 | FEATURES4;
        if plain.is_empty()
            && self.validated.is_clean()
            && are_featured(featured, &self.attributes, vector)
        {
            let arc = &self.shared.arcs.ip4_input;
            return self.hook.proceed(arc, &vector.rx_if, lanes, &mut vector.next);
        }
        let mut slow = LaneSet::first_of(0);
        for lane in others.iter() {
            let has_features = self.attributes[lane] & featured == featured;
            if has_features && vector.flags[lane] == 0 && !self.validated.is_exception(lane) {
                let enabled = self.shared.arcs.ip4_input.enabled(vector.rx_if[lane]);
                vector.next[lane] = self.hook.edge(enabled);
                // Looked up behind its features.
                self.validated.destination[lane] = 0;
            } else {
                slow.insert(lane);
            }
        }
        if plain.is_empty() && slow.is_empty() {
            return Next::Lanes;
        }
        self.look_up(reader, vector);
        follow_some(&self.shared, vector, (&plain, &self.values), route);
        for lane in slow.iter() {
            vector.next[lane] = self.slow_path(reader, vector, lane);
        }
        Next::Lanes
    }

    /// The valid lanes that need only routing. Loads the attributes of all lanes.
    #[inline(always)]
    fn plain(&mut self, vector: &Vector) -> LaneSet {
        let table = self.shared.attributes.flags();
        let columns = (&vector.rx_if, &vector.flags);
        let expected = Plain { mask: DECIDING, expected: PLAIN };
        let (mut plain, any) =
            gather_plain(table, columns, vector.len(), expected, &mut self.attributes);
        self.is_default = any & IN_VRF == 0;
        plain.remove(&self.validated.exception_bytes());
        plain
    }
}

/// Resolves the route of a lane; computes the flow hash only for next hops with several paths.
#[inline(always)]
pub(super) fn route(shared: &Shared, vector: &mut Vector, lane: usize, value: u32) -> u16 {
    let is_group = shared.next_hops.is_group(value);
    let flow_hash =
        if is_group { flow::hash4(vector.bytes(lane), shared.seeds.paths()) } else { 0 };
    follow(shared, vector, lane, (value, flow_hash))
}

impl Ip4Input {
    /// Multicast and broadcast packets: for Linux where there is a host interface, else local
    /// delivery of joined groups.
    #[cold]
    #[inline(never)]
    fn not_unicast(
        &self,
        reader: &Reader,
        vector: &mut Vector,
        lane: usize,
        (reason, line): (Drop, u32),
    ) -> u16 {
        let local = |vector: &mut Vector| match reason {
            Drop::Ip4Multicast => multicast(vector, lane, line),
            _ => reason.next(),
        };
        let header = vector.bytes(lane).first_chunk::<20>();
        if let Some(header) = header
            && vector.flags[lane] & flags::MULTICAST != 0
            && (matches!(reason, Drop::Ip4Multicast | Drop::Ip4Broadcast)
                || reason == Drop::Ip4MartianSource && header[12..16] == [0; 4])
            && (punt_class(line, vector.bytes(lane)).is_some()
                || self.is_subscribed(reader, header, vector.bytes(lane)))
        {
            if let Some(cause) = ip4_options::fault(vector.bytes(lane)) {
                return cause.drop(true).next();
            }
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

    /// Whether the controller has subscribed to packets like this one to all hosts of the link: a limited broadcast
    /// (DHCP) or a link-local group (RFC 5771 4).
    fn is_subscribed(&self, reader: &Reader, header: &[u8; 20], packet: &[u8]) -> bool {
        let is_to_link = matches!(header[16..], [255, 255, 255, 255] | [224, 0, 0, _]);
        is_to_link && self.shared.subscriptions.read(reader).of_ip4(packet).is_some()
    }

    /// A lane of a vector with exceptions or features.
    #[cold]
    #[inline(never)]
    fn slow_path(&self, reader: &Reader, vector: &mut Vector, lane: usize) -> u16 {
        let shared = &*self.shared;
        let interface = vector.rx_if[lane];
        let line = shared.attributes.flags_of(interface);
        if line & IP4 == 0 {
            return Drop::Ip4Disabled.next();
        }
        let mut destination = None;
        if self.validated.is_exception(lane) {
            let packet = match ip4_validate::check(vector.bytes(lane)) {
                Ok(packet) => packet,
                Err(reason) => {
                    let mut next = self.not_unicast(reader, vector, lane, (reason, line));
                    let place = (shared, reader, self.worker);
                    if line & FEATURES4 != 0 {
                        let at = (shared, reader);
                        let admitted = login::beside_arc4(at, (vector, lane), (next, ERROR));
                        next = match admitted == next {
                            true => acl::beside_arc4(place, (vector, lane), (next, ERROR)),
                            false => admitted,
                        };
                    }
                    if next == HOST_INTERFACE {
                        next = acl::pair_to_host4(place, (vector, lane), (next, ERROR));
                    }
                    return next;
                }
            };
            vector.length[lane] = packet.length;
            if let Some(cause) = ip4_options::fault(vector.bytes(lane)) {
                vector.arg[lane] = cause.code();
                return ERROR;
            }
            destination = Some(packet.destination);
        }
        if vector.flags[lane] & flags::MULTICAST != 0 {
            return Drop::Ip4LinkBroadcast.next();
        }
        if line & FEATURES4 != 0 {
            // Looked up behind its features.
            return self.hook.edge(shared.arcs.ip4_input.enabled(interface));
        }
        let value = match destination {
            Some(destination) => {
                let table = shared.ip4_table(shared.attributes.vrf_of(interface), reader);
                table.map_or(0, |table| table.lookup(destination))
            }
            None => self.values[lane],
        };
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
