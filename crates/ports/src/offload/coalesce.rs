//! Coalescing: packets of one TCP flow that follow each other in a burst go to the kernel as
//! one super-frame, so that its path costs once. Cutting it gives the very same
//! packets back: what would differ, or is not sound, is not joined.

use stoa_engine::Vector;

use super::{
    GSO_TCP4, GSO_TCP6, Headers, NEEDS_CHECKSUM, VnetHeader, fold, get, get_long, put, sum, word,
};

/// TCP flags of a packet that others may follow: ACK alone.
const ACK: u8 = 0x10;
/// The TCP flag that the last packet may have besides: PSH.
const PSH: u8 = 0x08;
/// Bytes of one IP packet at most.
const LONGEST: usize = 0xffff;

/// Packets from some lane on that go as one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// How many; at least one.
    pub lanes: usize,
    /// The header for the kernel; all-zero for one packet.
    pub header: VnetHeader,
    /// Where the payload begins in each packet after the first.
    pub payload: usize,
}

/// Finds the packets from `first` on that go as one, and makes the headers of the first those
/// of the super-frame.
#[inline]
pub(crate) fn group(vector: &mut Vector, first: usize) -> Group {
    let alone = Group { lanes: 1, header: VnetHeader::default(), payload: 0 };
    if first + 1 >= vector.len() {
        return alone;
    }
    let Some(flow) = Flow::of(vector.bytes(first)) else { return alone };
    let (mut lanes, mut bytes, mut last) = (1, vector.bytes(first).len(), false);
    while !last && first + lanes < vector.len() {
        let (head, next) = (vector.bytes(first), vector.bytes(first + lanes));
        if !flow.continues(head, next, lanes, bytes) || !flow.sound(next) {
            break;
        }
        // Only now does parsing the first packet pay.
        if lanes == 1 && !flow.sound(head) {
            return alone;
        }
        bytes += next.len() - flow.at.payload;
        last = next.len() < head.len() || next[flow.at.l4 + 13] & PSH != 0;
        lanes += 1;
    }
    if lanes == 1 {
        return alone;
    }
    let push = vector.bytes(first + lanes - 1)[flow.at.l4 + 13] & PSH;
    let segment = vector.bytes(first).len() - flow.at.payload;
    let header = flow.join(vector.bytes_mut(first), bytes, segment, push);
    Group { lanes, header, payload: flow.at.payload }
}

/// What the packets of a group share.
struct Flow {
    at: Headers,
    /// Pseudo header without length.
    pseudo: u64,
}

impl Flow {
    /// The flow of a packet that others may follow.
    fn of(packet: &[u8]) -> Option<Self> {
        let at = Headers::find(packet)?;
        if !at.tcp || at.routed || packet[at.l4 + 13] != ACK || at.payload == packet.len() {
            return None;
        }
        Some(Self { at, pseudo: at.pseudo(packet) })
    }

    /// Whether `next` is what cutting the super-frame would give as packet `number`, so far of
    /// `bytes` bytes.
    fn continues(&self, head: &[u8], next: &[u8], number: usize, bytes: usize) -> bool {
        let Headers { l3, l4, payload, six, .. } = self.at;
        let same = |from: usize, to: usize| head[from..to] == next[from..to];
        if next.len() <= payload || next.len() > head.len() || !same(0, l3) {
            return false;
        }
        if bytes - l3 + next.len() - payload > LONGEST {
            return false;
        }
        let ip = if six {
            same(l3, l3 + 4) && same(l3 + 6, l4)
        } else {
            let id = get(head, l3 + 4).wrapping_add(number as u16);
            same(l3, l3 + 2)
                && get(next, l3 + 4) == id
                && same(l3 + 6, l3 + 10)
                && same(l3 + 12, l4)
        };
        let sequence = get_long(head, l4 + 4).wrapping_add((bytes - payload) as u32);
        ip && same(l4, l4 + 4)
            && get_long(next, l4 + 4) == sequence
            && same(l4 + 8, l4 + 13)
            && next[l4 + 13] & !PSH == ACK
            && same(l4 + 14, l4 + 16)
            && same(l4 + 18, payload)
    }

    /// Whether lengths and checksums are right: joining would fix them otherwise.
    fn sound(&self, packet: &[u8]) -> bool {
        let Headers { l3, l4, six, .. } = self.at;
        let ip = if six {
            usize::from(get(packet, l3 + 4)) == packet.len() - l3 - 40
        } else {
            usize::from(get(packet, l3 + 2)) == packet.len() - l3
                && fold(sum(&packet[l3..l4])) == 0xffff
        };
        let length = (packet.len() - l4) as u16;
        ip && fold(self.pseudo + word(length) + sum(&packet[l4..])) == 0xffff
    }

    /// Turns the headers of the first packet into those of a super-frame of `bytes` bytes.
    fn join(&self, head: &mut [u8], bytes: usize, segment: usize, push: u8) -> VnetHeader {
        let Headers { l3, l4, payload, six, .. } = self.at;
        if six {
            put(head, l3 + 4, (bytes - l3 - 40) as u16);
        } else {
            put(head, l3 + 2, (bytes - l3) as u16);
            put(head, l3 + 10, 0);
            let checksum = !fold(sum(&head[l3..l4]));
            head[l3 + 10..l3 + 12].copy_from_slice(&checksum.to_ne_bytes());
        }
        head[l4 + 13] |= push;
        let partial = fold(self.pseudo + word((bytes - l4) as u16));
        head[l4 + 16..l4 + 18].copy_from_slice(&partial.to_ne_bytes());
        VnetHeader {
            flags: NEEDS_CHECKSUM,
            gso_type: if six { GSO_TCP6 } else { GSO_TCP4 },
            header_length: payload as u16,
            segment: segment as u16,
            checksum_start: l4 as u16,
            checksum_offset: 16,
        }
    }
}
