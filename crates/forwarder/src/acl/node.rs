//! `ip4-acl-input`, `ip6-acl-input`, `ip4-acl-output`, `ip6-acl-output`: apply the access lists of the interface that
//! has received or that sends a packet.
//!
//! Output lists see forwarded packets only: the router's own replies, errors and hellos pass.

use std::sync::{Arc, LazyLock};

use stoa_engine::arc::{ArcHook, FeatureArc};
use stoa_engine::gather::gather_32;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{Column, DROP, LaneSet, flags};
use stoa_engine::{Context, Next, Node, VECTOR, Vector, clock};

use super::essential::is_essential;
use super::fields::{Family, Fields};
use super::matcher::MISS;
use super::{AccessLists, Action, Classifier, Classifiers};
use crate::arcs::{self, Arcs, IP4_INPUT, IP4_OUTPUT, IP6_INPUT, IP6_OUTPUT};
use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::shared::Shared;

/// Next nodes of IPv4 packets besides those of the arc.
pub const EDGES4: &[&str] = &["icmp4-error"];
/// Next nodes of IPv6 packets besides those of the arc.
pub const EDGES6: &[&str] = &["icmp6-error"];
const ERROR: u16 = 0;

/// Makes the node of received IPv4 packets of one worker.
pub fn make_input4(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    AclNode::<u32>::boxed((shared, worker), INPUT4)
}

/// Makes the node of received IPv6 packets of one worker.
pub fn make_input6(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    AclNode::<u128>::boxed((shared, worker), INPUT6)
}

/// Makes the node of sent IPv4 packets of one worker.
pub fn make_output4(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    AclNode::<u32>::boxed((shared, worker), OUTPUT4)
}

/// Makes the node of sent IPv6 packets of one worker.
pub fn make_output6(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    AclNode::<u128>::boxed((shared, worker), OUTPUT6)
}

/// An address whose classifiers exist.
trait Listed: Family {
    fn classifiers(lists: &AccessLists) -> &Classifiers<Self>;
}

impl Listed for u32 {
    fn classifiers(lists: &AccessLists) -> &Classifiers<Self> {
        &lists.ip4
    }
}

impl Listed for u128 {
    fn classifiers(lists: &AccessLists) -> &Classifiers<Self> {
        &lists.ip6
    }
}

/// A family and direction.
#[derive(Clone, Copy)]
struct Place {
    arc: &'static str,
    node: &'static str,
    of: fn(&Arcs) -> &FeatureArc,
    is_input: bool,
}

const INPUT4: Place =
    Place { arc: IP4_INPUT, node: "ip4-acl-input", of: |arcs| &arcs.ip4_input, is_input: true };
const INPUT6: Place =
    Place { arc: IP6_INPUT, node: "ip6-acl-input", of: |arcs| &arcs.ip6_input, is_input: true };
const OUTPUT4: Place =
    Place { arc: IP4_OUTPUT, node: "ip4-acl-output", of: |arcs| &arcs.ip4_output, is_input: false };
const OUTPUT6: Place =
    Place { arc: IP6_OUTPUT, node: "ip6-acl-output", of: |arcs| &arcs.ip6_output, is_input: false };

struct AclNode<K> {
    shared: Arc<Shared>,
    hook: ArcHook,
    worker: usize,
    place: Place,
    /// The classifier of each lane: the argument of the feature. 0: none.
    ids: Column<u32>,
    fields: Box<[Fields<K>; VECTOR]>,
    found: Column<u32>,
    /// The lanes that are classified together.
    lanes: Vec<u8>,
}

impl<K: Listed> AclNode<K> {
    fn boxed((shared, worker): (&Arc<Shared>, usize), place: Place) -> Box<dyn Node> {
        Box::new(Self {
            shared: shared.clone(),
            hook: arcs::hook(place.arc, place.node),
            worker,
            place,
            ids: Column::of(0),
            fields: Box::new([Fields::default(); VECTOR]),
            found: Column::of(MISS),
            lanes: Vec::with_capacity(VECTOR),
        })
    }
}

