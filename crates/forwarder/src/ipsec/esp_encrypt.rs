//! `esp-encrypt`: encapsulates packets that are routed to a tunnel with ESP (RFC 4303 section 3.3). The outer packets
//! go to the look-up, or first through the features of what the router itself sends.
//!
//! Three passes over a vector: the first one writes what surrounds each packet, the second one encrypts many packets at
//! a time, the third one adds the outer headers.

use std::sync::Arc;

use arrayvec::ArrayVec;
use stoa_crypto::{Authentication, Ivs, Lane, Mask};
use stoa_engine::vector::{flags, prefetch};
use stoa_engine::{Context, Next, Node, VECTOR, Vector};
use stoa_wire::{esp, udp};

use super::association::{DontFragment, Outbound, nonce};
use super::engines::engines;
use crate::arcs::ROUTER;
use crate::drops::Drop;
use crate::ip::header_words;
use crate::shared::Shared;
use crate::tunnel::line::Inner;
use crate::tunnel::tunnel_output::{self, count, to_origin};

/// The next nodes of outer packets.
pub const EDGES: &[&str] = tunnel_output::OUTER_EDGES;
const LOOKUP4: u16 = 0;
const LOOKUP6: u16 = 1;

/// Packets that are encrypted together.
pub(super) const BATCH: usize = 64;
/// Bytes of packets that are encrypted together, about: half of a first-level cache.
pub(super) const BATCH_BYTES: usize = 24 * 1024;
/// Bytes of a line of the cache.
const LINE: usize = 64;
/// Lanes between a prefetch and its use.
const AHEAD: usize = 8;
/// The sequence number of a lane that was dropped.
const DROPPED: u64 = 0;

/// Makes the node of one worker.
pub fn make(shared: &Arc<Shared>, _worker: usize) -> Box<dyn Node> {
    Box::new(EspEncrypt {
        shared: shared.clone(),
        sequences: Box::new([DROPPED; VECTOR]),
        words: Box::new([[0; VECTOR]; 2]),
        ivs: Ivs::new().ok(),
    })
}

struct EspEncrypt {
    shared: Arc<Shared>,
    /// Those of each lane, or [`DROPPED`].
    sequences: Box<[u64; VECTOR]>,
    /// The first two words of each inner packet.
    words: Box<[[u32; VECTOR]; 2]>,
    /// `None`: the system gave no random bytes; packets of CBC are dropped.
    ivs: Option<Ivs>,
}

/// The association of each lane. It is read once: another one may take its place meanwhile.
type Associations<'a> = [Option<&'a Outbound>; VECTOR];

impl Node for EspEncrypt {
    fn start(&mut self) {
        engines().enter();
    }

    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let shared = self.shared.clone();
        let [first, second] = &mut *self.words;
        header_words::load(shared.kernel, vector, [0, 4], [first, second]);
        let mut associations: Associations<'_> = [None; VECTOR];
        for (association, row) in associations.iter_mut().zip(&vector.arg[..vector.len()]) {
            *association = shared.ipsec.outbound(*row, cx.reader);
        }
        self.surround(&associations, vector);
        self.encrypt(&associations, vector);
        self.encapsulate(cx, &associations, vector);
        let arcs = &shared.arcs;
        let has_features = [arcs.ip4_origin.has_any(ROUTER), arcs.ip6_origin.has_any(ROUTER)];
        if has_features != [false; 2] {
            return to_origin(vector, Next::Lanes, has_features);
        }
        Next::Lanes
    }
}

impl EspEncrypt {
    /// Writes header, IV and trailer of all lanes. Lanes in a row with the same association take their sequence numbers
    /// together.
    fn surround(&mut self, associations: &Associations<'_>, vector: &mut Vector) {
        let lanes = vector.len();
        let mut from = 0;
        while from < lanes {
            let row = vector.arg[from];
            let end = (from + 1..lanes).find(|lane| vector.arg[*lane] != row).unwrap_or(lanes);
            let Some(association) = associations[from] else {
                vector.next[from..end].fill(Drop::TunnelDeleted.next());
                self.sequences[from..end].fill(DROPPED);
                from = end;
                continue;
            };
            let bytes = vector.length[from..end].iter().map(|it| u64::from(*it)).sum();
            let first = association.take((end - from) as u64, bytes);
            for (lane, sequence) in (from..end).zip(first..) {
                prefetch_end(vector, lane + AHEAD);
                let done = self.surround_lane(vector, lane, (association, sequence));
                self.sequences[lane] = if done.is_ok() { sequence } else { DROPPED };
                if let Err(reason) = done {
                    vector.next[lane] = reason.next();
                }
            }
            from = end;
        }
    }

    /// Writes header, IV and trailer of a lane.
    #[inline]
    fn surround_lane(
        &mut self,
        vector: &mut Vector,
        lane: usize,
        (association, sequence): (&Outbound, u64),
    ) -> Result<(), Drop> {
        if vector.flags[lane] & flags::TUNNELS == flags::TUNNELS {
            return Err(Drop::TunnelLoop);
        }
        if sequence > association.last() {
            return Err(Drop::EspSequence);
        }
        let shape = association.shape;
        let (offset, payload) =
            (usize::from(vector.offset[lane]), usize::from(vector.length[lane]));
        let start = offset.checked_sub(shape.front.into()).ok_or(Drop::TunnelHeadroom)?;
        let whole = shape.length(payload);
        let packet = vector.buffer_mut(lane).get_mut(start..start + whole);
        let packet = packet.ok_or(Drop::TunnelHeadroom)?;
        let text = whole - usize::from(shape.tag);
        let (front, inner) = packet.split_at_mut(shape.front.into());
        let next_header = inner.first().map_or(0, |first| protocol_of(*first));
        self.write_front(front, (association, sequence))?;
        let trailer = packet.get_mut(usize::from(shape.front) + payload..text);
        let trailer = trailer.ok_or(Drop::TunnelHeadroom)?;
        esp::build_trailer(trailer, next_header).map_err(|_| Drop::TunnelHeadroom)?;
        (vector.offset[lane], vector.length[lane]) = (start as u16, whole as u16);
        Ok(())
    }

