//! Segments that the router itself sends for a connection with a SYN cookie, and segments in place of others.

use stoa_engine::vector::flags;
use stoa_engine::{Context, Vector};
use stoa_wire::checksum::{Pseudo, update16};
use stoa_wire::tcp::{self, flag};
use stoa_wire::tcp_options::{SYN_OPTIONS, SynOptions};
use stoa_wire::{ipv4, ipv6, protocol};

use super::super::node::ORIGIN;
use crate::flow::fields::{Kind, Place};
use crate::flow::tracker::Seen;

/// Bytes of the longest packet that is made here.
const LONGEST: usize = ipv6::LENGTH + tcp::LENGTH + SYN_OPTIONS;

/// A packet with a segment without data.
#[derive(Clone, Copy)]
pub(super) struct Made {
    bytes: [u8; LONGEST],
    upper: usize,
    length: usize,
}

impl Made {
    /// The segment of `builder` to the sender of a packet.
    pub(super) fn back(packet: &Seen<'_>, builder: &tcp::Builder<'_>) -> Option<Self> {
        let mut made = Self { bytes: [0; LONGEST], upper: 0, length: 0 };
        let pseudo = match packet.pseudo()? {
            Pseudo::Ip4 { source, destination } => {
                Pseudo::Ip4 { source: destination, destination: source }
            }
            Pseudo::Ip6 { source, destination } => {
                Pseudo::Ip6 { source: destination, destination: source }
            }
        };
        made.upper = if pseudo.is_ip6() { ipv6::LENGTH } else { ipv4::LENGTH };
        let (head, body) = made.bytes.split_at_mut(made.upper);
        let length = builder.build(body, &pseudo, &[]).ok()?;
        match pseudo {
            Pseudo::Ip4 { source, destination } => {
                let header = ipv4::Builder::new(source, destination, protocol::TCP);
                let flags_fragment = ipv4::DONT_FRAGMENT;
                ipv4::Builder { flags_fragment, ..header }.build(head, length).ok()?;
            }
            Pseudo::Ip6 { source, destination } => {
                ipv6::Builder::new(source, destination, protocol::TCP).build(head, length).ok()?;
            }
        }
        made.length = made.upper + length;
        Some(made)
    }

    /// The packet.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The packet for the tracker; `flags`: those of its segment.
    pub(super) fn seen(&self, flags: u8) -> Seen<'_> {
        let family = if self.upper == ipv6::LENGTH { Kind::IP6 } else { 0 };
        let kind = Kind(u32::from(protocol::TCP) | u32::from(flags) << 8 | family);
        let place = Place((self.upper as u32) << 16 | self.length as u32);
        Seen { bytes: self.bytes(), kind, place }
    }
}

/// A packet to send, made from a lane.
pub(super) struct Answer {
    pub(super) lane: u8,
    /// In place of the lane, which goes to [`ORIGIN`] already; or beside it.
    pub(super) is_instead: bool,
    pub(super) made: Made,
}

/// Sends answers, when nobody reads the fields of lanes any more.
#[cold]
#[inline(never)]
pub(super) fn send(cx: &mut Context<'_>, vector: &mut Vector, answers: &mut Vec<Answer>) {
    for Answer { lane, is_instead, made } in answers.drain(..) {
        let (lane, bytes) = (usize::from(lane), made.bytes());
        if is_instead {
            let start = usize::from(vector.offset[lane]);
            if let Some(to) = vector.buffer_mut(lane).get_mut(start..start + bytes.len()) {
                to.copy_from_slice(bytes);
                vector.length[lane] = bytes.len() as u16;
            }
            vector.make_own(lane);
            // No rule concerns what keeps a connection that rules have admitted.
            vector.flags[lane] |= flags::ADMITTED;
            continue;
        }
        // Without a buffer, the hosts repeat what they have sent.
        let Some(mut packet) = cx.packet() else { continue };
        if packet.set_bytes(bytes) {
            packet.rx_if = vector.rx_if[lane];
            packet.flags |= flags::ADMITTED;
            cx.descend(vector, lane, &mut packet);
            let _ = cx.emit(ORIGIN, packet);
        }
    }
}

/// Has a lane carry another segment without data between the same ends. Its fields must be known, and stay true.
/// `false`, and nothing has changed: it has no room.
pub(super) fn replace(vector: &mut Vector, lane: usize, builder: &tcp::Builder<'_>) -> bool {
    let Some(fields) = vector.known_fields() else { return false };
    let (kind, place) = (Kind(fields.kind[lane]), Place(fields.place[lane]));
    let upper = usize::from(place.upper());
    let end = upper + tcp::LENGTH + builder.options.len();
    if usize::from(vector.offset[lane]) + end > vector.capacity(lane) || end > usize::from(u16::MAX)
    {
        return false;
    }
    let Some(pseudo) = (Seen { bytes: vector.bytes(lane), kind, place }).pseudo() else {
        return false;
    };
    vector.length[lane] = end as u16;
    let bytes = vector.bytes_mut(lane);
    let Some((head, body)) = bytes.split_at_mut_checked(upper) else { return false };
    if builder.build(body, &pseudo, &[]).is_err() {
        return false;
    }
    if kind.is_ip6() {
        let payload = (end - ipv6::LENGTH) as u16;
        if let Some(length) = head.get_mut(4..6) {
            length.copy_from_slice(&payload.to_be_bytes());
        }
    } else if let Some(header) = head.first_chunk_mut::<{ ipv4::LENGTH }>() {
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let checksum = update16(half(10), half(2), end as u16);
        header[2..4].copy_from_slice(&(end as u16).to_be_bytes());
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    if let Some(fields) = vector.known_fields_mut() {
        fields.kind[lane] = kind.0 & !0xff00 | u32::from(builder.flags) << 8;
        fields.place[lane] = (upper as u32) << 16 | end as u32;
    }
    true
}

/// The segment of a lane as a SYN without data and without what it carries in fields that a SYN does not use; `cookie`:
/// with that acknowledgement number and the echo of its timestamps, for those behind.
pub(super) fn syn<'a>(
    view: &tcp::View<'_>,
    (number, cookie): (u32, Option<u32>),
    options: &SynOptions,
    window: u16,
    out: &'a mut [u8; SYN_OPTIONS],
) -> tcp::Builder<'a> {
    let mut options = *options;
    if let Some(timestamps) = options.timestamps.as_mut().filter(|_| cookie.is_none()) {
        timestamps.echo = 0;
    }
    let length = options.write(out);
    tcp::Builder {
        source_port: view.source_port(),
        destination_port: view.destination_port(),
        sequence: number,
        acknowledgement: cookie.unwrap_or(0),
        flags: flag::SYN,
        window,
        urgent: 0,
        options: &out[..length],
    }
}
