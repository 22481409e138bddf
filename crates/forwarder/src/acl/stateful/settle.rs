//! What becomes of packets that rules have judged, and of their flows.

use stoa_engine::vector::{LaneSet, flags};
use stoa_engine::{Context, Vector};
use stoa_tables::flow_table::{Direction, Match};

use super::cookies::{is_acknowledgement, is_syn};
use super::forwards::{is_to_external, may_be_deferred};
use super::judged::{Judged, judged};
use super::sip::note_sip;
use super::{Task, Tracking, is_current, tracked, tracker, vrf_of};
use crate::acl::flow_keys::flow_vrf;
use crate::acl::keys::Family;
use crate::acl::node::{AclNode, ERROR, passes};
use crate::acl::place::Place;
use crate::acl::refusal::{Refusal, refusal_of};
use crate::acl::{Policy, TRACK, Tracks};
use crate::drops::Drop;
use crate::flow::alg::Alg;
use crate::flow::fields::{self, Kind};
use crate::flow::tracker::{Admission, Followed, Opened, Side, fits};
use crate::icmp::next_of_dropped;
use crate::shared::Shared;

/// What becomes of a lane.
enum Settled {
    /// It passes with these flags.
    Pass(u16),
    /// The rules refuse it.
    Refused(Refusal),
    /// The tracker refuses it.
    Drop(Drop),
    /// The worker with this number follows its flow.
    Foreign(u8),
}

/// Decides about lanes by the rule that each of them meets; whether any does not go on along the arc.
#[inline(never)]
pub(in crate::acl) fn settle_all<F: Family>(
    task: &Task<'_>,
    cx: &mut Context<'_>,
    (vector, lanes, found): (&mut Vector, &[u8], &[u32]),
    tracking: &mut Tracking,
) -> bool {
    let mut is_any = false;
    for (lane, found) in lanes.iter().zip(found) {
        let lane = usize::from(*lane);
        let rule = task.classifier.rules.get(*found as usize);
        // What has a flow counted when that began.
        let is_limited = rule.is_some_and(|rule| rule.limit.is_some())
            && is_first::<F>((task.shared, task.place), cx, (vector, lane), tracking);
        let now = is_limited.then_some(cx.now);
        let may_pass = || passes::<F>(task.place, vector, lane);
        let refusal = refusal_of(task.classifier, *found, now, may_pass);
        let rule = rule.and_then(|rule| rule.tracks);
        let settled = match (refusal, rule) {
            // Most packets without a flow, or refused by the check of their headers.
            (None, None) if tracking.has_no_flow(vector.flags[lane], lane) => Settled::Pass(0),
            _ => settle::<F>(task, cx, (&*vector, lane), (refusal, rule), tracking),
        };
        let passes = matches!(settled, Settled::Pass(_));
        is_any |= !passes;
        if !passes && !tracking.altered.is_empty() {
            super::alg::give_back(vector, lane, tracking);
        }
        match settled {
            Settled::Pass(flags) => {
                vector.flags[lane] |= flags;
                if rule.is_some_and(|it| it.alg == Some(Alg::Sip)) {
                    note_sip::<F>(task, cx, (&*vector, lane), tracking);
                }
            }
            Settled::Refused(refusal) => {
                if vector.flags[lane] & flags::COOKIE != 0 {
                    super::cookies::restore(vector, lane);
                }
                let cause = task.place.cause;
                vector.next[lane] = refusal.next((&mut *vector, lane), cause, F::IS_IP4, ERROR);
            }
            Settled::Drop(reason) => {
                let of = (task.shared.flows.limits().is_silent(), ERROR);
                vector.next[lane] = next_of_dropped((&mut *vector, lane), reason, of);
            }
            Settled::Foreign(owner) => tracking.foreign.push(lane, owner),
        }
    }
    is_any
}

