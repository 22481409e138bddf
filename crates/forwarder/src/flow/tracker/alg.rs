//! Flows with application level gateways ([`crate::flow::alg`]), and the flows that they have announced.

use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{Direction, FlowKey, Match, Tuple};
use stoa_wire::protocol::GRE;
use stoa_wire::tcp::flag::SYN;
use stoa_wire::{tftp, udp};

use super::spliced::SPLICED;
use super::{Admission, Opened, Seen, Side, Uses};
use crate::flow::alg::{
    Alg, AlgFlow, Becomes, Control, EXPECTED, Expectation, Expectations, Expected, ExpectedKey,
    Origin, Passed, Stream,
};
use crate::flow::flows::{Flows, Now};
use crate::flow::profiles::profile_of;

/// Who listens: as packets of the other end have it, and as it is itself.
#[derive(Clone, Copy, Debug)]
pub struct Listener {
    /// The protocol of the connection.
    pub protocol: u8,
    /// The port that the other end sees.
    pub port: u16,
    /// Its own port.
    pub own_port: u16,
}

/// What the gateway of a flow, of whichever worker, has added to the sequence number of a segment: its receiver sees
/// this number.
pub(super) fn added_by_gateway(flows: &Flows, is_ip4: bool, found: Match, number: u32) -> u32 {
    let Some(id) = found.id() else { return 0 };
    if flows.reader(is_ip4).entry(id).flags() & SPLICED == 0 {
        return 0;
    }
    let back = |it: AlgFlow| it.stream(found.direction()).acknowledged(number);
    flows.alg_flows(is_ip4).get(id).map_or(0, back).wrapping_neg()
}

impl Side {
    /// What was announced.
    pub fn expectations(&self) -> &Expectations {
        self.flows.expectations()
    }

    /// Whether packets of a flow, of whichever worker, are read or changed: it is spliced, or has a gateway.
    #[inline(always)]
    pub fn is_altered(&self, id: u32) -> bool {
        self.reader.entry(id).flags() & SPLICED != 0
    }

    /// What the gateway of a flow keeps; `None`: it has no gateway.
    pub fn alg_flow(&self, id: u32) -> Option<AlgFlow> {
        if !self.is_altered(id) {
            return None;
        }
        self.flows.alg_flows(self.is_ip4).get(id)
    }

    /// Sets what the gateway of an own flow keeps.
    pub fn set_alg_flow(&self, id: u32, flow: &AlgFlow) {
        self.flows.alg_flows(self.is_ip4).set(id, Some(flow));
    }

    /// The flow of this key that a packet has begun gets a gateway, if it has none and its protocol is that of the
    /// gateway.
    #[cold]
    pub fn begin_alg(&mut self, key: &FlowKey, alg: Alg, packet: &Seen<'_>, now: Now) {
        let found = self.find(key).filter(|found| self.owns(*found));
        let Some(id) = found.and_then(Match::id) else { return };
        if packet.kind.protocol() != alg.protocol() || self.is_altered(id) {
            return;
        }
        // The sender of a SYN begins its first line behind it. Of a connection that is known from its middle on, lines
        // are found at their ends.
        let syn = packet.segment().filter(|it| it.flags & SYN != 0);
        let first =
            syn.map_or_else(Stream::default, |it| Stream::beginning(it.sequence.wrapping_add(1)));
        self.give_alg(id, &AlgFlow::beginning(alg, first));
        self.expect_answer((id, Direction::Original), packet, now);
    }

    /// Rules judge an own flow anew: this is its gateway now.
    #[cold]
    pub fn renew_alg(&mut self, key: &FlowKey, alg: Option<Alg>, packet: &Seen<'_>, now: Now) {
        let found = self.find(key).filter(|found| self.owns(*found));
        let Some(id) = found.and_then(Match::id) else { return };
        match (self.alg_flow(id), alg) {
            // One of another protocol concerns it not.
            (Some(flow), alg)
                if flow.alg != alg
                    && alg.is_none_or(|it| it.protocol() == packet.kind.protocol()) =>
            {
                self.set_alg_flow(id, &AlgFlow { alg, ..flow });
            }
            (None, Some(alg)) => self.begin_alg(key, alg, packet, now),
            _ => {}
        }
    }

    fn give_alg(&mut self, id: u32, flow: &AlgFlow) {
        if self.flows.alg_flows(self.is_ip4).set(id, Some(flow)) {
            // It is own and live.
            let _ = self.owner.set_flags(id, self.owner.entry(id).flags() | SPLICED);
        }
    }

    /// Forgets what a former flow with the id of an own one has left.
    pub(super) fn forget_alg(&self, id: u32) {
        self.flows.alg_flows(self.is_ip4).set(id, None);
    }

    /// A flow with a gateway has got translated keys, and another id.
    #[cold]
    pub(super) fn carry_alg(&mut self, id: u32, flow: &AlgFlow, packet: &Seen<'_>, now: Now) {
        self.give_alg(id, flow);
        self.expect_answer((id, Direction::Original), packet, now);
    }

