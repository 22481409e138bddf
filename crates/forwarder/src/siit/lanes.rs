//! Lanes that are translated without state.

use stoa_engine::quiescence::Reader;
use stoa_engine::vector::flags;
use stoa_engine::{Vector, vector::LaneSet};
use stoa_wire::siit::{GROWTH, Refused};

use super::{Domain, Siit};
use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::nat64::lanes::{Fate, cross, cross_all, for_each};
use crate::shared::Shared;

/// What an interface translates.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) interface: u32,
    pub(super) domain: Option<&'a Domain>,
    pub(super) forwards: bool,
}

impl<'a> Of<'a> {
    /// `forward`: the flag of interfaces that forward the family.
    #[inline(always)]
    pub(super) fn new(shared: &Shared, table: &'a Siit, (interface, forward): (u32, u32)) -> Self {
        let domain = table.of_vrf(shared.attributes.vrf_of(interface));
        let forwards = shared.attributes.flags_of(interface) & forward != 0;
        Self { interface, domain, forwards }
    }
}

/// Counts lanes that have changed their family, by domain: packets to mapped hosts (`is_in`) or from them.
#[inline(always)]
pub(super) fn count_all(
    (shared, reader): (&Shared, &Reader),
    (vector, lanes): (&Vector, &LaneSet),
    (worker, is_in): (usize, bool),
) {
    let table = shared.siit.read(reader);
    let (mut interface, mut domain, mut sum) = (u32::MAX, None::<&Domain>, (0, 0));
    let write = |domain: Option<&Domain>, sum| {
        domain.into_iter().for_each(|it| it.count(worker, is_in, sum));
    };
    let growth = if is_in { -(GROWTH as i64) } else { GROWTH as i64 };
    for_each(lanes, vector.len(), |lane| {
        if vector.rx_if[lane] != interface {
            write(domain, std::mem::take(&mut sum));
            interface = vector.rx_if[lane];
            domain = table.of_vrf(shared.attributes.vrf_of(interface));
        }
        let length = u64::from(vector.length[lane]).saturating_add_signed(growth);
        sum = (sum.0 + 1, sum.1 + length);
    });
    write(domain, sum);
}

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