impl<K: Listed> Node for AclNode<K> {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let arc = (self.place.of)(&self.shared.arcs);
        let interfaces = if self.place.is_input { &vector.rx_if } else { &vector.tx_if };
        gather_32(self.hook.arguments(arc), interfaces, lanes, &mut self.ids);
        let next = self.hook.proceed(arc, interfaces, lanes, &mut vector.next);
        if let Next::All(edge) = next {
            vector.next[..lanes].fill(edge);
        }
        let mut left = LaneSet::first_of(lanes);
        if !self.place.is_input {
            for lane in 0..lanes {
                if vector.flags[lane] & flags::OWN != 0 {
                    self.ids[lane] = 0;
                }
            }
        }
        let mut is_any_refused = false;
        while let Some(first) = left.lowest() {
            let id = self.ids[first];
            let same = left.take_equal(&self.ids, id);
            if id != 0 {
                is_any_refused |= self.judge(cx, vector, &same);
            }
        }
        if is_any_refused { Next::Lanes } else { next }
    }
}

impl<K: Listed> AclNode<K> {
    /// Judges lanes of one classifier; whether any of them is refused.
    fn judge(&mut self, cx: &mut Context<'_>, vector: &mut Vector, same: &LaneSet) -> bool {
        self.lanes.clear();
        for lane in same.iter() {
            self.lanes.push(lane as u8);
            self.fields[lane] = K::fields(vector.bytes(lane)).unwrap_or(cut());
        }
        let first = usize::from(self.lanes[0]);
        let argument = |lane: usize| {
            let arc = (self.place.of)(&self.shared.arcs);
            let interface =
                if self.place.is_input { vector.rx_if[lane] } else { vector.tx_if[lane] };
            argument_of(self.hook, arc, interface)
        };
        let classifier = current::<K>(&self.shared, cx.reader, self.ids[first], || argument(first));
        let Some(classifier) = classifier else {
            // Removed in this moment, and nothing took its place yet.
            let reason = refused(self.place.is_input).drop(K::IS_IP4).next();
            self.lanes.iter().for_each(|lane| vector.next[usize::from(*lane)] = reason);
            return true;
        };
        classifier.matcher.classify(&self.lanes, &*self.fields, &mut *self.found);
        self.count(classifier, vector, cx.now);
        let mut is_any_refused = false;
        for lane in self.lanes.iter().map(|lane| usize::from(*lane)) {
            let verdict = verdict(classifier, self.found[lane], &self.fields[lane]);
            let Some(refusal) = verdict else { continue };
            is_any_refused = true;
            vector.next[lane] = refusal.next(vector, lane, self.place.is_input, K::IS_IP4, ERROR);
        }
        is_any_refused
    }

    /// Counts the hits; lanes in a row with the same rule together.
    fn count(&self, classifier: &Classifier<K>, vector: &Vector, now: u64) {
        let (mut rule, mut packets, mut bytes) = (MISS, 0, 0);
        let add = |rule: u32, packets: u64, bytes: u64| {
            if let Some(rule) = classifier.rules.get(rule as usize).filter(|_| packets > 0) {
                rule.hits.add(self.worker, packets, bytes, now);
            }
        };
        for lane in self.lanes.iter().map(|lane| usize::from(*lane)) {
            if self.fields[lane].is_cut {
                continue;
            }
            if self.found[lane] != rule {
                add(rule, packets, bytes);
                (rule, packets, bytes) = (self.found[lane], 0, 0);
            }
            packets += 1;
            bytes += u64::from(vector.length[lane]);
        }
        add(rule, packets, bytes);
    }
}

/// The argument of a feature at an interface.
fn argument_of(hook: ArcHook, arc: &FeatureArc, interface: u32) -> u32 {
    let all = hook.arguments(arc);
    all[interface as usize % all.len()].load(std::sync::atomic::Ordering::Acquire)
}

/// The fields of a packet without a whole IP header, which does not come here.
fn cut<K: Family>() -> Fields<K> {
    Fields { is_cut: true, ..Fields::default() }
}

/// The classifier with this id. If a change has just replaced it, the one that the interface has now: new classifiers
/// are published before interfaces name them, and old ones are removed after that.
fn current<'a, K: Listed>(
    shared: &'a Shared,
    reader: &'a Reader,
    id: u32,
    argument: impl FnOnce() -> u32,
) -> Option<&'a Classifier<K>> {
    let known = K::classifiers(shared.acls.read(reader)).get(id);
    known.or_else(|| K::classifiers(shared.acls.read(reader)).get(argument()))
}