    /// A request of TFTP: its server answers from another port.
    #[cold]
    pub fn expect_answer(
        &mut self,
        (id, direction): (u32, Direction),
        packet: &Seen<'_>,
        now: Now,
    ) {
        let is_tftp = self.alg_flow(id).and_then(|it| it.alg) == Some(Alg::Tftp);
        if !is_tftp || direction != Direction::Original {
            return;
        }
        let upper = usize::from(packet.place.upper()) + udp::LENGTH;
        let Some(data) = packet.bytes.get(upper..packet.place.length().into()) else { return };
        let cause = match tftp::is_request(data) {
            Ok(false) => return,
            Ok(true) => {
                let flow = self.reader.entry(id);
                let port = |key: &FlowKey| match key.tuple {
                    Tuple::Ip4(it) => (it.source_port, it.destination_port),
                    Tuple::Ip6(it) => (it.source_port, it.destination_port),
                };
                let (own_port, port) = (port(&flow.key()).0, port(&flow.reply_key()).1);
                let listener = Listener { protocol: Alg::Tftp.protocol(), port, own_port };
                match self.expect((id, direction), &listener, now) {
                    Ok(()) => return,
                    Err(cause) => cause,
                }
            }
            Err(tftp::TftpError::TooLong) => Passed::TooLong,
            Err(tftp::TftpError::Malformed) => Passed::Malformed,
        };
        self.expectations().counts().note_passed(cause);
    }

    /// The keys of the packets that come from the end that sends in a direction of a flow, and of those to it.
    pub fn keys(&self, (id, direction): (u32, Direction)) -> [FlowKey; 2] {
        let flow = self.reader.entry(id);
        match direction {
            Direction::Original => [flow.key(), flow.reply_key()],
            Direction::Reply => [flow.reply_key(), flow.key()],
        }
    }

    /// The answers that a flow expects, which gets translated keys and another id.
    #[cold]
    pub(super) fn forget_answer(&self, id: u32) {
        let flow = self.reader.entry(id);
        let control = Control { id, start: flow.start() };
        self.expectations().forget(&ExpectedKey::of(&flow.reply_key()), control);
    }

    /// The end that sends in this direction of an own flow listens: the other one is expected to connect, in place of
    /// what the flow has announced before.
    ///
    /// # Errors
    /// Why it is not expected.
    pub fn expect(
        &self,
        (id, direction): (u32, Direction),
        listener: &Listener,
        now: Now,
    ) -> Result<(), Passed> {
        let flow = self.reader.entry(id);
        let Some(gateway @ AlgFlow { alg: Some(alg), .. }) = self.alg_flow(id) else {
            return Ok(());
        };
        let control = Control { id, start: flow.start() };
        for direction in [Direction::Original, Direction::Reply] {
            let (port, [_, other]) =
                (gateway.stream(direction).last_port(), self.keys((id, direction)));
            if let Some(port) = port {
                self.expectations()
                    .forget(&ExpectedKey { port, ..ExpectedKey::of(&other) }, control);
            }
        }
        let expectation = self.expectation((id, direction), (alg, listener), now);
        self.expectations().expect(&expectation, now.tick).map_err(Passed::from)
    }

    /// What the gateway of a flow expects of the other end if the one that sends in a direction listens.
    pub fn expectation(
        &self,
        (id, direction): (u32, Direction),
        (alg, listener): (Alg, &Listener),
        now: Now,
    ) -> Expectation {
        let (flow, [own, other]) = (self.reader.entry(id), self.keys((id, direction)));
        let Listener { protocol, port, own_port } = *listener;
        let key = ExpectedKey { port, protocol, ..ExpectedKey::of(&other) };
        let becomes = match own.tuple {
            // Both directions of a call are translated as its control connection is.
            Tuple::Ip4(it)
                if (u128::from(it.source), own_port) != (key.destination, port)
                    || protocol == GRE && flow.has_second() =>
            {
                let (source, destination, vrf) = (it.destination, it.source, own.vrf);
                let number = Uses::of(&flow).number;
                Some(Becomes { source, destination, port: own_port, vrf, number })
            }
            _ => None,
        };
        Expectation {
            key,
            becomes,
            alg,
            kind: Expected::Data,
            rule: flow.rule() & !EXPECTED,
            profile: profile_of(flow.class()),
            control: Control { id, start: flow.start() },
            until: now.tick.wrapping_add(alg.timeout_s()),
            epoch: flow.epoch(),
            is_unanswered: false,
            origin: Origin::default(),
            mapping: None,
        }
    }