    /// Writes the ESP header and the IV.
    #[inline(always)]
    fn write_front(
        &mut self,
        front: &mut [u8],
        (association, sequence): (&Outbound, u64),
    ) -> Result<(), Drop> {
        let header = (u64::from(association.spi) << 32 | u64::from(sequence as u32)).to_be_bytes();
        let (start, iv) = front.split_first_chunk_mut().ok_or(Drop::TunnelHeadroom)?;
        *start = header;
        if association.shape.authentication == Authentication::Hmac {
            let ivs = self.ivs.as_mut().ok_or(Drop::EspEngine)?;
            if let Some(iv) = iv.first_chunk_mut() {
                *iv = ivs.next_iv();
            }
        } else if let Some(iv) = iv.first_chunk_mut() {
            // It must only be different for each packet: its number (RFC 4106 section 3.1, RFC 7634 section 2).
            *iv = sequence.to_be_bytes();
        }
        Ok(())
    }

    /// Encrypts all lanes that were not dropped.
    fn encrypt(&mut self, associations: &Associations<'_>, vector: &mut Vector) {
        let mut sealed = [true; VECTOR];
        let engines = engines();
        let mut batch = Batch::new();
        for (lane, packet) in vector.frames_mut() {
            let sequence = self.sequences[lane];
            let association = associations[lane].filter(|_| sequence != DROPPED);
            let Some(association) = association else { continue };
            let shape = association.shape;
            let (aad, aad_length) = shape.authenticated(association.spi, sequence);
            let nonce = nonce(association.salt, sequence.to_be_bytes());
            let (key, text_offset) = (&association.key, shape.front);
            if batch.add(lane, Lane { key, packet, text_offset, nonce, aad, aad_length }) {
                batch.run(|lanes| engines.seal(lanes), |lane, is| sealed[lane] = is);
            }
        }
        batch.run(|lanes| engines.seal(lanes), |lane, is| sealed[lane] = is);
        drop(batch);
        for (lane, _) in sealed.iter().enumerate().filter(|(_, sealed)| !**sealed) {
            self.sequences[lane] = DROPPED;
            vector.next[lane] = Drop::EspEngine.next();
        }
    }

    /// Adds UDP headers and outer headers.
    fn encapsulate(&self, cx: &Context<'_>, associations: &Associations<'_>, vector: &mut Vector) {
        let lanes = vector.len();
        let number = self.shared.identifications.reserve(lanes as u64);
        let mut counted = Counted::default();
        for (lane, association) in associations.iter().enumerate().take(lanes) {
            let sequence = self.sequences[lane];
            let association = association.filter(|_| sequence != DROPPED);
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

/// Prefetches where the trailer of a lane will be, in use or not.
#[inline(always)]
fn prefetch_end(vector: &Vector, lane: usize) {
    if lane < vector.len() {
        prefetch(vector.bytes(lane).as_ptr_range().end);
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
        // Without a checksum (RFC 3948 section 2.1).
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
    let done = line.encapsulate(vector, lane, (inner, number, label.max(1)));
    done.then_some(if line.is_ip4() { LOOKUP4 } else { LOOKUP6 })
}

/// The next header of an inner packet with this first byte.
#[inline(always)]
fn protocol_of(first: u8) -> u8 {
    if first >> 4 == 4 { stoa_wire::protocol::IP4 } else { stoa_wire::protocol::IP6 }
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

/// Lanes that an engine gets together.
pub(super) struct Batch<'a> {
    lanes: ArrayVec<Lane<'a>, BATCH>,
    numbers: [u8; BATCH],
    bytes: usize,
}

impl<'a> Batch<'a> {
    pub(super) fn new() -> Self {
        Self { lanes: ArrayVec::new(), numbers: [0; BATCH], bytes: 0 }
    }

    /// Adds a lane with its number, and prefetches its packet. Whether the engine should be called.
    #[inline(always)]
    #[must_use]
    pub(super) fn add(&mut self, number: usize, lane: Lane<'a>) -> bool {
        for line in lane.packet.chunks(LINE) {
            prefetch(line.as_ptr());
        }
        self.bytes += lane.packet.len();
        if let Some(place) = self.numbers.get_mut(self.lanes.len()) {
            *place = number as u8;
        }
        self.lanes.push(lane);
        self.lanes.is_full() || self.bytes > BATCH_BYTES
    }

    /// Calls an engine with all lanes, and tells `done` about each by its number.
    #[inline(always)]
    pub(super) fn run(
        &mut self,
        engine: impl FnOnce(&mut [Lane<'a>]) -> Mask,
        mut done: impl FnMut(usize, bool),
    ) {
        let good = engine(&mut self.lanes);
        for (at, number) in self.numbers.iter().enumerate().take(self.lanes.len()) {
            done(usize::from(*number), good.has(at));
        }
        self.lanes.clear();
        self.bytes = 0;
    }
}
