//! `ip4-nat64-input`: makes IPv6 packets of IPv4 packets that NAT44 has given the stand-in of a host as destination.
//! Packets without DF that would exceed the least MTU of IPv6 go on in fragments (RFC 7915 section 4).

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::vector::{Column, LaneSet, flags};
use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::siit::{GROWTH, Prefix};
use stoa_wire::{ipv4, ipv6};

use super::hosts::{Answer, is_stand_in};
use super::lanes::{
    Counterparts, Fate, Scratch, cross, cross_all, ends4, for_each, scratch, to_ip6,
};
use super::pieces::{Former, go_on, is_whole};
use super::plain::{New6, grow_all, has_plain, sum_of};
use super::{INPUT4_NODE, TO_LOOKUP};
use crate::acl::flow_vrf;
use crate::arcs::{self, IP4_INPUT};
use crate::attributes::interface_flags::FORWARD4;
use crate::drops::Drop;
use crate::flow::column::Packets;
use crate::flow::fields;
use crate::nat::goes_on;
use crate::shared::Shared;

/// Makes the node of one worker.
pub fn make_input4(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP4_INPUT, INPUT4_NODE);
    let others = Column::of(0);
    Box::new(Input { shared: shared.clone(), hook, scratch: scratch(), others, new: New6::new() })
}

struct Input {
    shared: Arc<Shared>,
    hook: ArcHook,
    scratch: Box<Scratch>,
    /// 0 for lanes to stand-ins.
    others: Column<u32>,
    new: Box<New6>,
}

/// What the last lane was: most lanes have the destination of one before them.
#[derive(Default)]
struct Last {
    interface: u32,
    vrf: u16,
    /// If the interface forwards.
    prefix: Option<Prefix>,
    stand_in: u32,
    protocol: u8,
    /// 0: it is not known.
    host: u128,
    /// Of the words of the host.
    sum: u32,
}

impl Last {
    /// Follows another lane of an interface, to a stand-in.
    fn find(&mut self, shared: &Shared, (stand_in, protocol): (u32, u8), tick: u32) {
        (self.stand_in, self.protocol) = (stand_in, protocol);
        let host = shared.flows.nat64_hosts().receiver(stand_in, tick, Answer::of(protocol));
        let host = host.filter(|(_, vrf)| self.prefix.is_some() && *vrf == self.vrf);
        self.host = host.map_or(0, |it| it.0);
        self.sum = sum_of(self.host);
    }
}

impl Node for Input {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let arc = &self.shared.arcs.ip4_input;
        let next = self.hook.proceed(arc, &vector.rx_if, lanes, &mut vector.next);
        let all = vector.flags[..lanes].iter().fold(0, |all, flags| all | flags);
        if all & flags::TRANSLATED == 0 {
            return next;
        }
        fields::of(self.shared.kernel, vector, Packets::Ip4);
        if let Next::All(edge) = next {
            vector.next[..lanes].fill(edge);
        }
        let (here, plain) = self.select_translated(vector);
        if here.is_empty() {
            return next;
        }
        let left = self.grow_plain(cx, vector, (&here, &plain));
        let tick = self.shared.flows.now(cx.now).tick;
        for lane in left.iter() {
            if goes_on(vector.next[lane]) {
                self.lane(cx, (&mut *vector, lane), tick);
            }
        }
        vector.forget_flow();
        Next::Lanes
    }
}

impl Input {
    /// The lanes to stand-ins, and the plain ones among these. No other address is one once it is translated.
    fn select_translated(&mut self, vector: &Vector) -> (LaneSet, LaneSet) {
        let (lanes, none) = (vector.len(), LaneSet::first_of(0));
        let Some(fields) = vector.known_fields() else { return (none.clone(), none) };
        let columns = vector.flags[..lanes].iter().zip(&fields.destination[0][..lanes]);
        for (other, (flags, destination)) in self.others[..lanes].iter_mut().zip(columns) {
            let is_here = (flags & flags::TRANSLATED != 0) & is_stand_in(*destination);
            *other = u32::from(!is_here);
        }
        let here = LaneSet::first_of(lanes).take_equal(&self.others, 0);
        let columns = fields.kind[..lanes].iter().zip(&fields.place[..lanes]);
        let columns = columns.zip(&fields.source[0][..lanes]);
        let columns = columns.zip(&vector.next[..lanes]);
        for (other, (((kind, place), source), next)) in self.others[..lanes].iter_mut().zip(columns)
        {
            // From a host that has no address of its own it is hairpinned.
            let is_plain = has_plain(*kind, *place, ipv4::LENGTH) & !is_stand_in(*source);
            *other = u32::from(!(is_plain & goes_on(*next)));
        }
        let plain = here.clone().take_equal(&self.others, 0);
        (here, plain)
    }

