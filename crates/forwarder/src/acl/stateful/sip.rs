//! SIP over UDP: what datagrams of its flows announce is expected, and translated as their flow is.
//!
//! A message names ends of its sender, in headers and in its session description, and in answers and requests for a
//! host inside, the external ends of its receiver. The first ones become external ends, the others internal ones. So
//! both hosts find in messages what they would find without translation.

mod bindings;
mod party;

use stoa_engine::quiescence::Reader;
use stoa_engine::{Context, Vector};
use stoa_tables::classifier::Fragment;
use stoa_tables::flow_table::{Direction, FlowKey};
use stoa_wire::protocol::UDP;
use stoa_wire::sip::sdp::{self, MEDIA, Media};
use stoa_wire::sip::write::{Hosts, Session, write};
use stoa_wire::sip::{self, ENDS, LONGEST, Message, Method, SipError};
use stoa_wire::udp;

use self::bindings::note_register;
use self::party::{Pairs, Party, four};
use super::alg::{LOWEST_PORT, note_first};
use super::edit::replace_datagram;
use super::{Task, Tracking, seen, tracker, vrf_of};
use crate::acl::flow_keys::flow_vrf;
use crate::acl::keys::Family;
use crate::flow::alg::{Alg, AlgFlow, Control, End, Expectation, Expected, Origin, Passed};
use crate::flow::flows::Now;
use crate::flow::tracker::{Listener, Side};
use crate::nat::{NatWorker, Wanted, external_port};
use crate::shared::Shared;

fn cause_of(error: SipError) -> Passed {
    match error {
        SipError::TooLong => Passed::TooLong,
        SipError::Malformed => Passed::Malformed,
    }
}

/// What a message that goes in a direction announces belongs to this call, and to the request that it is or answers.
fn call_of(side: &Side, direction: Direction, message: &Message<'_>) -> Origin {
    let of_request = if message.status.is_some() { direction.reverse() } else { direction };
    let name = side.expectations().number_of(message.call_id);
    Origin::of_call(name, message.sequence.number, of_request)
}

/// Media of a call that ends are expected no more: all of them with a BYE, and those of an INVITE that is taken back or
/// refused: by who has sent it, or by who has received it. Answers to these still come, to the other ends that the
/// request has announced.
fn forget_ended(side: &Side, (id, direction): (u32, Direction), message: &Message<'_>) {
    let is_one_request = match (message.sequence.method, message.status) {
        (Method::Bye, None) => false,
        (Method::Cancel, None) => true,
        (Method::Invite, Some(status)) if status >= 300 => true,
        _ => return,
    };
    let (all, origin) = (side.expectations(), call_of(side, direction, message));
    let control = Control { id, start: side.reader().entry(id).start() };
    all.forget_call(control, origin.name, is_one_request.then_some(origin.request));
}

/// What reads a datagram.
pub struct Reading<'a> {
    /// What workers share.
    pub shared: &'a Shared,
    /// What a worker reads it by.
    pub reader: &'a Reader,
    /// The worker's part of address translation.
    pub worker: &'a mut NatWorker,
    /// When the packet came.
    pub now: Now,
}

