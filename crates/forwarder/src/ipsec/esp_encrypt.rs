//! `esp-encrypt`: encapsulates packets that are routed to a tunnel with ESP (RFC 4303 section 3.3). The outer packets
//! go to the look-up, or first through the features of what the router itself sends.
//!
//! Packets that cannot be sent are dropped before they take a sequence number. Then there are three passes over a
//! vector: the first one writes what surrounds each packet, the second one encrypts many packets at
//! a time, the third one adds the outer headers.
//!
//! A lane begins with a drop for its next node: only the third pass gives it another one. So no packet leaves that was
//! not encrypted.

use std::sync::Arc;

use stoa_crypto::Lane;
use stoa_engine::pool::{JUMBO, SLOT};
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_wire::{checksum, ipv6, protocol, udp};

use super::association::{DontFragment, Outbound};
use super::batch::Batch;
use super::engines::engines;
use super::surround::Surround;
use super::table::Ipsec;
use crate::arcs::ROUTER;
use crate::drops::Drop;
use crate::ip::header_words;
use crate::shared::Shared;
use crate::tunnel::encapsulate::{LOOKUP4, LOOKUP6};
use crate::tunnel::line::Inner;
use crate::tunnel::tunnel_output::{self, count, to_origin};

/// The next nodes of outer packets.
pub const EDGES: &[&str] = tunnel_output::OUTER_EDGES;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(EspEncrypt {
        shared: shared.clone(),
        surround: Surround::new(),
        words: Box::new([[0; VECTOR]; 2]),
    })
}

struct EspEncrypt {
    shared: Arc<Shared>,
    surround: Surround,
    /// The first two words of each inner packet.
    words: Box<[[u32; VECTOR]; 2]>,
}

/// The association of each lane; `None`: the lane is dropped. Each pass takes it from here: in the table, another one
/// may take its place meanwhile.
pub(super) type Associations<'a> = [Option<&'a Outbound>; VECTOR];

impl Node for EspEncrypt {
    fn start(&mut self) {
        engines().enter();
    }

    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        // The outer packets are other flows.
        vector.forget_flow();
        let shared = self.shared.clone();
        let lanes = vector.len();
        vector.next[..lanes].fill(Drop::EspEngine.next());
        let [first, second] = &mut *self.words;
        header_words::load(shared.kernel, vector, [0, 4], [first, second]);
        let mut associations = find(&shared.ipsec, cx.reader, vector);
        admit(cx, &mut associations, vector);
        self.surround.all(&mut associations, vector);
        encrypt(&mut associations, self.surround.sequences(), vector);
        self.encapsulate(cx, &associations, vector);
        let arcs = &shared.arcs;
        let has_features = [arcs.ip4_origin.has_any(ROUTER), arcs.ip6_origin.has_any(ROUTER)];
        if has_features != [false; 2] {
            return to_origin(vector, Next::Lanes, has_features);
        }
        Next::Lanes
    }
}

/// Finds the association of each lane, once for lanes in a row of the same tunnel. Those without one are dropped.
fn find<'a>(ipsec: &'a Ipsec, reader: &'a Reader, vector: &mut Vector) -> Associations<'a> {
    let mut associations: Associations<'a> = [None; VECTOR];
    let lanes = vector.len();
    let mut from = 0;
    while from < lanes {
        let interface = vector.tx_if[from];
        let end = (from + 1..lanes).find(|lane| vector.tx_if[*lane] != interface).unwrap_or(lanes);
        match ipsec.outbound(interface, reader) {
            Some(association) => associations[from..end].fill(Some(association)),
            None => vector.next[from..end].fill(Drop::TunnelDeleted.next()),
        }
        from = end;
    }
    associations
}

/// Drops packets that find no space for what surrounds them, or that are in a loop.
fn admit(cx: &mut Context<'_>, associations: &mut Associations<'_>, vector: &mut Vector) {
    for (lane, place) in associations.iter_mut().enumerate().take(vector.len()) {
        let Some(association) = place else { continue };
        if let Err(reason) = admit_lane(cx, vector, lane, association) {
            *place = None;
            vector.next[lane] = reason.next();
        }
    }
}

#[inline(always)]
fn admit_lane(
    cx: &mut Context<'_>,
    vector: &mut Vector,
    lane: usize,
    association: &Outbound,
) -> Result<(), Drop> {
    if vector.flags[lane] & flags::TUNNELS == flags::TUNNELS {
        return Err(Drop::TunnelLoop);
    }
    let (offset, payload) = (usize::from(vector.offset[lane]), usize::from(vector.length[lane]));
    let shape = association.shape;
    if offset < association.front() {
        return Err(Drop::TunnelHeadroom);
    }
    // Most packets leave space behind them in any buffer.
    let end = offset - usize::from(shape.front) + shape.length(payload);
    let fits = end <= SLOT || end <= JUMBO && cx.enlarge(vector, lane);
    if fits { Ok(()) } else { Err(Drop::TunnelHeadroom) }
}

