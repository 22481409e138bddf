//! Offloads of Linux's virtual links, done in the driver: the kernel hands over frames whose
//! checksum is not finished and super-frames of up to 64 KiB that were never cut. The graph sees
//! neither: what enters it are whole packets of the link's size.
//!
//! ```text
//! receive:   virtio_net_hdr + frame -> Staging -> Segments -> packets
//! transmit:  packets in order of one TCP flow -> coalesce -> virtio_net_hdr + super-frame
//! ```
//! The header is the one of the Virtual I/O Device specification 1.2, section 5.1.6, in its
//! legacy form (native byte order, 10 bytes), as `PACKET_VNET_HDR` and `IFF_VNET_HDR` speak it.

pub(crate) mod coalesce;
mod headers;
mod partial;
mod segment;
mod staging;

pub(crate) use headers::Headers;
pub(crate) use partial::finish_silent;
pub use segment::Segments;
pub(crate) use segment::complete;
pub(crate) use staging::Staging;

/// Bytes of a [`VnetHeader`].
pub const VNET_HEADER: usize = 10;

/// `flags`: the checksum at `checksum_start + checksum_offset` is still to be computed.
const NEEDS_CHECKSUM: u8 = 1;
/// `gso_type`: TCP over IPv4.
const GSO_TCP4: u8 = 1;
/// `gso_type`: TCP over IPv6.
const GSO_TCP6: u8 = 4;
/// `gso_type`: UDP, one datagram per segment.
const GSO_UDP: u8 = 5;
/// `gso_type`: a bit: the flow uses ECN.
const GSO_ECN: u8 = 0x80;

/// What comes with a frame from or to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct VnetHeader {
    /// See the specification; bit 0: the checksum is to be completed.
    pub flags: u8,
    /// 0: one packet. 1: TCP over IPv4. 4: TCP over IPv6. 5: UDP.
    pub gso_type: u8,
    /// Bytes of all headers; a hint.
    pub header_length: u16,
    /// Payload bytes of each packet but the last.
    pub segment: u16,
    /// Where the sum begins, in bytes from the start of the frame.
    pub checksum_start: u16,
    /// Where the sum goes, in bytes from `checksum_start`.
    pub checksum_offset: u16,
}

impl VnetHeader {
    /// Reads a header.
    pub fn parse(bytes: &[u8; VNET_HEADER]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Self {
            flags: bytes[0],
            gso_type: bytes[1],
            header_length: word(2),
            segment: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        }
    }

    /// The header as the kernel reads it.
    pub fn bytes(&self) -> [u8; VNET_HEADER] {
        let mut bytes = [self.flags, self.gso_type, 0, 0, 0, 0, 0, 0, 0, 0];
        let words = [self.header_length, self.segment, self.checksum_start, self.checksum_offset];
        for (at, word) in words.iter().enumerate() {
            bytes[2 + 2 * at..4 + 2 * at].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Whether the frame is more than one packet.
    pub fn is_super(&self) -> bool {
        self.gso_type & !GSO_ECN != 0
    }

    /// Whether the frame's checksum is still to be completed.
    pub fn is_partial(&self) -> bool {
        self.flags & NEEDS_CHECKSUM != 0
    }
}

/// Completes a partial checksum: the field holds the sum of the pseudo header, the rest is
/// summed here. `false` and no change when the field lies outside the frame.
#[must_use]
pub fn complete_checksum(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let at = start + offset;
    if start > frame.len() || at + 2 > frame.len() {
        return false;
    }
    let whole = finish(sum(&frame[start..]));
    frame[at..at + 2].copy_from_slice(&whole);
    true
}

/// One's complement sum of 16-bit words (RFC 1071), not folded, in native byte order.
#[inline]
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    // Four independent sums, so that the compiler can use vector registers.
    let mut sums = [0u64; 8];
    let (blocks, words) = words.as_chunks::<8>();
    for block in blocks {
        for (sum, word) in sums.iter_mut().zip(block) {
            *sum += u64::from(u32::from_ne_bytes(*word));
        }
    }
    let mut total: u64 = sums.iter().sum();
    for word in words {
        total += u64::from(u32::from_ne_bytes(*word));
    }
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total + u64::from(u32::from_ne_bytes(last))
}

/// Folds a sum to 16 bits.
#[inline]
fn fold(mut sum: u64) -> u16 {
    sum = (sum >> 32) + (sum & 0xffff_ffff);
    sum = (sum >> 32) + (sum & 0xffff_ffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

/// A sum as a transport checksum field. Never zero: that would mean "none" in UDP (RFC 768),
/// and in TCP both zeros are the same.
#[inline]
fn finish(sum: u64) -> [u8; 2] {
    match !fold(sum) {
        0 => [0xff, 0xff],
        checksum => checksum.to_ne_bytes(),
    }
}

/// A big-endian 16-bit value as a summand.
#[inline]
fn word(value: u16) -> u64 {
    u64::from(u16::from_ne_bytes(value.to_be_bytes()))
}

/// Reads 16 bits in network byte order.
#[inline]
fn get(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

/// Reads 32 bits in network byte order.
#[inline]
fn get_long(packet: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
}

/// Writes 16 bits in network byte order.
#[inline]
fn put(packet: &mut [u8], at: usize, value: u16) {
    packet[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;
