//! Lanes that change their family.

use std::net::{Ipv4Addr, Ipv6Addr};

use stoa_engine::Vector;
use stoa_engine::pool::{HEADROOM, JUMBO};
use stoa_engine::vector::{LaneSet, flags};
use stoa_wire::siit::{self, Ends4, Ends6, Prefix, Refused};
use stoa_wire::{ipv4, ipv6};

use super::hosts::{Hosts, is_stand_in};
use crate::drops::Drop;
use crate::icmp::IcmpCause;

/// A place for the packet that a lane becomes.
pub(crate) type Scratch = [u8; JUMBO];

pub(crate) fn scratch() -> Box<Scratch> {
    Box::new([0; JUMBO])
}

/// What becomes of a lane that is not translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Drop(Drop),
    /// Its sender gets an ICMP error.
    Answer(IcmpCause),
}

impl From<Refused> for Fate {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::SourceRoute(at) => Self::Answer(IcmpCause::Header(at as u16)),
            Refused::Icmp | Refused::IcmpFragment | Refused::Quoted => Self::Drop(Drop::Nat64Icmp),
            Refused::QuotedTruncated => Self::Drop(Drop::Nat64QuotedTruncated),
            Refused::QuotedMalformed => Self::Drop(Drop::Nat64QuotedMalformed),
            Refused::Malformed | Refused::TooLong => Self::Drop(Drop::Nat64Malformed),
            Refused::Extension => Self::Drop(Drop::Nat64Extension),
            Refused::NoChecksum => Self::Drop(Drop::Nat64NoChecksum),
        }
    }
}

/// Both addresses of an IPv6 packet.
#[inline(always)]
pub(crate) fn ends6(bytes: &[u8]) -> Option<Ends6> {
    let header = bytes.first_chunk::<{ ipv6::LENGTH }>()?;
    let of = |at: usize| header.get(at..)?.first_chunk::<16>().copied();
    Some((of(8)?.into(), of(24)?.into()))
}

/// Both addresses of an IPv4 packet.
#[inline(always)]
pub(crate) fn ends4(bytes: &[u8]) -> Option<Ends4> {
    let [.., a, b, c, d, e, f, g, h] = *bytes.first_chunk::<{ ipv4::LENGTH }>()?;
    Some(([a, b, c, d].into(), [e, f, g, h].into()))
}

/// Which addresses stand for each other in a VRF.
#[derive(Clone, Copy)]
pub(crate) struct Counterparts<'a> {
    pub(crate) hosts: &'a Hosts,
    pub(crate) prefix: Prefix,
    /// As in keys of flows.
    pub(crate) vrf: u16,
    pub(crate) tick: u32,
}

impl Counterparts<'_> {
    /// The IPv4 address of a server, or the stand-in of a host that has one.
    pub(crate) fn ip4(&self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        let stand_in = || self.hosts.find((address.to_bits(), self.vrf), self.tick);
        self.prefix.extract(address).or_else(|| stand_in().map(Ipv4Addr::from_bits))
    }

    /// The IPv6 address of a stand-in or of a server.
    pub(crate) fn ip6(&self, address: Ipv4Addr) -> Option<Ipv6Addr> {
        if !is_stand_in(address.to_bits()) {
            return Some(self.prefix.embed(address));
        }
        let (host, vrf) = self.hosts.host(address.to_bits(), self.tick)?;
        (vrf == self.vrf).then_some(Ipv6Addr::from_bits(host))
    }

    /// Both addresses of an IPv6 packet as IPv4 ones.
    pub(crate) fn ends4(&self, (source, destination): Ends6) -> Option<Ends4> {
        Some((self.ip4(source)?, self.ip4(destination)?))
    }

    /// Both addresses of an IPv4 packet as IPv6 ones.
    pub(crate) fn ends6(&self, (source, destination): Ends4) -> Option<Ends6> {
        Some((self.ip6(source)?, self.ip6(destination)?))
    }
}

/// Makes an IPv4 packet between `ends` of an IPv6 lane.
pub(crate) fn to_ip4(
    (vector, lane): (&mut Vector, usize),
    (of, ends, identification): (&Counterparts<'_>, Ends4, u16),
    scratch: &mut Scratch,
) -> Result<(), Fate> {
    let quoted = |ends| of.ends4(ends);
    let bytes = vector.bytes(lane);
    let length = siit::to_ip4(bytes, (ends, identification), quoted, scratch)?;
    Ok(replace(vector, lane, scratch.get(..length).unwrap_or(&[]))?)
}

/// Makes an IPv6 packet between `ends` of an IPv4 lane in the scratch; returns its length.
pub(crate) fn to_ip6(
    bytes: &[u8],
    (of, ends): (&Counterparts<'_>, Ends6),
    scratch: &mut Scratch,
) -> Result<usize, Fate> {
    let quoted = |ends| of.ends6(ends);
    Ok(siit::to_ip6(bytes, ends, quoted, scratch)?)
}

/// Gives a lane other data, of another family: it is a packet that no node before has seen.
///
/// # Errors
/// [`Refused::TooLong`]: it does not fit into the buffer.
pub(crate) fn replace(vector: &mut Vector, lane: usize, data: &[u8]) -> Result<(), Refused> {
    let buffer = vector.buffer_mut(lane);
    let place = buffer.get_mut(HEADROOM..).and_then(|it| it.get_mut(..data.len()));
    place.ok_or(Refused::TooLong)?.copy_from_slice(data);
    (vector.offset[lane], vector.length[lane]) = (HEADROOM as u16, data.len() as u16);
    vector.forget_flow();
    Ok(())
}

/// What a packet of the other family keeps of its flags.
const KEPT: u16 = flags::TRACED | flags::COPY;

/// Calls `each` for some lanes of a vector of so many: mostly these are all.
#[inline(always)]
pub(crate) fn for_each(some: &LaneSet, lanes: usize, mut each: impl FnMut(usize)) {
    if some.count() == lanes {
        (0..lanes).for_each(each);
    } else {
        some.iter().for_each(&mut each);
    }
}

/// Sends some lanes that have crossed to a next node. `also`: which others of their flags they keep.
pub(crate) fn cross_all(vector: &mut Vector, some: &LaneSet, (also, next): (u16, u16)) {
    let lanes = vector.len();
    if some.count() < lanes {
        return some.iter().for_each(|lane| {
            cross(vector, lane, also);
            vector.next[lane] = next;
        });
    }
    let flags = vector.flags[..lanes].iter_mut();
    flags.for_each(|flags| *flags = *flags & (KEPT | also) | flags::CROSSED);
    vector.next[..lanes].fill(next);
}

/// Flags of a lane that has crossed. `also`: which others it keeps.
#[inline(always)]
pub(crate) fn cross(vector: &mut Vector, lane: usize, also: u16) {
    vector.flags[lane] = vector.flags[lane] & (KEPT | also) | flags::CROSSED;
}
