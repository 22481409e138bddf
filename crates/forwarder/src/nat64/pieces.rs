//! Fragments of IPv6 packets that were IPv4 packets without DF: routers of IPv6 could not cut them.

use stoa_engine::pool::HEADROOM;
use stoa_engine::{Context, Packet, Vector};
use stoa_wire::ipv6_extensions::{FRAGMENT_LENGTH, Fragment};
use stoa_wire::{ipv6, protocol};
use zerocopy::{FromBytes, IntoBytes};

use super::lanes::{Fate, replace};
use super::{TO_LOOKUP, forwarded};
use crate::drops::Drop;
use crate::ip::{ERROR, REWRITE, route6, send_piece};
use crate::shared::Shared;

/// The DF bit in the seventh byte of an IPv4 header.
const WHOLE: u8 = 0x40;

/// Data of a fragment.
const SIZE: usize = (ipv6::LEAST_MTU - ipv6::LENGTH - FRAGMENT_LENGTH) & !7;

/// How a packet is cut, which may be a fragment itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// Where its data begins.
    data: usize,
    next_header: u8,
    /// The offset of its data in the whole packet, and whether more follows.
    offset: usize,
    has_more: bool,
    identification: u32,
    /// Bytes of its data.
    length: usize,
}

impl Pieces {
    /// Of a packet that translation has made: its extension headers are at most that of a fragment. One that is no
    /// fragment gets the identification of its IPv4 packet (RFC 7915 section 4.1).
    pub(crate) fn of(packet: &[u8], identification: u16) -> Option<Self> {
        let next_header = *packet.get(6)?;
        if next_header != protocol::FRAGMENT {
            let length = packet.len().checked_sub(ipv6::LENGTH)?;
            return Some(Self {
                data: ipv6::LENGTH,
                next_header,
                offset: 0,
                has_more: false,
                identification: identification.into(),
                length,
            });
        }
        let data = ipv6::LENGTH + FRAGMENT_LENGTH;
        let header = Fragment::read_from_bytes(packet.get(ipv6::LENGTH..data)?).ok()?;
        Some(Self {
            data,
            next_header: *packet.get(ipv6::LENGTH)?,
            offset: header.offset(),
            has_more: header.more(),
            identification: header.identification.get(),
            length: packet.len() - data,
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.length.div_ceil(SIZE)
    }

    /// Writes piece number `at` of a packet.
    pub(crate) fn write(&self, packet: &[u8], at: usize, piece: &mut Packet) -> bool {
        let (from, to) = (at * SIZE, self.length.min((at + 1) * SIZE));
        let has_more = self.has_more || to < self.length;
        let place = self.offset + from;
        let fragment = Fragment::new(self.next_header, place, has_more, self.identification);
        let data = packet.get(self.data + from..self.data + to);
        let (Some(fragment), Some(data), Some(header)) =
            (fragment, data, packet.get(..ipv6::LENGTH))
        else {
            return false;
        };
        let begin = ipv6::LENGTH + FRAGMENT_LENGTH;
        if !piece.set_span(HEADROOM, begin + data.len()) {
            return false;
        }
        let bytes = piece.bytes_mut();
        bytes[..ipv6::LENGTH].copy_from_slice(header);
        let payload = (FRAGMENT_LENGTH + data.len()) as u16;
        bytes[4..6].copy_from_slice(&payload.to_be_bytes());
        bytes[6] = protocol::FRAGMENT;
        bytes[ipv6::LENGTH..begin].copy_from_slice(fragment.as_bytes());
        bytes[begin..].copy_from_slice(data);
        true
    }
}

/// Emits all pieces of a packet, which have the columns of its lane, and frees the lane.
pub(crate) fn send_all(
    cx: &mut Context<'_>,
    (vector, lane): (&mut Vector, usize),
    packet: &[u8],
    pieces: &Pieces,
) {
    let count = pieces.count();
    if count > cx.emit_room() {
        return vector.drop_lane(lane, Drop::FragmentNoBuffer.reason());
    }
    for at in 0..count {
        let is_sent = cx.packet().is_some_and(|mut piece| {
            pieces.write(packet, at, &mut piece)
                && send_piece(cx, vector, (lane, REWRITE), (piece, at + 1 == count))
        });
        if !is_sent {
            return vector.drop_lane(lane, Drop::FragmentNoBuffer.reason());
        }
    }
    drop(vector.take(lane));
}

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
pub(crate) fn go_on(
    cx: &mut Context<'_>,
    (shared, vrf): (&Shared, u32),
    (vector, lane): (&mut Vector, usize),
    (packet, former): (&[u8], Former),
    mark: impl FnOnce(&mut Vector),
) -> Result<Option<u16>, Fate> {
    if former.is_whole || packet.len() <= ipv6::LEAST_MTU {
        replace(vector, lane, packet)?;
        mark(vector);
        return Ok(Some(TO_LOOKUP));
    }
    // It is replaced by its head, by which it is routed.
    replace(vector, lane, packet.get(..ipv6::LEAST_MTU).unwrap_or(packet))?;
    mark(vector);
    let destination = packet.get(24..).and_then(|it| it.first_chunk::<16>().copied());
    let destination = destination.map_or(0, u128::from_be_bytes);
    let value = shared.ip6_table(vrf, cx.reader).map_or(0, |it| it.lookup(destination));
    match route6(shared, vector, lane, value) {
        REWRITE => {
            let pieces = Pieces::of(packet, former.identification);
            let pieces = pieces.ok_or(Fate::Drop(Drop::Nat64Malformed))?;
            send_all(cx, (vector, lane), packet, &pieces);
            Ok(None)
        }
        ERROR => Err(Fate::Drop(Drop::Ip6NoRoute)),
        next => Ok(Some(forwarded(vector, lane, next))),
    }
}
