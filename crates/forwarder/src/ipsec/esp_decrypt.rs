//! `esp-decrypt`: checks and decrypts ESP packets for local addresses (RFC 4303 section 3.4); the tunnel becomes the
//! receiving interface of the inner packets.
//!
//! Three passes over a vector: the first one finds associations and refuses numbers that were seen before, the second
//! one decrypts many packets at a time, the third one accepts numbers of authentic packets and takes trailers off. Nothing
//! that is not authentic changes a window.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrayvec::ArrayVec;
use stoa_crypto::Lane;
use stoa_engine::vector::{Column, flags};
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_tables::replay_window::Replay;
use stoa_wire::{esp, ipv4, ipv6, protocol};

use super::association::{Inbound, nonce};
use super::engines::engines;
use super::esp_encrypt::BATCH;
use super::outer::Outer;
use crate::attributes::interface_flags::UP;
use crate::drops::Drop;
use crate::shared::Shared;
use crate::tunnel::congestion;

/// The next nodes of inner packets.
pub const EDGES: &[&str] = &["ip4-input", "ip6-input"];
const IP4: u16 = 0;
const IP6: u16 = 1;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(EspDecrypt {
        shared: shared.clone(),
        rows: Column::of(0),
        sequences: Box::new([0; VECTOR]),
        classes: Box::new([0; VECTOR]),
    })
}

struct EspDecrypt {
    shared: Arc<Shared>,
    /// The association of each lane, plus one; 0: the lane was dropped.
    rows: Column<u32>,
    sequences: Box<[u64; VECTOR]>,
    /// The classes of the outer headers.
    classes: Box<[u8; VECTOR]>,
}

impl Node for EspDecrypt {
    fn start(&mut self) {
        engines().enter();
    }

    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        // The inner packets are other flows.
        vector.forget_flow();
        for lane in 0..vector.len() {
            self.rows[lane] = match self.find(cx, vector, lane) {
                Ok(row) => row + 1,
                Err(reason) => {
                    vector.next[lane] = reason.next();
                    0
                }
            };
        }
        let authentic = self.decrypt(cx, vector);
        self.decapsulate(cx, vector, &authentic);
        Next::Lanes
    }
}

impl EspDecrypt {
    /// Finds the association of a lane, and takes the outer header off.
    #[inline]
    fn find(&mut self, cx: &Context<'_>, vector: &mut Vector, lane: usize) -> Result<u32, Drop> {
        let shared = &*self.shared;
        let row = vector.arg[lane].checked_sub(1).ok_or(Drop::EspUnknownSpi)?;
        let association = shared.ipsec.inbound(row, cx.reader).ok_or(Drop::EspUnknownSpi)?;
        let outer = Outer::of(vector.bytes(lane)).ok_or(Drop::EspMalformed)?;
        let is_of = outer.is_udp == association.is_udp
            && shared.attributes.vrf_of(vector.rx_if[lane]) == association.vrf;
        if !is_of {
            return Err(Drop::EspUnknownSpi);
        }
        if shared.attributes.flags_of(association.interface) & UP == 0 {
            return Err(Drop::InterfaceDown);
        }
        vector.length[lane] = outer.whole;
        if !vector.advance(lane, outer.header.into()) {
            return Err(Drop::EspMalformed);
        }
        let shape = association.shape;
        let rest = usize::from(shape.iv) + esp::TRAILER + usize::from(shape.tag);
        let header = esp::check(vector.bytes(lane), rest).map_err(|_| Drop::EspMalformed)?;
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
        Ok(row)
    }

    /// Decrypts all lanes that were not dropped; returns those that are authentic.
    fn decrypt(&self, cx: &Context<'_>, vector: &mut Vector) -> [bool; VECTOR] {
        let engines = engines();
        let mut authentic = [false; VECTOR];
        let (mut lanes, mut numbers) = (ArrayVec::<_, BATCH>::new(), ArrayVec::<_, BATCH>::new());
        let mut open = |lanes: &mut ArrayVec<Lane<'_>, BATCH>,
                        numbers: &mut ArrayVec<usize, BATCH>| {
            let good = engines.open(lanes);
            for (at, number) in numbers.iter().enumerate() {
                authentic[*number] = good.has(at);
            }
            lanes.clear();
            numbers.clear();
        };
        for (lane, packet) in vector.frames_mut() {
            let row = self.rows[lane].checked_sub(1);
            let association = row.and_then(|row| self.shared.ipsec.inbound(row, cx.reader));
            let Some(association) = association else { continue };
            let (shape, sequence) = (association.shape, self.sequences[lane]);
            let sent = packet.get(esp::LENGTH..esp::LENGTH + 8).and_then(<[u8]>::first_chunk);
            // An implicit IV is the sequence number (RFC 8750 section 3).
            let number = sent.filter(|_| shape.iv > 0).copied().unwrap_or(sequence.to_be_bytes());
            let (aad, aad_length) = shape.authenticated(association.spi, sequence);
            let (key, text_offset, nonce) =
                (&association.key, shape.front, nonce(association.salt, number));
            lanes.push(Lane { key, packet, text_offset, nonce, aad, aad_length });
            numbers.push(lane);
            if lanes.is_full() {
                open(&mut lanes, &mut numbers);
            }
        }
        open(&mut lanes, &mut numbers);
        authentic
    }

    /// Accepts the numbers of authentic lanes, and hands their inner packets on.
    fn decapsulate(&self, cx: &Context<'_>, vector: &mut Vector, authentic: &[bool; VECTOR]) {
        let shared = &*self.shared;
        let mut counted = Counted::default();
        for lane in 0..vector.len() {
            let row = self.rows[lane].checked_sub(1);
            let association = row.and_then(|row| shared.ipsec.inbound(row, cx.reader));
            let Some(association) = association else { continue };
            let done = if authentic[lane] {
                self.decapsulate_lane(vector, lane, association)
            } else {
                count_one(&association.received.forged);
                Err(Drop::EspForged)
            };
            vector.next[lane] = match done {
                Ok(next) => {
                    if counted.row != self.rows[lane] {
                        self.flush(cx, &mut counted);
                        counted.row = self.rows[lane];
                    }
                    counted.packets += 1;
                    counted.bytes += u64::from(vector.length[lane]);
                    next
                }
                Err(reason) => reason.next(),
            };
        }
        self.flush(cx, &mut counted);
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

    /// Counts packets of one association.
    fn flush(&self, cx: &Context<'_>, counted: &mut Counted) {
        let Counted { row, packets, bytes } = std::mem::take(counted);
        let row = row.checked_sub(1).filter(|_| packets > 0);
        let Some(association) = row.and_then(|row| self.shared.ipsec.inbound(row, cx.reader))
        else {
            return;
        };
        association.received.packets.fetch_add(packets, Relaxed);
        association.received.bytes.fetch_add(bytes, Relaxed);
        if let Some(counters) = cx.counters.interfaces.get(association.interface as usize) {
            counters.rx_packets.add(packets);
            counters.rx_bytes.add(bytes);
        }
    }
}

/// Packets of lanes in a row with the same association.
#[derive(Default)]
struct Counted {
    /// Plus one.
    row: u32,
    packets: u64,
    bytes: u64,
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