impl Reading<'_> {
    /// Reads a lane of a flow with a gateway of SIP, and writes it anew if that is translated.
    #[cold]
    #[inline(never)]
    pub fn read(
        &mut self,
        side: &mut Side,
        (vector, lane): (&mut Vector, usize),
        of_flow: (u32, Direction),
    ) {
        let Some(mut gateway) = side.alg_flow(of_flow.0).filter(|it| it.alg == Some(Alg::Sip))
        else {
            return;
        };
        let before = gateway;
        if let Err(cause) = self.follow(side, (vector, lane), of_flow, &mut gateway) {
            side.expectations().counts().note_passed(cause);
        }
        if gateway != before {
            side.set_alg_flow(of_flow.0, &gateway);
        }
    }

    /// The same for the first packet of a flow with this key, which address translation has created.
    #[cold]
    #[inline(never)]
    pub fn read_first(&mut self, side: &mut Side, lane: (&mut Vector, usize), key: &FlowKey) {
        let found = side.find(key).filter(|found| side.owns(*found));
        if let Some(id) = found.and_then(|found| found.id()) {
            self.read(side, lane, (id, Direction::Original));
        }
    }

    fn follow(
        &mut self,
        side: &mut Side,
        (vector, lane): (&mut Vector, usize),
        of_flow: (u32, Direction),
        gateway: &mut AlgFlow,
    ) -> Result<(), Passed> {
        let Some(fields) = vector.known_fields() else { return Ok(()) };
        let packet = seen(vector, fields, lane);
        if packet.kind.part() != Fragment::No {
            return Err(Passed::Split);
        }
        let upper = usize::from(packet.place.upper())..usize::from(packet.place.length());
        let view = packet.bytes.get(upper).and_then(|it| udp::parse(it).ok());
        let view = view.ok_or(Passed::Malformed)?;
        let data = view.payload();
        if sip::is_keep_alive(data) {
            return Ok(());
        }
        let message = sip::read(data).map_err(cause_of)?;
        if packet.pseudo().is_none_or(|pseudo| view.verify(&pseudo).is_err()) {
            return Err(Passed::Checksum);
        }
        let (id, direction) = of_flow;
        let sender = Party::of(side, of_flow);
        let receiver = Party::of(side, (id, direction.reverse()));
        forget_ended(side, of_flow, &message);
        note_register(side, direction, gateway, &message);
        let alone = self.expect_ends(side, (of_flow, &sender), gateway, &message);
        let session = self.expect_media(side, (of_flow, &sender), gateway, &message);
        self.keep_bound(side, (of_flow, &receiver), gateway, &message);
        let (mut of_sender, mut of_receiver) = (Pairs::default(), Pairs::default());
        for port in alone.into_iter().flatten() {
            // It is reached by its flow: better than an address that nobody outside reaches.
            of_sender.add((port, sender.seen.1));
        }
        let hosts = Hosts {
            sender: sender.host(&gateway.ports, true, &mut of_sender),
            receiver: receiver.host(&gateway.ports, false, &mut of_receiver),
        };
        if hosts == Hosts::default() {
            return Ok(());
        }
        let mut bytes = [0; LONGEST];
        let length = write(&message, &hosts, session.as_ref(), &mut bytes);
        let text = length.and_then(|length| bytes.get(..length)).ok_or(Passed::NoRoom)?;
        if text == data {
            return Ok(());
        }
        if !replace_datagram(vector, lane, text) {
            return Err(Passed::NoRoom);
        }
        side.expectations().counts().note_edited();
        Ok(())
    }

    /// The ends at which the sender of a request takes messages, if they are not that of its flow. Returns the ports
    /// for which none are expected.
    fn expect_ends(
        &self,
        side: &Side,
        of: ((u32, Direction), &Party),
        gateway: &mut AlgFlow,
        message: &Message<'_>,
    ) -> [Option<u16>; ENDS] {
        let mut alone = [None; ENDS];
        let Some(own) = four(of.1.own.0) else { return alone };
        let ports = message.announced(own).filter(|port| *port != of.1.own.1);
        for (port, to) in ports.zip(&mut alone) {
            if let Err(cause) = self.expect_end(side, of, gateway, port) {
                side.expectations().counts().note_passed(cause);
                *to = Some(port);
            }
        }
        alone
    }

    fn expect_end(
        &self,
        side: &Side,
        (of_flow, sender): ((u32, Direction), &Party),
        gateway: &mut AlgFlow,
        port: u16,
    ) -> Result<(), Passed> {
        let (seen, _) = self.seen_ports(side, (of_flow, sender), gateway, (port, 1))?;
        if sender.is_translated() && gateway.ports.seen(port).is_none() {
            // What others say of it is known by that, even if it is the same.
            gateway.ports.add(End { own: port, seen });
        }
        let listener = Listener { protocol: UDP, port: seen, own_port: port };
        let it = self.expectation(side, (of_flow, sender), &listener);
        side.expect_again(&it.of(Expected::Control), self.now)
    }

    /// The ends of media that the sender of a message announces. Returns them as the other end sees them. Those which
    /// are not expected keep their ports: the rest of the message is of use without them, and names no host inside.
    fn expect_media(
        &self,
        side: &Side,
        of: ((u32, Direction), &Party),
        gateway: &mut AlgFlow,
        message: &Message<'_>,
    ) -> Option<Session> {
        let (sender, counts) = (of.1, side.expectations().counts());
        if !message.has_sdp {
            return None;
        }
        let media = sdp::media(message.body);
        let media = media.map_err(|error| counts.note_passed(cause_of(error))).ok()?;
        let mut ports = [None; MEDIA];
        let origin = call_of(side, of.0.1, message);
        for (to, it) in ports.iter_mut().zip(media.into_iter().flatten()) {
            let is_held = it.address.is_some_and(|address| address.is_unspecified());
            if it.port == 0 || is_held {
                continue;
            }
            // Media of another host: nothing is let in for that.
            let found = if it.address == Some(sender.own.0) {
                self.expect_medium(side, of, gateway, (&it, origin))
            } else {
                Err(Passed::Foreign)
            };
            *to = found.map_err(|cause| counts.note_passed(cause)).ok();
        }
        let address = four(sender.own.0).zip(four(sender.seen.0))?;
        Some(Session { address, ports })
    }

    /// The ports of a medium and of its RTCP, as the other end sees them.
    fn expect_medium(
        &self,
        side: &Side,
        (of_flow, sender): ((u32, Direction), &Party),
        gateway: &mut AlgFlow,
        (it, origin): (&Media, Origin),
    ) -> Result<(u16, u16), Passed> {
        let of = (of_flow, sender);
        let is_pair = it.rtcp.is_some() && it.rtcp == it.port.checked_add(1);
        let count = if is_pair { 2 } else { 1 };
        let (port, count) = self.seen_ports(side, of, gateway, (it.port, count))?;
        let rtcp = match it.rtcp {
            None => port,
            Some(_) if count > 1 => port.wrapping_add(1),
            Some(own) => self.seen_ports(side, of, gateway, (own, 1))?.0,
        };
        let ports = [Some((it.port, port)), it.rtcp.map(|own| (own, rtcp))];
        for (own_port, port) in ports.into_iter().flatten() {
            let listener = Listener { protocol: UDP, port, own_port };
            let inward = self.expectation(side, of, &listener);
            let inward = Expectation { origin, ..inward.of(Expected::Media) };
            side.expect_again(&inward, self.now)?;
            // What it sends first itself gets the announced port. Without translation, the announcement of the other
            // end lets it pass: this one would let it reach all ports.
            if sender.is_translated() {
                side.expect_again(&inward.sibling(), self.now)?;
            }
        }
        Ok((port, rtcp))
    }

    /// What is expected if the sender of a message listens.
    fn expectation(
        &self,
        side: &Side,
        (of_flow, sender): ((u32, Direction), &Party),
        listener: &Listener,
    ) -> Expectation {
        let (id, direction) = of_flow;
        let answers = side.reader().entry(id).counters(Direction::Reply).packets;
        // One that is translated is a host inside.
        let is_unanswered =
            !sender.is_translated() && direction == Direction::Original && answers == 0;
        let it = side.expectation(of_flow, (Alg::Sip, listener), self.now);
        Expectation { is_unanswered, ..it }
    }

    /// The ports by which the other end of a flow knows some of its sender, one behind the other. Returns the first
    /// one, and how many are known like this: all, or one.
    fn seen_ports(
        &self,
        side: &Side,
        (of_flow, sender): ((u32, Direction), &Party),
        gateway: &mut AlgFlow,
        (own, count): (u16, u16),
    ) -> Result<(u16, u16), Passed> {
        if own < LOWEST_PORT {
            return Err(Passed::Foreign);
        }
        if !sender.is_translated() {
            return Ok((own, count));
        }
        if let Some(seen) = gateway.ports.seen(own) {
            return Ok((seen, 1));
        }
        let nat = self.shared.nat.read(self.reader);
        let is_used = |port: u16| port == sender.seen.1 || gateway.ports.own(port).is_some();
        let of = |count| {
            let wanted = Wanted { port: own, count };
            external_port((nat, side), of_flow, &wanted, is_used, self.now)
        };
        // Without two that follow each other, RTCP gets another one.
        let (seen, count) = match of(count) {
            Some(seen) => (seen, count),
            None => (of(1).filter(|_| count > 1).ok_or(Passed::Full)?, 1),
        };
        if seen != own {
            for by in (0..count).rev() {
                gateway.ports.add(End { own: own.wrapping_add(by), seen: seen.wrapping_add(by) });
            }
        }
        Ok((seen, count))
    }
}

/// A rule with a gateway of SIP lets a lane pass: if that has begun a flow, it is read as all others are.
#[cold]
#[inline(never)]
pub(super) fn note_sip<F: Family>(
    task: &Task<'_>,
    cx: &mut Context<'_>,
    (vector, lane): (&Vector, usize),
    tracking: &mut Tracking,
) {
    let (Some(fields), Some(tracker)) = (vector.known_fields(), tracker(cx)) else { return };
    let vrf = flow_vrf(vrf_of(task.shared, task.place, vector, lane));
    let side = tracker.of(F::IS_IP4);
    let found = side.find(&F::flow_key(fields, lane, vrf)).filter(|it| side.owns(*it));
    let Some((id, direction)) = found.and_then(|it| Some((it.id()?, it.direction()))) else {
        return;
    };
    let packets = side.reader().entry(id).counters(Direction::Original).packets;
    if packets == 1 && direction == Direction::Original && side.is_altered(id) {
        note_first(lane, (id, direction), tracking);
    }
}
