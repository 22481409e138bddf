//! `ip4-fragment`: fragments packets that are larger than the MTU, without don't-fragment (RFC 791
//! 2.3, RFC 1812 4.2.2.7 and 5.2.6). `ip4-rewrite` sends them here and receives the fragments;
//! `ip4-output-rewrite` does the same for packets that have met output features.

use std::sync::Arc;

use stoa_engine::pool::{FRAME_MAX, HEADROOM};
use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, Packet, Vector};
use stoa_tables::adjacency::AdjacencyHead;
use stoa_wire::{checksum, ipv4, ipv4_options};

use crate::drops::Drop;
use crate::shared::Shared;

/// The next nodes of the fragments; they already have an adjacency.
pub const EDGES: &[&str] = &["ip4-rewrite", "ip4-output-rewrite"];
const REWRITE: u16 = 0;
const OUTPUT_REWRITE: u16 = 1;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip4Fragment { shared: shared.clone() })
}

struct Ip4Fragment {
    shared: Arc<Shared>,
}

impl Node for Ip4Fragment {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            let line = self.shared.adjacencies.get(vector.adjacency[lane]);
            let head = line.map(|line| line.head());
            let mtu = head.map_or(0, |head| usize::from(head.mtu()));
            let plan = match FragmentPlan::new(vector.bytes(lane), mtu) {
                Ok(plan) if plan.pieces() > cx.emit_room() => Err(Drop::FragmentNoBuffer),
                plan => plan,
            };
            match plan {
                Ok(plan) => self.fragment(cx, vector, (lane, next_edge(head)), &plan),
                Err(reason) => vector.drop_lane(lane, reason.reason()),
            }
        }
        Next::Lanes
    }
}

impl Ip4Fragment {
    /// Emits all fragments in order and frees the packet.
    fn fragment(
        &self,
        cx: &mut Context<'_>,
        vector: &mut Vector,
        (lane, edge): (usize, u16),
        plan: &FragmentPlan,
    ) {
        if vector.flags[lane] & flags::OWN != 0 {
            // Only fragmented packets need an identification (RFC 6864 4.1).
            if let Some(header) = vector.bytes_mut(lane).first_chunk_mut::<{ ipv4::LENGTH }>() {
                let &mut [.., a, b, c, d, e, f, g, h] = header;
                let ends = ([a, b, c, d].into(), [e, f, g, h].into());
                let id = self.shared.identifications.ip4(ends.0, ends.1);
                header[4..6].copy_from_slice(&id.to_be_bytes());
            }
        }
        let last = plan.pieces() - 1;
        for at in 0..=last {
            let piece = cx.packet().is_some_and(|mut piece| {
                plan.write(vector.bytes(lane), at, &mut piece);
                send(cx, vector, (lane, edge), (piece, at == last))
            });
            if !piece {
                return vector.drop_lane(lane, Drop::FragmentNoBuffer.reason());
            }
        }
        drop(vector.take(lane));
    }
}

/// The edge of the fragments of a packet, by its adjacency. A packet to an interface with output
/// features has met these before it was fragmented.
pub(super) fn next_edge(head: Option<AdjacencyHead>) -> u16 {
    if head.is_some_and(AdjacencyHead::has_output_features) { OUTPUT_REWRITE } else { REWRITE }
}

/// Emits a fragment with the columns of the packet; false when the output is full.
///
/// The last fragment, and the packet until then, stand for what the interface received. The others are
/// copies, so that a packet counts once as dropped there, however many of its fragments are.
pub(super) fn send(
    cx: &mut Context<'_>,
    vector: &Vector,
    (lane, edge): (usize, u16),
    (mut piece, is_last): (Packet, bool),
) -> bool {
    (piece.rx_if, piece.tx_if) = (vector.rx_if[lane], vector.tx_if[lane]);
    (piece.adjacency, piece.flags) = (vector.adjacency[lane], vector.flags[lane]);
    if !is_last {
        piece.flags |= flags::COPY;
    }
    cx.descend(vector, lane, &mut piece);
    cx.emit(edge, piece).is_ok()
}

/// The layout of the fragments of a packet.
struct FragmentPlan {
    /// Header length of the first fragment and of the others, which copy only some options.
    headers: (usize, usize),
    options: [u8; ipv4::LONGEST - ipv4::LENGTH],
    /// Payload length of the first fragment, and of the others except the last.
    sizes: (usize, usize),
    payload: usize,
    /// Flags and offset of the packet, which may itself be a fragment.
    flags_fragment: u16,
}

impl FragmentPlan {
    fn new(bytes: &[u8], mtu: usize) -> Result<Self, Drop> {
        let view = ipv4::check(bytes).map_err(|_| Drop::Ip4Truncated)?;
        let mut options = [0; ipv4::LONGEST - ipv4::LENGTH];
        let later = ipv4_options::copied(view.option_bytes(), &mut options);
        let headers = (view.header().header_length(), ipv4::LENGTH + later);
        // A fragment fits a single buffer, whatever the MTU of the link.
        let space = |header: usize| mtu.min(FRAME_MAX).saturating_sub(header) & !7;
        let sizes = (space(headers.0), space(headers.1));
        let payload = view.payload().len();
        if sizes.0 == 0 || sizes.1 == 0 {
            return Err(Drop::Ip4TooBig);
        }
        if view.header().fragment_offset() + payload > usize::from(u16::MAX) {
            return Err(Drop::FragmentOverrun);
        }
        let flags_fragment = view.header().flags_fragment.get();
        Ok(Self { headers, options, sizes, payload, flags_fragment })
    }

    fn pieces(&self) -> usize {
        1 + self.payload.saturating_sub(self.sizes.0).div_ceil(self.sizes.1)
    }

    /// Writes fragment number `at`.
    fn write(&self, whole: &[u8], at: usize, piece: &mut Packet) {
        let (header, from) = match at.checked_sub(1) {
            None => (self.headers.0, 0),
            Some(before) => (self.headers.1, self.sizes.0 + before * self.sizes.1),
        };
        let size = if at == 0 { self.sizes.0 } else { self.sizes.1 };
        let to = (from + size).min(self.payload);
        if !piece.set_span(HEADROOM, header + to - from) {
            return;
        }
        let bytes = piece.bytes_mut();
        let kept = if at == 0 { header } else { ipv4::LENGTH };
        bytes[..kept].copy_from_slice(&whole[..kept]);
        if at > 0 {
            bytes[kept..header].copy_from_slice(&self.options[..header - kept]);
            bytes[0] = 0x40 | (header / 4) as u8;
        }
        bytes[header..].copy_from_slice(&whole[self.headers.0 + from..self.headers.0 + to]);
        let length = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        let more = if to < self.payload { ipv4::MORE_FRAGMENTS } else { 0 };
        let place = (self.flags_fragment + (from / 8) as u16) | more;
        bytes[6..8].copy_from_slice(&place.to_be_bytes());
        bytes[10..12].fill(0);
        let sum = checksum::ones_complement(&bytes[..header]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}
