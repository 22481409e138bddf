//! Calls of PPTP: their control connection announces, names and ends them ([`crate::flow::alg::calls`]).

use stoa_tables::flow_table::{Direction, Eviction, FlowKey, Match, NewFlow};
use stoa_wire::pptp::{CallId, Kind, Message};
use stoa_wire::protocol::GRE;

use super::{Exchange, Listener, Side, exchange_words, with_profile};
use crate::flow::alg::{
    Alg, AlgFlow, CALL, Call, Calls, Control, End, Expectation, ExpectedKey, Passed, call_key,
};
use crate::flow::flows::Now;

/// IDs that are tried for an end whose own one is taken.
const TRIES: u32 = 32;
const BOTH: [Direction; 2] = [Direction::Original, Direction::Reply];

/// A control message that its sender has sent in a direction of an own flow.
#[derive(Clone, Copy)]
pub struct Said<'a> {
    /// The flow, and the direction.
    pub of_flow: (u32, Direction),
    /// The message.
    pub message: &'a Message,
    /// Whether its segment begins where the other end awaits it. Others in the window, which anybody may have sent, end
    /// no call.
    pub is_next: bool,
    /// When it came.
    pub now: Now,
}

/// Other call IDs for a message, with their place in it.
pub type Edits = [Option<(usize, u16)>; 2];

impl Said<'_> {
    fn id(&self) -> u32 {
        self.of_flow.0
    }

    /// The direction in which the other end sends.
    fn other(&self) -> Direction {
        self.of_flow.1.reverse()
    }

    fn edit(field: Option<CallId>, id: u16) -> Option<(usize, u16)> {
        field.filter(|it| it.id != id).map(|it| (it.at, id))
    }
}

impl Side {
    /// A call's packets come from both ends, and each of its two flows sees one of them: neither gives way as if nobody
    /// had answered.
    pub(super) fn begin_call(new: &mut NewFlow, profile: u8) {
        let state = Exchange::open(GRE).step(true);
        new.tcp = exchange_words(state);
        new.class = with_profile(state.class(), profile);
        new.flags |= Eviction::Answered.flags();
    }

    /// Follows the calls of a control connection by a message. Returns the call IDs that its receiver knows.
    ///
    /// # Errors
    /// Why it passes as it is.
    pub fn follow_call(&mut self, gateway: &mut AlgFlow, said: &Said<'_>) -> Result<Edits, Passed> {
        let Message { kind, own, peer, .. } = *said.message;
        let calls = &mut gateway.calls;
        match (kind, own, peer) {
            (Kind::Stop, ..) if !said.is_next => Ok([None; 2]),
            (Kind::Stop, ..) => {
                self.end_all(said.id(), calls);
                Ok([None; 2])
            }
            (Kind::Echo, ..) => {
                self.keep_calls(said.id(), calls, said.now);
                Ok([None; 2])
            }
            (Kind::Request, Some(own), _) => self.request_call(calls, said, own),
            (Kind::Reply { is_accepted }, Some(own), Some(peer)) => {
                self.answer_call(calls, said, (own, peer), is_accepted)
            }
            (Kind::Link, _, Some(peer)) => {
                let found = calls.find(said.other(), |it| it.seen == peer.id);
                match found.map(|it| it.end(said.other()).own) {
                    Some(id) => Ok([Said::edit(Some(peer), id), None]),
                    None => Err(Passed::Foreign),
                }
            }
            (Kind::End, Some(own), _) => self.clear_call(calls, said, own),
            _ => Ok([None; 2]),
        }
    }

    /// An end begins a call, and announces its ID.
    fn request_call(
        &mut self,
        calls: &mut Calls,
        said: &Said<'_>,
        own: CallId,
    ) -> Result<Edits, Passed> {
        let direction = said.of_flow.1;
        if own.id == CALL {
            return Err(Passed::Malformed);
        }
        let known = calls.find(direction, |it| it.own == own.id).filter(|it| !it.is_over);
        let seen = match known {
            // It is repeated.
            Some(call) => call.end(direction).seen,
            None => {
                let end = self.new_end(said, own.id)?;
                let call = calls.add().ok_or(Passed::Full)?;
                let it = self.call_expectation((said.of_flow, end), said.now);
                self.expectations().expect(&it, said.now.tick).map_err(Passed::from)?;
                call.set_end(direction, end);
                end.seen
            }
        };
        Ok([Said::edit(Some(own), seen), None])
    }

    /// The other end answers: a call that goes on has an ID of this end, too.
    fn answer_call(
        &mut self,
        calls: &mut Calls,
        said: &Said<'_>,
        (own, peer): (CallId, CallId),
        is_accepted: bool,
    ) -> Result<Edits, Passed> {
        let (direction, other) = (said.of_flow.1, said.other());
        let known = calls.find(other, |it| it.seen == peer.id && it.own != CALL);
        let call = known.ok_or(Passed::Foreign)?;
        let asked = call.end(other);
        let of_peer = Said::edit(Some(peer), asked.own);
        if !is_accepted {
            self.end_if_next(call, said);
            return Ok([of_peer, None]);
        }
        if own.id == CALL {
            return Err(Passed::Malformed);
        }
        let mut end = call.end(direction);
        let may_change = said.is_next || end == End::default();
        if end.own != own.id && !call.is_over && may_change {
            // It has answered before with another ID, which it does not use any more.
            let mut former = Call::default();
            former.set_end(direction, end);
            call.set_end(direction, End::default());
            self.end_call(said.id(), &former);
            end = self.new_end(said, own.id)?;
            // Room for what its other end sends may be gone by now.
            let its = ((said.id(), other), asked);
            if !self.has_call_flow(its) {
                let it = self.call_expectation(its, said.now);
                let _ = self.expectations().put(&it, said.now.tick);
            }
            let it = self.call_expectation((said.of_flow, end), said.now);
            self.expectations().expect(&it, said.now.tick).map_err(Passed::from)?;
            call.set_end(direction, end);
        }
        let of_own = Said::edit(Some(own), end.seen).filter(|_| end.own == own.id);
        Ok([of_peer, of_own])
    }

