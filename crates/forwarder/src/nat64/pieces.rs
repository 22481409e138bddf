//! IPv6 packets that were IPv4 packets without DF: routers of IPv6 could not cut them.

use stoa_engine::vector::flags;
use stoa_engine::{Context, Vector};
use stoa_wire::ipv6;
use stoa_wire::siit::Refused;

use super::lanes::replace;
use super::{TO_LOOKUP, forwarded};
use crate::ip::{REWRITE, cut6, route6};
use crate::shared::Shared;

/// The DF bit in the seventh byte of an IPv4 header.
const WHOLE: u8 = 0x40;

/// Whether an IPv4 packet has the DF bit.
#[inline(always)]
pub(crate) fn is_whole(bytes: &[u8]) -> bool {
    bytes.get(6).is_some_and(|it| it & WHOLE != 0)
}

/// What the fragments of a packet take from the IPv4 packet that it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Former {
    is_whole: bool,
    identification: u16,
}

impl Former {
    /// Of an IPv4 packet.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let identification = bytes.get(4..).and_then(|it| it.first_chunk::<2>().copied());
        let identification = u16::from_be_bytes(identification.unwrap_or_default());
        Self { is_whole: is_whole(bytes), identification }
    }
}

/// The next node of a lane in a VRF that becomes an IPv6 packet; `None`: it has left in pieces, or was dropped. Edges
/// are those of [`EDGES4`](super::EDGES4). `mark`: sets the flags of the lane.
///
/// # Errors
/// The packet is too long for its buffer.
pub(crate) fn go_on(
    cx: &mut Context<'_>,
    (shared, vrf): (&Shared, u32),
    (vector, lane): (&mut Vector, usize),
    (packet, former): (&[u8], Former),
    mark: impl FnOnce(&mut Vector),
) -> Result<Option<u16>, Refused> {
    replace(vector, lane, packet)?;
    mark(vector);
    if former.is_whole || packet.len() <= ipv6::LEAST_MTU {
        return Ok(Some(TO_LOOKUP));
    }
    let destination = packet.get(24..).and_then(|it| it.first_chunk::<16>().copied());
    let destination = destination.map_or(0, u128::from_be_bytes);
    let value = shared.ip6_table(vrf, cx.reader).map_or(0, |it| it.lookup(destination));
    match route6(shared, vector, lane, value) {
        REWRITE if is_cut_later(shared, vector.adjacency[lane]) => {
            vector.flags[lane] |= flags::CUT;
            Ok(Some(REWRITE))
        }
        REWRITE => {
            cut6(cx, (vector, lane, REWRITE), || former.identification.into());
            Ok(None)
        }
        next => Ok(Some(forwarded(vector, lane, next))),
    }
}

/// Whether packets over an adjacency are cut behind the output features, which decide about whole packets. By a route
/// into a VRF without a policy they are not.
fn is_cut_later(shared: &Shared, adjacency: u32) -> bool {
    let line = shared.adjacencies.get(adjacency);
    line.is_some_and(|it| shared.arcs.cuts_translated(it.head().interface()))
}