/// Whether a packet is the first one of a flow, if of any: limits and logs of rules are about these. An output sees
/// flows that an input has begun just now; those that are confirmed are older.
pub(in crate::acl) fn is_first<F: Family>(
    (shared, place): (&Shared, Place),
    cx: &mut Context<'_>,
    (vector, lane): (&Vector, usize),
    tracking: &Tracking,
) -> bool {
    if tracking.has_no_flow(vector.flags[lane], lane) {
        return true;
    }
    let (Some(fields), Some(tracker)) = (vector.known_fields(), tracker(cx)) else { return false };
    if place.is_input() {
        return false;
    }
    let vrf = flow_vrf(vrf_of(shared, place, vector, lane));
    let side = tracker.of(F::IS_IP4);
    let id = side.find(&F::flow_key(fields, lane, vrf)).and_then(Match::id);
    id.is_some_and(|id| !side.admits_replies(id))
}

fn settle<F: Family>(
    task: &Task<'_>,
    cx: &mut Context<'_>,
    (vector, lane): (&Vector, usize),
    (refusal, rule): (Option<Refusal>, Option<Tracks>),
    tracking: &Tracking,
) -> Settled {
    let otherwise = refusal.map_or(Settled::Pass(0), Settled::Refused);
    let is_alone = cx.workers() == 1;
    let (Some(fields), Some(tracker)) = (vector.known_fields(), tracker(cx)) else {
        return otherwise;
    };
    let judged = judged::<F>(task, (vector, fields, lane), (tracking, rule.is_some()));
    if judged.packet.kind.malformed().is_some() {
        return otherwise;
    }
    let side = tracker.of(F::IS_IP4);
    if judged.packet.kind.0 & Kind::LATER != 0 {
        // It has no ports: the rules that have admitted its first one cannot match it. An input does not know the flow
        // if an output has made it, of a first one in the same burst.
        let (packet, now) = ((&judged.packet, judged.key.vrf), (judged.now, task.policy.epoch));
        let is_admitted =
            !task.place.is_input() && side.is_piece_admitted(packet, now, task.place.has_zones());
        return if is_admitted { Settled::Pass(0) } else { otherwise };
    }
    match (refusal, rule) {
        (Some(refusal), _) => refused(task, (side, is_alone), &judged, refusal),
        (None, Some(rule)) => admitted(task, side, &judged, rule),
        (None, None) => accepted(task, side, &judged),
    }
}

/// A stateful rule accepts the packet.
fn admitted(task: &Task<'_>, side: &mut Side, judged: &Judged<'_>, rule: Tracks) -> Settled {
    // A packet for the router neither begins a flow nor keeps one.
    if task.place.is_to_router() {
        return Settled::Pass(0);
    }
    let admission = rule.admission(task.policy, task.place.is_last(), judged.received);
    if judged.flags & flags::TRACKED != 0 {
        // Its flow has counted it at the input, and goes on if only the output keeps it.
        let found = side.find(&judged.key).filter(|found| side.owns(*found));
        if let Some((found, id)) = found.and_then(|found| Some((found, found.id()?))) {
            let is_current = is_current(&side.reader().entry(id), task.policy.epoch);
            if !is_current && found.direction() == Direction::Original {
                side.judge(id, admission, judged.now);
                task.renew_alg(side, judged, rule);
            }
            pass(task, side, judged, found);
        }
        return Settled::Pass(0);
    }
    if judged.known.is_some() {
        return join(task, side, judged, (judged.known, admission), rule);
    }
    // Replies of ICMP, errors and later fragments begin no flow: the rule accepts them as any other one does.
    if judged.begins_none || !fits(judged.packet.kind, judged.ports, Direction::Original) {
        return Settled::Pass(0);
    }
    let (cookies, kind) = (task.shared.flows.syn_cookies(), judged.packet.kind);
    let has_cookie = judged.flags & flags::COOKIE != 0;
    let of = (&judged.key, judged.flags);
    if cookies.defers() && !has_cookie && is_syn(kind) && may_be_deferred(task, of) {
        return Settled::Pass(flags::DEFERRED);
    }
    match side.create(judged.key, &judged.packet, admission, judged.now) {
        Opened::Existing(found) => join(task, side, judged, (found, admission), rule),
        // The flow of a port forward takes the place of this one, and is spliced there.
        Opened::New
            if has_cookie
                && !is_to_external(task, &judged.key)
                && !side.begin_splice(&judged.key, &judged.packet) =>
        {
            Settled::Drop(Drop::SynCookie)
        }
        Opened::Drop(Drop::TcpNoConnection) if cookies.is_armed() && is_acknowledgement(kind) => {
            cookies.count_refused(side.worker());
            Settled::Drop(Drop::SynCookie)
        }
        opened => {
            if let (Opened::New, Some(alg)) = (opened, rule.alg.filter(|_| !has_cookie)) {
                side.begin_alg(&judged.key, alg, &judged.packet, judged.now);
            }
            settled(opened)
        }
    }
}

