//! Lanes that are translated without state.

use stoa_engine::vector::flags;
use stoa_engine::{Vector, vector::LaneSet};
use stoa_wire::siit::Refused;
use stoa_wire::{icmp6, ipv6, protocol};

use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::nat64::lanes::{Fate, cross, cross_all};

/// What becomes of a packet without a translation.
pub(super) fn fate(refused: Refused) -> Fate {
    match refused {
        Refused::SourceRoute(at) => Fate::Answer(IcmpCause::Header(at as u16)),
        Refused::Icmp | Refused::IcmpFragment => Fate::Drop(Drop::SiitIcmp),
        Refused::Quoted | Refused::QuotedTruncated | Refused::QuotedMalformed => {
            Fate::Drop(Drop::SiitQuoted)
        }
        Refused::Malformed | Refused::TooLong => Fate::Drop(Drop::SiitMalformed),
        Refused::Extension => Fate::Drop(Drop::SiitExtension),
        Refused::NoChecksum => Fate::Drop(Drop::SiitNoChecksum),
    }
}

/// Flags of a lane of the other family. One that was an IPv6 packet has the addresses that it leaves with.
pub(super) fn mark(vector: &mut Vector, lane: usize) {
    cross(vector, lane, flags::ADMITTED);
    vector.flags[lane] |= flags::STATELESS | flags::TRANSLATED;
}

/// The same for some lanes, which go to a next node.
pub(super) fn mark_all(vector: &mut Vector, some: &LaneSet, next: u16) {
    cross_all(vector, some, (flags::ADMITTED, next));
    for lane in some.iter() {
        vector.flags[lane] |= flags::STATELESS | flags::TRANSLATED;
    }
}

/// Types of ICMPv6 below this one are errors (RFC 4443 section 2.1).
const FIRST_QUERY: u8 = 128;

/// Whether a packet is an ICMPv6 error.
#[cold]
#[inline(never)]
pub(super) fn is_error6(bytes: &[u8]) -> bool {
    let Ok(view) = ipv6::check(bytes) else { return false };
    view.upper().is_ok_and(|it| {
        it.protocol == protocol::ICMP6
            && it.fragment.is_none()
            && it.payload.len() >= icmp6::LENGTH
            && it.payload.first().is_some_and(|kind| *kind < FIRST_QUERY)
    })
}
