//! SIP over UDP: what datagrams of its flows announce is expected, and translated as their flow is.
//!
//! A message names ends of its sender, in headers and in its session description, and in answers and requests for a
//! host inside, the external ends of its receiver. The first ones become external ends, the others internal ones. So
//! both hosts find in messages what they would find without translation.

mod party;

use stoa_engine::quiescence::Reader;
use stoa_engine::{Context, Vector};
use stoa_tables::classifier::Fragment;
use stoa_tables::flow_table::{Direction, FlowKey};
use stoa_wire::protocol::UDP;
use stoa_wire::sip::sdp::{self, MEDIA, Media};
use stoa_wire::sip::write::{Host, Session, write};
use stoa_wire::sip::{self, LONGEST, Message, SipError};
use stoa_wire::udp;

use self::party::{Party, four};
use super::alg::note_first;
use super::edit::replace_datagram;
use super::{Task, Tracking, seen, tracker, vrf_of};
use crate::acl::flow_keys::flow_vrf;
use crate::acl::keys::Family;
use crate::flow::alg::{Alg, AlgFlow, End, Expectation, Expected, Passed};
use crate::flow::flows::Now;
use crate::flow::tracker::{Listener, Side};
use crate::nat::{Wanted, external_port};
use crate::shared::Shared;

/// Ports below this one are never opened.
const LOWEST_PORT: u16 = 1024;
/// Seconds for which a registrar's binding is kept at most: clients of UDP register more often.
const BOUND_MOST_S: u32 = 3_600;

/// What reads a datagram.
pub struct Reading<'a> {
    /// What workers share.
    pub shared: &'a Shared,
    /// What a worker reads it by.
    pub reader: &'a Reader,
    /// When the packet came.
    pub now: Now,
}

