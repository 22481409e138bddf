//! `ip4-acl-input`, `ip6-acl-input`, `ip4-acl-output`, `ip6-acl-output`: apply the access lists of the interface that
//! has received or that sends a packet.
//!
//! Output lists see forwarded packets only: the router's own replies, errors and hellos pass. The nodes of zones are
//! the same ones, with other classifiers ([`super::zones`]).

use std::sync::Arc;

use stoa_engine::arc::{ArcHook, FeatureArc};
use stoa_engine::gather::gather_32;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{Column, LaneSet, flags};
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_tables::classifier::{LANES, NO_RULE};

use super::essential::is_essential;
use super::hits::{count, count_unmatched};
use super::interfaces::EndColumns;
use super::keys::{self, Family, Ip4, Ip6};
use super::log::{OfWorker, Record};
use super::place::{INPUT4, INPUT6, OUTPUT4, OUTPUT6, Place};
use super::refusal::refusal_of;
use super::stateful::{Task, Tracking, is_first, settle_all};
use super::{Classifier, Policy, TRACK};
use crate::arcs;
use crate::flow::fields::{self, Kind};
use crate::shared::Shared;

/// Next nodes of IPv4 packets besides those of the arc.
pub const EDGES4: &[&str] = &["icmp4-error", "ip4-origin"];
/// Next nodes of IPv6 packets besides those of the arc.
pub const EDGES6: &[&str] = &["icmp6-error", "ip6-origin"];
/// The same of [`make_input4`].
pub const INPUT_EDGES4: &[&str] = &[EDGES4[0], EDGES4[1], "ip4-fragment-order"];
/// The same of [`make_input6`].
pub const INPUT_EDGES6: &[&str] = &[EDGES6[0], EDGES6[1], "ip6-fragment-order"];
pub(super) const ERROR: u16 = 0;
/// Packets of the router itself for a connection with a SYN cookie.
pub(super) const ORIGIN: u16 = 1;
/// Fragments, of inputs only.
pub(super) const FRAGMENT: u16 = 2;

/// In place of the id of a rule: the packet is malformed, so that rules cannot decide about it.
pub(super) const CUT: u32 = NO_RULE - 1;

/// Makes the node of received IPv4 packets of one worker.
pub fn make_input4(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    AclNode::<Ip4>::boxed((shared, worker), INPUT4)
}

/// Makes the node of received IPv6 packets of one worker.
pub fn make_input6(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    AclNode::<Ip6>::boxed((shared, worker), INPUT6)
}

/// Makes the node of sent IPv4 packets of one worker.
pub fn make_output4(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    AclNode::<Ip4>::boxed((shared, worker), OUTPUT4)
}

/// Makes the node of sent IPv6 packets of one worker.
pub fn make_output6(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    AclNode::<Ip6>::boxed((shared, worker), OUTPUT6)
}

pub(super) struct AclNode<F: Family> {
    pub(super) shared: Arc<Shared>,
    hook: ArcHook,
    worker: usize,
    pub(super) place: Place,
    /// The classifier of each lane, which is the argument of the feature, or its pair of zones. 0, and [`TRACK`]: none.
    pub(super) ids: Column<u32>,
    /// The zone of the receiving interface of each lane.
    pub(super) from: Column<u32>,
    /// The interfaces of each lane, if rules look at them.
    ends: EndColumns,
    keys: F::Keys,
    recent: F::Recent,
    /// The lanes that are classified together.
    lanes: Vec<u8>,
    /// The rule of each of them.
    found: Box<[[u32; LANES]; VECTOR / LANES]>,
    pub(super) tracking: Tracking,
}

impl<F: Family> AclNode<F> {
    pub(super) fn boxed((shared, worker): (&Arc<Shared>, usize), place: Place) -> Box<dyn Node> {
        Box::new(Self {
            shared: shared.clone(),
            hook: arcs::hook(place.arc, place.node),
            worker,
            place,
            ids: Column::of(0),
            from: Column::of(0),
            ends: EndColumns::new(),
            keys: F::Keys::default(),
            recent: F::Recent::default(),
            lanes: Vec::with_capacity(VECTOR),
            found: Box::new([[NO_RULE; LANES]; VECTOR / LANES]),
            tracking: Tracking::new(),
        })
    }
}

