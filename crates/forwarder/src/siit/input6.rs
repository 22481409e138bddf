//! `ip6-siit-input`: makes IPv4 packets of received IPv6 packets to the prefix of their VRF. Their source has a
//! mapping. A packet to another mapped address stays an IPv6 packet: it gets both translations at once (hairpin).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{Column, LaneSet, flags};
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_wire::icmp6::{self, kind::PACKET_TOO_BIG};
use stoa_wire::siit::{to_ip4, to_ip6};

use super::lanes::{Of, count_all, fate, mark, mark_all};
use super::{Domain, ERROR6, INPUT6_NODE, TO_LOOKUP4, TO_LOOKUP6_AGAIN};
use crate::arcs::{self, IP6_INPUT};
use crate::attributes::interface_flags::FORWARD6;
use crate::drops::Drop;
use crate::flow::column::Packets;
use crate::flow::fields;
use crate::icmp::IcmpCause;
use crate::ip::load_addresses;
use crate::nat::goes_on;
use crate::nat64::identifications::Identifier;
use crate::nat64::is_host4;
use crate::nat64::lanes::{Fate, Scratch, ends6, for_each, replace, scratch};
use crate::nat64::plain::{New4, select_plain6, shrink_all};
use crate::punt::Class;
use crate::shared::Shared;

/// Of the router itself, and in frames to groups.
const OTHERS: u16 = flags::OWN | flags::MULTICAST;

/// Makes the node of one worker.
pub fn make_input6(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    Box::new(Input {
        shared: shared.clone(),
        worker,
        hook: arcs::hook(IP6_INPUT, INPUT6_NODE),
        scratch: [scratch(), scratch()],
        destinations: Box::new([0; VECTOR]),
        differs: Column::of(0),
        new: New4::new(),
        identifier: Identifier::new(&shared.identifications),
    })
}

struct Input {
    shared: Arc<Shared>,
    worker: usize,
    hook: ArcHook,
    /// The IPv4 packet of a lane, and the IPv6 packet that it becomes again.
    scratch: [Box<Scratch>; 2],
    destinations: Box<[u128; VECTOR]>,
    /// 0 for lanes to the prefix.
    differs: Column<u32>,
    new: Box<New4>,
    identifier: Identifier,
}

impl Of<'_> {
    /// The IPv4 addresses of a packet that leaves as an IPv4 packet.
    fn ends(&self, source: u128, destination: u128) -> Option<(u32, u32)> {
        let domain = self.domain.filter(|_| self.forwards)?;
        let destination = domain.prefix.extract(Ipv6Addr::from_bits(destination))?;
        let may_go = is_host4(destination) && domain.prefix.may_have(destination);
        let destination = destination.to_bits();
        if !may_go || domain.mapped6(destination).is_some() {
            return None;
        }
        Some((domain.sender4(source)?.to_bits(), destination))
    }
}

/// What the last lane was: most lanes have the ends of one before them.
#[derive(Default)]
struct Last {
    source: [u32; 4],
    to: u128,
    ends: Option<(u32, u32)>,
    /// Of the identifications of the destination.
    offset: u16,
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
        let table = shared.siit.read(reader);
        load_addresses::<24>(shared.kernel, vector, &mut self.destinations);
        let mut of = Of::new(shared, table, (vector.rx_if[0], FORWARD6));
        let columns = self.differs[..lanes].iter_mut().zip(&self.destinations[..lanes]);
        for (lane, (value, destination)) in columns.enumerate() {
            if vector.rx_if[lane] != of.interface {
                of = Of::new(shared, table, (vector.rx_if[lane], FORWARD6));
            }
            let is_other = of.domain.is_none_or(|it| {
                let is_outside = destination & it.prefix.fixed() != it.prefix.network().to_bits();
                is_outside || it.is_host6(*destination)
            });
            *value = u32::from(is_other | (vector.flags[lane] & OTHERS != 0));
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
            count_all((&self.shared, cx.reader), (vector, &plain), (self.worker, false));
            mark_all(vector, &plain, TO_LOOKUP4);
            vector.forget_hash();
        }
        left.remove_all(&plain);
        left
    }

    /// Finds the addresses that plain lanes get; returns those that get none.
    #[inline(always)]
    fn find_ends(
        &mut self,
        cx: &Context<'_>,
        vector: &Vector,
        (plain, first): (&LaneSet, usize),
    ) -> LaneSet {
        let Self { shared, new, identifier, destinations, .. } = self;
        let table = shared.siit.read(cx.reader);
        let mut others = LaneSet::first_of(0);
        let Some(fields) = vector.known_fields() else { return plain.clone() };
        let (mut of, mut last) =
            (Of::new(shared, table, (vector.rx_if[first], FORWARD6)), Last::default());
        let [a, b, c, d] = &fields.source;
        for_each(plain, vector.len(), |lane| {
            if vector.rx_if[lane] != of.interface {
                of = Of::new(shared, table, (vector.rx_if[lane], FORWARD6));
                last = Last::default();
            }
            let (source, to) = ([a[lane], b[lane], c[lane], d[lane]], destinations[lane]);
            if source != last.source || to != last.to {
                let address = source.iter().fold(0, |all, it| all << 32 | u128::from(*it));
                let ends = of.ends(address, to);
                let offset = identifier.offset(ends.map_or(0, |it| it.1));
                last = Last { source, to, ends, offset };
            }
            match last.ends {
                Some(ends) => (new.sources[lane], new.destinations[lane]) = ends,
                None => others.insert(lane),
            }
            new.identifications[lane] = identifier.next(last.offset).into();
        });
        others
    }

    /// Translates any other lane, and sets where it goes.
    #[inline(never)]
    fn translate_lane(&mut self, cx: &Context<'_>, vector: &mut Vector, lane: usize) {
        let Self { shared, scratch, identifier, worker, .. } = self;
        let of = Of::new(shared, shared.siit.read(cx.reader), (vector.rx_if[lane], FORWARD6));
        let Some(domain) = of.domain else { return };
        if !of.forwards {
            vector.next[lane] = Drop::Ip6NotForwarding.next();
            return;
        }
        let length = u64::from(vector.length[lane]);
        identifier.reserve(&shared.identifications, 1);
        vector.next[lane] =
            match translate((cx, shared, domain), (&mut *vector, lane), identifier, scratch) {
                Ok(next) => {
                    domain.count(*worker, false, (1, length));
                    next
                }
                Err(Fate::Drop(reason)) => reason.next(),
                Err(Fate::Answer(cause)) => {
                    vector.arg[lane] = cause.code();
                    ERROR6
                }
            };
    }
}

