//! ICMP errors about packets that were translated without state: they are made in the family of their sender.

use stoa_engine::Vector;
use stoa_engine::pool::JUMBO;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::flags;
use stoa_wire::siit::{to_ip4, to_ip6};

use super::Domain;
use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::nat64::former_cause;
use crate::nat64::lanes::{ends4, ends6, replace};
use crate::shared::Shared;

/// Makes of a lane with the flag [`STATELESS`](flags::STATELESS) the packet that was received; whether that is of the
/// other family, whose error node is to answer.
///
/// # Errors
/// Why nobody is answered.
#[cold]
#[inline(never)]
pub fn turn_back(
    (shared, reader): (&Shared, &Reader),
    (vector, lane): (&mut Vector, usize),
) -> Result<bool, Drop> {
    let cause = IcmpCause::of(vector.arg[lane]);
    let is_ip4 = vector.bytes(lane).first().is_some_and(|it| it >> 4 == 4);
    let reason = cause.drop(is_ip4);
    let has_crossed = vector.flags[lane] & flags::CROSSED != 0;
    let domain = shared.siit.read(reader).of_vrf(shared.attributes.vrf_of(vector.rx_if[lane]));
    let domain = domain.ok_or(reason)?;
    let turned = match is_ip4 {
        true => back_to_ip6(domain, vector, lane),
        // Between two mapped hosts it was an IPv4 packet in between.
        false if has_crossed => back_to_ip4(domain, vector, lane),
        false => back_to_ip4(domain, vector, lane).and_then(|()| back_to_ip6(domain, vector, lane)),
    };
    turned.ok_or(reason)?;
    vector.flags[lane] &= flags::TRACED | flags::COPY;
    if has_crossed {
        vector.arg[lane] = former_cause(cause, (is_ip4, is_ip4)).ok_or(reason)?.code();
    }
    Ok(has_crossed)
}

/// The packet of a mapped host.
fn back_to_ip6(domain: &Domain, vector: &mut Vector, lane: usize) -> Option<()> {
    let mut scratch = [0; JUMBO];
    let bytes = vector.bytes(lane);
    let ends = domain.sent6(ends4(bytes)?)?;
    let length = to_ip6(bytes, ends, |it| domain.received6(it), &mut scratch).ok()?;
    replace(vector, lane, scratch.get(..length)?).ok()
}

/// The packet to a mapped host.
fn back_to_ip4(domain: &Domain, vector: &mut Vector, lane: usize) -> Option<()> {
    let mut scratch = [0; JUMBO];
    let bytes = vector.bytes(lane);
    let ends = domain.received4(ends6(bytes)?)?;
    let length = to_ip4(bytes, (ends, 0), |it| domain.sent4(it), &mut scratch).ok()?;
    replace(vector, lane, scratch.get(..length)?).ok()
}
