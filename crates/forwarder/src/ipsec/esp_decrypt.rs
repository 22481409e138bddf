//! `esp-decrypt`: checks and decrypts ESP packets for local addresses (RFC 4303 section 3.4); the tunnel becomes the
//! receiving interface of the inner packets.
//!
//! Three passes over a vector: the first one finds associations and refuses numbers that were seen before, the second
//! one decrypts many packets at a time, the third one accepts numbers of authentic packets and takes trailers off.
//! Nothing that is not authentic changes a window.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use stoa_crypto::Lane;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::flags;
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_tables::replay_window::Replay;
use stoa_wire::{esp, ipv4, ipv6, protocol, udp};

use super::KEEPALIVE;
use super::association::Inbound;
use super::batch::Batch;
use super::engines::engines;
use crate::attributes::interface_flags::UP;
use crate::drops::Drop;
use crate::shared::Shared;
use crate::tunnel::congestion;
use crate::tunnel::outer::OuterIp;
use crate::tunnel::tunnel_input::{self, IP4, IP6};

/// The next nodes of inner packets.
pub const EDGES: &[&str] = tunnel_input::EDGES;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(EspDecrypt {
        shared: shared.clone(),
        sequences: Box::new([0; VECTOR]),
        classes: Box::new([0; VECTOR]),
    })
}

struct EspDecrypt {
    shared: Arc<Shared>,
    sequences: Box<[u64; VECTOR]>,
    /// The classes of the outer headers.
    classes: Box<[u8; VECTOR]>,
}

/// The association of each lane; `None`: the lane was dropped. It is read once: another one may take its place
/// meanwhile.
type Associations<'a> = [Option<&'a Inbound>; VECTOR];

impl Node for EspDecrypt {
    fn start(&mut self) {
        engines().enter();
    }

    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        // The inner packets are other flows.
        vector.forget_flow();
        let shared = self.shared.clone();
        let mut associations: Associations<'_> = [None; VECTOR];
        let lanes = vector.len();
        for (lane, place) in associations.iter_mut().enumerate().take(lanes) {
            match self.find((&shared, cx.reader), vector, lane) {
                Ok(association) => *place = Some(association),
                Err(reason) => vector.next[lane] = reason.next(),
            }
        }
        let authentic = decrypt(&associations, &self.sequences, vector);
        self.decapsulate(cx, &associations, vector, &authentic);
        Next::Lanes
    }
}

impl EspDecrypt {
    /// Finds the association of a lane, and takes the outer header off.
    #[inline]
    fn find<'a>(
        &mut self,
        (shared, reader): (&'a Shared, &'a Reader),
        vector: &mut Vector,
        lane: usize,
    ) -> Result<&'a Inbound, Drop> {
        if vector.arg[lane] == KEEPALIVE {
            return Err(Drop::EspKeepalive);
        }
        let row = vector.arg[lane].checked_sub(1).ok_or(Drop::EspUnknownSpi)?;
        let association = shared.ipsec.inbound(row, reader).ok_or(Drop::EspUnknownSpi)?;
        let bytes = vector.bytes(lane);
        let outer = OuterIp::plain(bytes).or_else(|| OuterIp::any(bytes));
        let outer = outer.ok_or(Drop::EspMalformed)?;
        let is_udp = outer.protocol == protocol::UDP;
        let [received, tunnel] = [vector.rx_if[lane], association.interface]
            .map(|interface| shared.attributes.vrf_of(interface));
        let is_of = is_udp == association.is_udp && received == tunnel;
        if !is_of {
            return Err(Drop::EspUnknownSpi);
        }
        if shared.attributes.flags_of(association.interface) & UP == 0 {
            return Err(Drop::InterfaceDown);
        }
        vector.length[lane] = outer.whole;
        let udp = if is_udp { udp::LENGTH as i32 } else { 0 };
        if !vector.advance(lane, i32::from(outer.behind) + udp) {
            return Err(Drop::EspMalformed);
        }
        let shape = association.shape;
        let rest = usize::from(shape.iv) + esp::TRAILER + usize::from(shape.tag);
        let bytes = vector.bytes(lane);
        let header = esp::check(bytes, rest).map_err(|_| malformed(association))?;
        // What is encrypted is a multiple of a block, with the trailer (RFC 4303 section 2.4).
        let around = usize::from(shape.front) + usize::from(shape.tag);
        if !(bytes.len() - around).is_multiple_of(shape.block.into()) {
            return Err(malformed(association));
        }
        if header.spi.get() != association.spi {
            return Err(Drop::EspUnknownSpi);
        }
        let low = header.sequence.get();
        self.classes[lane] = outer.class;
        self.sequences[lane] = match &association.window {
            Some(window) if shape.is_extended => window.extended(low),
            _ => low.into(),
        };
        let checked = association.window.as_ref().map(|it| it.check(self.sequences[lane]));
        checked.unwrap_or(Ok(())).map_err(|replay| refused(association, replay))?;
        Ok(association)
    }

    /// Accepts the numbers of authentic lanes, and hands their inner packets on.
    fn decapsulate(
        &self,
        cx: &Context<'_>,
        associations: &Associations<'_>,
        vector: &mut Vector,
        authentic: &[bool; VECTOR],
    ) {
        let mut counted = Counted::default();
        for lane in 0..vector.len() {
            let Some(association) = associations[lane] else { continue };
            let done = if authentic[lane] {
                self.decapsulate_lane(vector, lane, association)
            } else {
                count_one(&association.received.forged);
                Err(Drop::EspForged)
            };
            vector.next[lane] = match done {
                Ok(next) => {
                    counted.add(cx, association, vector.length[lane].into());
                    next
                }
                Err(reason) => reason.next(),
            };
        }
        counted.flush(cx);
    }

    /// Accepts the number of an authentic lane, and takes everything around the inner packet off; returns its edge.
    #[inline]
    fn decapsulate_lane(
        &self,
        vector: &mut Vector,
        lane: usize,
        association: &Inbound,
    ) -> Result<u16, Drop> {
        if let Some(window) = &association.window {
            let accepted = window.accept(self.sequences[lane]);
            accepted.map_err(|replay| refused(association, replay))?;
        }
        let shape = association.shape;
        let malformed = |reason: Drop| {
            count_one(&association.received.malformed);
            reason
        };
        let bytes = vector.bytes(lane);
        let text = bytes.len().checked_sub(shape.tag.into());
        let text = text.and_then(|end| bytes.get(shape.front.into()..end)).unwrap_or_default();
        let (payload, next_header) =
            esp::check_trailer(text).map_err(|_| malformed(Drop::EspPadding))?;
        // Traffic flow confidentiality: dummies, and padding behind the inner packet (RFC 4303 sections 2.6 and 2.7).
        if next_header == protocol::NO_NEXT_HEADER {
            return Err(Drop::EspDummy);
        }
        let inner =
            inner_length(payload, next_header).ok_or_else(|| malformed(Drop::EspNextHeader))?;
        if !vector.advance(lane, shape.front.into()) {
            return Err(malformed(Drop::EspMalformed));
        }
        vector.length[lane] = inner;
        let class = self.classes[lane];
        if congestion::has_mark(class) {
            congestion::decapsulate(class, vector.bytes_mut(lane))?;
        }
        vector.rx_if[lane] = association.interface;
        vector.flags[lane] &= !flags::OF_OUTER;
        Ok(if next_header == protocol::IP4 { IP4 } else { IP6 })
    }
}

