//! SYN cookies at the two ends of the way through the router. The input makes the SYN of an acknowledgement that has a
//! valid cookie, before rules are asked, so that they decide about it as they did about the SYN. The last place before
//! a packet leaves knows its zone: there SYNs that all rules have accepted get their flow, or a cookie.

use std::sync::LazyLock;

use stoa_engine::arc::ArcHook;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{DROP, flags};
use stoa_engine::{Context, Vector};
use stoa_tables::classifier::Fragment;
use stoa_tables::flow_table::{Direction, Match};
use stoa_wire::protocol::TCP;
use stoa_wire::tcp::{self, flag};
use stoa_wire::tcp_options::{SYN_OPTIONS, SynOptions, Timestamps, scaled};

use super::segments::{Answer, Made, replace, syn};
use super::syn_ack::SynAnswer;
use super::{seen, tracked, tracker};
use crate::acl::flow_keys::flow_vrf;
use crate::acl::interfaces::Ends;
use crate::acl::keys::{self, Family, Ip4};
use crate::acl::node::{AclNode, ERROR, ORIGIN, argument_of};
use crate::acl::place::{INPUT4, INPUT6, Place, ZONES4, ZONES6};
use crate::acl::zones::FIRST;
use crate::acl::{Policy, TRACK, Tracks};
use crate::arcs;
use crate::drops::Drop;
use crate::flow::cookie;
use crate::flow::fields::Kind;
use crate::flow::splice::Splice;
use crate::flow::tracker::{Admission, Opened, Side};
use crate::icmp::next_of_dropped;
use crate::shared::Shared;

const CONTROLS: u8 = flag::SYN | flag::ACK | flag::RST | flag::FIN;

/// Whether a packet is a whole segment with SYN and no other flag that counts.
pub(super) fn is_syn(kind: Kind) -> bool {
    kind.protocol() == TCP
        && kind.tcp_flags() & CONTROLS == flag::SYN
        && kind.part() == Fragment::No
}

/// Whether a packet is a whole segment that may be the first one after a SYN-ACK.
pub(super) fn is_acknowledgement(kind: Kind) -> bool {
    kind.protocol() == TCP
        && kind.tcp_flags() & (CONTROLS & !flag::FIN) == flag::ACK
        && kind.part() == Fragment::No
}

/// Where the argument of a feature at an interface is.
fn argument(place: Place, hook: ArcHook, shared: &Shared, interface: u32) -> u32 {
    argument_of(hook, (place.of)(&shared.arcs), interface)
}

fn hook(place: Place) -> ArcHook {
    arcs::hook(place.arc, place.node)
}

/// The hooks of the input, and of pairs, by family.
static HOOKS4: LazyLock<[ArcHook; 2]> = LazyLock::new(|| [hook(INPUT4), hook(ZONES4)]);
static HOOKS6: LazyLock<[ArcHook; 2]> = LazyLock::new(|| [hook(INPUT6), hook(ZONES6)]);

/// Finds the hooks before packets come.
pub(super) fn prepare() {
    let _ = (&*HOOKS4, &*HOOKS6);
}

fn places<F: Family>() -> [(Place, ArcHook); 2] {
    let (places, hooks) =
        if F::IS_IP4 { ([INPUT4, ZONES4], &HOOKS4) } else { ([INPUT6, ZONES6], &HOOKS6) };
    [(places[0], hooks[0]), (places[1], hooks[1])]
}

/// A SYN in place of an acknowledgement is refused: it becomes that again, without its data, for an answer to it.
#[cold]
pub(super) fn restore(vector: &mut Vector, lane: usize) {
    let Some(fields) = vector.known_fields() else { return };
    let Some(view) = seen(vector, fields, lane).view() else { return };
    let header = view.header();
    let builder = tcp::Builder {
        source_port: view.source_port(),
        destination_port: view.destination_port(),
        sequence: header.sequence.get().wrapping_add(1),
        acknowledgement: header.acknowledgement.get().wrapping_add(1),
        flags: flag::ACK,
        window: header.window.get(),
        ..tcp::Builder::default()
    };
    replace(vector, lane, &builder);
    vector.flags[lane] &= !flags::COOKIE;
}

impl<F: Family> AclNode<F> {
    /// If a lane acknowledges a valid cookie, it becomes the SYN for which that was. The cookie goes along as the
    /// acknowledgement number, which a SYN does not use, and our timestamp as the echo.
    #[inline(always)]
    pub(super) fn has_cookie(&self, vector: &mut Vector, lane: usize) -> bool {
        let kind = vector.known_fields().map(|fields| Kind(fields.kind[lane]));
        kind.is_some_and(is_acknowledgement) && self.take_cookie(vector, lane)
    }

