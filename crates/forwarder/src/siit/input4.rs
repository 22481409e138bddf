//! `ip4-siit-input`: makes IPv6 packets of received IPv4 packets to mapped addresses. Packets without DF that would
//! exceed the least MTU of IPv6 go on in fragments (RFC 7915 section 4).

use std::net::Ipv4Addr;
use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{Column, LaneSet, flags};
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_wire::siit::{GROWTH, Prefix, to_ip6};
use stoa_wire::{ipv4, ipv6};

use super::lanes::{Of, count_all, fate, mark, mark_all};
use super::{Domain, ERROR4, INPUT4_NODE, TO_LOOKUP6};
use crate::arcs::{self, IP4_INPUT};
use crate::attributes::interface_flags::FORWARD4;
use crate::drops::Drop;
use crate::flow::column::Packets;
use crate::flow::fields;
use crate::ip::header_words;
use crate::nat::goes_on;
use crate::nat64::is_host4;
use crate::nat64::lanes::{Fate, Scratch, ends4, scratch};
use crate::nat64::pieces::{Former, go_on, is_whole};
use crate::nat64::plain::{New6, grow_all, has_plain, sum_of};
use crate::shared::Shared;

/// Of the router itself, and in frames to groups. What NAT64 has made is for NAT44.
const OTHERS: u16 = flags::OWN | flags::MULTICAST | flags::CROSSED;

/// Makes the node of one worker.
pub fn make_input4(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    Box::new(Input {
        shared: shared.clone(),
        worker,
        hook: arcs::hook(IP4_INPUT, INPUT4_NODE),
        scratch: scratch(),
        destinations: Box::new([0; VECTOR]),
        others: Column::of(0),
        new: New6::new(),
    })
}

struct Input {
    shared: Arc<Shared>,
    worker: usize,
    hook: ArcHook,
    scratch: Box<Scratch>,
    destinations: Box<[u32; VECTOR]>,
    /// 0 for lanes to mapped addresses.
    others: Column<u32>,
    new: Box<New6>,
}

/// What the last lane was: most lanes have the destination of one before them.
#[derive(Default)]
struct Last {
    to: u32,
    /// 0: it has no mapping.
    host: u128,
    /// Of the words of the host.
    sum: u32,
}

impl Node for Input {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let arc = &self.shared.arcs.ip4_input;
        let mut next = self.hook.proceed(arc, &vector.rx_if, lanes, &mut vector.next);
        let here = self.select_mapped(cx.reader, vector);
        if here.is_empty() {
            return next;
        }
        if let Next::All(edge) = next {
            vector.next[..lanes].fill(edge);
            next = Next::Lanes;
        }
        fields::of(self.shared.kernel, vector, Packets::Ip4);
        let left = self.grow_plain(cx, vector, &here);
        for lane in left.iter() {
            if goes_on(vector.next[lane]) {
                self.lane(cx, vector, lane);
            }
        }
        vector.forget_flow();
        next
    }
}

impl Input {
    /// The lanes to mapped addresses of their VRF, whose hosts become known.
    fn select_mapped(&mut self, reader: &Reader, vector: &Vector) -> LaneSet {
        let (lanes, shared) = (vector.len(), &*self.shared);
        let table = shared.siit.read(reader);
        header_words::load(shared.kernel, vector, [16], [&mut *self.destinations]);
        let mut of = Of::new(shared, table, (vector.rx_if[0], FORWARD4));
        let mut last = Last::default();
        for lane in 0..lanes {
            if vector.rx_if[lane] != of.interface {
                (of, last) =
                    (Of::new(shared, table, (vector.rx_if[lane], FORWARD4)), Last::default());
            }
            let to = self.destinations[lane];
            if to != last.to {
                let host = of.domain.filter(|_| is_host4(Ipv4Addr::from_bits(to)));
                let host = host.and_then(|it| it.mapped6(to)).unwrap_or(0);
                last = Last { to, host, sum: sum_of(host) };
            }
            (self.new.hosts[lane], self.new.sums[lane]) = (last.host, last.sum);
            let is_other = (last.host == 0) | (vector.flags[lane] & OTHERS != 0);
            self.others[lane] = is_other.into();
        }
        LaneSet::first_of(lanes).take_equal(&self.others, 0)
    }