impl EspEncrypt {
    /// Adds UDP headers and outer headers.
    fn encapsulate(&self, cx: &Context<'_>, associations: &Associations<'_>, vector: &mut Vector) {
        let lanes = vector.len();
        let number = self.shared.identifications.reserve(lanes as u64);
        let mut counted = Counted::default();
        for (lane, association) in associations.iter().enumerate().take(lanes) {
            let Some(association) = association else { continue };
            let words = [self.words[0][lane], self.words[1][lane]];
            let (of_inner, payload) = (Inner::of(words, 0), payload_of(words));
            let by = (vector.tx_if[lane], vector.adjacency[lane]);
            let number = number.wrapping_add(lane as u16);
            vector.next[lane] = match add_outer(vector, lane, association, of_inner, number) {
                Some(next) => {
                    counted.add(cx, by, payload.into());
                    next
                }
                None => Drop::TunnelHeadroom.next(),
            };
        }
        counted.flush(cx);
    }
}

/// Encrypts all lanes that were not dropped. One that the engine leaves as it was is dropped.
fn encrypt(associations: &mut Associations<'_>, sequences: &[u64; VECTOR], vector: &mut Vector) {
    let mut sealed = [false; VECTOR];
    let engines = engines();
    let mut batch = Batch::new();
    for (lane, packet) in vector.frames_mut() {
        let Some(association) = associations[lane] else { continue };
        let (shape, sequence) = (association.shape, sequences[lane]);
        let (aad, aad_length) = shape.authenticated(association.spi, sequence);
        let nonce = association.salt.nonce(sequence.to_be_bytes());
        let (key, text_offset) = (&association.key, shape.front);
        if batch.add(lane, Lane { key, packet, text_offset, nonce, aad, aad_length }) {
            batch.run(|lanes| engines.seal(lanes), |lane, is| sealed[lane] = is);
        }
    }
    batch.run(|lanes| engines.seal(lanes), |lane, is| sealed[lane] = is);
    for (association, _) in associations.iter_mut().zip(&sealed).filter(|(_, is)| !**is) {
        *association = None;
    }
}

/// Adds the headers in front of ESP; returns the edge. `None`: there is no headroom.
#[inline]
fn add_outer(
    vector: &mut Vector,
    lane: usize,
    association: &Outbound,
    of_inner: Inner,
    number: u16,
) -> Option<u16> {
    if let Some(ports) = association.udp {
        let length = vector.length[lane].checked_add(udp::LENGTH as u16)?;
        if !vector.advance(lane, -(udp::LENGTH as i32)) {
            return None;
        }
        let header = vector.bytes_mut(lane).first_chunk_mut::<{ udp::LENGTH }>()?;
        // Without a checksum (RFC 3948 section 2.2); over IPv6, it follows.
        let [source, destination] = [ports.source, ports.destination].map(u16::to_be_bytes);
        header[..2].copy_from_slice(&source);
        header[2..4].copy_from_slice(&destination);
        header[4..6].copy_from_slice(&length.to_be_bytes());
        header[6..].fill(0);
    }
    let dont_fragment = match association.dont_fragment {
        DontFragment::Copy => of_inner.dont_fragment,
        DontFragment::Set => true,
        DontFragment::Clear => false,
    };
    let class = association.dscp.map_or(of_inner.class, |dscp| dscp << 2 | of_inner.class & 3);
    let inner = Inner { class, dont_fragment, length: vector.length[lane], ..of_inner };
    // The SPI tells nothing of the flows inside (RFC 6438 section 3).
    let label = association.spi.wrapping_mul(0x9e37_79b1) >> 12;
    let line = &association.line;
    if !line.encapsulate(vector, lane, (inner, number, label.max(1))) {
        return None;
    }
    if line.is_ip4() {
        return Some(LOOKUP4);
    }
    if association.udp.is_some() {
        write_checksum(vector.bytes_mut(lane))?;
    }
    Some(LOOKUP6)
}

/// Writes the checksum of a UDP datagram in an IPv6 packet: receivers discard those without one (RFC 8200 section 8.1).
#[inline]
fn write_checksum(packet: &mut [u8]) -> Option<()> {
    let (header, datagram) = packet.split_first_chunk_mut::<{ ipv6::LENGTH }>()?;
    let pseudo = checksum::sum(&header[8..]) + datagram.len() as u32 + u32::from(protocol::UDP);
    let sum = checksum::finish(pseudo + checksum::sum(datagram));
    *datagram.get_mut(6..)?.first_chunk_mut()? = udp::transmitted(sum).to_be_bytes();
    Some(())
}

/// Bytes of an inner packet by its first two words.
#[inline(always)]
fn payload_of([first, second]: [u32; 2]) -> u16 {
    if first >> 28 == 4 { first as u16 } else { ((second >> 16) as u16).saturating_add(40) }
}

/// Packets and bytes of lanes in a row with the same interface and adjacency.
#[derive(Default)]
struct Counted {
    by: (u32, u32),
    sums: (u64, u64),
}

impl Counted {
    #[inline(always)]
    fn add(&mut self, cx: &Context<'_>, by: (u32, u32), bytes: u64) {
        if self.by != by {
            self.flush(cx);
            self.by = by;
        }
        self.sums = (self.sums.0 + 1, self.sums.1 + bytes);
    }

    fn flush(&mut self, cx: &Context<'_>) {
        if self.sums.0 > 0 {
            count(cx.counters, self.by, std::mem::take(&mut self.sums));
        }
    }
}

#[cfg(test)]
mod tests;
