//! Stateful rules: packets that match one create a flow, and further packets of the flow pass all access lists.
//!
//! Input nodes look up the flows of all lanes at once, before rules are asked: replies may come in by any interface.
//! What a flow admits has a flag then, by which output nodes let it pass. All other lanes meet the rules; where a
//! stateful one accepts, a flow is created, at the input or at the output.
//!
//! **A change of rules** raises the epoch. A flow of an older epoch meets the rules again at its next packet in the
//! original direction, as rules are written for this direction and a reply does not tell what its request was. It goes
//! on if a stateful rule accepts that packet, at the input or at the output. It ends if a rule refuses it. If the
//! packet is accepted by other rules only, the flow is suspended: it stays, but admits nothing. Until it is judged it
//! admits replies, which keep it alive no longer than the timeout since the last packet in the original direction. It
//! is judged by how it began: a segment in the middle of a connection meets the rules for its SYN.

mod alg;
mod cookies;
mod edit;
mod expected;
mod forwards;
mod fragment;
mod judged;
mod look_up;
mod pptp;
mod runs;
mod segments;
mod settle;
mod sip;
mod spliced;
mod syn_ack;
mod upkeep;

use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{Column, Fields, LaneSet, flags};
use stoa_engine::{Context, VECTOR, Vector};
use stoa_tables::flow_table::{Direction, FlowEntry, Match};

use super::keys::Family;
use super::log::OfWorker;
use super::node::{AclNode, ORIGIN};
use super::place::Place;
use super::{Classifier, Policy, TRACK};
use crate::drops::Drop;
use crate::flow::fields::{self, Kind};
use crate::flow::flows::Now;
use crate::flow::foreign::Foreign;
use crate::flow::tracker::{FlowTracker, Followed, SUSPENDED, Seen, Side, Steady, fits};
use crate::nat::NatWorker;
use crate::shared::Shared;
use alg::Altered;
pub(crate) use cookies::admission_of_deferred;
use runs::Runs;
use segments::Answer;
pub(super) use settle::{is_first, settle_all};
pub(crate) use sip::Reading;
use syn_ack::SynAnswer;

/// What a node keeps of the flows of a vector.
pub(super) struct Tracking {
    ports: Column<u32>,
    contexts: Column<u32>,
    /// The flow of each lane that rules judge anew.
    known: Box<[Match; VECTOR]>,
    /// The flags that lanes get which pass because their flow goes on as it did; 0 of others.
    steady: Column<u16>,
    runs: Runs,
    /// Which lanes belong to a flow that rules judge by how it began.
    is_anew: Box<[bool; VECTOR]>,
    foreign: Foreign,
    /// Whether any lane has a fragment.
    has_fragments: bool,
    /// Lanes with fragments that have their order.
    ordered: LaneSet,
    /// Lanes with fragments that are to get it.
    unordered: LaneSet,
    /// Lanes with other fragments that are not the first ones.
    later: LaneSet,
    /// Lanes of flows with gateways about which rules decide.
    altered: Vec<Altered>,
    /// Packets of the router itself, which lanes have caused.
    answers: Vec<Answer>,
    /// Lanes with SYNs that are answered in place.
    syns: Vec<SynAnswer>,
    /// Flows of SYNs to port forwards that were answered.
    given_up: Vec<u32>,
    now: Now,
}

impl Tracking {
    pub(super) fn new() -> Self {
        cookies::prepare();
        Self {
            ports: Column::of(0),
            contexts: Column::of(0),
            known: Box::new([Match::NONE; VECTOR]),
            steady: Column::of(0),
            runs: Runs::new(),
            is_anew: Box::new([false; VECTOR]),
            foreign: Foreign::new(),
            has_fragments: false,
            ordered: LaneSet::first_of(0),
            unordered: LaneSet::first_of(0),
            later: LaneSet::first_of(0),
            altered: Vec::with_capacity(VECTOR),
            answers: Vec::with_capacity(2 * VECTOR),
            syns: Vec::with_capacity(VECTOR),
            given_up: Vec::with_capacity(VECTOR),
            now: Now { tick: 0, ms: 0 },
        }
    }

    /// A vector begins, whose lanes have these flags.
    fn begin(&mut self, now: Now, flags: &[u16]) {
        (self.now, self.has_fragments) = (now, false);
        self.altered.clear();
        self.known[..flags.len()].fill(Match::NONE);
        for (is_anew, flags) in self.is_anew.iter_mut().zip(flags) {
            *is_anew = flags & flags::TRACKED != 0;
        }
    }

    /// Whether no flow of a lane was found here or before.
    #[inline(always)]
    pub(super) fn has_no_flow(&self, flags: u16, lane: usize) -> bool {
        !self.known[lane].is_some() && flags & flags::TRACKED == 0
    }

