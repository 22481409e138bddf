//! `ip4-nat44-input`: gives received packets of translated flows their destinations, and packets to external addresses
//! those of a mapping. What a mapping does not let in goes to the router itself, if the address is its own.

use std::net::Ipv4Addr;
use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::vector::{LaneSet, flags};
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::flow_table::{FlowKey, Match};
use stoa_wire::protocol::{ICMP4, UDP};

use super::create::Maker;
use super::errors::{Found, translate_error};
use super::first::First;
use super::known::{Translated, Translator, is_to_another};
use super::lanes::{goes_on, header, header_of_call, seen, translate};
use super::mappings::RemotePeers;
use super::rewrite::Header;
use super::vrfs::{remember, remember_first};
use super::{EDGES, INPUT_NODE, Nat, NatWorker, refuse};
use crate::acl;
use crate::acl::flow_vrf;
use crate::acl::log::OfWorker;
use crate::arcs::{self, IP4_INPUT};
use crate::drops::Drop;
use crate::flow::column::Packets;
use crate::flow::fields::{self, Kind};
use crate::flow::flows::Now;
use crate::flow::foreign::Foreign;
use crate::flow::fragment_order::is_home;
use crate::flow::tracker::{Followed, Side, fits};
use crate::shared::Shared;

const _: () = assert!(EDGES.len() == 1);

/// Makes the node of one worker.
pub fn make_input(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP4_INPUT, INPUT_NODE);
    let (foreign, translator) = (Foreign::new(), Translator::new(shared.kernel));
    Box::new(Input { shared: shared.clone(), hook, worker, foreign, translator })
}

struct Input {
    shared: Arc<Shared>,
    hook: ArcHook,
    worker: usize,
    foreign: Foreign,
    translator: Translator,
}

/// Lanes that their flow gives no other destination.
const KEPT: u16 = flags::TRACKED | flags::KEEPS_DESTINATION;

/// What becomes of a lane.
enum Fate {
    /// It goes on.
    Pass,
    Drop(Drop),
    /// The worker with this number follows its flow.
    Foreign(u8),
}

/// What decides about lanes without a translated flow that is known already.
struct Slow<'a> {
    shared: &'a Shared,
    nat: &'a Nat,
    reader: &'a stoa_engine::quiescence::Reader,
    peers: &'a RemotePeers,
    policy: Option<acl::Policy>,
    side: &'a mut Side,
    worker: &'a mut NatWorker,
    now: Now,
    /// The number of this worker, and how many there are.
    at: (usize, usize),
}