    #[cold]
    #[inline(never)]
    fn take_cookie(&self, vector: &mut Vector, lane: usize) -> bool {
        let Some(fields) = vector.known_fields() else { return false };
        let packet = seen(vector, fields, lane);
        if packet.kind.malformed().is_some() {
            return false;
        }
        let vrf = flow_vrf(self.shared.attributes.vrf_of(vector.rx_if[lane]));
        let key = F::flow_key(fields, lane, vrf);
        let Some(view) = packet.view() else { return false };
        let header = view.header();
        let cookie = header.acknowledgement.get().wrapping_sub(1);
        let keys = self.shared.flows.syn_cookies().keys();
        // A probe of the window, which we have closed, has the number before (RFC 9293 section 3.8.6.1).
        let sequence = header.sequence.get();
        let numbers = [sequence.wrapping_sub(1), sequence];
        let number = numbers.into_iter().find(|it| cookie::is_valid(keys, &key, *it, cookie));
        let Some(number) = number else { return false };
        if packet.pseudo().is_none_or(|pseudo| view.verify(&pseudo).is_err()) {
            return false;
        }
        let options = cookie::options(cookie, Timestamps::of(&view));
        let by = options.scale.unwrap_or(0).cast_signed();
        let (window, mut bytes) = (scaled(header.window.get(), by), [0; SYN_OPTIONS]);
        let builder = syn(&view, (number, Some(cookie)), &options, window, &mut bytes);
        replace(vector, lane, &builder)
    }

    /// The last place, behind all rules: new connections of lanes that go on. Whether any lane takes another way.
    #[inline(never)]
    pub(super) fn open_connections(
        &mut self,
        cx: &mut Context<'_>,
        vector: &mut Vector,
        policy: Policy,
    ) -> bool {
        const NEW: u16 = flags::TRACKED | flags::DEFERRED | flags::COOKIE;
        let mut is_any = false;
        // IPv6 has translation of prefixes alone, of which flows know nothing.
        let translated = if F::IS_IP4 { flags::TRANSLATED } else { 0 };
        let [_, (pairs, hook)] = places::<F>();
        for lane in 0..vector.len() {
            let lane_flags = vector.flags[lane];
            if lane_flags & NEW == 0
                || lane_flags & flags::ADMITTED != 0 && lane_flags & flags::COOKIE == 0
            {
                continue;
            }
            vector.flags[lane] &= !(flags::DEFERRED | flags::COOKIE);
            let goes_on = vector.next[lane] & DROP == 0 && vector.next[lane] > ORIGIN;
            let Some(kind) = vector.known_fields().map(|fields| Kind(fields.kind[lane])) else {
                break;
            };
            if goes_on && is_syn(kind) {
                let zone = argument(pairs, hook, &self.shared, vector.tx_if[lane]);
                let next = if lane_flags & translated != 0 {
                    self.open_translated(cx, (vector, lane), (lane_flags, zone), policy)
                } else {
                    self.open(cx, (vector, lane), (lane_flags, zone), policy)
                };
                is_any |= next.is_some();
                vector.next[lane] = next.unwrap_or(vector.next[lane]);
            }
        }
        self.give_up_answered(cx);
        is_any
    }

    /// A SYN that goes on, to a zone; its next node if that is another one now.
    fn open(
        &mut self,
        cx: &mut Context<'_>,
        (vector, lane): (&mut Vector, usize),
        (lane_flags, zone): (u16, u32),
        policy: Policy,
    ) -> Option<u16> {
        if lane_flags & flags::COOKIE != 0 {
            let fields = vector.known_fields()?;
            let key = F::flow_key(fields, lane, self.vrf_of(vector, lane));
            let side = tracker(cx)?.of(F::IS_IP4);
            let id = side.find(&key).filter(|found| side.owns(*found)).and_then(Match::id);
            return self.open_spliced(cx, (vector, lane), (id, zone));
        }
        if lane_flags & flags::DEFERRED != 0 {
            if self.shared.flows.syn_cookies().is_on(zone) && self.answer(vector, lane) {
                self.shared.flows.syn_cookies().count_sent(cx.worker, zone);
                return Some(ORIGIN);
            }
            if let Some(reason) = self.begin_deferred(cx, (vector, lane), policy) {
                let of = (self.shared.flows.limits().is_silent(), ERROR);
                return Some(next_of_dropped((vector, lane), reason, of));
            }
        }
        let fields = vector.known_fields()?;
        let key = F::flow_key(fields, lane, self.vrf_of(vector, lane));
        let side = tracker(cx)?.of(F::IS_IP4);
        let found = side.find(&key).filter(|found| side.owns(*found))?;
        let is_zone = zone >= FIRST.into() && found.direction() == Direction::Original;
        if let Some(id) = found.id().filter(|_| is_zone) {
            side.note_half_open(id, zone as u8);
        }
        None
    }

    pub(super) fn vrf_of(&self, vector: &Vector, lane: usize) -> u16 {
        flow_vrf(self.shared.attributes.vrf_of(vector.rx_if[lane]))
    }