impl Reading<'_> {
    /// Reads a lane of a flow with a gateway of SIP, and writes it anew if that is translated.
    #[cold]
    #[inline(never)]
    pub fn read(
        &self,
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
    pub fn read_first(&self, side: &mut Side, lane: (&mut Vector, usize), key: &FlowKey) {
        let found = side.find(key).filter(|found| side.owns(*found));
        if let Some(id) = found.and_then(|found| found.id()) {
            self.read(side, lane, (id, Direction::Original));
        }
    }

    fn follow(
        &self,
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
        let message = sip::read(data).map_err(|error| match error {
            SipError::TooLong => Passed::TooLong,
            SipError::Malformed => Passed::Malformed,
        })?;
        if packet.pseudo().is_none_or(|pseudo| view.verify(&pseudo).is_err()) {
            return Err(Passed::Checksum);
        }
        let (id, direction) = of_flow;
        let sender = Party::of(side, of_flow);
        let receiver = Party::of(side, (id, direction.reverse()));
        let session = match self.expect_all(side, (of_flow, &sender), gateway, &message) {
            // Its own ends stay as they are. Those of the receiver still have to be translated.
            Err(cause) if !sender.is_translated() => {
                side.expectations().counts().note_passed(cause);
                None
            }
            session => session?,
        };
        self.keep_bound(side, (of_flow, &receiver), gateway, &message);
        let (from, to) =
            (sender.pairs(&gateway.ports, true), receiver.pairs(&gateway.ports, false));
        let mut hosts = [None; 2];
        for (host, (party, is_out, pairs)) in
            hosts.iter_mut().zip([(&sender, true, &from), (&receiver, false, &to)])
        {
            let [own, seen] = [party.own.0, party.seen.0].map(four);
            let (Some(own), Some(seen)) = (own, seen) else { continue };
            let (from, to) = if is_out { (own, seen) } else { (seen, own) };
            let ports = pairs.0.get(..pairs.1).unwrap_or(&[]);
            *host = party.is_translated().then_some(Host { from, to, ports });
        }
        let (hosts, count) = match hosts {
            [None, None] => return Ok(()),
            [Some(one), None] | [None, Some(one)] => ([one, one], 1),
            [Some(one), Some(other)] => ([one, other], 2),
        };
        let hosts = hosts.get(..count).unwrap_or(&[]);
        let mut bytes = [0; LONGEST];
        let length = write(&message, hosts, session.as_ref(), &mut bytes);
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

    /// All that the sender of a message announces.
    fn expect_all(
        &self,
        side: &Side,
        of: ((u32, Direction), &Party),
        gateway: &mut AlgFlow,
        message: &Message<'_>,
    ) -> Result<Option<Session>, Passed> {
        self.expect_ends(side, of, gateway, message)?;
        self.expect_media(side, of, gateway, message)
    }

    /// The ends at which the sender of a request takes messages, if they are not that of its flow.
    fn expect_ends(
        &self,
        side: &Side,
        (of_flow, sender): ((u32, Direction), &Party),
        gateway: &mut AlgFlow,
        message: &Message<'_>,
    ) -> Result<(), Passed> {
        let Some(own) = four(sender.own.0) else { return Ok(()) };
        for port in message.announced(own).filter(|port| *port != sender.own.1) {
            let (seen, _) = self.seen_ports(side, (of_flow, sender), gateway, (port, 1))?;
            if sender.is_translated() && gateway.ports.seen(port).is_none() {
                // What others say of it is known by that, even if it is the same.
                gateway.ports.add(End { own: port, seen });
            }
            let listener = Listener { protocol: UDP, port: seen, own_port: port };
            let it = self.expectation(side, (of_flow, sender), &listener);
            side.expect_again(&it.of(Expected::Control), self.now)?;
        }
        Ok(())
    }

    /// The ends of media that the sender of a message announces. Returns them as the other end sees them.
    fn expect_media(
        &self,
        side: &Side,
        (of_flow, sender): ((u32, Direction), &Party),
        gateway: &mut AlgFlow,
        message: &Message<'_>,
    ) -> Result<Option<Session>, Passed> {
        if !message.has_sdp {
            return Ok(None);
        }
        let media = sdp::media(message.body).map_err(|error| match error {
            SipError::TooLong => Passed::TooLong,
            SipError::Malformed => Passed::Malformed,
        })?;
        let mut ports = [None; MEDIA];
        for (to, it) in ports.iter_mut().zip(media.into_iter().flatten()) {
            let is_held = it.address.is_some_and(|address| address.is_unspecified());
            if it.port == 0 || is_held {
                continue;
            }
            if it.address != Some(sender.own.0) {
                // Media of another host: nothing is let in for that.
                side.expectations().counts().note_passed(Passed::Foreign);
                continue;
            }
            *to = Some(self.expect_medium(side, (of_flow, sender), gateway, &it)?);
        }
        let addresses = four(sender.own.0).zip(four(sender.seen.0));
        Ok(addresses.map(|address| Session { address, ports }))
    }

    /// The ports of a medium and of its RTCP, as the other end sees them.
    fn expect_medium(
        &self,
        side: &Side,
        (of_flow, sender): ((u32, Direction), &Party),
        gateway: &mut AlgFlow,
        it: &Media,
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
            let inward = inward.of(Expected::Media);
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

    /// A registrar has bound ends of the receiver of a message: requests to these are expected as long as that. The
    /// receiver itself has announced them, or sends from them: otherwise a registrar would choose ports of its clients.
    fn keep_bound(
        &self,
        side: &Side,
        ((id, direction), receiver): ((u32, Direction), &Party),
        gateway: &AlgFlow,
        message: &Message<'_>,
    ) {
        let Some(address) = four(receiver.seen.0).filter(|_| message.is_register) else { return };
        let Some(policy) = self.shared.acls.read(self.reader).policy() else { return };
        for port in message.ends_of(address) {
            let Some(seconds) = message.bound(address, port) else { continue };
            let own_port = match gateway.ports.own(port) {
                _ if port == receiver.seen.1 => receiver.own.1,
                Some(own) => own,
                None if !receiver.is_translated() => port,
                None => continue,
            };
            let listener = Listener { protocol: UDP, port, own_port };
            let of_flow = (id, direction.reverse());
            let it = side.expectation(of_flow, (Alg::Sip, &listener), self.now);
            let it = it.until(self.now.tick.wrapping_add(seconds.min(BOUND_MOST_S)));
            let it = Expectation { epoch: policy.epoch, ..it.of(Expected::Bound) };
            let former = side.expectations().find(&it.key, self.now.tick);
            let former = former.filter(|former| former.becomes == it.becomes);
            let is_announced =
                former.is_some_and(|it| matches!(it.kind, Expected::Control | Expected::Bound));
            if port != receiver.seen.1 && !is_announced {
                side.expectations().counts().note_passed(Passed::Foreign);
            } else if seconds == 0 {
                // Its client may have registered by another flow.
                if let Some(it) = former {
                    side.expectations().forget(&it.key, it.control);
                }
            } else if let Err(cause) = side.expect_again(&it, self.now) {
                side.expectations().counts().note_passed(cause);
            }
        }
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
