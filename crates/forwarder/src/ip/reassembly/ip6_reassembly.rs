//! `ip6-reassembly`: fragments for our own addresses become whole packets again, which go on
//! from `ip6-local` (RFC 8200 4.5).

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::ipv6_extensions::FRAGMENT_LENGTH;
use stoa_wire::{ipv6, protocol};

use super::table::{Key, Outcome, realm};
use super::{Bench, Piece, packet};
use crate::drops::Drop;
use crate::icmp::Trouble;
use crate::shared::Shared;

/// Where packets go from here.
pub const EDGES: &[&str] = &["ip6-local", "icmp6-error"];
const LOCAL: u16 = 0;
const ERROR: u16 = 1;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip6Reassembly { shared: shared.clone(), bench: Bench::new(false) })
}

struct Ip6Reassembly {
    shared: Arc<Shared>,
    bench: Bench,
}

impl Node for Ip6Reassembly {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        for lane in 0..vector.len() {
            self.lane(cx, vector, lane);
        }
        self.bench.book(cx, &self.shared);
        Next::Lanes
    }

    fn tick(&mut self, cx: &mut Context<'_>) {
        self.bench.age(cx, &self.shared, ERROR);
    }
}

impl Ip6Reassembly {
    fn lane(&mut self, cx: &mut Context<'_>, vector: &mut Vector, lane: usize) {
        let rx_if = vector.rx_if[lane];
        let place = (rx_if, self.shared.interface(rx_if).vrf());
        let Some(piece) = piece(vector.bytes(lane), place) else {
            return vector.drop_lane(lane, Drop::Ip6Extension.reason());
        };
        if let Some(trouble) = fault(&piece) {
            vector.adjacency[lane] = trouble.code();
            vector.next[lane] = ERROR;
            return;
        }
        let hash = self.shared.identifications.hash(piece.key);
        if !Bench::admits(&self.shared, cx, vector, lane, hash) {
            return;
        }
        let now = self.shared.reassembly.now(cx.now);
        let limits = self.shared.reassembly.get();
        let outcome = match self::piece(vector.bytes(lane), place) {
            Some(piece) => self.bench.table.take(&piece, now, limits),
            None => Outcome::Refused(Drop::Ip6Extension),
        };
        match outcome {
            Outcome::Refused(reason) => vector.drop_lane(lane, reason.reason()),
            Outcome::Kept => drop(vector.take(lane)),
            Outcome::Whole(at) => {
                self.finish(cx, vector, lane, at);
                drop(vector.take(lane));
            }
        }
    }

    /// Sends a whole packet on, without the fragment header.
    fn finish(&mut self, cx: &mut Context<'_>, vector: &Vector, lane: usize, at: usize) {
        let table = &mut self.bench.table;
        let context = table.context(at);
        let sent = table.whole(at).and_then(|(head, data)| {
            let (kept, fragment) = head.split_at_checked(head.len() - FRAGMENT_LENGTH)?;
            let named_at = named_at(kept)?;
            let mut whole = packet(cx, kept.len() + data.len())?;
            let bytes = whole.bytes_mut();
            bytes[..kept.len()].copy_from_slice(kept);
            bytes[kept.len()..].copy_from_slice(data);
            bytes[named_at] = fragment[0];
            let payload = (bytes.len() - ipv6::LENGTH) as u16;
            bytes[4..6].copy_from_slice(&payload.to_be_bytes());
            (whole.rx_if, whole.flags) = (context.rx_if, 0);
            cx.descend(vector, lane, &mut whole);
            cx.emit(LOCAL, whole).ok()
        });
        if sent.is_none() {
            cx.lost(Drop::FragmentRoom.reason(), context.fragments().into());
        }
        table.remove(at);
    }
}

/// Where the last header of `kept`, an IPv6 header and extension headers, names what follows it.
fn named_at(kept: &[u8]) -> Option<usize> {
    let (mut at, mut next, mut end) = (6, *kept.get(6)?, ipv6::LENGTH);
    while end < kept.len() {
        at = end;
        let (following, length) = (*kept.get(at)?, usize::from(*kept.get(at + 1)?));
        end += if next == protocol::AH { (length + 2) * 4 } else { (length + 1) * 8 };
        next = following;
    }
    Some(at)
}

/// What makes a fragment wrong in itself, and is told (RFC 8200 4.5).
fn fault(piece: &Piece<'_>) -> Option<Trouble> {
    if piece.more && !piece.data.len().is_multiple_of(8) {
        return Some(Trouble::Header(4));
    }
    // The fragment header ends the head; its offset field is the third of its bytes.
    let at = piece.head.len() - FRAGMENT_LENGTH + 2;
    let end = piece.offset + piece.data.len();
    (end > usize::from(u16::MAX)).then_some(Trouble::Header(at as u16))
}

fn piece(bytes: &[u8], (rx_if, vrf): (u32, u32)) -> Option<Piece<'_>> {
    let view = ipv6::check(bytes).ok()?;
    let header = view.extensions().flatten().find(|header| header.kind == protocol::FRAGMENT)?;
    let fragment = view.upper().ok()?.fragment?;
    let start = header.offset + FRAGMENT_LENGTH;
    let is_local = |ip: std::net::Ipv6Addr| ip.is_unicast_link_local() || ip.is_multicast();
    let is_on_link = is_local(view.source()) || is_local(view.destination());
    let key = Key {
        source: view.source().into(),
        destination: view.destination().into(),
        identification: fragment.identification.get(),
        protocol: 0,
        realm: realm(is_on_link, rx_if, vrf),
    };
    let (head, data) = view.packet().split_at_checked(start)?;
    Some(Piece { key, head, offset: fragment.offset(), more: fragment.more(), data, rx_if })
}
