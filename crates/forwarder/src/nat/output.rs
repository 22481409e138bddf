//! `ip4-nat44-output`: gives packets that an external interface is about to send their external sources. What a policy
//! is to translate and cannot be translated is dropped: no inside address leaves.

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::vector::{LaneSet, flags};
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::flow_table::{Direction, Ends, FlowKey, Match};
use stoa_wire::protocol::{ICMP4, UDP};

use super::create::Maker;
use super::first::First;
use super::known::{Translated, Translator};
use super::lanes::{goes_on, header, header_of_call, seen, translate};
use super::mappings::RemotePeers;
use super::rewrite::Header;
use super::{Nat, NatWorker, OUTPUT_NODE, Outbound, refuse};
use crate::acl;
use crate::acl::flow_vrf;
use crate::acl::log::OfWorker;
use crate::arcs::{self, IP4_OUTPUT};
use crate::drops::Drop;
use crate::flow::column::Packets;
use crate::flow::fields::{self, Kind};
use crate::flow::flows::Now;
use crate::flow::tracker::{Followed, Opened, Side, fits};
use crate::nat64::hosts::is_stand_in;
use crate::shared::Shared;

/// Makes the node of one worker.
pub fn make_output(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    let hook = arcs::hook(IP4_OUTPUT, OUTPUT_NODE);
    let translator = Translator::new(shared.kernel);
    Box::new(Output { shared: shared.clone(), hook, worker, translator })
}

struct Output {
    shared: Arc<Shared>,
    hook: ArcHook,
    worker: usize,
    translator: Translator,
}

/// What decides about lanes without a translated flow that is known already.
struct Slow<'a> {
    shared: &'a Shared,
    nat: &'a Nat,
    peers: &'a RemotePeers,
    reader: &'a stoa_engine::quiescence::Reader,
    policy: Option<acl::Policy>,
    side: &'a mut Side,
    worker: &'a mut NatWorker,
    now: Now,
}

/// Of the router itself, outer packets of its tunnels among them, to groups, and what has its external ends already.
const DONE: u16 = flags::OWN | flags::MULTICAST | flags::TRANSLATED | flags::TUNNELS;

impl Node for Output {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let arc = &self.shared.arcs.ip4_output;
        let mut next = self.hook.proceed(arc, &vector.tx_if, lanes, &mut vector.next);
        let all_done = vector.flags[..lanes]
            .iter()
            .fold(u16::MAX, |all, flags| all & if flags & DONE == 0 { 0 } else { u16::MAX });
        if all_done != 0 {
            return next;
        }
        fields::of(self.shared.kernel, vector, Packets::Ip4);
        let reader = self.shared.flows.reader(true);
        let Translated { left, packets, bytes } =
            self.translator.translate(reader, vector, (DONE, false));
        self.count(vector, (packets, bytes));
        if !left.is_empty() && self.decide(cx, vector, (&left, next)) {
            next = Next::Lanes;
        }
        next
    }
}

impl Output {
    fn count(&self, vector: &mut Vector, (packets, bytes): (u64, u64)) {
        if packets > 0 {
            vector.forget_hash();
            let traffic = self.shared.flows.nat_traffic(self.worker);
            traffic.out_packets.add(packets);
            traffic.out_bytes.add(bytes);
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
        let (shared, reader) = (&*self.shared, cx.reader);
        let (nat, policy) = (shared.nat.read(reader), shared.acls.read(reader).policy());
        let now = shared.flows.now(cx.now);
        let Some(OfWorker { flows: Some(tracker), nat: worker, .. }) = cx.local::<OfWorker>()
        else {
            // Without flows nothing can be translated.
            left.iter().for_each(|lane| vector.next[lane] = Drop::Nat44Untranslated.next());
            return true;
        };
        let (peers, side) = (shared.remote_peers.read(reader), tracker.of(true));
        let mut slow = Slow { shared, nat, peers, reader, policy, side, worker, now };
        let (mut is_any, mut packets, mut bytes) = (false, 0, 0);
        if let Next::All(edge) = next {
            let lanes = vector.len();
            vector.next[..lanes].fill(edge);
        }
        slow.prefetch(vector, left);
        for lane in left.iter() {
            if !goes_on(vector.next[lane]) {
                continue;
            }
            match slow.decide(vector, lane) {
                Ok(true) => {
                    (packets, bytes) = (packets + 1, bytes + u64::from(vector.length[lane]))
                }
                Ok(false) => {}
                Err(reason) => {
                    let of_flows = shared.flows.limits().is_silent();
                    refuse((&mut *vector, lane), reason, [slow.worker.is_silent, of_flows]);
                    is_any = true;
                }
            }
        }
        self.count(vector, (packets, bytes));
        is_any
    }
}

impl<'a> Slow<'a> {
    /// Prefetches where the replies of new flows have their keys, if these get the first port that is tried.
    fn prefetch(&self, vector: &Vector, left: &LaneSet) {
        let Some(fields) = vector.known_fields() else { return };
        for lane in left.iter() {
            let header = header(fields, lane);
            let [vrf, tx_vrf] = [vector.rx_if[lane], vector.tx_if[lane]]
                .map(|interface| flow_vrf(self.shared.attributes.vrf_of(interface)));
            let Outbound::By(policy) = self.outbound(vector, (lane, &header)) else { continue };
            if let Some(address) = policy.external_of((header.ends.source, vrf)) {
                let replies = Ends { source: address, ..header.ends };
                self.side.prefetch_key(&Header { ends: replies, ..header }.key(tx_vrf));
            }
        }
    }

