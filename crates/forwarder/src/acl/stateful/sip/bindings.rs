//! What a registrar binds, and no longer binds: requests to these ends of its client are expected as long as that, and
//! nobody else gets their external ports.

use stoa_tables::flow_table::{Direction, FlowKey};
use stoa_wire::protocol::UDP;
use stoa_wire::sip::{Message, Method};

use super::{Party, Reading, four};
use crate::flow::alg::{Alg, AlgFlow, Expectation, Expected, ExpectedKey, Origin, Passed};
use crate::flow::tracker::{Listener, Side, Uses};
use crate::nat::mappings::End;

/// Seconds for which a binding is kept at most: clients of UDP register more often.
const BOUND_MOST_S: u32 = 3_600;

/// The answer of a registrar to the receiver, its client.
struct Answer<'a> {
    client: &'a Party,
    /// The flow, and the direction in which the client sends.
    of_flow: (u32, Direction),
    /// The address-of-record, and nothing about the request.
    origin: Origin,
}

/// An end with its external port, in place of that of a key to it.
fn end(key: &FlowKey, (address, port): (u32, u16)) -> End {
    End { address, port, protocol: UDP, vrf: key.vrf }
}

/// The Call-ID of a registration whose client sends in a direction, as a number.
fn registration(side: &Side, direction: Direction, message: &Message<'_>) -> u32 {
    let of_client = if direction == Direction::Original { 0 } else { 1 << 31 };
    side.expectations().number_of(message.call_id) ^ of_client
}

/// Notes that the sender of a message asks for bindings: no other answer is about them.
pub(super) fn note_register(
    side: &Side,
    direction: Direction,
    gateway: &mut AlgFlow,
    message: &Message<'_>,
) {
    if message.sequence.method == Method::Register && message.status.is_none() {
        gateway.registers.ask(registration(side, direction, message), message.sequence.number);
    }
}

impl Reading<'_> {
    /// Keeps what a registrar has bound of ends of the receiver. The receiver itself has announced them, or sends from
    /// them: otherwise a registrar would choose ports of its clients. What it lists no more has ended. It must answer
    /// the last REGISTER of its client by this flow, once: otherwise whoever was sent a datagram would bind its sender
    /// as long as he likes, and a repeated or forged answer would end what a later one has bound.
    pub(super) fn keep_bound(
        &mut self,
        side: &Side,
        ((id, direction), client): ((u32, Direction), &Party),
        gateway: &mut AlgFlow,
        message: &Message<'_>,
    ) {
        let Some(address) = four(client.seen.0).filter(|_| message.lists_bindings()) else {
            return;
        };
        // That in which the client sends.
        let direction = direction.reverse();
        let of_client = registration(side, direction, message);
        if !gateway.registers.answer(of_client, message.sequence.number) {
            return;
        }
        let name = side.expectations().number_of(message.address_of_record());
        let (origin, of_flow) = (Origin::of_record(name), (id, direction));
        let answer = Answer { client, of_flow, origin };
        let bound = |port| message.bound(address, port).filter(|seconds| *seconds != 0);
        for port in message.ends_of(address) {
            if let Some(seconds) = bound(port)
                && let Err(cause) = self.bind(side, &answer, gateway, (port, seconds))
            {
                side.expectations().counts().note_passed(cause);
            }
        }
        let announced = gateway.ports.all().map(|it| it.seen);
        for port in [client.seen.1].into_iter().chain(announced).chain(message.ends_of(address)) {
            if bound(port).is_none() {
                self.unbind(side, &answer, port);
            }
        }
    }

    fn bind(
        &mut self,
        side: &Side,
        answer: &Answer<'_>,
        gateway: &AlgFlow,
        (port, seconds): (u16, u32),
    ) -> Result<(), Passed> {
        let Some(policy) = self.shared.acls.read(self.reader).policy() else { return Ok(()) };
        let Answer { client, of_flow, mut origin, .. } = *answer;
        let own_port = match gateway.ports.own(port) {
            _ if port == client.seen.1 => client.own.1,
            Some(own) => own,
            None if !client.is_translated() => port,
            None => return Ok(()),
        };
        let listener = Listener { protocol: UDP, port, own_port };
        let it = side.expectation(of_flow, (Alg::Sip, &listener), self.now);
        let former = side.expectations().find(&it.key, self.now.tick);
        let former = former.filter(|former| former.becomes == it.becomes);
        let is_announced =
            former.is_some_and(|it| matches!(it.kind, Expected::Control | Expected::Bound));
        if port != client.seen.1 && !is_announced {
            return Err(Passed::Foreign);
        }
        if former.is_some_and(|it| it.kind == Expected::Bound && it.origin.name != origin.name) {
            // Another address-of-record has the same end: none of them ends it for both.
            origin = Origin::default();
        }
        let mapping = self.hold(side, answer, (own_port, port))?;
        let until = self.now.tick.wrapping_add(seconds.min(BOUND_MOST_S));
        let it = it.of(Expected::Bound).until(until);
        let it = Expectation { epoch: policy.epoch, origin, mapping, ..it };
        let done = side.expect_again(&it, self.now);
        if let (Err(_), Some(id)) = (&done, mapping) {
            side.flows().mappings().release(id);
        }
        done
    }

    /// Holds the mapping between an own port of the client and its external port. `None`: it is not translated by a
    /// mapping that could be another host's.
    fn hold(
        &mut self,
        side: &Side,
        answer: &Answer<'_>,
        (own_port, port): (u16, u16),
    ) -> Result<Option<u32>, Passed> {
        let Answer { client, of_flow, .. } = *answer;
        let (Some(own), Some(seen)) = (four(client.own.0), four(client.seen.0)) else {
            return Ok(None);
        };
        if !client.is_translated() {
            return Ok(None);
        }
        let [from, to] = side.keys(of_flow);
        let ends = [end(&from, (own.to_bits(), own_port)), end(&to, (seen.to_bits(), port))];
        let number = Uses::of(&side.reader().entry(of_flow.0)).number;
        let nat = self.shared.nat.read(self.reader);
        let held = self.worker.hold_end((side.flows(), nat), ends, number, self.now);
        held.map_err(|_| Passed::Full)
    }

    /// A registrar has bound an end no more, by this address-of-record alone. Its client may have registered by another
    /// flow.
    fn unbind(&self, side: &Side, answer: &Answer<'_>, port: u16) {
        let Answer { client, of_flow, origin, .. } = *answer;
        let [_, other] = side.keys(of_flow);
        let key = ExpectedKey { port, protocol: UDP, ..ExpectedKey::of(&other) };
        let all = side.expectations();
        let Some(it) = all.find(&key, self.now.tick) else { return };
        let is_own = it
            .becomes
            .is_none_or(|it| four(client.own.0).is_some_and(|own| own.to_bits() == it.destination));
        if it.kind == Expected::Bound && is_own && it.origin == origin {
            all.forget(&key, it.control);
        }
    }
}