    /// Expects what may be expected already: then up to another time.
    ///
    /// # Errors
    /// As many are expected as may be.
    pub fn expect_again(&self, it: &Expectation, now: Now) -> Result<(), Passed> {
        let (all, tick) = (self.expectations(), now.tick);
        // A flow that was replaced by a translated one has announced the same.
        let is_over = |of: Control| {
            let flow = self.reader.entry(of.id);
            !flow.is_live() || flow.start() != of.start
        };
        // What a registrar has bound is another host's, whatever became of the flow by which it was bound.
        let may_change = |former: &Expectation| {
            is_over(former.control)
                && (former.kind != Expected::Bound || former.hosts() == it.hosts())
        };
        let is_same = |former: &Expectation| former.becomes == it.becomes || may_change(former);
        let done = match all.find(&it.key, tick).filter(is_same) {
            // What a registrar has bound stays so.
            Some(former)
                if former.kind == Expected::Bound
                    && it.kind != former.kind
                    && former.becomes == it.becomes =>
            {
                Ok(())
            }
            Some(former) => {
                all.forget(&former.key, former.control);
                let is_again = [former.kind, it.kind] == [Expected::Media; 2]
                    && former.becomes == it.becomes
                    && former.origin.name == it.origin.name;
                let origin = if is_again { former.origin } else { it.origin };
                all.put(&Expectation { origin, ..*it }, tick)
            }
            None => all.expect(it, tick),
        };
        done.map_err(Passed::from)
    }

    /// Creates the flow of an expected connection by its first packet. It has the admission of its control connection.
    #[cold]
    pub fn create_expected(
        &mut self,
        key: FlowKey,
        packet: &Seen<'_>,
        (it, epoch, received): (&Expectation, u16, u32),
        now: Now,
    ) -> Opened {
        let (rule, profile) = (it.rule | EXPECTED, it.profile);
        let admission = Admission { epoch, rule, profile, is_confirmed: true, received };
        let translated = match (it.becomes, key.tuple) {
            (Some(becomes), Tuple::Ip4(of)) => Some((becomes, of)),
            _ => None,
        };
        let reply_key = translated.map(|(becomes, of)| {
            let (source_port, destination_port) = if it.key.is_of_sender() {
                (of.destination_port, becomes.port)
            } else {
                (becomes.port, of.source_port)
            };
            let (source, destination) = (becomes.destination, becomes.source);
            let protocol = of.protocol;
            let reply = Flow { source, destination, source_port, destination_port, protocol };
            FlowKey::ip4(reply, becomes.vrf)
        });
        let mut new = match self.new_flow((key, reply_key), packet, admission) {
            Ok(new) => new,
            Err(opened) => return opened,
        };
        if it.alg == Alg::Pptp {
            Self::begin_call(&mut new, profile);
        }
        if reply_key.is_some() {
            self.make_translated_room();
        }
        match self.insert(&new, packet, now) {
            Ok(id) => {
                if let Some((Becomes { destination, port, number, .. }, of)) = translated {
                    let is_inbound = !it.key.is_of_sender()
                        && (destination, port) != (of.destination, of.destination_port);
                    self.note_uses(id, Uses { number, is_inbound, ..Uses::default() });
                    self.export.began(&self.reader.entry(id));
                }
                self.after_expected(id, it, now);
                Opened::New
            }
            Err(opened) => opened,
        }
    }

    /// What an expected connection leaves behind when it has begun.
    fn after_expected(&mut self, id: u32, it: &Expectation, now: Now) {
        match it.kind {
            Expected::Data => {}
            Expected::Media => {
                self.expectations().forget(&it.sibling().key, it.control);
                self.forget_media(id, now);
            }
            Expected::Control | Expected::Bound => {
                self.give_alg(id, &AlgFlow::beginning(it.alg, Stream::default()));
            }
        }
    }

    /// A flow has begun media between two ends: what is expected of either to the other one would never come.
    fn forget_media(&self, id: u32, now: Now) {
        let (flow, all) = (self.reader.entry(id), self.expectations());
        for key in [flow.key(), flow.reply_key()] {
            let both = [Some(ExpectedKey::of(&key)), ExpectedKey::of_sender(&key)];
            for key in both.into_iter().flatten() {
                if let Some(it) = all.find(&key, now.tick).filter(|it| it.kind == Expected::Media) {
                    all.forget(&key, it.control);
                    all.forget(&it.sibling().key, it.control);
                }
            }
        }
    }

    /// Rules have changed, and some still name gateways: an own flow that one has announced goes on. Whether it is
    /// such a flow.
    #[cold]
    #[inline(never)]
    pub fn keep_expected(&mut self, id: u32, epoch: u16, now: Now) -> bool {
        let flow = self.reader.entry(id);
        let (rule, profile) = (flow.rule(), profile_of(flow.class()));
        let is_expected = rule & EXPECTED != 0;
        if is_expected {
            let (is_confirmed, received) = (true, 0);
            self.judge(id, Admission { epoch, rule, profile, is_confirmed, received }, now);
        }
        is_expected
    }
}