    /// An end ends a call, by its own ID; some name that of the other end.
    fn clear_call(
        &mut self,
        calls: &mut Calls,
        said: &Said<'_>,
        own: CallId,
    ) -> Result<Edits, Passed> {
        let (direction, other) = (said.of_flow.1, said.other());
        let is_own = calls.find(direction, |it| it.own == own.id).is_some();
        let found = if is_own {
            calls.find(direction, |it| it.own == own.id)
        } else {
            calls.find(other, |it| it.seen == own.id)
        };
        let call = found.ok_or(Passed::Foreign)?;
        let id = if is_own { call.end(direction).seen } else { call.end(other).own };
        self.end_if_next(call, said);
        Ok([Said::edit(Some(own), id), None])
    }

    /// A message ends a call.
    fn end_if_next(&mut self, call: &mut Call, said: &Said<'_>) {
        if said.is_next {
            let over = *call;
            call.is_over = true;
            self.end_call(said.id(), &over);
        }
    }

    /// The IDs of the sender of a message who has chosen one: another one, if a translated address has it already
    /// towards the same host.
    fn new_end(&self, said: &Said<'_>, own: u16) -> Result<End, Passed> {
        let (id, direction) = said.of_flow;
        let [from, to] = self.keys((id, direction));
        if ExpectedKey::of(&from).source == ExpectedKey::of(&to).destination {
            return Ok(End { own, seen: own });
        }
        let random = |at: u32| {
            let word = self.expectations().random(said.now.ms ^ u32::from(own) << 16 ^ at);
            (word >> 16) as u16
        };
        let control = Control { id, start: self.reader.entry(id).start() };
        let is_free = |seen: &u16| {
            let key = call_key(&to, *seen);
            let expected = self.expectations().find(&ExpectedKey::of(&key), said.now.tick);
            *seen != CALL
                && self.find(&key).is_none()
                && expected.is_none_or(|it| it.control == control)
        };
        let mut all = std::iter::once(own).chain((0..TRIES).map(random));
        all.find(is_free).map(|seen| End { own, seen }).ok_or(Passed::Full)
    }

    /// The packets that go to an end which sends in a direction of a control connection.
    fn call_expectation(&self, (of_flow, end): ((u32, Direction), End), now: Now) -> Expectation {
        let listener = Listener { protocol: GRE, port: end.seen, own_port: end.own };
        self.expectation(of_flow, (Alg::Pptp, &listener), now)
    }

    /// The key of the packets that go to an end of a call.
    fn call_key(&self, (of_flow, end): ((u32, Direction), End)) -> FlowKey {
        let [_, to] = self.keys(of_flow);
        call_key(&to, end.seen)
    }

    /// The own flow of packets to an end of a call.
    fn call_flow(&self, end: ((u32, Direction), End)) -> Option<u32> {
        self.find(&self.call_key(end)).filter(|it| self.owns(*it)).and_then(Match::id)
    }

    fn has_call_flow(&self, end: ((u32, Direction), End)) -> bool {
        self.find(&self.call_key(end)).is_some()
    }

    /// A call of a control connection is over: so are both of its flows.
    fn end_call(&mut self, id: u32, call: &Call) {
        let control = Control { id, start: self.reader.entry(id).start() };
        for direction in BOTH {
            let end = call.end(direction);
            if end.seen == CALL {
                continue;
            }
            let of_end = ((id, direction), end);
            self.expectations().forget(&ExpectedKey::of(&self.call_key(of_end)), control);
            if let Some(flow) = self.call_flow(of_end) {
                self.remove(flow);
            }
        }
    }

    /// All calls of a control connection are over.
    pub fn end_all(&mut self, id: u32, calls: &mut Calls) {
        let over = *calls;
        calls.end_all();
        over.live().for_each(|call| self.end_call(id, call));
    }

    /// An own flow is over, and all calls that it has.
    #[cold]
    #[inline(never)]
    pub fn end_calls(&mut self, id: u32) {
        let Some(mut gateway) = self.alg_flow(id).filter(|it| it.calls.live().next().is_some())
        else {
            return;
        };
        self.end_all(id, &mut gateway.calls);
        self.set_alg_flow(id, &gateway);
    }

    /// Both ends say that the control connection is alive: so are its calls, even if they are silent.
    fn keep_calls(&self, id: u32, calls: &Calls, now: Now) {
        for call in calls.live() {
            for direction in BOTH {
                // No packet has the key of an end without an ID.
                if let Some(flow) = self.call_flow(((id, direction), call.end(direction))) {
                    self.owner.entry(flow).refresh(now.tick);
                }
            }
        }
    }
}
