//! Segmentation: one super-frame becomes the packets that its sender would have sent.

use super::{
    GSO_ECN, GSO_TCP4, GSO_TCP6, GSO_UDP, Headers, VnetHeader, complete_checksum, finish, fold,
    get, get_long, put, sum, word,
};

/// Packets of one super-frame at most: 64 KiB at the smallest TCP segment.
const PACKETS: usize = 2048;

/// TCP flags that only the last packet keeps: FIN and PSH.
const LAST: u8 = 0x09;
/// The TCP flag that only the first packet keeps: CWR (RFC 3168, 6.1.2).
const FIRST: u8 = 0x80;

/// The packets of a super-frame that are still to be written.
///
/// What all packets share is summed once. Nothing that was just written is read again: a load
/// from half-written lines would wait for all stores before it.
#[derive(Clone, Debug)]
pub struct Segments {
    headers: Headers,
    /// The IPv4 header's sum without length, identification and checksum.
    ip: u64,
    /// The sum of pseudo header and transport header without what differs between packets.
    transport: u64,
    /// The super-frame's IPv4 identification.
    id: u16,
    /// The super-frame's TCP sequence number.
    sequence: u32,
    /// The super-frame's TCP flags.
    flags: u8,
    /// Payload bytes of each packet but the last.
    segment: usize,
    /// Bytes of the super-frame.
    total: usize,
    /// Payload bytes that are written.
    written: usize,
    /// Packets that are written.
    packets: usize,
}

impl Segments {
    /// Plans the packets of `frame`, each at most `longest` bytes. TCP segments that would be
    /// longer are cut smaller, as any sender may.
    ///
    /// `None`: the header and the frame do not fit each other, a datagram is too long, or
    /// there would be more than 2,048 packets.
    pub fn plan(frame: &[u8], header: &VnetHeader, longest: usize) -> Option<Self> {
        let headers = Headers::find(frame)?;
        let fits = match header.gso_type & !GSO_ECN {
            GSO_TCP4 => headers.tcp && !headers.six,
            GSO_TCP6 => headers.tcp && headers.six,
            GSO_UDP => !headers.tcp,
            _ => false,
        };
        let room = longest.checked_sub(headers.payload)?;
        let mut segment = usize::from(header.segment);
        if headers.tcp {
            segment = segment.min(room);
        }
        let payload = frame.len() - headers.payload;
        if !fits || segment == 0 || segment > room || frame.len() - headers.l4 > 0xffff {
            return None;
        }
        if payload.div_ceil(segment) > PACKETS {
            return None;
        }
        let Headers { l3, l4, payload, six, tcp, .. } = headers;
        let part = |from: usize, to: usize| sum(&frame[from..to]);
        let mut plan = Self {
            headers,
            ip: 0,
            transport: pseudo(frame, header, &headers)? + part(l4, l4 + 4),
            id: 0,
            sequence: 0,
            flags: 0,
            segment,
            total: frame.len(),
            written: 0,
            packets: 0,
        };
        if !six {
            plan.ip = part(l3, l3 + 2) + part(l3 + 6, l3 + 10) + part(l3 + 12, l4);
            plan.id = get(frame, l3 + 4);
        }
        if tcp {
            plan.transport += part(l4 + 8, l4 + 12) + word(get(frame, l4 + 12) & 0xff00);
            plan.transport += part(l4 + 14, l4 + 16) + part(l4 + 18, payload);
            plan.sequence = get_long(frame, l4 + 4);
            plan.flags = frame[l4 + 13];
        }
        Some(plan)
    }

    /// Packets that are still to be written.
    pub fn left(&self) -> usize {
        let all = (self.total - self.headers.payload).div_ceil(self.segment).max(1);
        all - self.packets
    }

    /// Bytes of the next packet.
    pub fn next(&self) -> usize {
        (self.headers.payload + self.written + self.segment).min(self.total) - self.written
    }

    /// Writes the next packet of `frame` (the one that was planned) and returns its length;
    /// `None`: no packet is left, or `into` is too short.
    pub fn write(&mut self, frame: &[u8], into: &mut [u8]) -> Option<usize> {
        if self.left() == 0 || frame.len() != self.total {
            return None;
        }
        let Headers { l3, l4, payload, six, tcp, .. } = self.headers;
        let start = payload + self.written;
        let end = (start + self.segment).min(self.total);
        let length = payload + end - start;
        let packet = into.get_mut(..length)?;
        packet[..payload].copy_from_slice(&frame[..payload]);
        packet[payload..].copy_from_slice(&frame[start..end]);
        if six {
            put(packet, l3 + 4, (length - l3 - 40) as u16);
        } else {
            let id = self.id.wrapping_add(self.packets as u16);
            let bytes = (length - l3) as u16;
            put(packet, l3 + 2, bytes);
            put(packet, l3 + 4, id);
            let checksum = !fold(self.ip + word(bytes) + word(id));
            packet[l3 + 10..l3 + 12].copy_from_slice(&checksum.to_ne_bytes());
        }
        let bytes = (length - l4) as u16;
        let mut whole = self.transport + word(bytes) + sum(&frame[start..end]);
        if tcp {
            let sequence = self.sequence.wrapping_add(self.written as u32);
            packet[l4 + 4..l4 + 8].copy_from_slice(&sequence.to_be_bytes());
            packet[l4 + 13] = self.flags(end == self.total);
            whole += word((sequence >> 16) as u16) + word(sequence as u16);
            whole += word(packet[l4 + 13].into());
        } else {
            put(packet, l4 + 4, bytes);
            whole += word(bytes);
        }
        let at = l4 + self.headers.checksum_offset();
        packet[at..at + 2].copy_from_slice(&finish(whole));
        self.written = end - payload;
        self.packets += 1;
        Some(length)
    }

    /// The TCP flags of the next packet.
    fn flags(&self, is_last: bool) -> u8 {
        let last = if is_last { 0 } else { LAST };
        let first = if self.packets == 0 { 0 } else { FIRST };
        self.flags & !last & !first
    }
}

/// The pseudo header's sum without the length; `None`: it cannot be known, or the offload
/// header means another place.
fn pseudo(frame: &[u8], header: &VnetHeader, headers: &Headers) -> Option<u64> {
    if !header.is_partial() {
        return (!headers.routed).then(|| headers.pseudo(frame));
    }
    if usize::from(header.checksum_start) != headers.l4 {
        return None;
    }
    // The sender's own: right even with a routing header. Take its length off.
    let at = headers.l4 + headers.checksum_offset();
    let length = fold(word((frame.len() - headers.l4) as u16));
    Some(u64::from(u16::from_ne_bytes([frame[at], frame[at + 1]])) + u64::from(!length))
}

/// Makes one whole packet of a frame that is no super-frame; `false`: its header is wrong.
#[must_use]
pub(crate) fn complete(frame: &mut [u8], header: &VnetHeader) -> bool {
    let (start, offset) = (header.checksum_start, header.checksum_offset);
    !header.is_partial() || complete_checksum(frame, start.into(), offset.into())
}