/// Why a packet is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// Its upper header is cut, so that rules cannot judge it.
    Cut,
    /// Without an answer.
    Silent,
    /// With an answer.
    Answered,
}

impl Refusal {
    /// The next node of a lane; an answer goes along the edge `error`.
    #[inline]
    fn next(
        self,
        vector: &mut Vector,
        lane: usize,
        is_input: bool,
        is_ip4: bool,
        error: u16,
    ) -> u16 {
        let cause = refused(is_input);
        match self {
            Self::Cut => Drop::AclTruncated.next(),
            Self::Silent => cause.drop(is_ip4).next(),
            Self::Answered => {
                vector.arg[lane] = cause.code();
                error
            }
        }
    }
}

fn refused(is_input: bool) -> IcmpCause {
    if is_input { IcmpCause::AclInput } else { IcmpCause::AclOutput }
}

/// Why a packet is refused that matches this rule; `None`: it passes.
#[inline]
fn verdict<K: Family>(
    classifier: &Classifier<K>,
    found: u32,
    fields: &Fields<K>,
) -> Option<Refusal> {
    if fields.is_cut {
        return Some(Refusal::Cut);
    }
    match classifier.rules.get(found as usize).map(|rule| rule.action) {
        Some(Action::Accept) => None,
        Some(Action::Drop) => Some(Refusal::Silent),
        Some(Action::Reject) => Some(Refusal::Answered),
        None if is_essential(fields) => None,
        None => Some(Refusal::Silent),
    }
}

/// Where the arguments of the input features are.
static HOOK4: LazyLock<ArcHook> = LazyLock::new(|| arcs::hook(INPUT4.arc, INPUT4.node));
static HOOK6: LazyLock<ArcHook> = LazyLock::new(|| arcs::hook(INPUT6.arc, INPUT6.node));

/// Judges an IPv4 packet that does not pass the arc of its interface, to a group or to all hosts: `next` if it passes.
/// An answer goes along the edge `error`.
#[cold]
#[inline(never)]
pub fn beside_arc4(
    (shared, reader, worker): (&Shared, &Reader, usize),
    (vector, lane): (&mut Vector, usize),
    (next, error): (u16, u16),
) -> u16 {
    beside_arc::<u32>((shared, reader, worker), INPUT4, (vector, lane), (next, error))
}

/// The same for IPv6, where packets to and from link-local addresses do not pass the arc either.
#[cold]
#[inline(never)]
pub fn beside_arc6(
    (shared, reader, worker): (&Shared, &Reader, usize),
    (vector, lane): (&mut Vector, usize),
    (next, error): (u16, u16),
) -> u16 {
    beside_arc::<u128>((shared, reader, worker), INPUT6, (vector, lane), (next, error))
}

fn beside_arc<K: Listed>(
    (shared, reader, worker): (&Shared, &Reader, usize),
    place: Place,
    (vector, lane): (&mut Vector, usize),
    (next, error): (u16, u16),
) -> u16 {
    if next & DROP != 0 {
        return next;
    }
    let hook = if K::IS_IP4 { *HOOK4 } else { *HOOK6 };
    let arc = (place.of)(&shared.arcs);
    let argument = || argument_of(hook, arc, vector.rx_if[lane]);
    let id = argument();
    if id == 0 {
        return next;
    }
    let refusal = match current::<K>(shared, reader, id, argument) {
        Some(classifier) => {
            let fields = K::fields(vector.bytes(lane)).unwrap_or(cut());
            let found = classifier.matcher.first(&fields);
            if let Some(rule) = classifier.rules.get(found as usize).filter(|_| !fields.is_cut) {
                rule.hits.add(worker, 1, vector.length[lane].into(), clock::tsc());
            }
            verdict(classifier, found, &fields)
        }
        None => Some(Refusal::Silent),
    };
    refusal.map_or(next, |refusal| refusal.next(vector, lane, true, K::IS_IP4, error))
}
