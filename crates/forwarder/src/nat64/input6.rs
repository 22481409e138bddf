//! `ip6-nat64-input`: makes IPv4 packets of received IPv6 packets to the prefix of NAT64, behind access lists, and
//! gives them to the nodes that follow flows and translate them (NAT44). Their sources are stand-ins of their hosts.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{Column, LaneSet, flags};
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_wire::siit::{Ends6, Prefix};
use stoa_wire::{icmp6, protocol};

use super::hosts::NoStandIn;
use super::identifications::Identifier;
use super::lanes::{
    Counterparts, Fate, Scratch, cross, cross_all, ends6, for_each, scratch, to_ip4,
};
use super::plain::{New4, select_plain6, shrink_all};
use super::{ERROR6, INPUT6_NODE, Nat64, TO_FLOWS, is_host4, is_translatable};
use crate::acl::flow_vrf;
use crate::arcs::{self, IP6_INPUT};
use crate::attributes::interface_flags::{FORWARD6, NAT64};
use crate::drops::Drop;
use crate::flow::column::Packets;
use crate::flow::fields;
use crate::icmp::IcmpCause;
use crate::ip::load_addresses;
use crate::nat::goes_on;
use crate::shared::Shared;

/// Of the router itself, and in frames to groups.
const OTHERS: u16 = flags::OWN | flags::MULTICAST;

/// Makes the node of one worker.
pub fn make_input6(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Input {
        shared: shared.clone(),
        hook: arcs::hook(IP6_INPUT, INPUT6_NODE),
        scratch: scratch(),
        destinations: Box::new([0; VECTOR]),
        differs: Column::of(0),
        new: New4::new(),
        identifier: Identifier::new(&shared.identifications),
    })
}

struct Input {
    shared: Arc<Shared>,
    hook: ArcHook,
    scratch: Box<Scratch>,
    destinations: Box<[u128; VECTOR]>,
    /// 0 for lanes to the prefix.
    differs: Column<u32>,
    new: Box<New4>,
    identifier: Identifier,
}

/// The prefix of an interface.
#[derive(Clone, Copy)]
struct Of {
    interface: u32,
    prefix: Option<Prefix>,
    vrf: u16,
    forwards: bool,
}

impl Of {
    fn new(shared: &Shared, table: &Nat64, interface: u32) -> Self {
        let id = shared.attributes.vrf_of(interface);
        let forwards = shared.attributes.flags_of(interface) & (FORWARD6 | NAT64) == FORWARD6;
        Self { interface, prefix: table.prefix(id), vrf: flow_vrf(id), forwards }
    }
}

/// What the last lane was: most lanes have the source or the destination of one before them.
#[derive(Default)]
struct Last {
    source: [u32; 4],
    to: u128,
    /// What it gets; no stand-in (0): its host is not known, or its destination is not for plain lanes.
    stand_in: u32,
    destination: u32,
    /// Of the identifications of the destination.
    offset: u16,
}

impl Last {
    /// Follows another lane of an interface, from a source to a destination in the prefix.
    fn find(&mut self, shared: &Shared, of: &Of, (source, to): ([u32; 4], u128), tick: u32) {
        (self.source, self.to) = (source, to);
        (self.stand_in, self.destination) = (0, 0);
        let Some(prefix) = of.prefix.filter(|_| of.forwards) else { return };
        let address = source.iter().fold(0, |all, it| all << 32 | u128::from(*it));
        let destination = prefix.extract(Ipv6Addr::from_bits(to));
        let destination = destination.filter(|it| is_translatable(prefix, *it));
        let Some(destination) = destination else { return };
        if is_host(prefix, Ipv6Addr::from_bits(address)) {
            self.destination = destination.to_bits();
            let found = shared.flows.nat64_hosts().find((address, of.vrf), tick);
            self.stand_in = found.unwrap_or(0);
        }
    }
}