/// Decrypts all lanes that were not dropped; returns those that are authentic.
fn decrypt(
    associations: &Associations<'_>,
    sequences: &[u64; VECTOR],
    vector: &mut Vector,
) -> [bool; VECTOR] {
    let mut authentic = [false; VECTOR];
    let engines = engines();
    let mut batch = Batch::new();
    for (lane, packet) in vector.frames_mut() {
        let Some(association) = associations[lane] else { continue };
        let (shape, sequence) = (association.shape, sequences[lane]);
        let sent = packet.get(esp::LENGTH..esp::LENGTH + 8).and_then(<[u8]>::first_chunk);
        // An implicit IV is the sequence number (RFC 8750 section 3).
        let number = sent.filter(|_| shape.iv > 0).copied().unwrap_or(sequence.to_be_bytes());
        let (aad, aad_length) = shape.authenticated(association.spi, sequence);
        let nonce = association.salt.nonce(number);
        let (key, text_offset) = (&association.key, shape.front);
        if batch.add(lane, Lane { key, packet, text_offset, nonce, aad, aad_length }) {
            batch.run(|lanes| engines.open(lanes), |lane, is| authentic[lane] = is);
        }
    }
    batch.run(|lanes| engines.open(lanes), |lane, is| authentic[lane] = is);
    authentic
}

/// Packets of lanes in a row with the same association.
#[derive(Default)]
struct Counted<'a> {
    association: Option<&'a Inbound>,
    packets: u64,
    bytes: u64,
}

impl<'a> Counted<'a> {
    #[inline(always)]
    fn add(&mut self, cx: &Context<'_>, association: &'a Inbound, bytes: u64) {
        if !self.association.is_some_and(|last| std::ptr::eq(last, association)) {
            self.flush(cx);
            self.association = Some(association);
        }
        self.packets += 1;
        self.bytes += bytes;
    }

    fn flush(&mut self, cx: &Context<'_>) {
        let Self { association, packets, bytes } = std::mem::take(self);
        let Some(association) = association else { return };
        association.received.packets.fetch_add(packets, Relaxed);
        association.received.bytes.fetch_add(bytes, Relaxed);
        if let Some(counters) = cx.counters.interfaces.get(association.interface as usize) {
            counters.rx_packets.add(packets);
            counters.rx_bytes.add(bytes);
        }
    }
}

/// Bytes of an inner packet, which is of this protocol; `None`: it is not, or longer than the payload.
#[inline]
fn inner_length(payload: &[u8], next_header: u8) -> Option<u16> {
    let start = payload.first_chunk::<6>()?;
    let whole = match next_header {
        protocol::IP4 if start[0] >> 4 == 4 && payload.len() >= ipv4::LENGTH => {
            u16::from_be_bytes([start[2], start[3]])
        }
        protocol::IP6 if start[0] >> 4 == 6 => {
            u16::from_be_bytes([start[4], start[5]]).checked_add(ipv6::LENGTH as u16)?
        }
        _ => return None,
    };
    (usize::from(whole) <= payload.len()).then_some(whole)
}

/// Counts a packet whose length is wrong.
#[cold]
fn malformed(association: &Inbound) -> Drop {
    count_one(&association.received.malformed);
    Drop::EspMalformed
}

/// Counts a number that the window refuses.
#[cold]
fn refused(association: &Inbound, replay: Replay) -> Drop {
    let (counter, reason) = match replay {
        Replay::Replayed => (&association.received.replayed, Drop::EspReplayed),
        Replay::Late => (&association.received.late, Drop::EspLate),
    };
    count_one(counter);
    reason
}

#[cold]
fn count_one(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