impl Node for Input {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let arc = &self.shared.arcs.ip4_input;
        let mut next = self.hook.proceed(arc, &vector.rx_if, lanes, &mut vector.next);
        let kept = vector.flags[..lanes].iter().fold(KEPT, |all, flags| all & flags);
        if kept == KEPT {
            return next;
        }
        fields::of(self.shared.kernel, vector, Packets::Ip4);
        let reader = self.shared.flows.reader(true);
        let of = (flags::KEEPS_DESTINATION, true);
        let Translated { left, packets, bytes } = self.translator.translate(reader, vector, of);
        self.count(vector, (packets, bytes));
        if !left.is_empty() && self.decide(cx, vector, (&left, next)) {
            next = Next::Lanes;
        }
        next
    }

    fn tick(&mut self, cx: &mut Context<'_>) {
        if self.maintain(cx) {
            cx.wake_at(cx.now);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<u64> {
        self.maintain(cx).then_some(cx.now)
    }
}

impl Input {
    fn count(&self, vector: &mut Vector, (packets, bytes): (u64, u64)) {
        if packets > 0 {
            vector.forget_hash();
            let traffic = self.shared.flows.nat_traffic(self.worker);
            traffic.in_packets.add(packets);
            traffic.in_bytes.add(bytes);
        }
    }

    /// Decides about lanes whose flow is not known, or not translated; whether any does not go on.
    #[inline(never)]
    fn decide(
        &mut self,
        cx: &mut Context<'_>,
        vector: &mut Vector,
        (left, next): (&LaneSet, Next),
    ) -> bool {
        let (shared, reader, at) = (&*self.shared, cx.reader, (cx.worker, cx.workers()));
        let (nat, policy) = (shared.nat.read(reader), shared.acls.read(reader).policy());
        let now = shared.flows.now(cx.now);
        let Some(OfWorker { flows: Some(tracker), nat: worker, .. }) = cx.local::<OfWorker>()
        else {
            return false;
        };
        let side = tracker.of(true);
        let peers = shared.remote_peers.read(reader);
        let mut slow = Slow { shared, nat, reader, peers, policy, side, worker, now, at };
        let (mut is_any, mut packets, mut bytes) = (false, 0, 0);
        if let Next::All(edge) = next {
            let lanes = vector.len();
            vector.next[..lanes].fill(edge);
        }
        for lane in left.iter() {
            if !goes_on(vector.next[lane]) {
                continue;
            }
            match slow.decide(vector, lane) {
                Fate::Pass if vector.flags[lane] & flags::TRANSLATED != 0 => {
                    (packets, bytes) = (packets + 1, bytes + u64::from(vector.length[lane]));
                }
                Fate::Pass => {}
                Fate::Drop(reason) => {
                    let of_flows = shared.flows.limits().is_silent();
                    refuse((&mut *vector, lane), reason, [slow.worker.is_silent, of_flows]);
                    is_any = true;
                }
                Fate::Foreign(owner) => {
                    slow.note_goes((&*vector, lane), owner);
                    self.foreign.push(lane, owner);
                    is_any = true;
                }
            }
        }
        self.count(vector, (packets, bytes));
        self.foreign.hand_over(cx, vector);
        is_any
    }

    fn maintain(&self, cx: &mut Context<'_>) -> bool {
        let (shared, now) = (&*self.shared, self.shared.flows.now(cx.now));
        let nat = shared.nat.read(cx.reader);
        // In this order: whom leases let in since they have ended is known.
        let epoch = shared.flows.mappings().lease_epoch();
        let peers = shared.remote_peers.read(cx.reader);
        let Some(OfWorker { flows: Some(tracker), nat: worker, .. }) = cx.local::<OfWorker>()
        else {
            return false;
        };
        worker.maintain((nat, peers, epoch), &shared.flows, tracker.of(true), now)
    }
}

impl Slow<'_> {
    /// A gateway reads the datagram that has begun a translated flow with this key.
    fn read_first(&mut self, lane: (&mut Vector, usize), (header, key): (&Header, &FlowKey)) {
        if header.kind.protocol() == UDP && self.shared.flows.may_alter(true) {
            let Self { shared, reader, now, .. } = *self;
            let worker = &mut *self.worker;
            acl::Reading { shared, reader, worker, now }.read_first(self.side, lane, key);
        }
    }

    fn decide(&mut self, vector: &mut Vector, lane: usize) -> Fate {
        let Some(fields) = vector.known_fields() else { return Fate::Pass };
        let (header, ports) = (header(fields, lane), fields.ports[lane]);
        let vrf_id = self.shared.attributes.vrf_of(vector.rx_if[lane]);
        let vrf = flow_vrf(vrf_id);
        let header = header_of_call(self.side, (&mut *vector, lane), header, vrf);
        let is_external = self.nat.is_external(vrf, header.ends.destination);
        if header.kind.malformed().is_some() {
            let is_lost = is_external && !self.is_own(vrf_id, &header);
            return if is_lost { Fate::Drop(Drop::Nat44Malformed) } else { Fate::Pass };
        }
        if header.kind.0 & Kind::LATER != 0 {
            return self.decide_piece((vector, lane), &header, (vrf_id, is_external));
        }
        if header.kind.protocol() == ICMP4
            && translate_error(self.side, (&mut *vector, lane), (&header, ports, vrf))
                == Found::Translated
        {
            return Fate::Pass;
        }
        let key = header.key(vrf);
        let found = self.side.find(&key);
        let mut untranslated = None;
        if let Some((found, id)) = found.and_then(|found| Some((found, found.id()?))) {
            if self.side.is_translated(id) {
                match self.follow((vector, lane), (&header, ports), (found, id)) {
                    Some(fate) => return fate,
                    // A new connection takes its place.
                    None => self.side.remove(id),
                }
            } else {
                untranslated = self.side.owns(found).then_some(id);
            }
        }
        if !is_external {
            return Fate::Pass;
        }
        let is_outside = self.nat.is_outside(vector.rx_if[lane]);
        let packet = seen(vector, &header, lane);
        let received = vector.rx_if[lane];
        let first = First { packet, key, ports, untranslated, received };
        let (shared, nat, policy, now) = (self.shared, self.nat, self.policy, self.now);
        let (side, worker) = (&mut *self.side, &mut *self.worker);
        let peers = self.peers;
        let mut maker = Maker { shared, nat, peers, policy, side, worker, now };
        match maker.inbound(&first, is_outside) {
            Some(Ok(ends)) => {
                let has_cookie = vector.flags[lane] & flags::COOKIE != 0;
                if has_cookie && !self.side.begin_splice(&key, &seen(vector, &header, lane)) {
                    return Fate::Drop(Drop::SynCookie);
                }
                vector.flags[lane] |= flags::TRACKED;
                translate(vector, lane, &header, ends);
                remember_first((nat, &*self.side), (&mut *vector, lane), &key);
                self.read_first((vector, lane), (&header, &key));
                Fate::Pass
            }
            Some(Err(reason)) => Fate::Drop(reason),
            // A service of the router could not answer a stand-in.
            None if vector.flags[lane] & flags::CROSSED != 0 => Fate::Drop(Drop::Nat44NoMapping),
            None if self.is_own(vrf_id, &header) => Fate::Pass,
            None => Fate::Drop(Drop::Nat44NoMapping),
        }
    }

    /// A fragment behind the first one goes where that went.
    fn decide_piece(
        &mut self,
        (vector, lane): (&mut Vector, usize),
        header: &Header,
        (vrf_id, is_external): (u32, bool),
    ) -> Fate {
        let vrf = flow_vrf(vrf_id);
        let packet = seen(vector, header, lane);
        let found = self.side.flow_of_piece(&packet, vrf, self.now);
        let ends = found.and_then(|found| self.side.reader().other_ends(found));
        match ends {
            Some(ends) if is_to_another(header, ends) => {
                found.inspect(|it| self.side.count_piece(*it, &packet));
                translate(vector, lane, header, ends);
                found.inspect(|it| remember(self.side.reader(), (vector, lane), (*it, vrf)));
                Fate::Pass
            }
            None => match self.side.worker_of_piece((&packet, vrf), self.now) {
                Some(owner) => Fate::Foreign(owner),
                None if is_external && !self.is_own(vrf_id, header) => {
                    Fate::Drop(Drop::Nat44Fragment)
                }
                None => Fate::Pass,
            },
            Some(_) => Fate::Pass,
        }
    }

    /// A lane goes to another worker: if it is a first fragment, those behind it are to follow.
    fn note_goes(&mut self, (vector, lane): (&Vector, usize), owner: u8) {
        let Some(fields) = vector.known_fields() else { return };
        let packet = seen(vector, &header(fields, lane), lane);
        let vrf = flow_vrf(self.shared.attributes.vrf_of(vector.rx_if[lane]));
        if packet.kind.0 & Kind::FIRST != 0 && is_home(self.shared, (&packet, vrf), self.at) {
            self.side.note_first_goes((&packet, vrf), owner, self.now);
        }
    }

    /// A packet of a translated flow that rules have let pass, and that nobody has followed. `None`: it begins another
    /// connection.
    fn follow(
        &mut self,
        (vector, lane): (&mut Vector, usize),
        (header, ports): (&Header, u32),
        (found, id): (Match, u32),
    ) -> Option<Fate> {
        if !found.is_received() {
            return Some(Fate::Drop(Drop::Nat44Untranslated));
        }
        let direction = found.direction();
        if !fits(header.kind, ports, direction) {
            // A query from outside with the identifier of one from inside, for example.
            let vrf = self.shared.attributes.vrf_of(vector.rx_if[lane]);
            let is_external = self.nat.is_external(flow_vrf(vrf), header.ends.destination);
            let is_lost = is_external && !self.is_own(vrf, header);
            return Some(if is_lost { Fate::Drop(Drop::Nat44NoMapping) } else { Fate::Pass });
        }
        if vector.flags[lane] & flags::TRACKED == 0 {
            if self.at.1 > 1 && !self.side.owns(found) {
                return Some(Fate::Foreign(self.side.reader().entry(id).owner()));
            }
            let epoch = self.policy.map_or(0, |it| it.epoch);
            let packet = seen(vector, header, lane);
            match self.side.follow((id, direction), &packet, (self.now, epoch)) {
                Followed::Pass { .. } => {}
                Followed::Drop(reason) => return Some(Fate::Drop(reason)),
                Followed::Replace => return None,
            }
            self.side.keep_alive(id, self.now);
            vector.flags[lane] |= flags::TRACKED;
        }
        if let Some(fields) = vector.known_fields_mut() {
            fields.flow[lane] = found.word();
        }
        if let Some(ends) = self.side.reader().other_ends(found)
            && is_to_another(header, ends)
        {
            translate(vector, lane, header, ends);
        }
        Some(Fate::Pass)
    }

    /// Whether a packet is for the router itself.
    fn is_own(&self, vrf: u32, header: &Header) -> bool {
        self.shared.is_local4((vrf, self.reader), Ipv4Addr::from_bits(header.ends.destination))
    }
}
