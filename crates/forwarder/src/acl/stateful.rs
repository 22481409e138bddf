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

mod settle;

use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{Column, Fields, LaneSet, flags};
use stoa_engine::{Context, VECTOR, Vector};
use stoa_tables::flow_table::{Direction, FlowEntry, FlowReader, Match};

use super::keys::Family;
use super::node::{AclNode, Place};
use super::{Classifier, TRACK};
use crate::drops::Drop;
use crate::flow::fields::{self, Kind};
use crate::flow::flows::Now;
use crate::flow::tracker::{FlowTracker, Followed, Later, SUSPENDED, Seen, Side, fits};
use crate::shared::Shared;
pub(super) use settle::settle_all;

/// What a node keeps of the flows of a vector.
pub(super) struct Tracking {
    ports: Column<u32>,
    contexts: Column<u32>,
    /// The flow of each lane that rules judge anew.
    known: Box<[Match; VECTOR]>,
    /// Which lanes belong to a flow that rules judge by how it began.
    is_anew: Box<[bool; VECTOR]>,
    /// Lanes whose flow another worker owns, with its number.
    foreign: Vec<(u8, u8)>,
    now: Now,
}

impl Tracking {
    pub(super) fn new() -> Self {
        Self {
            ports: Column::of(0),
            contexts: Column::of(0),
            known: Box::new([Match::NONE; VECTOR]),
            is_anew: Box::new([false; VECTOR]),
            foreign: Vec::with_capacity(VECTOR),
            now: Now { tick: 0, ms: 0 },
        }
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
    /// The epoch of the rules.
    pub(super) epoch: u16,
}

/// Whether a flow was admitted by the rules of now.
fn is_current(flow: &FlowEntry<'_>, epoch: u16) -> bool {
    flow.epoch() == epoch && flow.flags() & SUSPENDED == 0
}

/// A lane for the tracker.
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
}

impl<F: Family> AclNode<F> {
    /// Begins a vector, of which an input node follows the flows: lanes that pass meet no rules. Whether any lane does
    /// not go on along the arc.
    #[inline(never)]
    pub(super) fn track(&mut self, cx: &mut Context<'_>, vector: &mut Vector, epoch: u16) -> bool {
        let (lanes, is_alone) = (vector.len(), cx.workers() == 1);
        self.tracking.now = self.shared.flows.now(cx.now);
        self.tracking.known[..lanes].fill(Match::NONE);
        for (is_anew, flags) in self.tracking.is_anew.iter_mut().zip(&vector.flags[..lanes]) {
            *is_anew = flags & flags::TRACKED != 0;
        }
        let Some(tracker) = cx.local::<FlowTracker>() else { return false };
        let side = tracker.of(F::IS_IP4);
        side.begin();
        if !self.place.is_input {
            return false;
        }
        fields::of(self.shared.kernel, vector, F::PACKETS);
        let kinds = self.look_up(side.reader(), vector);
        let mut is_any = false;
        for lane in 0..lanes {
            let known = std::mem::replace(&mut self.tracking.known[lane], Match::NONE);
            let Some(id) = known.id() else { continue };
            let (flow, of) = ((id, known.direction()), (&*vector, lane));
            match self.fate((&mut *side, is_alone), of, flow, epoch) {
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
                    self.tracking.foreign.push((lane as u8, owner));
                    is_any = true;
                }
            }
            self.ids[lane] = 0;
        }
        // Behind the first fragments of the same vector.
        if kinds & Kind::LATER != 0 {
            is_any |= self.follow_pieces(side, vector);
        }
        is_any
    }

    /// Looks up the flows of all lanes; returns all bits of their kinds.
    fn look_up(&mut self, reader: &FlowReader, vector: &Vector) -> u32 {
        let (lanes, Some(fields)) = (vector.len(), vector.known_fields()) else { return 0 };
        let mut kinds = 0;
        let Tracking { ports, contexts, known, .. } = &mut self.tracking;
        for lane in 0..lanes {
            let kind = Kind(fields.kind[lane]);
            kinds |= kind.0;
            let vrf = self.shared.attributes.vrf_of(vector.rx_if[lane]);
            ports[lane] = kind.flow_ports(fields.ports[lane]);
            contexts[lane] = u32::from(kind.protocol()) << 16 | vrf & 0xffff;
        }
        let keys = (&ports[..lanes], &contexts[..lanes]);
        F::look_up_flows(reader, fields, keys, &mut known[..lanes]);
        kinds
    }

    /// Has later fragments follow the first ones of their packets; whether any does not go on along the arc.
    #[cold]
    #[inline(never)]
    fn follow_pieces(&mut self, side: &mut Side, vector: &mut Vector) -> bool {
        let mut is_any = false;
        for lane in 0..vector.len() {
            let Some(fields) = vector.known_fields() else { return false };
            let packet = seen(vector, fields, lane);
            if packet.kind.0 & Kind::LATER == 0 || packet.kind.malformed().is_some() {
                continue;
            }
            let vrf = self.shared.attributes.vrf_of(vector.rx_if[lane]) as u16;
            self.tracking.known[lane] = Match::NONE;
            match side.follow_piece(&packet, vrf, self.tracking.now) {
                Later::Rules => continue,
                Later::Follows(is_admitted) => vector.flags[lane] |= tracked(is_admitted),
                Later::Overlaps => {
                    vector.next[lane] = Drop::FragmentOverlap.next();
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
        epoch: u16,
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
        let (is_suspended, is_current) = (flow.flags() & SUSPENDED != 0, is_current(&flow, epoch));
        if direction == Direction::Reply && is_suspended {
            return Fate::Rules;
        }
        let (now, has_rules) = (self.tracking.now, ![0, TRACK].contains(&self.ids[lane]));
        if direction == Direction::Reply || is_current {
            return match side.follow((id, direction), &packet, (now, is_current)) {
                Followed::Pass { is_admitted } => Fate::Pass(tracked(is_admitted)),
                Followed::Drop(reason) => Fate::Drop(reason),
                // A new connection. Without rules here, those of the output decide whether it has a flow.
                Followed::Replace if has_rules => Fate::Judge,
                Followed::Replace => Fate::Rules,
            };
        }
        if has_rules {
            return Fate::Judge;
        }
        // Nothing keeps the flow here; perhaps the output does.
        side.suspend(id);
        match side.follow((id, direction), &packet, (now, true)) {
            Followed::Pass { .. } => Fate::Pass(tracked(false)),
            Followed::Drop(reason) => Fate::Drop(reason),
            Followed::Replace => Fate::Rules,
        }
    }

    /// Hands lanes to the workers that own their flows.
    #[inline]
    pub(super) fn hand_over(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let foreign = &mut self.tracking.foreign;
        while let Some((_, owner)) = foreign.first().copied() {
            let mut lanes = LaneSet::first_of(0);
            foreign.retain(|(lane, of)| {
                if *of == owner {
                    lanes.insert((*lane).into());
                }
                *of != owner
            });
            cx.hand_over(vector, &lanes, owner.into());
        }
    }

    /// Ends flows that are due: the node of one place does it for all of its worker. Whether more are left.
    pub(super) fn maintain(&mut self, cx: &mut Context<'_>) -> bool {
        if !(F::IS_IP4 && self.place.is_input) {
            return false;
        }
        let now = self.shared.flows.now(cx.now);
        cx.local::<FlowTracker>().is_some_and(|tracker| tracker.maintain(now))
    }
}
