//! Fragments of IPv6 packets that were IPv4 packets without DF: routers of IPv6 could not cut them.

use stoa_engine::pool::HEADROOM;
use stoa_engine::{Context, Packet, Vector};
use stoa_wire::ipv6_extensions::{FRAGMENT_LENGTH, Fragment};
use stoa_wire::{ipv6, protocol};
use zerocopy::{FromBytes, IntoBytes};

use crate::drops::Drop;
use crate::ip::{REWRITE, send_piece};

/// Data of a fragment.
const SIZE: usize = (ipv6::LEAST_MTU - ipv6::LENGTH - FRAGMENT_LENGTH) & !7;

/// How a packet is cut, which may be a fragment itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pieces {
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
    pub(super) fn of(packet: &[u8], identification: u16) -> Option<Self> {
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

    pub(super) fn count(&self) -> usize {
        self.length.div_ceil(SIZE)
    }

    /// Writes piece number `at` of a packet.
    pub(super) fn write(&self, packet: &[u8], at: usize, piece: &mut Packet) -> bool {
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
pub(super) fn send_all(
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
