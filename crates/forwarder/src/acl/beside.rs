//! Packets that do not pass the arc of their interface: to groups, to all hosts, to and from link-local addresses.
//! They are decided one by one, and belong to no flow: a stateful rule accepts them as any other one does.
//!
//! Those that Linux gets do not pass the arc of local packets either: the pair of their zone and the router decides
//! about them here ([`pair_to_host4`], [`pair_to_host6`]), behind the lists of the interface.

use std::sync::LazyLock;

use stoa_engine::arc::ArcHook;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::DROP;
use stoa_engine::{Vector, clock};
use stoa_tables::classifier::NO_RULE;

use super::essential::is_essential;
use super::interfaces::Ends;
use super::keys::{self, Family, Ip4, Ip6};
use super::node::{CUT, argument_of, hop_limit};
use super::place::{INPUT4, INPUT6, LOCAL4, LOCAL6, Place};
use super::refusal::{Refusal, refusal_of};
use super::zones::ROUTER;
use super::{Classifier, TRACK};
use crate::arcs;
use crate::shared::Shared;

/// Where the arguments of the input features are.
static HOOK4: LazyLock<ArcHook> = LazyLock::new(|| arcs::hook(INPUT4.arc, INPUT4.node));
static HOOK6: LazyLock<ArcHook> = LazyLock::new(|| arcs::hook(INPUT6.arc, INPUT6.node));

/// Where the numbers of zones with a pair to the router are.
static TO_ROUTER4: LazyLock<ArcHook> = LazyLock::new(|| arcs::hook(LOCAL4.arc, LOCAL4.node));
static TO_ROUTER6: LazyLock<ArcHook> = LazyLock::new(|| arcs::hook(LOCAL6.arc, LOCAL6.node));

/// Decides about an IPv4 packet that does not pass the arc of its interface, to a group or to all hosts: `next` if it
/// passes. An answer goes along the edge `error`.
#[cold]
#[inline(never)]
pub fn beside_arc4(
    (shared, reader, worker): (&Shared, &Reader, usize),
    (vector, lane): (&mut Vector, usize),
    (next, error): (u16, u16),
) -> u16 {
    beside_arc::<Ip4>((shared, reader, worker), INPUT4, (vector, lane), (next, error))
}

/// The same for IPv6, where packets to and from link-local addresses do not pass the arc either.
#[cold]
#[inline(never)]
pub fn beside_arc6(
    (shared, reader, worker): (&Shared, &Reader, usize),
    (vector, lane): (&mut Vector, usize),
    (next, error): (u16, u16),
) -> u16 {
    beside_arc::<Ip6>((shared, reader, worker), INPUT6, (vector, lane), (next, error))
}

fn beside_arc<F: Family>(
    (shared, reader, worker): (&Shared, &Reader, usize),
    place: Place,
    (vector, lane): (&mut Vector, usize),
    (next, error): (u16, u16),
) -> u16 {
    if next & DROP != 0 {
        return next;
    }
    let hook = if F::IS_IP4 { *HOOK4 } else { *HOOK6 };
    let arc = (place.of)(&shared.arcs);
    let known = || {
        let id = argument_of(hook, arc, vector.rx_if[lane]);
        (id != 0 && id != TRACK).then(|| shared.acls.read(reader).get(id))
    };
    // Again if a change has just withdrawn it.
    let Some(classifier) = known().and_then(|it| it.map_or_else(known, |it| Some(Some(it)))) else {
        return next;
    };
    let refusal = match classifier {
        Some(classifier) => judge::<F>(classifier, (shared, worker), (&*vector, lane)).1,
        None => Some(Refusal::Silent),
    };
    refusal.map_or(next, |refusal| refusal.next((vector, lane), place.cause, F::IS_IP4, error))
}

/// Decides about an IPv4 packet for Linux that does not pass the arc of local packets, to a group or to all hosts:
/// `next` if the pair of the zone of its interface and the router lets it pass. An answer goes along the edge `error`.
#[cold]
#[inline(never)]
pub fn pair_to_host4(
    (shared, reader, worker): (&Shared, &Reader, usize),
    (vector, lane): (&mut Vector, usize),
    (next, error): (u16, u16),
) -> u16 {
    pair_to_host::<Ip4>((shared, reader, worker), LOCAL4, (vector, lane), (next, error))
}

/// The same for IPv6.
#[cold]
#[inline(never)]
pub fn pair_to_host6(
    (shared, reader, worker): (&Shared, &Reader, usize),
    (vector, lane): (&mut Vector, usize),
    (next, error): (u16, u16),
) -> u16 {
    pair_to_host::<Ip6>((shared, reader, worker), LOCAL6, (vector, lane), (next, error))
}

fn pair_to_host<F: Family>(
    (shared, reader, worker): (&Shared, &Reader, usize),
    place: Place,
    (vector, lane): (&mut Vector, usize),
    (next, error): (u16, u16),
) -> u16 {
    let hook = if F::IS_IP4 { *TO_ROUTER4 } else { *TO_ROUTER6 };
    let arc = (place.of)(&shared.arcs);
    let known = || {
        let from = argument_of(hook, arc, vector.rx_if[lane]);
        // After the number: a change makes new ones known before interfaces have them.
        let acls = shared.acls.read(reader);
        let zones = acls.zones.as_ref().filter(|_| from != 0)?;
        let id = zones.cell(from, ROUTER.into());
        (id != 0).then(|| zones.pair(id))
    };
    // Again if a change has just withdrawn it.
    let Some(pair) = known().and_then(|it| it.map_or_else(known, |it| Some(Some(it)))) else {
        return next;
    };
    let refusal = match pair {
        Some(pair) => {
            let (found, refusal) = judge::<F>(pair.of::<F>(), (shared, worker), (&*vector, lane));
            if found == NO_RULE && refusal.is_some() {
                pair.unmatched.add(worker, 1, vector.length[lane].into(), clock::tsc());
            }
            refusal
        }
        None => Some(Refusal::Silent),
    };
    refusal.map_or(next, |refusal| refusal.next((vector, lane), place.cause, F::IS_IP4, error))
}

/// The id of the rule that a packet matches, which counts it, and why it is refused.
fn judge<F: Family>(
    classifier: &Classifier,
    (shared, worker): (&Shared, usize),
    (vector, lane): (&Vector, usize),
) -> (u32, Option<Refusal>) {
    let packet = F::fields(vector.bytes(lane));
    let received = shared.attributes.acl_of(vector.rx_if[lane]);
    let ends = Ends { received, sent: 0 };
    let found = match packet.kind.malformed() {
        None => keys::first::<F>(&classifier.reader, &packet, ends),
        Some(_) => CUT,
    };
    let now = clock::tsc();
    if let Some(hits) = classifier.hits(found) {
        hits.add(worker, 1, vector.length[lane].into(), now);
    }
    let may_pass = || is_essential::<F>(&packet, hop_limit::<F>(vector, lane));
    (found, refusal_of(classifier, found, Some(now), may_pass))
}
