//! `ip6-fragment`: fragments packets that are larger than the MTU and are locally generated, or were IPv4 packets
//! without DF (RFC 8200 section 4.5). Transit packets are not fragmented: their senders get Packet Too Big (RFC 8201).

use std::sync::Arc;

use stoa_engine::pool::HEADROOM;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Packet, Vector};
use stoa_wire::ipv6_extensions::{FRAGMENT_LENGTH, Fragment};
use stoa_wire::{ipv6, protocol};
use zerocopy::{FromBytes, IntoBytes};

use super::ip4_fragment::{next_edge, send};
use crate::drops::Drop;
use crate::shared::Shared;

/// The next nodes of the fragments; they already have an adjacency.
pub const EDGES: &[&str] = &["ip6-rewrite", "ip6-output-rewrite"];

/// Payload of a fragment: without path MTU discovery, fragments fit the minimum MTU (RFC 8200 5).
const SIZE: usize = (ipv6::LEAST_MTU - ipv6::LENGTH - FRAGMENT_LENGTH) & !7;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip6Fragment { shared: shared.clone() })
}

struct Ip6Fragment {
    shared: Arc<Shared>,
}

impl Node for Ip6Fragment {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            let line = self.shared.adjacencies.get(vector.adjacency[lane]);
            let edge = next_edge(line.map(|line| line.head()));
            cut(cx, (vector, lane, edge), || self.shared.identifications.ip6());
        }
        Next::Lanes
    }
}

/// Emits all fragments of a packet in order, which have the columns of its lane, and frees it. The fragmentable part
/// starts behind the IPv6 header: the only extension header is that of a fragment, which keeps its identification.
pub(crate) fn cut(
    cx: &mut Context<'_>,
    (vector, lane, edge): (&mut Vector, usize, u16),
    identification: impl FnOnce() -> u32,
) {
    let Some(pieces) = Pieces::of(vector.bytes(lane), identification) else {
        return vector.drop_lane(lane, Drop::Ip6Truncated.reason());
    };
    let count = pieces.count();
    if count > cx.emit_room() {
        return vector.drop_lane(lane, Drop::FragmentNoBuffer.reason());
    }
    vector.flags[lane] &= !flags::CUT;
    for at in 0..count {
        let is_sent = cx.packet().is_some_and(|mut piece| {
            pieces.write(vector.bytes(lane), at, &mut piece)
                && send(cx, vector, (lane, edge), (piece, at + 1 == count))
        });
        if !is_sent {
            return vector.drop_lane(lane, Drop::FragmentNoBuffer.reason());
        }
    }
    drop(vector.take(lane));
}

/// How a packet is cut, which may be a fragment itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pieces {
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
    /// Of a packet without extension headers but that of a fragment. One that is no fragment gets an identification.
    fn of(bytes: &[u8], identification: impl FnOnce() -> u32) -> Option<Self> {
        let payload = ipv6::check(bytes).ok()?.payload();
        let next_header = *bytes.get(6)?;
        if next_header != protocol::FRAGMENT {
            return Some(Self {
                data: ipv6::LENGTH,
                next_header,
                offset: 0,
                has_more: false,
                identification: identification(),
                length: Some(payload.len()).filter(|it| *it > 0)?,
            });
        }
        let (header, data) = Fragment::read_from_prefix(payload).ok()?;
        Some(Self {
            data: ipv6::LENGTH + FRAGMENT_LENGTH,
            next_header: *payload.first()?,
            offset: header.offset(),
            has_more: header.more(),
            identification: header.identification.get(),
            length: Some(data.len()).filter(|it| *it > 0)?,
        })
    }

    fn count(&self) -> usize {
        self.length.div_ceil(SIZE)
    }

    /// Writes piece number `at` of a packet.
    fn write(&self, packet: &[u8], at: usize, piece: &mut Packet) -> bool {
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