impl<F: Family> Node for AclNode<F> {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        // Before the arguments: no flow gets an epoch that is younger than the rules that have admitted it.
        let policy = self.shared.acls.read(cx.reader).policy();
        let arc = (self.place.of)(&self.shared.arcs);
        let interfaces = if self.place.is_received() { &vector.rx_if } else { &vector.tx_if };
        let next = self.hook.proceed(arc, interfaces, lanes, &mut vector.next);
        if let Next::All(edge) = next {
            vector.next[..lanes].fill(edge);
        }
        self.find_lists(cx.reader, vector);
        let all = LaneSet::first_of(lanes);
        let is_any_refused = match policy {
            None => self.decide_all(cx, vector, all, None),
            Some(policy) => self.decide_tracked(cx, vector, all, policy),
        };
        if is_any_refused { Next::Lanes } else { next }
    }

    fn tick(&mut self, cx: &mut Context<'_>) {
        if let Some(next) = self.maintain(cx) {
            cx.wake_at(next);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<u64> {
        self.maintain(cx)
    }
}

impl<F: Family> AclNode<F> {
    /// Finds what decides about each lane.
    #[inline(always)]
    fn find_lists(&mut self, reader: &Reader, vector: &Vector) {
        if self.place.has_zones() {
            return self.find_pairs((self.hook, reader), vector);
        }
        let (lanes, arc) = (vector.len(), (self.place.of)(&self.shared.arcs));
        if self.place.is_input() {
            gather_32(self.hook.arguments(arc), &vector.rx_if, lanes, &mut self.ids);
            if F::IS_IP4 {
                self.leave_out_crossed(vector);
            }
            return;
        }
        gather_32(self.hook.arguments(arc), &vector.tx_if, lanes, &mut self.ids);
        for (id, flags) in self.ids.iter_mut().zip(vector.flags.iter()).take(lanes) {
            *id = if flags & (flags::OWN | flags::ADMITTED) != 0 { 0 } else { *id };
        }
    }

    /// IPv6 lists have decided about packets that NAT64 has made IPv4 packets of: here only their flows are followed.
    #[inline(always)]
    fn leave_out_crossed(&mut self, vector: &Vector) {
        let lanes = vector.len();
        let any = vector.flags[..lanes].iter().fold(0, |any, flags| any | flags);
        if any & flags::CROSSED != 0 {
            for (id, flags) in self.ids.iter_mut().zip(&vector.flags[..lanes]) {
                *id = if flags & flags::CROSSED != 0 && *id != 0 { TRACK } else { *id };
            }
        }
    }

    /// Decides about lanes by the classifiers of their interfaces; whether any of them is refused.
    pub(super) fn decide_all(
        &mut self,
        cx: &mut Context<'_>,
        vector: &mut Vector,
        mut left: LaneSet,
        policy: Option<Policy>,
    ) -> bool {
        let mut is_any_refused = false;
        while let Some(first) = left.lowest() {
            let id = self.ids[first];
            let same = left.take_equal(&self.ids, id);
            if ![0, TRACK].contains(&id) {
                let is_refused = self.decide(cx, vector, (id, policy), &same);
                is_any_refused |=
                    is_refused.unwrap_or_else(|| self.decide_again(cx, vector, same, policy));
            }
        }
        is_any_refused
    }

    /// Decides about the lanes of one classifier; whether any of them is refused. With a policy, stateful rules are in
    /// force. `None`: a change has just withdrawn the classifier, and nothing is decided.
    fn decide(
        &mut self,
        cx: &mut Context<'_>,
        vector: &mut Vector,
        (id, policy): (u32, Option<Policy>),
        same: &LaneSet,
    ) -> Option<bool> {
        let (shared, place) = (&self.shared, self.place);
        let acls = shared.acls.read(cx.reader);
        let pair = if place.has_zones() { Some(acls.pair(id)?) } else { None };
        let classifier = if let Some(pair) = pair { pair.of::<F>() } else { acls.get(id)? };
        self.lanes.clear();
        same.append_to(&mut self.lanes);
        self.ends.read(&shared.attributes, (classifier, place), vector);
        let columns = fields::of(shared.kernel, vector, place.packets);
        let mut is_any_malformed = false;
        for (lanes, found) in self.lanes.chunks(LANES).zip(self.found.iter_mut()) {
            is_any_malformed |= keys::load::<F>(&mut self.keys, columns, lanes);
            self.ends.load::<F>(classifier, &mut self.keys, lanes);
            if policy.is_some() {
                keys::begin::<F>(&mut self.keys, lanes, self.tracking.is_anew());
            }
            F::look_up_recent(&mut self.recent, classifier, (&self.keys, lanes.len()), found);
        }
        let found = self.found.as_flattened_mut();
        if is_any_malformed {
            for (found, lane) in found.iter_mut().zip(&self.lanes) {
                if Kind(columns.kind[usize::from(*lane)]).malformed().is_some() {
                    *found = CUT;
                }
            }
        }
        let hits = shared.hits.of_worker(self.worker);
        count(classifier, (&self.lanes, found), vector, (hits, cx.now));
        if classifier.traits.is_logged {
            let of = (&self.lanes[..], &found[..]);
            report::<F>((shared, classifier), of, vector, (cx, place, id), &self.tracking);
        }
        let mut is_any_refused = false;
        if let Some(policy) = policy {
            let task = Task { shared, reader: cx.reader, classifier, place, policy };
            let lanes = (&mut *vector, &self.lanes[..], &found[..]);
            is_any_refused = settle_all::<F>(&task, cx, lanes, &mut self.tracking);
        } else {
            for (lane, found) in self.lanes.iter().zip(&*found) {
                if classifier.accepts(*found) {
                    continue;
                }
                let lane = usize::from(*lane);
                let may_pass = || passes::<F>(place, vector, lane);
                let Some(refusal) = refusal_of(classifier, *found, Some(cx.now), may_pass) else {
                    continue;
                };
                is_any_refused = true;
                vector.next[lane] =
                    refusal.next((&mut *vector, lane), place.cause, F::IS_IP4, ERROR);
            }
        }
        if let Some(pair) = pair.filter(|_| is_any_refused) {
            count_unmatched(&pair.unmatched, (&self.lanes, found), vector, (self.worker, cx.now));
        }
        Some(is_any_refused)
    }

    /// Decides about lanes whose classifier was withdrawn, by those that their interfaces name now: new classifiers are
    /// published before interfaces name them, and old ones are withdrawn after that. Whether any lane is refused.
    #[cold]
    #[inline(never)]
    fn decide_again(
        &mut self,
        cx: &mut Context<'_>,
        vector: &mut Vector,
        mut lanes: LaneSet,
        policy: Option<Policy>,
    ) -> bool {
        let (hook, place) = (self.hook, self.place);
        if place.has_zones() {
            self.find_pairs_again((hook, cx.reader), vector, &lanes);
        } else {
            let arc = (place.of)(&self.shared.arcs);
            let interfaces = if place.is_input() { &vector.rx_if } else { &vector.tx_if };
            let argument = |interface| argument_of(hook, arc, interface);
            read_again(&mut self.ids, interfaces, &lanes, argument);
        }
        let mut is_any_refused = false;
        while let Some(first) = lanes.lowest() {
            let id = self.ids[first];
            let same = lanes.take_equal(&self.ids, id);
            // The lists were removed.
            if [0, TRACK].contains(&id) {
                continue;
            }
            is_any_refused |= self.decide(cx, vector, (id, policy), &same).unwrap_or_else(|| {
                // Withdrawn again in this moment.
                let reason = place.cause.drop(F::IS_IP4).next();
                same.iter().for_each(|lane| vector.next[lane] = reason);
                true
            });
        }
        is_any_refused
    }
}

/// Reads for each of these lanes which classifier its interface names now: interfaces that shared one may differ.
fn read_again(
    ids: &mut Column<u32>,
    interfaces: &Column<u32>,
    lanes: &LaneSet,
    argument: impl Fn(u32) -> u32,
) {
    for lane in lanes.iter() {
        ids[lane] = argument(interfaces[lane]);
    }
}

/// Reports lanes that match rules with a log to the control thread; of a flow only the first packet.
#[cold]
#[inline(never)]
fn report<F: Family>(
    (shared, classifier): (&Shared, &Classifier),
    (lanes, found): (&[u8], &[u32]),
    vector: &Vector,
    (cx, place, id): (&mut Context<'_>, Place, u32),
    tracking: &Tracking,
) {
    let (Some(fields), now) = (vector.known_fields(), cx.now) else { return };
    let is_input = place.is_received();
    let interfaces = if is_input { &vector.rx_if } else { &vector.tx_if };
    for (lane, found) in lanes.iter().zip(found) {
        let lane = usize::from(*lane);
        let log = classifier.rules.get(*found as usize).and_then(|rule| rule.log.as_ref());
        let Some(log) = log else { continue };
        if !is_first::<F>((shared, place), cx, (vector, lane), tracking) {
            continue;
        }
        let (Some(rule), Some(of_worker)) = (log.take(now), cx.local::<OfWorker>()) else {
            continue;
        };
        of_worker.log.push(Record {
            rule,
            pair: if place.has_zones() { id } else { 0 },
            is_input,
            interface: interfaces[lane],
            source: fields.source.each_ref().map(|word| word[lane]),
            destination: fields.destination.each_ref().map(|word| word[lane]),
            ports: fields.ports[lane],
            kind: Kind(fields.kind[lane]),
            place: fields::Place(fields.place[lane]),
        });
    }
}

/// Whether a packet that no rule matches passes all the same. What the router forwards to another zone is not from its
/// link, so that no hop limit makes it a message of the link.
#[cold]
#[inline(never)]
pub(super) fn passes<F: Family>(place: Place, vector: &Vector, lane: usize) -> bool {
    let is_forwarded = place.is_between_zones() && vector.flags[lane] & flags::OWN == 0;
    let hop_limit = if is_forwarded { 0 } else { hop_limit::<F>(vector, lane) };
    is_essential::<F>(&F::fields(vector.bytes(lane)), hop_limit)
}

pub(super) fn hop_limit<F: Family>(vector: &Vector, lane: usize) -> u8 {
    vector.bytes(lane).get(F::HOP_LIMIT).copied().unwrap_or(0)
}

/// The argument of a feature at an interface.
pub(crate) fn argument_of(hook: ArcHook, arc: &FeatureArc, interface: u32) -> u32 {
    let all = hook.arguments(arc);
    all[interface as usize % all.len()].load(std::sync::atomic::Ordering::Acquire)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_whose_classifier_is_withdrawn_go_by_their_own_interfaces() {
        // Interfaces 1, 2 and 3 shared classifier 7; 4 has another one.
        let (mut ids, mut interfaces) = (Column::of(7), Column::of(0));
        for lane in 0..8 {
            interfaces[lane] = 1 + lane as u32 % 4;
            ids[lane] = if interfaces[lane] == 4 { 5 } else { 7 };
        }
        let mut lanes = LaneSet::first_of(8).take_equal(&ids, 7);
        read_again(&mut ids, &interfaces, &lanes, |interface| [0, 8, 9, 0][interface as usize]);
        let mut groups = Vec::new();
        while let Some(first) = lanes.lowest() {
            let id = ids[first];
            groups.push((id, lanes.take_equal(&ids, id).iter().collect::<Vec<_>>()));
        }
        assert_eq!(groups, [(8, vec![0, 4]), (9, vec![1, 5]), (0, vec![2, 6])]);
        assert_eq!([ids[3], ids[7]], [5, 5]);
    }
}