impl Node for Input {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let arc = &self.shared.arcs.ip6_input;
        let mut next = self.hook.proceed(arc, &vector.rx_if, lanes, &mut vector.next);
        let here = self.select_to_prefix(cx.reader, vector);
        if here.is_empty() {
            return next;
        }
        if let Next::All(edge) = next {
            vector.next[..lanes].fill(edge);
            next = Next::Lanes;
        }
        let left = self.shrink_plain(cx, vector, &here);
        for lane in left.iter() {
            if goes_on(vector.next[lane]) {
                self.translate_lane(cx, vector, lane);
            }
        }
        next
    }
}

impl Input {
    /// The lanes to the prefix of their VRF.
    fn select_to_prefix(&mut self, reader: &Reader, vector: &Vector) -> LaneSet {
        let (lanes, shared) = (vector.len(), &*self.shared);
        let table = shared.nat64.read(reader);
        load_addresses::<24>(shared.kernel, vector, &mut self.destinations);
        let columns = self.differs[..lanes].iter_mut().zip(&self.destinations[..lanes]);
        let differs = |prefix: Prefix, it: u128| it & prefix.fixed() != prefix.network().to_bits();
        let mut of = Of::new(shared, table, vector.rx_if[0]);
        if let (Some(_), Some(prefix)) = (vector.rx_if.uniform(lanes), of.prefix) {
            for ((value, destination), flags) in columns.zip(&vector.flags[..lanes]) {
                *value = u32::from(differs(prefix, *destination) | (flags & OTHERS != 0));
            }
        } else {
            for (lane, (value, destination)) in columns.enumerate() {
                if vector.rx_if[lane] != of.interface {
                    of = Of::new(shared, table, vector.rx_if[lane]);
                }
                let is_other = of.prefix.is_none_or(|it| differs(it, *destination));
                *value = u32::from(is_other || vector.flags[lane] & OTHERS != 0);
            }
        }
        LaneSet::first_of(lanes).take_equal(&self.differs, 0)
    }

    /// Translates plain lanes in place; returns those that are left.
    fn shrink_plain(&mut self, cx: &Context<'_>, vector: &mut Vector, here: &LaneSet) -> LaneSet {
        let kernel = self.shared.kernel;
        fields::of(kernel, vector, Packets::Ip6);
        let (mut left, mut plain) = (here.clone(), select_plain6(vector, here, &mut self.differs));
        if let Some(first) = plain.clone().lowest() {
            self.identifier.reserve(&self.shared.identifications, plain.count() as u64);
            plain.remove_all(&self.find_ends(cx, vector, (&plain, first)));
            plain.remove_all(&shrink_all(kernel, vector, &plain, &self.new));
            cross_all(vector, &plain, (0, TO_FLOWS));
            vector.forget_hash();
        }
        left.remove_all(&plain);
        left
    }

    /// Finds the addresses that plain lanes get if their host is known; returns the others.
    #[inline(always)]
    fn find_ends(
        &mut self,
        cx: &Context<'_>,
        vector: &Vector,
        (plain, first): (&LaneSet, usize),
    ) -> LaneSet {
        let Self { shared, new, identifier, destinations, .. } = self;
        let (table, tick) = (shared.nat64.read(cx.reader), shared.flows.now(cx.now).tick);
        let mut others = LaneSet::first_of(0);
        let Some(fields) = vector.known_fields() else { return plain.clone() };
        let (mut of, mut last) = (Of::new(shared, table, vector.rx_if[first]), Last::default());
        let [a, b, c, d] = &fields.source;
        for_each(plain, vector.len(), |lane| {
            if vector.rx_if[lane] != of.interface {
                of = Of::new(shared, table, vector.rx_if[lane]);
                last = Last::default();
            }
            let (source, to) = ([a[lane], b[lane], c[lane], d[lane]], destinations[lane]);
            if source != last.source || to != last.to {
                last.find(shared, &of, (source, to), tick);
                last.offset = identifier.offset(last.destination);
            }
            if last.stand_in == 0 {
                others.insert(lane);
            }
            (new.sources[lane], new.destinations[lane]) = (last.stand_in, last.destination);
            new.identifications[lane] = identifier.next(last.offset).into();
        });
        others
    }