    /// Decides about a lane; whether it is translated.
    fn decide(&mut self, vector: &mut Vector, lane: usize) -> Result<bool, Drop> {
        let Some(fields) = vector.known_fields() else { return Err(Drop::Nat44Untranslated) };
        let (header, ports) = (header(fields, lane), fields.ports[lane]);
        let [vrf, tx_vrf] = [vector.rx_if[lane], vector.tx_if[lane]]
            .map(|interface| flow_vrf(self.shared.attributes.vrf_of(interface)));
        let header = header_of_call(self.side, (&mut *vector, lane), header, vrf);
        if header.kind.malformed().is_some() {
            return self.pass_or(vector, (lane, &header), Drop::Nat44Malformed);
        }
        if header.kind.0 & Kind::LATER != 0 {
            let packet = seen(vector, &header, lane);
            let found = self.side.flow_of_piece(&packet, vrf, self.now);
            let Some(ends) = found.and_then(|found| self.side.reader().other_ends(found)) else {
                return self.pass_or(vector, (lane, &header), Drop::Nat44Fragment);
            };
            found.inspect(|it| self.side.count_piece(*it, &packet));
            translate(vector, lane, &header, ends);
            return Ok(true);
        }
        let key = header.key(vrf);
        let mut untranslated = None;
        let found = self.side.find(&key);
        if let Some((found, id)) = found.and_then(|found| Some((found, found.id()?))) {
            let owns = self.side.owns(found);
            if self.side.is_translated(id) {
                if let Some(done) = self.follow((vector, lane), (&header, ports), (found, id))? {
                    return Ok(done);
                }
            } else if found.direction() == Direction::Original && owns {
                untranslated = Some(id);
            } else {
                // Somebody outside knows the inside address, or another worker has the flow.
                return self.pass_or(vector, (lane, &header), Drop::Nat44Untranslated);
            }
        }
        let decision = self.outbound(vector, (lane, &header));
        match decision {
            // What has an address that no host has never leaves.
            Outbound::Untranslated if is_stand_in(header.ends.source) => {
                return Err(Drop::Nat44Untranslated);
            }
            Outbound::Untranslated => return Ok(false),
            // Its flow is over, so that nothing knows its external end any more.
            Outbound::Backend => return Err(Drop::Nat44Untranslated),
            // A forged source: no host inside has an external address, and it would hold its ports for ever.
            Outbound::By(_) if self.nat.is_external(tx_vrf, header.ends.source) => {
                return Err(Drop::Nat44Untranslated);
            }
            _ => {}
        }
        let untranslated = self.of_rules((&*vector, lane), (&header, key), untranslated)?;
        let packet = seen(vector, &header, lane);
        // What the router itself sends comes from no zone.
        let is_own = vector.flags[lane] & flags::OWN != 0;
        let received = if is_own { u32::MAX } else { vector.rx_if[lane] };
        let first = First { packet, key, ports, untranslated, received };
        let (shared, nat, policy, now) = (self.shared, self.nat, self.policy, self.now);
        let (side, worker) = (&mut *self.side, &mut *self.worker);
        let peers = self.peers;
        let mut maker = Maker { shared, nat, peers, policy, side, worker, now };
        let ends = maker.outbound(&first, decision, tx_vrf)?;
        vector.flags[lane] |= flags::TRACKED;
        vector.flags[lane] &= !flags::DEFERRED;
        translate(vector, lane, &header, ends);
        if header.kind.protocol() == UDP && self.shared.flows.may_alter(true) {
            let Self { shared, reader, now, .. } = *self;
            let worker = &mut *self.worker;
            acl::Reading { shared, reader, worker, now }.read_first(
                self.side,
                (vector, lane),
                &key,
            );
        }
        Ok(true)
    }

