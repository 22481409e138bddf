//! What becomes of packets that rules have judged, and of their flows.

use stoa_engine::vector::{Fields, flags};
use stoa_engine::{Context, Vector};
use stoa_tables::flow_table::{Direction, FlowKey, Match};

use super::cookies::{is_acknowledgement, is_syn};
use super::sip::note_sip;
use super::{Task, Tracking, is_current, seen, tracked, tracker, vrf_of};
use crate::acl::Tracks;
use crate::acl::flow_keys::{changes_family, flow_vrf, is_of_router};
use crate::acl::keys::Family;
use crate::acl::node::{ERROR, hop_limit, passes};
use crate::acl::place::Place;
use crate::acl::refusal::{Refusal, refusal_of};
use crate::drops::Drop;
use crate::flow::alg::Alg;
use crate::flow::fields::Kind;
use crate::flow::flows::Now;
use crate::flow::tracker::{Admission, Followed, Opened, Seen, Side, fits};
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

/// A packet that rules have judged.
struct Judged<'a> {
    packet: Seen<'a>,
    key: FlowKey,
    ports: u32,
    /// The flow that an input node has found; an output node: none.
    known: Match,
    flags: u16,
    received: u32,
    now: Now,
    /// It is from the router itself, or for it, so that no list sees the other direction; or it has an address of the
    /// router, or goes no further.
    begins_none: bool,
}

impl Task<'_> {
    /// The flow of a packet that a rule has judged anew has the gateway of that rule, or else that of its policy of
    /// address translation.
    fn renew_alg(&self, side: &mut Side, judged: &Judged<'_>, rule: Tracks) {
        if self.policy.has_algs || self.shared.flows.may_alter(!judged.key.is_ip6()) {
            let of_policy = || {
                let id = side.find(&judged.key)?.id().filter(|id| side.is_translated(*id))?;
                let has = side.alg_flow(id).and_then(|it| it.alg);
                self.shared.nat.read(self.reader).alg_of_flow(&side.reader().entry(id), has)
            };
            let alg = rule.alg.or_else(of_policy);
            side.renew_alg(&judged.key, alg, &judged.packet, judged.now);
        }
    }
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
            Settled::Drop(reason) => vector.next[lane] = reason.next(),
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

fn judged<'a, F: Family>(
    task: &Task<'_>,
    (vector, fields, lane): (&'a Vector, &Fields, usize),
    (tracking, is_stateful): (&Tracking, bool),
) -> Judged<'a> {
    let vrf = vrf_of(task.shared, task.place, vector, lane);
    let (is_input, key) = (task.place.is_input(), F::flow_key(fields, lane, flow_vrf(vrf)));
    Judged {
        packet: seen(vector, fields, lane),
        key,
        ports: fields.ports[lane],
        known: tracking.known[lane],
        flags: vector.flags[lane],
        received: vector.rx_if[lane],
        now: tracking.now,
        // An output node sees packets that are forwarded, or that the router sends.
        begins_none: is_stateful
            && (vector.flags[lane] & flags::OWN != 0
                || is_input
                    && (hop_limit::<F>(vector, lane) <= 1
                        || is_of_router(task.shared, (vrf, task.reader), &key)
                        || changes_family(task.shared, (vrf, task.reader), &key))),
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
    // Nobody has translated a cookie, and what has no state has no place to translate its answer.
    let is_translated = task.policy.has_nat || judged.flags & flags::STATELESS != 0;
    if cookies.defers() && !is_translated && !has_cookie && is_syn(kind) {
        return Settled::Pass(flags::DEFERRED);
    }
    match side.create(judged.key, &judged.packet, admission, judged.now) {
        Opened::Existing(found) => join(task, side, judged, (found, admission), rule),
        Opened::New if has_cookie && !side.begin_splice(&judged.key, &judged.packet) => {
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
    } else if !task.place.is_to_router() {
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
        if let Some(id) = found.and_then(|found| own(side, found)) {
            if !task.policy.is_stateful && side.is_translated(id) {
                return Settled::Refused(refusal);
            }
            // One that a SYN wanted to replace goes on.
            let stays = judged.known.is_some() && is_current(&side.reader().entry(id), epoch);
            if stays {
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