    /// Translates plain lanes in place; returns those that are left.
    fn grow_plain(&mut self, cx: &Context<'_>, vector: &mut Vector, here: &LaneSet) -> LaneSet {
        let mut left = here.clone();
        let mut done = self.plain(cx.reader, vector, here);
        if !done.is_empty() {
            done.remove_all(&grow_all(self.shared.kernel, vector, &done, &self.new));
            count_all((&self.shared, cx.reader), (vector, &done), (self.worker, true));
            mark_all(vector, &done, TO_LOOKUP6);
        }
        left.remove_all(&done);
        left
    }

    /// The plain lanes among some that go on: all of one prefix, and none that is cut into fragments.
    fn plain(&mut self, reader: &Reader, vector: &Vector, here: &LaneSet) -> LaneSet {
        let (lanes, shared) = (vector.len(), &*self.shared);
        let table = shared.siit.read(reader);
        let Some(fields) = vector.known_fields() else { return LaneSet::first_of(0) };
        let mut of = Of::new(shared, table, (vector.rx_if[0], FORWARD4));
        let mut of_all: Option<Prefix> = None;
        for lane in 0..lanes {
            if vector.rx_if[lane] != of.interface {
                of = Of::new(shared, table, (vector.rx_if[lane], FORWARD4));
            }
            let prefix = of.domain.filter(|_| of.forwards).map(|it| it.prefix);
            let source = Ipv4Addr::from_bits(fields.source[0][lane]);
            let is_plain = has_plain(fields.kind[lane], fields.place[lane], ipv4::LENGTH)
                && goes_on(vector.next[lane])
                && prefix.is_some_and(|it| is_host4(source) && it.may_have(source));
            let is_long = usize::from(vector.length[lane]) + GROWTH > ipv6::LEAST_MTU;
            let is_plain = is_plain && (!is_long || is_whole(vector.bytes(lane)));
            // Those of another prefix are few: they have another VRF.
            let is_plain = is_plain
                && self.others[lane] == 0
                && prefix.is_some_and(|it| *of_all.get_or_insert(it) == it);
            self.others[lane] = u32::from(!is_plain);
        }
        self.new.prefix = of_all.unwrap_or(self.new.prefix);
        here.clone().take_equal(&self.others, 0)
    }

    /// Translates any other lane, and sets where it goes.
    #[inline(never)]
    fn lane(&mut self, cx: &mut Context<'_>, vector: &mut Vector, lane: usize) {
        let shared = &*self.shared;
        let of = Of::new(shared, shared.siit.read(cx.reader), (vector.rx_if[lane], FORWARD4));
        let Some(domain) = of.domain else { return };
        if !of.forwards {
            vector.next[lane] = Drop::Ip4NotForwarding.next();
            return;
        }
        let length = u64::from(vector.length[lane]);
        vector.next[lane] =
            match translate(cx, shared, domain, (&mut *vector, lane), &mut self.scratch) {
                Ok(next) => {
                    domain.count(self.worker, true, (1, length));
                    match next {
                        Some(next) => next,
                        None => return,
                    }
                }
                Err(Fate::Drop(reason)) => reason.next(),
                Err(Fate::Answer(cause)) => {
                    vector.arg[lane] = cause.code();
                    ERROR4
                }
            };
    }
}

fn translate(
    cx: &mut Context<'_>,
    shared: &Shared,
    domain: &Domain,
    (vector, lane): (&mut Vector, usize),
    scratch: &mut Scratch,
) -> Result<Option<u16>, Fate> {
    let bytes = vector.bytes(lane);
    let old = ends4(bytes).ok_or(Fate::Drop(Drop::SiitMalformed))?;
    let may_come = is_host4(old.0) && domain.prefix.may_have(old.0);
    let ends = domain.received6(old).filter(|_| may_come).ok_or(Fate::Drop(Drop::SiitAddress))?;
    let former = Former::of(bytes);
    // What an error quotes has come from the host.
    let length = to_ip6(bytes, ends, |it| domain.sent6(it), scratch).map_err(fate)?;
    let packet = scratch.get(..length).unwrap_or(&[]);
    let mark = |vector: &mut Vector| mark(vector, lane);
    go_on(cx, (shared, domain.vrf), (vector, lane), (packet, former), mark).map_err(fate)
}