/// The rules of a pair or of an output let a packet of an own flow pass. Output lists are behind pairs, and confirm it.
fn pass(task: &Task<'_>, side: &mut Side, judged: &Judged<'_>, found: Match) {
    if task.place.is_last() {
        side.pass_output(found, task.policy.epoch, judged.now);
    } else if task.place.is_to_router() {
        side.pass_to_router(found);
    } else {
        side.pass_pair(found, task.policy.epoch);
    }
}

fn settled(opened: Opened) -> Settled {
    match opened {
        Opened::New => Settled::Pass(tracked(false)),
        // Another one has come in between: it counts the next packet.
        Opened::Untracked | Opened::Existing(_) | Opened::PortTaken => Settled::Pass(0),
        Opened::Drop(reason) => Settled::Drop(reason),
    }
}

/// The id of a flow, if this worker owns it.
fn own(side: &Side, found: Match) -> Option<u32> {
    found.id().filter(|_| side.owns(found))
}

impl<F: Family> AclNode<F> {
    /// Packets that leave by interfaces without lists have passed the output.
    pub(super) fn pass_outputs(&mut self, side: &mut Side, vector: &mut Vector, policy: Policy) {
        // Most packets are admitted, so that they have no id.
        let lanes = LaneSet::first_of(vector.len()).take_equal(&self.ids, TRACK);
        if !lanes.iter().any(|lane| vector.flags[lane] & flags::TRACKED != 0) {
            return;
        }
        fields::of(self.shared.kernel, vector, F::PACKETS);
        let Some(fields) = vector.known_fields() else { return };
        for lane in lanes.iter() {
            let is_tracked = vector.flags[lane] & flags::TRACKED != 0;
            if !is_tracked || fields.kind[lane] & Kind::LATER != 0 {
                continue;
            }
            let vrf = flow_vrf(vrf_of(&self.shared, self.place, vector, lane));
            let found = side.find(&F::flow_key(fields, lane, vrf));
            if let Some(found) = found.filter(|found| side.owns(*found)) {
                side.pass_output(found, policy.epoch, self.tracking.now);
            }
        }
    }
}

/// A packet that a stateful rule accepts, and that has a flow already.
fn join(
    task: &Task<'_>,
    side: &mut Side,
    judged: &Judged<'_>,
    (found, admission): (Match, Admission),
    rule: Tracks,
) -> Settled {
    let (Some(id), direction) = (found.id(), found.direction()) else { return Settled::Pass(0) };
    if !fits(judged.packet.kind, judged.ports, direction) {
        return Settled::Pass(0);
    }
    let flow = side.reader().entry(id);
    if flow.owner() != side.number() {
        let owner = flow.owner();
        return if task.place.is_input() { Settled::Foreign(owner) } else { Settled::Pass(0) };
    }
    if direction == Direction::Original && !is_current(&flow, task.policy.epoch) {
        side.judge(id, admission, judged.now);
        task.renew_alg(side, judged, rule);
    }
    match side.follow((id, direction), &judged.packet, (judged.now, task.policy.epoch)) {
        Followed::Pass { is_admitted } => Settled::Pass(tracked(is_admitted)),
        Followed::Drop(reason) => Settled::Drop(reason),
        Followed::Replace => {
            side.remove(id);
            let opened = side.create(judged.key, &judged.packet, admission, judged.now);
            if let (Opened::New, Some(alg)) = (opened, rule.alg) {
                side.begin_alg(&judged.key, alg, &judged.packet, judged.now);
            }
            settled(opened)
        }
    }
}