fn translate(
    (cx, shared, domain): (&Context<'_>, &Shared, &Domain),
    (vector, lane): (&mut Vector, usize),
    identifier: &mut Identifier,
    [first, second]: &mut [Box<Scratch>; 2],
) -> Result<u16, Fate> {
    let bytes = vector.bytes(lane);
    let ends = ends6(bytes).ok_or(Fate::Drop(Drop::SiitMalformed))?;
    let to = domain.prefix.extract(ends.1).filter(|it| is_host4(*it));
    let to = to.ok_or(Fate::Drop(Drop::SiitAddress))?;
    if !domain.prefix.may_have(to) {
        return Err(Fate::Answer(IcmpCause::NotGlobalStateless));
    }
    let (source, limited) = match domain.sender4(ends.0.to_bits()) {
        Some(source) => (source, None),
        None => of_router(domain, bytes).map(|(source, class)| (source, Some(class)))?,
    };
    // Only what can be translated takes a token: anybody can send errors about packets of nobody.
    let interface = vector.rx_if[lane];
    let admit = || match limited {
        Some(class) if !shared.policers.admit(cx, class, interface) => {
            Err(Fate::Drop(Drop::IcmpLimited))
        }
        _ => Ok(()),
    };
    let identification = identifier.next(identifier.offset(to.to_bits()));
    // What an error quotes has come to the host.
    let quoted = |it| domain.received4(it);
    let length =
        to_ip4(bytes, ((source, to), identification), quoted, &mut **first).map_err(fate)?;
    let packet = first.get(..length).unwrap_or(&[]);
    let Some(ends) = domain.received6((source, to)) else {
        admit()?;
        replace(vector, lane, packet)?;
        mark(vector, lane);
        return Ok(TO_LOOKUP4);
    };
    if !domain.prefix.may_have(source) {
        return Err(Fate::Drop(Drop::SiitSource));
    }
    // What an error quotes has come from the host.
    let quoted = |it| domain.sent6(it);
    let length = to_ip6(packet, ends, quoted, &mut **second).map_err(fate)?;
    admit()?;
    replace(vector, lane, second.get(..length).unwrap_or(&[]))?;
    mark(vector, lane);
    vector.flags[lane] &= !(flags::CROSSED | flags::TRANSLATED);
    Ok(TO_LOOKUP6_AGAIN)
}

/// The source of an ICMP error of a router without a mapping, and what limits it: it is an address of this router, so
/// that its policers admit it (RFC 6791 section 4, RFC 4443 section 2.4 (f)).
#[cold]
#[inline(never)]
fn of_router(domain: &Domain, bytes: &[u8]) -> Result<(Ipv4Addr, Class), Fate> {
    let source = domain.error_source.zip(icmp6::quoted_at(bytes));
    let (source, quoted) = source.ok_or(Fate::Drop(Drop::SiitSource))?;
    let is_too_big = bytes.get(quoted - icmp6::LENGTH) == Some(&PACKET_TOO_BIG);
    Ok((source, if is_too_big { Class::TooBig } else { Class::Error }))
}