    #[inline(always)]
    pub(super) fn is_anew(&self) -> &[bool; VECTOR] {
        &self.is_anew
    }
}

/// What decides about the lanes of one classifier.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    pub(super) shared: &'a Shared,
    pub(super) reader: &'a Reader,
    pub(super) classifier: &'a Classifier,
    pub(super) place: Place,
    pub(super) policy: Policy,
}

/// The flows of a worker.
#[inline(always)]
fn tracker<'a>(cx: &'a mut Context<'_>) -> Option<&'a mut FlowTracker> {
    cx.local::<OfWorker>()?.flows.as_mut()
}

/// The same with the worker's part of address translation.
fn with_nat<'a>(cx: &'a mut Context<'_>) -> Option<(&'a mut FlowTracker, &'a mut NatWorker)> {
    let OfWorker { flows, nat, .. } = cx.local::<OfWorker>()?;
    flows.as_mut().map(|flows| (flows, nat))
}

/// Whether a flow was admitted by the rules of now.
fn is_current(flow: &FlowEntry<'_>, epoch: u16) -> bool {
    flow.epoch() == epoch && flow.flags() & SUSPENDED == 0
}

/// The VRF of the key of a lane: of a packet that is translated, that of the replies.
#[inline(always)]
fn vrf_of(shared: &Shared, place: Place, vector: &Vector, lane: usize) -> u32 {
    let is_sent = vector.flags[lane] & flags::TRANSLATED != 0 && !place.is_received();
    shared.attributes.vrf_of(if is_sent { vector.tx_if[lane] } else { vector.rx_if[lane] })
}

/// A lane for the tracker.
#[inline(always)]
fn seen<'a>(vector: &'a Vector, fields: &Fields, lane: usize) -> Seen<'a> {
    let (kind, place) = (Kind(fields.kind[lane]), fields::Place(fields.place[lane]));
    Seen { bytes: vector.bytes(lane), kind, place }
}

/// The flags of a packet that its flow has counted.
fn tracked(is_admitted: bool) -> u16 {
    flags::TRACKED | if is_admitted { flags::ADMITTED } else { 0 }
}

/// What becomes of a lane that an input node has looked up.
enum Fate {
    /// Rules decide, as if it had no flow.
    Rules,
    /// Rules decide, also about its flow.
    Judge,
    /// It passes with these flags.
    Pass(u16),
    Drop(Drop),
    /// The worker with this number follows its flow.
    Foreign(u8),
    /// A packet of the router goes in its place.
    Answered,
}

impl<F: Family> AclNode<F> {
    /// Decides about lanes by their flows and by rules; whether any of them does not go on along the arc.
    #[inline(never)]
    pub(super) fn decide_tracked(
        &mut self,
        cx: &mut Context<'_>,
        vector: &mut Vector,
        mut all: LaneSet,
        policy: Policy,
    ) -> bool {
        let mut is_any = self.track(cx, vector, policy);
        let later = std::mem::replace(&mut self.tracking.later, LaneSet::first_of(0));
        all.remove_all(&later);
        is_any |= self.decide_all(cx, vector, all, Some(policy));
        if !later.is_empty() {
            // Behind the first fragments of the same vector, and behind the rules that admit these.
            self.note_foreign_firsts(cx, vector);
            is_any |= self.follow_pieces(cx, vector, (&later, policy));
            is_any |= self.decide_all(cx, vector, later, Some(policy));
        }
        if !self.tracking.altered.is_empty() {
            is_any |= self.finish_all(cx, vector, policy);
        }
        if self.place.is_last() && self.shared.flows.syn_cookies().is_configured() {
            is_any |= self.open_connections(cx, vector, policy);
        }
        if self.tracking.has_fragments {
            self.note_foreign_firsts(cx, vector);
        }
        self.tracking.foreign.hand_over(cx, vector);
        self.answer_plain(vector);
        if !self.tracking.answers.is_empty() {
            segments::send(cx, vector, &mut self.tracking.answers);
        }
        is_any
    }

