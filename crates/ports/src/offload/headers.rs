//! Where the headers of a TCP or UDP packet lie: after Ethernet, VLAN tags and IP.

use super::{sum, word};

/// Tags that are parsed at most.
const TAGS: usize = 4;
/// IPv6 extension headers that are parsed at most.
const EXTENSIONS: usize = 8;

/// The places of a packet's headers, all inside the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    /// Where IP begins.
    pub l3: usize,
    /// Where TCP or UDP begins.
    pub l4: usize,
    /// Where the payload begins.
    pub payload: usize,
    /// IPv6, else IPv4.
    pub six: bool,
    /// TCP, else UDP.
    pub tcp: bool,
    /// A routing header: the pseudo header's destination is not the one in the IP header.
    pub routed: bool,
}

impl Headers {
    /// Finds the headers; `None`: not a whole TCP or UDP header, or a fragment.
    pub fn find(frame: &[u8]) -> Option<Self> {
        let mut at = 12;
        let mut kind = half(frame, at)?;
        for _ in 0..TAGS {
            if !matches!(kind, 0x8100 | 0x88a8) {
                break;
            }
            at += 4;
            kind = half(frame, at)?;
        }
        let l3 = at + 2;
        let (l4, protocol, routed) = match kind {
            0x0800 => four(frame, l3)?,
            0x86dd => six(frame, l3)?,
            _ => return None,
        };
        let (tcp, header) = match protocol {
            6 => (true, usize::from(*frame.get(l4 + 12)? >> 4) * 4),
            17 => (false, 8),
            _ => return None,
        };
        let payload = l4 + header;
        if (tcp && header < 20) || payload > frame.len() {
            return None;
        }
        Some(Self { l3, l4, payload, six: kind == 0x86dd, tcp, routed })
    }

    /// Where the checksum lies within the transport header.
    pub fn checksum_offset(&self) -> usize {
        if self.tcp { 16 } else { 6 }
    }

    /// The sum of the pseudo header (RFC 9293, 3.1; RFC 8200, 8.1) without the length.
    pub fn pseudo(&self, frame: &[u8]) -> u64 {
        let addresses = if self.six { 8..40 } else { 12..20 };
        let protocol = if self.tcp { 6 } else { 17 };
        sum(&frame[self.l3 + addresses.start..self.l3 + addresses.end]) + word(protocol)
    }
}

/// IPv4: no fragment, the header whole.
fn four(frame: &[u8], l3: usize) -> Option<(usize, u8, bool)> {
    let header = frame.get(l3..l3 + 20)?;
    let length = usize::from(header[0] & 15) * 4;
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
    (header[0] >> 4 == 4 && length >= 20 && fragment == 0).then_some((
        l3 + length,
        header[9],
        false,
    ))
}

/// IPv6: hop-by-hop, routing and destination options are parsed.
fn six(frame: &[u8], l3: usize) -> Option<(usize, u8, bool)> {
    let header = frame.get(l3..l3 + 40)?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let (mut at, mut next, mut routed) = (l3 + 40, header[6], false);
    for _ in 0..EXTENSIONS {
        if !matches!(next, 0 | 43 | 60) {
            break;
        }
        routed |= next == 43;
        let extension = frame.get(at..at + 2)?;
        next = extension[0];
        at += (usize::from(extension[1]) + 1) * 8;
    }
    Some((at, next, routed))
}

fn half(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
}
