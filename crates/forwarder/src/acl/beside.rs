//! Packets that do not pass the arc of their interface: to groups, to all hosts, to and from link-local addresses.
//! They are decided one by one, and belong to no flow: a stateful rule accepts them as any other one does.

use std::sync::LazyLock;

use stoa_engine::arc::ArcHook;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::DROP;
use stoa_engine::{Vector, clock};

use super::TRACK;
use super::essential::is_essential;
use super::interfaces::Ends;
use super::keys::{self, Family, Ip4, Ip6};
use super::node::{CUT, argument_of, hop_limit};
use super::place::{INPUT4, INPUT6, Place};
use super::refusal::{Refusal, refusal_of};
use crate::arcs;
use crate::shared::Shared;

/// Where the arguments of the input features are.
static HOOK4: LazyLock<ArcHook> = LazyLock::new(|| arcs::hook(INPUT4.arc, INPUT4.node));
static HOOK6: LazyLock<ArcHook> = LazyLock::new(|| arcs::hook(INPUT6.arc, INPUT6.node));

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
        Some(classifier) => {
            let packet = F::fields(vector.bytes(lane));
            let received = shared.attributes.acl_of(vector.rx_if[lane]);
            let ends = Ends { received, sent: 0 };
            let found = match packet.kind.malformed() {
                None => keys::first::<F>(&classifier.reader, &packet, ends),
                Some(_) => CUT,
            };
            if let Some(hits) = classifier.hits(found) {
                hits.add(worker, 1, vector.length[lane].into(), clock::tsc());
            }
            let hop_limit = hop_limit::<F>(vector, lane);
            refusal_of(classifier, found, Some(clock::tsc()), || {
                is_essential::<F>(&packet, hop_limit)
            })
        }
        None => Some(Refusal::Silent),
    };
    refusal.map_or(next, |refusal| refusal.next((vector, lane), place.cause, F::IS_IP4, error))
}