    /// Begins a vector, of which an input node follows the flows: lanes that pass meet no rules. Whether any lane does
    /// not go on along the arc.
    #[inline(never)]
    fn track(&mut self, cx: &mut Context<'_>, vector: &mut Vector, policy: Policy) -> bool {
        let (lanes, is_alone, reader) = (vector.len(), cx.workers() == 1, cx.reader);
        self.tracking.begin(self.shared.flows.now(cx.now), &vector.flags[..lanes]);
        let Some((tracker, nat)) = with_nat(cx) else { return false };
        let side = tracker.of(F::IS_IP4);
        side.begin();
        if !self.place.is_input() {
            if self.place.is_last() {
                self.pass_outputs(side, vector, policy);
            }
            return false;
        }
        fields::of(self.shared.kernel, vector, self.place.packets);
        self.note_calls(side, vector);
        self.look_up(side.reader(), vector);
        if self.tracking.has_fragments {
            self.select_fragments(reader, vector);
        }
        let of = Steady { now: self.tracking.now, epoch: policy.epoch, is_alone };
        let mut left = self.pass_steady(side, vector, of);
        let is_armed = self.shared.flows.syn_cookies().is_armed();
        let may_alter = self.shared.flows.may_alter(F::IS_IP4);
        let expects = policy.has_algs && self.shared.flows.expectations().is_any();
        let mut is_any = false;
        if self.tracking.has_fragments {
            left.remove_all(&self.tracking.unordered);
            is_any = !self.tracking.unordered.is_empty();
        }
        for lane in left.iter() {
            let known = std::mem::replace(&mut self.tracking.known[lane], Match::NONE);
            let Some(id) = known.id() else {
                let of_side = (&mut *side, &mut *nat, reader);
                if expects && self.begins_expected(of_side, (vector, lane), policy, &mut is_any) {
                    continue;
                }
                if self.is_about_a_flow(side, vector, lane) {
                    vector.flags[lane] |= flags::ADMITTED;
                    self.ids[lane] = 0;
                } else if is_armed && self.has_cookie(vector, lane) {
                    vector.flags[lane] |= flags::COOKIE;
                }
                continue;
            };
            let (flow, of_worker) = ((id, known.direction()), (&mut *side, is_alone));
            let fate = if !known.is_received() && of_worker.0.is_translated(id) {
                // Nobody sends the packets of the other side of the router to this one.
                Fate::Drop(Drop::Nat44Untranslated)
            } else if may_alter && of_worker.0.is_altered(id) {
                self.fate_of_altered((reader, nat), of_worker, (vector, lane), flow, policy)
            } else {
                self.fate(of_worker, (vector, lane), flow, policy)
            };
            match fate {
                Fate::Rules => continue,
                Fate::Judge => {
                    (self.tracking.known[lane], self.tracking.is_anew[lane]) = (known, true);
                    continue;
                }
                Fate::Pass(flags) => vector.flags[lane] |= flags,
                Fate::Drop(reason) => {
                    vector.next[lane] = reason.next();
                    is_any = true;
                }
                Fate::Foreign(owner) => {
                    self.tracking.foreign.push(lane, owner);
                    is_any = true;
                }
                Fate::Answered => {
                    vector.next[lane] = ORIGIN;
                    is_any = true;
                }
            }
            self.ids[lane] = 0;
        }
        is_any
    }

    /// What becomes of a lane whose flow was found.
    #[inline]
    fn fate(
        &self,
        (side, is_alone): (&mut Side, bool),
        (vector, lane): (&Vector, usize),
        (id, direction): (u32, Direction),
        policy: Policy,
    ) -> Fate {
        let Some(fields) = vector.known_fields() else { return Fate::Rules };
        let packet = seen(vector, fields, lane);
        let flow = side.reader().entry(id);
        if !flow.is_live() || !fits(packet.kind, fields.ports[lane], direction) {
            return Fate::Rules;
        }
        if !is_alone && flow.owner() != side.number() {
            return Fate::Foreign(flow.owner());
        }
        let (is_reply, is_current) =
            (direction == Direction::Reply, is_current(&flow, policy.epoch));
        let now = self.tracking.now;
        let is_kept = !is_current && policy.has_algs && side.keep_expected(id, policy.epoch, now);
        let is_current = is_current || is_kept;
        if !is_current && policy.has_nat && side.is_translated(id) {
            if policy.is_bare {
                side.settle(id, policy.epoch, now);
            } else if !policy.is_stateful {
                // Rules decide about each packet; translation follows those that they accept.
                side.suspend(id);
                return Fate::Rules;
            }
        }
        let is_current = is_current || policy.is_bare;
        if is_reply && !side.admits_replies(id) {
            return Fate::Rules;
        }
        let has_rules = ![0, TRACK].contains(&self.ids[lane]);
        if !is_reply && !is_current {
            if has_rules {
                return Fate::Judge;
            }
            if !policy.has_outputs {
                // No rule keeps the flow; otherwise the output decides.
                side.suspend(id);
            }
        }
        match side.follow((id, direction), &packet, (now, policy.epoch)) {
            Followed::Pass { is_admitted } => Fate::Pass(tracked(is_admitted)),
            Followed::Drop(reason) => Fate::Drop(reason),
            // A new connection. Without rules here, those of the output decide whether it has a flow.
            Followed::Replace if has_rules => Fate::Judge,
            Followed::Replace => {
                side.remove(id);
                Fate::Rules
            }
        }
    }
}