/// A rule that is not stateful accepts a packet whose flow it judges anew.
fn accepted(task: &Task<'_>, side: &mut Side, judged: &Judged<'_>) -> Settled {
    let epoch = task.policy.epoch;
    if !task.place.is_input() {
        if let Some(found) = side.find(&judged.key).filter(|found| side.owns(*found)) {
            pass(task, side, judged, found);
        }
        return Settled::Pass(0);
    }
    let Some(id) = own(side, judged.known) else { return Settled::Pass(0) };
    if is_current(&side.reader().entry(id), epoch) {
        // A new connection in place of the one of the flow: none that is kept here.
        side.remove(id);
        return Settled::Pass(0);
    }
    if !task.policy.has_outputs {
        side.suspend(id);
    }
    match side.follow((id, judged.known.direction()), &judged.packet, (judged.now, epoch)) {
        Followed::Pass { .. } => Settled::Pass(tracked(false)),
        Followed::Drop(reason) => Settled::Drop(reason),
        Followed::Replace => {
            side.remove(id);
            Settled::Pass(0)
        }
    }
}

/// The rules refuse the packet.
#[cold]
#[inline(never)]
fn refused(
    task: &Task<'_>,
    (side, is_alone): (&mut Side, bool),
    judged: &Judged<'_>,
    refusal: Refusal,
) -> Settled {
    let epoch = task.policy.epoch;
    if judged.flags & flags::ADMITTED != 0 {
        // No pair has these zones: the packet is forged, or routes have changed. The flow goes on elsewhere.
        return Settled::Refused(refusal);
    }
    if judged.known.is_some() || judged.flags & flags::TRACKED != 0 {
        let found =
            if judged.known.is_some() { Some(judged.known) } else { side.find(&judged.key) };
        if let Some((found, id)) = found.and_then(|found| Some((found, own(side, found)?))) {
            if !task.policy.is_stateful && side.is_translated(id) {
                if !task.place.is_input() {
                    side.end_refused((id, found.direction()), task.place.is_last());
                }
                return Settled::Refused(refusal);
            }
            // One that a SYN wanted to replace goes on.
            if judged.known.is_some() && is_current(&side.reader().entry(id), epoch) {
                return Settled::Refused(refusal);
            }
            // Whoever does not know the numbers of a connection does not end it.
            let direction = judged.known.direction();
            if judged.known.is_some()
                && let Some(Followed::Drop(reason)) =
                    side.objection((id, direction), &judged.packet, judged.now)
            {
                return Settled::Drop(reason);
            }
            side.remove(id);
        }
        return Settled::Refused(refusal);
    }
    // Its flow may be younger than its look-up, or another worker has moved its key meanwhile.
    let is_young = side.has_created() || !is_alone;
    if let Some(found) = is_young.then(|| side.find(&judged.key)).flatten()
        && fits(judged.packet.kind, judged.ports, found.direction())
        && let Some(id) = found.id()
        && is_current(&side.reader().entry(id), epoch)
        && (found.direction() == Direction::Original || side.admits_replies(id))
    {
        let owner = side.reader().entry(id).owner();
        if owner != side.number() {
            let is_input = task.place.is_input();
            return if is_input { Settled::Foreign(owner) } else { Settled::Refused(refusal) };
        }
        match side.follow((id, found.direction()), &judged.packet, (judged.now, epoch)) {
            Followed::Pass { is_admitted } if is_admitted || task.place.is_input() => {
                return Settled::Pass(tracked(is_admitted));
            }
            Followed::Drop(reason) => return Settled::Drop(reason),
            Followed::Pass { .. } | Followed::Replace => return Settled::Refused(refusal),
        }
    }
    Settled::Refused(refusal)
}