    /// A SYN in place of an acknowledgement leaves; without a spliced flow, it is dropped.
    pub(super) fn open_spliced(
        &self,
        cx: &mut Context<'_>,
        (vector, lane): (&mut Vector, usize),
        (id, zone): (Option<u32>, u32),
    ) -> Option<u16> {
        let (refused, worker) = (Some(Drop::SynCookie.next()), cx.worker);
        let fields = vector.known_fields()?;
        let side = tracker(cx)?.of(F::IS_IP4);
        let splice = id.and_then(|id| Some((id, side.splice(id)?)));
        let Some((id, Splice::Opening(mut opening))) = splice else { return refused };
        if !opening.is_counted {
            opening.is_counted = true;
            side.set_splice(id, &Splice::Opening(opening));
            self.shared.flows.syn_cookies().count_accepted(worker, zone);
        }
        let Some(view) = seen(vector, fields, lane).view() else { return refused };
        let (number, window) = (view.header().sequence.get(), view.header().window.get());
        let mut bytes = [0; SYN_OPTIONS];
        let builder = syn(&view, (number, None), &SynOptions::of(&view), window, &mut bytes);
        if replace(vector, lane, &builder) { None } else { refused }
    }

    /// Has a SYN be answered by a SYN-ACK with a cookie. Its window is 0, so that the client sends nothing before the
    /// server has answered: it would be lost. `false`: the SYN has a wrong checksum, which says nothing.
    pub(super) fn answer(&mut self, vector: &Vector, lane: usize) -> bool {
        let Some(fields) = vector.known_fields() else { return false };
        let packet = seen(vector, fields, lane);
        let Some(view) = packet.view() else { return false };
        if packet.pseudo().is_none_or(|pseudo| view.verify(&pseudo).is_err()) {
            return false;
        }
        let Some((cookie, ours)) = self.offer(vector, lane) else { return false };
        if Self::is_plain(vector, lane) {
            self.tracking.syns.push(SynAnswer { lane: lane as u8, cookie, ours });
            return true;
        }
        let mut options = [0; SYN_OPTIONS];
        let length = ours.write(&mut options);
        let builder = tcp::Builder {
            source_port: view.destination_port(),
            destination_port: view.source_port(),
            sequence: cookie,
            acknowledgement: view.header().sequence.get().wrapping_add(1),
            flags: flag::SYN | flag::ACK,
            window: 0,
            urgent: 0,
            options: &options[..length],
        };
        let Some(made) = Made::back(&packet, &builder) else { return false };
        self.tracking.answers.push(Answer { lane: lane as u8, is_instead: true, made });
        true
    }

    /// A SYN that waited for its zone gets its flow after all; why it is dropped.
    #[cold]
    fn begin_deferred(
        &mut self,
        cx: &mut Context<'_>,
        (vector, lane): (&mut Vector, usize),
        policy: Policy,
    ) -> Option<Drop> {
        let of = (&*self.shared, cx.reader, self.ids[lane]);
        let rule = rule_of::<F>(of, vector, lane)?;
        let fields = vector.known_fields()?;
        let key = F::flow_key(fields, lane, self.vrf_of(vector, lane));
        let (packet, now) = (seen(vector, fields, lane), self.tracking.now);
        let admission = rule.admission(policy, true, vector.rx_if[lane]);
        let side: &mut Side = tracker(cx)?.of(F::IS_IP4);
        match side.create(key, &packet, admission, now) {
            Opened::New => vector.flags[lane] |= tracked(false),
            // Of the same vector: it counts the next packet.
            Opened::Existing(_) | Opened::Untracked | Opened::PortTaken => {}
            Opened::Drop(reason) => return Some(reason),
        }
        None
    }
}

/// The stateful rule that admits a SYN: that of the first place whose lists have one. The packet is as those have seen
/// it, and what they count they have counted. `output`: the id of the lists of the output; 0: they have not seen it.
fn rule_of<F: Family>(
    (shared, reader, output): (&Shared, &Reader, u32),
    vector: &Vector,
    lane: usize,
) -> Option<Tracks> {
    let acls = shared.acls.read(reader);
    let packet = F::fields(vector.bytes(lane));
    let [(input, in_hook), (pairs, pair_hook)] = places::<F>();
    let at = |place, hook, interface| argument(place, hook, shared, interface);
    let list = |id: u32| if [0, TRACK].contains(&id) { None } else { acls.get(id) };
    let zones = [vector.rx_if[lane], vector.tx_if[lane]].map(|it| at(pairs, pair_hook, it));
    let (received, sent) = (vector.rx_if[lane], vector.tx_if[lane]);
    let both = Ends::of(&shared.attributes, (received, sent), false);
    let all = [
        (list(at(input, in_hook, received)), Ends { sent: 0, ..both }),
        (acls.pair_between(zones).map(|pair| pair.of::<F>()), both),
        (list(output), both),
    ];
    all.into_iter().find_map(|(classifier, ends)| {
        let found = keys::first::<F>(&classifier?.reader, &packet, ends);
        classifier?.rules.get(found as usize)?.tracks
    })
}

/// The rule that gives a SYN over IPv4 its flow which has waited for its zone, and is about to be translated: before
/// output lists, which see another source.
#[cold]
pub(crate) fn admission_of_deferred(
    (shared, reader): (&Shared, &Reader),
    (vector, lane): (&Vector, usize),
    policy: Policy,
) -> Option<Admission> {
    let rule = rule_of::<Ip4>((shared, reader, 0), vector, lane)?;
    Some(rule.admission(policy, false, vector.rx_if[lane]))
}