    /// The flow that rules have given a packet. A SYN that waited for its zone gets it now.
    fn of_rules(
        &mut self,
        (vector, lane): (&Vector, usize),
        (header, key): (&Header, FlowKey),
        known: Option<u32>,
    ) -> Result<Option<u32>, Drop> {
        let lane_flags = vector.flags[lane];
        if lane_flags & flags::COOKIE != 0 {
            // When the cookie was sent, nothing translated the connection.
            return Err(Drop::SynCookie);
        }
        match known {
            None if lane_flags & flags::DEFERRED != 0 => {
                self.begin_deferred((vector, lane), header, key)
            }
            known => Ok(known),
        }
    }

    /// The translated flow takes the place of the one that begins here, as if the SYN had not waited.
    #[cold]
    fn begin_deferred(
        &mut self,
        (vector, lane): (&Vector, usize),
        header: &Header,
        key: FlowKey,
    ) -> Result<Option<u32>, Drop> {
        let Some(policy) = self.policy else { return Ok(None) };
        let of = (self.shared, self.reader);
        let Some(admission) = acl::admission_of_deferred(of, (vector, lane), policy) else {
            return Ok(None);
        };
        match self.side.create(key, &seen(vector, header, lane), admission, self.now) {
            Opened::New => Ok(self.side.find(&key).and_then(Match::id)),
            Opened::Existing(_) => Err(Drop::FlowContended),
            Opened::Untracked | Opened::PortTaken => Ok(None),
            Opened::Drop(reason) => Err(reason),
        }
    }

    fn outbound(&self, vector: &Vector, (lane, header): (usize, &Header)) -> Outbound<'a> {
        let protocol = header.kind.protocol();
        let has_port = header.kind.0 & Kind::LATER == 0 && protocol != ICMP4;
        let port = has_port.then_some((header.ends.ports >> 16) as u16);
        let ends = (header.ends.source, header.ends.destination);
        let vrf = flow_vrf(self.shared.attributes.vrf_of(vector.rx_if[lane]));
        self.nat.outbound((vector.tx_if[lane], vrf), ends, (protocol, port))
    }

    /// A lane that cannot be translated passes only if nothing is to translate it, whatever its ports are.
    fn pass_or(&self, vector: &Vector, lane: (usize, &Header), reason: Drop) -> Result<bool, Drop> {
        let vrf = flow_vrf(self.shared.attributes.vrf_of(vector.rx_if[lane.0]));
        let (interface, source) = (vector.tx_if[lane.0], (vrf, lane.1.ends.source));
        let passes = matches!(self.outbound(vector, lane), Outbound::Untranslated)
            && !self.nat.is_mapped_inside(interface, source)
            && !is_stand_in(source.1);
        if passes { Ok(false) } else { Err(reason) }
    }

    /// A packet of a translated flow. `None`: it begins another one.
    fn follow(
        &mut self,
        (vector, lane): (&mut Vector, usize),
        (header, ports): (&Header, u32),
        (found, id): (Match, u32),
    ) -> Result<Option<bool>, Drop> {
        let direction = found.direction();
        if !found.is_received() || !fits(header.kind, ports, direction) {
            return Err(Drop::Nat44Untranslated);
        }
        if vector.flags[lane] & flags::TRACKED == 0 {
            if !self.side.owns(found) {
                return Err(Drop::FlowContended);
            }
            let epoch = self.policy.map_or(0, |it| it.epoch);
            let packet = seen(vector, header, lane);
            match self.side.follow((id, direction), &packet, (self.now, epoch)) {
                Followed::Pass { .. } => {}
                Followed::Drop(reason) => return Err(reason),
                Followed::Replace => {
                    self.side.remove(id);
                    return Ok(None);
                }
            }
            self.side.keep_alive(id, self.now);
            vector.flags[lane] |= flags::TRACKED;
        }
        let Some(ends) = self.side.reader().other_ends(found) else {
            return Err(Drop::Nat44Untranslated);
        };
        translate(vector, lane, header, ends);
        Ok(Some(true))
    }
}
