//! `ip6-fragment`: fragments locally generated packets that are larger than the MTU (RFC 8200 4.5).
//! Transit packets are not fragmented: their senders get Packet Too Big (RFC 8201).

use std::sync::Arc;

use stoa_engine::pool::HEADROOM;
use stoa_engine::{Context, Next, Node, Packet, Vector};
use stoa_wire::ipv6_extensions::{FRAGMENT_LENGTH, Fragment};
use stoa_wire::{ipv6, protocol};
use zerocopy::IntoBytes;

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
            let pieces = match ipv6::check(vector.bytes(lane)) {
                Ok(view) => view.payload().len().div_ceil(SIZE),
                Err(_) => 0,
            };
            match pieces {
                0 => vector.drop_lane(lane, Drop::Ip6Truncated.reason()),
                _ if pieces > cx.emit_room() => {
                    vector.drop_lane(lane, Drop::FragmentNoBuffer.reason());
                }
                _ => self.fragment(cx, vector, lane, pieces),
            }
        }
        Next::Lanes
    }
}

impl Ip6Fragment {
    /// Emits all fragments in order and frees the packet. Locally generated packets have no extension
    /// headers: the fragmentable part starts behind the IPv6 header.
    fn fragment(&self, cx: &mut Context<'_>, vector: &mut Vector, lane: usize, pieces: usize) {
        let identification = self.shared.identifications.ip6();
        let line = self.shared.adjacencies.get(vector.adjacency[lane]);
        let edge = next_edge(line.map(|line| line.head()));
        for at in 0..pieces {
            let piece = cx.packet().is_some_and(|mut piece| {
                write(vector.bytes(lane), at, identification, &mut piece);
                send(cx, vector, (lane, edge), (piece, at + 1 == pieces))
            });
            if !piece {
                return vector.drop_lane(lane, Drop::FragmentNoBuffer.reason());
            }
        }
        drop(vector.take(lane));
    }
}

fn write(whole: &[u8], at: usize, identification: u32, piece: &mut Packet) {
    let (header, payload) = whole.split_at(ipv6::LENGTH);
    let (from, to) = (at * SIZE, payload.len().min((at + 1) * SIZE));
    let Some(fragment) = Fragment::new(header[6], from, to < payload.len(), identification) else {
        return;
    };
    let data = ipv6::LENGTH + FRAGMENT_LENGTH;
    if !piece.set_span(HEADROOM, data + to - from) {
        return;
    }
    let bytes = piece.bytes_mut();
    bytes[..ipv6::LENGTH].copy_from_slice(header);
    bytes[4..6].copy_from_slice(&((FRAGMENT_LENGTH + to - from) as u16).to_be_bytes());
    bytes[6] = protocol::FRAGMENT;
    bytes[ipv6::LENGTH..data].copy_from_slice(fragment.as_bytes());
    bytes[data..].copy_from_slice(&payload[from..to]);
}