    /// Translates any other lane, and sets where it goes.
    #[inline(never)]
    fn translate_lane(&mut self, cx: &Context<'_>, vector: &mut Vector, lane: usize) {
        let Self { shared, scratch, identifier, .. } = self;
        let table = shared.nat64.read(cx.reader);
        let of = Of::new(shared, table, vector.rx_if[lane]);
        let ends = ends6(vector.bytes(lane));
        let to = of.prefix.zip(ends).and_then(|(prefix, ends)| prefix.extract(ends.1));
        let (Some(prefix), Some(ends), Some(to)) = (of.prefix, ends, to) else { return };
        let tick = shared.flows.now(cx.now).tick;
        let counterparts =
            Counterparts { hosts: shared.flows.nat64_hosts(), prefix, vrf: of.vrf, tick };
        identifier.reserve(&shared.identifications, 1);
        let number = identifier.next(identifier.offset(to.to_bits()));
        let ends = (ends, to, number);
        let at = (&**shared, cx.reader);
        let translated = translate(at, (&mut *vector, lane), (&counterparts, ends), scratch);
        vector.next[lane] = match translated {
            Ok(()) => TO_FLOWS,
            Err(Fate::Drop(reason)) => reason.next(),
            Err(Fate::Answer(cause)) => {
                vector.arg[lane] = cause.code();
                ERROR6
            }
        };
    }
}

fn translate(
    (shared, reader): (&Shared, &Reader),
    (vector, lane): (&mut Vector, usize),
    (of, (ends, to, identification)): (&Counterparts<'_>, (Ends6, Ipv4Addr, u16)),
    scratch: &mut Scratch,
) -> Result<(), Fate> {
    let interface = vector.rx_if[lane];
    let flags = shared.attributes.flags_of(interface);
    if flags & FORWARD6 == 0 {
        return Err(Fate::Drop(Drop::Ip6NotForwarding));
    }
    // Nobody outside gets an external address of ours, and no answer reaches a service of the router.
    let is_own = || shared.is_local6((shared.attributes.vrf_of(interface), reader), ends.0);
    let is_inside = flags & NAT64 == 0 && is_host(of.prefix, ends.0) && !is_own();
    if !is_inside || !is_host4(to) {
        return Err(Fate::Drop(Drop::Nat64Address));
    }
    if !of.prefix.may_have(to) {
        return Err(Fate::Answer(IcmpCause::NotGlobal));
    }
    let stand_in = match quoted(vector.bytes(lane)) {
        // Of a router inside, perhaps, which needs no stand-in: NAT44 hides it behind the host.
        Some(quoted) => {
            let find = |it: Ipv6Addr| of.hosts.find((it.to_bits(), of.vrf), of.tick);
            find(quoted.1).ok_or(Fate::Drop(Drop::Nat64Icmp))?
        }
        None => {
            let longest = || shared.flows.profiles().longest();
            let host = (ends.0.to_bits(), of.vrf);
            of.hosts.stand_in(host, of.tick, longest).map_err(|why| {
                Fate::Drop(match why {
                    NoStandIn::Full => Drop::Nat64Full,
                    NoStandIn::Contended => Drop::FlowContended,
                })
            })?
        }
    };
    let ends = (Ipv4Addr::from_bits(stand_in), to);
    to_ip4((vector, lane), (of, ends, identification), scratch)?;
    cross(vector, lane, 0);
    Ok(())
}

/// Whether an address can be that of a host inside. One in the prefix would come back for ever (RFC 6146 section 3.5).
pub(super) fn is_host(prefix: Prefix, address: Ipv6Addr) -> bool {
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || address.is_unicast_link_local()
        || prefix.extract(address).is_some())
}

/// The ends of the packet that an ICMPv6 error quotes; `None`: it is no error.
#[inline(always)]
fn quoted(bytes: &[u8]) -> Option<Ends6> {
    if matches!(bytes.get(6), Some(&(protocol::TCP | protocol::UDP))) {
        return None;
    }
    quoted_by_error(bytes)
}

#[cold]
#[inline(never)]
fn quoted_by_error(bytes: &[u8]) -> Option<Ends6> {
    ends6(bytes.get(icmp6::quoted_at(bytes)?..)?)
}
