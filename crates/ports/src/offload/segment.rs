//! Segmentation: one super-frame becomes the packets that its sender would have sent.

use super::{
    GSO_ECN, GSO_TCP4, GSO_TCP6, GSO_UDP, Headers, VnetHeader, complete_checksum, finish, fold,
    get, put, sum, word,
};

/// Packets of one super-frame at most: 64 KiB at the smallest segment that TCP knows.
const PACKETS: usize = 2048;

/// TCP flags that only the last packet keeps: FIN and PSH.
const LAST: u8 = 0x09;
/// The TCP flag that only the first packet keeps: CWR (RFC 3168, 6.1.2).
const FIRST: u8 = 0x80;

/// The packets of a super-frame that are still to be written.
#[derive(Clone, Debug)]
pub struct Segments {
    headers: Headers,
    /// Pseudo header without length.
    pseudo: u64,
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
        let transport = frame.len() - headers.l4;
        if !fits || segment == 0 || segment > room || transport > 0xffff {
            return None;
        }
        if payload.div_ceil(segment) > PACKETS {
            return None;
        }
        let pseudo = if header.is_partial() {
            if usize::from(header.checksum_start) != headers.l4 {
                return None;
            }
            // The sender's own pseudo header: right even with a routing header.
            let at = headers.l4 + headers.checksum_offset();
            let length = fold(word(transport as u16));
            u64::from(u16::from_ne_bytes([frame[at], frame[at + 1]])) + u64::from(!length)
        } else if headers.routed {
            return None;
        } else {
            headers.pseudo(frame)
        };
        Some(Self { headers, pseudo, segment, total: frame.len(), written: 0, packets: 0 })
    }

    /// Packets that are still to be written.
    pub fn left(&self) -> usize {
        let all = (self.total - self.headers.payload).div_ceil(self.segment).max(1);
        all - self.packets
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
            let id = get(packet, l3 + 4).wrapping_add(self.packets as u16);
            put(packet, l3 + 2, (length - l3) as u16);
            put(packet, l3 + 4, id);
            put(packet, l3 + 10, 0);
            let checksum = !fold(sum(&packet[l3..l4]));
            packet[l3 + 10..l3 + 12].copy_from_slice(&checksum.to_ne_bytes());
        }
        if tcp {
            let sequence: [u8; 4] =
                [packet[l4 + 4], packet[l4 + 5], packet[l4 + 6], packet[l4 + 7]];
            let sequence = u32::from_be_bytes(sequence).wrapping_add(self.written as u32);
            packet[l4 + 4..l4 + 8].copy_from_slice(&sequence.to_be_bytes());
            if end < self.total {
                packet[l4 + 13] &= !LAST;
            }
            if self.packets > 0 {
                packet[l4 + 13] &= !FIRST;
            }
        } else {
            put(packet, l4 + 4, (length - l4) as u16);
        }
        let at = l4 + self.headers.checksum_offset();
        put(packet, at, 0);
        let whole = self.pseudo + word((length - l4) as u16) + sum(&packet[l4..]);
        packet[at..at + 2].copy_from_slice(&finish(whole));
        self.written = end - payload;
        self.packets += 1;
        Some(length)
    }
}

/// Makes one whole packet of a frame that is no super-frame; `false`: its header lies.
#[must_use]
pub(crate) fn complete(frame: &mut [u8], header: &VnetHeader) -> bool {
    let (start, offset) = (header.checksum_start, header.checksum_offset);
    !header.is_partial() || complete_checksum(frame, start.into(), offset.into())
}
