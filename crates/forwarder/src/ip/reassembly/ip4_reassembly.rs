//! `ip4-reassembly`: fragments for our own addresses become whole packets again, which go on
//! from `ip4-local` (RFC 791 3.2, RFC 1122 3.3.2).

use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Vector};
use stoa_wire::{checksum, ipv4, protocol};

use super::table::{Key, Outcome, realm};
use super::{Bench, Piece, packet};
use crate::drops::Drop;
use crate::shared::Shared;

/// Where packets go from here.
pub const EDGES: &[&str] = &["ip4-local", "icmp4-error"];
const LOCAL: u16 = 0;
const ERROR: u16 = 1;

/// The least of a TCP header that a first fragment holds: ports, numbers and flags (RFC 1858).
const TCP_LEAST: usize = 16;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(Ip4Reassembly { shared: shared.clone(), bench: Bench::new(true) })
}

struct Ip4Reassembly {
    shared: Arc<Shared>,
    bench: Bench,
}

impl Node for Ip4Reassembly {
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

impl Ip4Reassembly {
    fn lane(&mut self, cx: &mut Context<'_>, vector: &mut Vector, lane: usize) {
        let rx_if = vector.rx_if[lane];
        let place = (rx_if, self.shared.interface(rx_if).vrf());
        let key = match piece(vector.bytes(lane), place) {
            Ok(piece) => piece.key,
            Err(reason) => return vector.drop_lane(lane, reason.reason()),
        };
        let hash = self.shared.identifications.hash(key);
        if !Bench::admits(&self.shared, cx, vector, lane, hash) {
            return;
        }
        let now = self.shared.reassembly.now(cx.now);
        let limits = self.shared.reassembly.get();
        let outcome = match piece(vector.bytes(lane), place) {
            Ok(piece) => self.bench.table.take(&piece, now, limits),
            Err(reason) => Outcome::Refused(reason),
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

    /// Sends a whole packet on.
    fn finish(&mut self, cx: &mut Context<'_>, vector: &Vector, lane: usize, at: usize) {
        let table = &mut self.bench.table;
        let context = table.context(at);
        let sent = table.whole(at).and_then(|(head, data)| {
            let mut whole = packet(cx, head.len() + data.len())?;
            let bytes = whole.bytes_mut();
            bytes[..head.len()].copy_from_slice(head);
            bytes[head.len()..].copy_from_slice(data);
            let length = bytes.len() as u16;
            bytes[2..4].copy_from_slice(&length.to_be_bytes());
            bytes[6..8].fill(0);
            bytes[10..12].fill(0);
            let sum = checksum::ones_complement(&bytes[..head.len()]);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
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

fn piece(bytes: &[u8], (rx_if, vrf): (u32, u32)) -> Result<Piece<'_>, Drop> {
    let view = ipv4::check(bytes).map_err(|_| Drop::Ip4Truncated)?;
    let header = view.header();
    let (offset, more, data) = (header.fragment_offset(), header.more_fragments(), view.payload());
    // RFC 1858 3, RFC 3128 2: a TCP header in two pieces is there to fool somebody.
    let splits = offset == 8 || (offset == 0 && data.len() < TCP_LEAST);
    if header.protocol == protocol::TCP && splits {
        return Err(Drop::FragmentTiny);
    }
    let key = Key {
        source: u32::from(view.source()).into(),
        destination: u32::from(view.destination()).into(),
        identification: header.identification.get().into(),
        protocol: header.protocol,
        realm: realm(false, rx_if, vrf),
    };
    let head = &view.packet()[..header.header_length()];
    Ok(Piece { key, head, offset, more, data, rx_if })
}
