//! ICMP errors about packets that have changed their family: they are made in that of their sender.

use stoa_engine::Vector;
use stoa_engine::pool::JUMBO;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::flags;
use stoa_wire::ipv6;
use stoa_wire::siit::GROWTH;

use super::hosts::is_stand_in;
use super::lanes::{Counterparts, Fate, ends4, ends6, replace, to_ip4, to_ip6};
use crate::acl::flow_vrf;
use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::nat;
use crate::shared::Shared;

/// Makes of a lane that has [crossed](flags::CROSSED) the packet that was received; whether that is of the other
/// family, whose error node is to answer. `now`: the time stamp counter.
///
/// # Errors
/// Why nobody is answered.
#[cold]
#[inline(never)]
pub fn turn_back(
    (shared, reader): (&Shared, &Reader),
    (vector, lane): (&mut Vector, usize),
    now: u64,
) -> Result<bool, Drop> {
    let cause = IcmpCause::of(vector.arg[lane]);
    let is_ip4 = vector.bytes(lane).first().is_some_and(|it| it >> 4 == 4);
    let reason = cause.drop(is_ip4);
    let id = shared.attributes.vrf_of(vector.rx_if[lane]);
    let prefix = shared.nat64.read(reader).prefix(id).ok_or(reason)?;
    let tick = shared.flows.now(now).tick;
    let of = Counterparts { hosts: shared.flows.nat64_hosts(), prefix, vrf: flow_vrf(id), tick };
    if !is_ip4 {
        back_to_ip4(&of, vector, lane).map_err(|_| reason)?;
    }
    if !nat::restore(shared, vector, lane) {
        return Err(reason);
    }
    // Of two hosts inside that reach each other by external addresses, the sender has IPv6, too.
    let source = ends4(vector.bytes(lane)).map(|it| it.0.to_bits());
    if source.is_some_and(is_stand_in) {
        back_to_ip6(&of, vector, lane).map_err(|_| reason)?;
    }
    let is_ip6_now = vector.bytes(lane).first().is_some_and(|it| it >> 4 == 6);
    vector.flags[lane] &= flags::TRACED | flags::COPY;
    let cause = former_cause(cause, (is_ip4, is_ip6_now)).ok_or(reason)?;
    vector.arg[lane] = cause.code();
    Ok(is_ip4 == is_ip6_now)
}

/// The cause of an error about a packet that was IPv4 (`is_ip4`) when it failed, and is turned back to the family of
/// its sender. `None`: nobody is answered.
pub fn former_cause(cause: IcmpCause, (is_ip4, is_ip6_now): (bool, bool)) -> Option<IcmpCause> {
    let growth = GROWTH as u16;
    Some(match (cause, is_ip4, is_ip6_now) {
        (IcmpCause::TooBig(mtu), true, true) => {
            IcmpCause::TooBig(mtu.saturating_add(growth).max(ipv6::LEAST_MTU as u16))
        }
        (IcmpCause::TooBig(mtu), false, false) => IcmpCause::TooBig(mtu.saturating_sub(growth)),
        // An offset in the header of the other family.
        (IcmpCause::Header(_) | IcmpCause::NextHeader(_) | IcmpCause::Option(_), ..) => {
            return None;
        }
        (cause, ..) => cause,
    })
}

fn back_to_ip6(of: &Counterparts<'_>, vector: &mut Vector, lane: usize) -> Result<(), Fate> {
    let mut scratch = [0; JUMBO];
    let ends = ends4(vector.bytes(lane)).and_then(|it| of.ends6(it));
    let ends = ends.ok_or(Fate::Drop(Drop::Nat64Address))?;
    let length = to_ip6(vector.bytes(lane), (of, ends), &mut scratch)?;
    Ok(replace(vector, lane, scratch.get(..length).unwrap_or(&[]))?)
}

/// The packet to a stand-in, as NAT44 has left it.
fn back_to_ip4(of: &Counterparts<'_>, vector: &mut Vector, lane: usize) -> Result<(), Fate> {
    let mut scratch = [0; JUMBO];
    let ends = ends6(vector.bytes(lane)).and_then(|it| of.ends4(it));
    let ends = ends.ok_or(Fate::Drop(Drop::Nat64Address))?;
    to_ip4((&mut *vector, lane), (of, ends, 0), &mut scratch)?;
    vector.flags[lane] |= flags::TRANSLATED;
    Ok(())
}
