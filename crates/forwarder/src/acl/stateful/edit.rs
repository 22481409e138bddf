//! Other text in place of a part of the data of a TCP segment, or of that of a datagram.

use std::ops::Range;

use stoa_engine::Vector;
use stoa_wire::checksum::{self, Pseudo, update16};
use stoa_wire::protocol::TCP;
use stoa_wire::{ipv4, ipv6, udp};

use super::seen;
use crate::flow::fields::{Kind, Place};

/// Where the checksum of a TCP segment is.
const CHECKSUM: usize = 16;
/// Bytes of the longest packet that a datagram becomes which grows: longer ones are cut on their way.
const MTU: usize = 1_500;

/// Puts a text in place of a part of the data of a lane's segment, which gets a new checksum: the former one must have
/// been right. Its fields must be known, and stay true. `false`, and nothing has changed: it has no room.
pub(super) fn replace_data(
    vector: &mut Vector,
    lane: usize,
    part: Range<usize>,
    text: &[u8],
) -> bool {
    let Some(fields) = vector.known_fields() else { return false };
    let packet = seen(vector, fields, lane);
    let (kind, place) = (packet.kind, packet.place);
    let (Some(view), Some(pseudo)) = (packet.view(), packet.pseudo()) else { return false };
    let (upper, length) = (usize::from(place.upper()), usize::from(place.length()));
    let data = upper + view.payload_range().start;
    let (start, end) = (data + part.start, data + part.end);
    let new_length = (length + text.len()).saturating_sub(part.len());
    let has_room = usize::from(vector.offset[lane]) + new_length <= vector.capacity(lane)
        && new_length <= usize::from(u16::MAX);
    if !has_room || start > end || end > length {
        return false;
    }
    vector.length[lane] = new_length.max(length) as u16;
    let bytes = vector.bytes_mut(lane);
    let to = start + text.len();
    if bytes.len() < new_length.max(length) {
        return false;
    }
    bytes.copy_within(end..length, to);
    bytes[start..to].copy_from_slice(text);
    vector.length[lane] = new_length as u16;
    let bytes = vector.bytes_mut(lane);
    write_length(bytes, kind, new_length);
    if let Some(segment) = bytes.get_mut(upper..) {
        if let Some(field) = segment.get_mut(CHECKSUM..CHECKSUM + 2) {
            field.fill(0);
        }
        let sum = checksum::sum(segment) + pseudo.sum(TCP, segment.len());
        if let Some(field) = segment.get_mut(CHECKSUM..CHECKSUM + 2) {
            field.copy_from_slice(&checksum::finish(sum).to_be_bytes());
        }
    }
    if let Some(fields) = vector.known_fields_mut() {
        fields.place[lane] = Place((upper as u32) << 16 | new_length as u32).0;
    }
    true
}

/// Puts a text in place of the data of a lane's datagram, which gets a new checksum if it has one: that must have been
/// right. Its fields must be known, and stay true. `false`, and nothing has changed: it has no room.
pub(super) fn replace_datagram(vector: &mut Vector, lane: usize, text: &[u8]) -> bool {
    let Some(fields) = vector.known_fields() else { return false };
    let packet = seen(vector, fields, lane);
    let (kind, place, pseudo) = (packet.kind, packet.place, packet.pseudo());
    let (upper, length) = (usize::from(place.upper()), usize::from(place.length()));
    let new_length = upper + udp::LENGTH + text.len();
    let has_room = usize::from(vector.offset[lane]) + new_length <= vector.capacity(lane)
        && new_length <= length.max(MTU);
    let Some(pseudo) = pseudo.filter(|_| has_room) else { return false };
    vector.length[lane] = new_length.max(length) as u16;
    let datagram = vector.bytes_mut(lane).get_mut(upper..new_length);
    if datagram.is_none_or(|datagram| !write_datagram(datagram, &pseudo, text)) {
        vector.length[lane] = length as u16;
        return false;
    }
    vector.length[lane] = new_length as u16;
    write_length(vector.bytes_mut(lane), kind, new_length);
    if let Some(fields) = vector.known_fields_mut() {
        fields.place[lane] = Place((upper as u32) << 16 | new_length as u32).0;
    }
    true
}

/// Gives a datagram another text, between its ports: with a checksum, if it had one.
fn write_datagram(datagram: &mut [u8], pseudo: &Pseudo, text: &[u8]) -> bool {
    let Some([a, b, c, d, _, _, checksum @ ..]) = datagram.first_chunk::<{ udp::LENGTH }>() else {
        return false;
    };
    let (has_checksum, from, to) =
        (*checksum != [0, 0], u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
    if udp::build(datagram, pseudo, from, to, text).is_err() {
        return false;
    }
    if let Some(checksum) = datagram.get_mut(6..8).filter(|_| !has_checksum) {
        checksum.fill(0);
    }
    true
}

/// Writes the length of a packet into its IP header.
fn write_length(bytes: &mut [u8], kind: Kind, length: usize) {
    if kind.is_ip6() {
        let payload = length.saturating_sub(ipv6::LENGTH) as u16;
        if let Some(field) = bytes.get_mut(4..6) {
            field.copy_from_slice(&payload.to_be_bytes());
        }
    } else if let Some(header) = bytes.first_chunk_mut::<{ ipv4::LENGTH }>() {
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let checksum = update16(half(10), half(2), length as u16);
        header[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}