    /// Translates plain lanes in place; returns those that are left.
    fn grow_plain(
        &mut self,
        cx: &Context<'_>,
        vector: &mut Vector,
        (here, plain): (&LaneSet, &LaneSet),
    ) -> LaneSet {
        let (mut left, mut done) = (here.clone(), plain.clone());
        if !done.is_empty() {
            done.remove_all(&self.find_hosts(cx, vector, plain));
            done.remove_all(&grow_all(self.shared.kernel, vector, &done, &self.new));
            cross_all(vector, &done, (flags::ADMITTED, TO_LOOKUP));
        }
        left.remove_all(&done);
        left
    }

    /// Finds the hosts of plain lanes if they are known; returns the others.
    #[inline(always)]
    fn find_hosts(&mut self, cx: &Context<'_>, vector: &Vector, plain: &LaneSet) -> LaneSet {
        let Self { shared, new, .. } = self;
        let (table, tick) = (shared.nat64.read(cx.reader), shared.flows.now(cx.now).tick);
        let mut others = LaneSet::first_of(0);
        let Some(fields) = vector.known_fields() else { return plain.clone() };
        let (mut last, mut of_all) = (Last { interface: u32::MAX, ..Last::default() }, None);
        for_each(plain, vector.len(), |lane| {
            let interface = vector.rx_if[lane];
            if interface != last.interface {
                let id = shared.attributes.vrf_of(interface);
                let forwards = shared.attributes.flags_of(interface) & FORWARD4 != 0;
                let prefix = table.prefix(id).filter(|_| forwards);
                // Those of another prefix are few: they have another VRF.
                let prefix = prefix.filter(|it| *of_all.get_or_insert(*it) == *it);
                last = Last { interface, vrf: flow_vrf(id), prefix, ..Last::default() };
            }
            let (stand_in, protocol) = (fields.destination[0][lane], fields.kind[lane] as u8);
            if (stand_in, protocol) != (last.stand_in, last.protocol) {
                last.find(shared, (stand_in, protocol), tick);
            }
            let is_long = usize::from(vector.length[lane]) + GROWTH > ipv6::LEAST_MTU;
            if last.host == 0 || is_long && !is_whole(vector.bytes(lane)) {
                others.insert(lane);
            }
            (new.hosts[lane], new.sums[lane]) = (last.host, last.sum);
        });
        new.prefix = of_all.unwrap_or(new.prefix);
        others
    }

    /// Translates any other lane, and sets where it goes.
    #[inline(never)]
    fn lane(&mut self, cx: &mut Context<'_>, (vector, lane): (&mut Vector, usize), tick: u32) {
        vector.next[lane] = match self.translate(cx, (&mut *vector, lane), tick) {
            Ok(Some(next)) => next,
            Ok(None) => return,
            Err(Fate::Drop(reason)) => reason.next(),
            // Behind `ip4-input` no packet has a source route.
            Err(Fate::Answer(cause)) => cause.drop(true).next(),
        };
    }

    /// The next node of a lane; `None`: it has left in pieces, or was dropped.
    fn translate(
        &mut self,
        cx: &mut Context<'_>,
        (vector, lane): (&mut Vector, usize),
        tick: u32,
    ) -> Result<Option<u16>, Fate> {
        let shared = &*self.shared;
        let id = shared.attributes.vrf_of(vector.rx_if[lane]);
        // The interface of a packet that was an IPv6 packet forwards those.
        let forwards = vector.flags[lane] & flags::CROSSED != 0
            || shared.attributes.flags_of(vector.rx_if[lane]) & FORWARD4 != 0;
        if !forwards {
            return Err(Fate::Drop(Drop::Ip4NotForwarding));
        }
        // One of a policy that has gone: its flows end soon.
        let prefix = shared.nat64.read(cx.reader).prefix(id);
        let prefix = prefix.ok_or(Fate::Drop(Drop::Nat64Address))?;
        let of =
            Counterparts { hosts: shared.flows.nat64_hosts(), prefix, vrf: flow_vrf(id), tick };
        let bytes = vector.bytes(lane);
        let old = ends4(bytes).ok_or(Fate::Drop(Drop::Nat64Malformed))?;
        let ends = of.ends6(old).ok_or(Fate::Drop(Drop::Nat64Address))?;
        let protocol = bytes.get(9).copied().unwrap_or(0);
        shared.flows.nat64_hosts().receiver(old.1.to_bits(), tick, Answer::of(protocol));
        let former = Former::of(bytes);
        let length = to_ip6(bytes, (&of, ends), &mut self.scratch)?;
        let packet = self.scratch.get(..length).unwrap_or(&[]);
        let mark = |vector: &mut Vector| cross(vector, lane, flags::ADMITTED);
        Ok(go_on(cx, (shared, id), (vector, lane), (packet, former), mark)?)
    }
}
