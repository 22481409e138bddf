//! Test packets: UDP over IPv4 or IPv6, with a prefix index and a sequence number.

use super::hops::{Hop, IN, IN_MAC, IN_SIX};

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
/// Bytes after the UDP header: prefix index, sequence number, and padding up to 60 bytes of an IPv4 frame.
const DATA: usize = 18;
/// UDP ports: 1024 to 9 (discard).
const PORTS: [u8; 4] = [4, 0, 0, 9];

/// The fields of a received test packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    /// The prefix index.
    pub(super) index: u32,
    /// The sequence number.
    pub(super) sequence: u32,
    /// The destination address as a number.
    pub(super) destination: u128,
    /// The MAC address of its next hop.
    pub(super) mac: [u8; 6],
}

impl Arrival {
    /// Whether it went to this next hop.
    pub(super) fn went_by(&self, hop: Hop) -> bool {
        self.mac == hop.mac()
    }
}

/// A frame without FCS that is reused for each packet.
pub(super) struct Frame {
    bytes: Vec<u8>,
    six: bool,
}

impl Frame {
    /// A UDP packet without a destination yet.
    pub(super) fn new(six: bool) -> Self {
        let mut bytes = Vec::new();
        bytes.extend(IN_MAC);
        bytes.extend([2, 0, 0, 0xfe, 0, 1]);
        let length = (UDP + DATA) as u8;
        if six {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, length, 17, 64]);
            bytes.extend(IN_SIX[1].octets());
            bytes.extend([0; 16]);
        } else {
            // Don't fragment, TTL 64.
            bytes.extend([8, 0, 0x45, 0, 0, IPV4 as u8 + length, 0, 0, 0x40, 0, 64, 17, 0, 0]);
            bytes.extend(IN[1].octets());
            bytes.extend([0; 4]);
        }
        bytes.extend(PORTS);
        bytes.extend([0, length, 0, 0]);
        bytes.extend([0; DATA]);
        Self { bytes, six }
    }

    /// The packet with this sequence number for the prefix with this index.
    pub(super) fn filled(&mut self, index: u32, address: u128, sequence: u32) -> &[u8] {
        let (bytes, six) = (&mut self.bytes, self.six);
        let mark = ETHERNET + if six { IPV6 } else { IPV4 } + UDP;
        bytes[mark..mark + 4].copy_from_slice(&index.to_be_bytes());
        bytes[mark + 4..mark + 8].copy_from_slice(&sequence.to_be_bytes());
        if six {
            bytes[38..54].copy_from_slice(&address.to_be_bytes());
            // UDP over IPv6 requires a checksum (RFC 8200, section 8.1).
            bytes[60..62].fill(0);
            let sum = sum(&bytes[22..]) + 17 + (UDP + DATA) as u32;
            bytes[60..62].copy_from_slice(&folded(sum).to_be_bytes());
        } else {
            bytes[24..26].fill(0);
            bytes[30..34].copy_from_slice(&(address as u32).to_be_bytes());
            let sum = sum(&bytes[ETHERNET..ETHERNET + IPV4]);
            bytes[24..26].copy_from_slice(&folded(sum).to_be_bytes());
        }
        bytes
    }
}

/// The sum of 16-bit words; `bytes` has an even length, short enough for 32 bits.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum()
}

/// An Internet checksum (RFC 1071).
fn folded(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

/// Parses a frame; `None` when it is not a test packet.
pub(super) fn read(frame: &[u8]) -> Option<Arrival> {
    let number = |at: usize| Some(u32::from_be_bytes(*frame.get(at..)?.first_chunk::<4>()?));
    let mac = *frame.first_chunk::<6>()?;
    let (udp, destination) = match frame.get(12..14)? {
        [8, 0] => (ETHERNET + IPV4, number(30)?.into()),
        [0x86, 0xdd] => {
            (ETHERNET + IPV6, u128::from_be_bytes(*frame.get(38..)?.first_chunk::<16>()?))
        }
        _ => return None,
    };
    let is_ours = frame.get(udp..udp + 4)? == PORTS;
    let (index, sequence) = (number(udp + UDP)?, number(udp + UDP + 4)?);
    is_ours.then_some(Arrival { index, sequence, destination, mac })
}

#[cfg(test)]
mod tests {
    use super::super::hops::OutPort;
    use super::*;

    #[test]
    fn a_packet_identifies_its_prefix() {
        for (six, to) in [(false, 0x1400_0001_u128), (true, (0x2a00 << 112) | 0xffff_0007)] {
            let mut made = Frame::new(six);
            made.filled(1, 1, 1);
            let mut frame = made.filled(7, to, 9).to_vec();
            assert_eq!(frame.len(), if six { 80 } else { 60 });
            let checked = if six { sum(&frame[22..]) + 17 + 26 } else { sum(&frame[14..34]) };
            assert_eq!(folded(checked), 0, "the checksum");
            let hop = Hop { peer: 3, out: OutPort::Second, depth: 5 };
            frame[..6].copy_from_slice(&hop.mac());
            let show_output = read(&frame).expect("it is ours");
            assert_eq!(
                (show_output.index, show_output.sequence, show_output.destination),
                (7, 9, to)
            );
            assert!(show_output.went_by(hop) && !show_output.went_by(Hop { peer: 2, ..hop }));
            assert_eq!(read(&frame[..45]), None);
        }
    }
}
