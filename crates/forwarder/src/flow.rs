//! The flow hash of a packet, computed when a route has several paths (RFC 2992, RFC 6438):
//! addresses, protocol and, unless the packet is a fragment, ports.

use stoa_tables::flow_hash::Flow;
use stoa_wire::{ipv6, protocol};

/// Seed of all flow hashes.
const SEED: u32 = 0x5704_a001;

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
}

fn ports(upper: &[u8], protocol: u8) -> (u16, u16) {
    let has_ports = matches!(protocol, protocol::TCP | protocol::UDP | 132);
    let word = if has_ports { be32(upper, 0) } else { 0 };
    ((word >> 16) as u16, word as u16)
}

/// Hash of a validated IPv4 packet.
pub fn hash4(bytes: &[u8]) -> u32 {
    let header_length = usize::from(bytes.first().copied().unwrap_or(0) & 0xf) * 4;
    let protocol = bytes.get(9).copied().unwrap_or(0);
    let is_fragment = be32(bytes, 4) & 0x3fff != 0;
    let upper = bytes.get(header_length..).filter(|_| !is_fragment).unwrap_or(&[]);
    let (source_port, destination_port) = ports(upper, protocol);
    let (source, destination) = (be32(bytes, 12), be32(bytes, 16));
    Flow { source, destination, source_port, destination_port, protocol }.hash(SEED)
}

/// Hash of a validated IPv6 packet: with the flow label in place of ports when it has extension
/// headers (RFC 6438).
pub fn hash6(bytes: &[u8]) -> u32 {
    let Some((header, upper)) = bytes.split_first_chunk::<{ ipv6::LENGTH }>() else { return 0 };
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        u128::from_be_bytes(octets)
    };
    let protocol = header[6];
    let (source_port, destination_port) = match ports(upper, protocol) {
        (0, 0) => {
            let label = be32(header, 0) & 0xf_ffff;
            ((label >> 16) as u16, label as u16)
        }
        ports => ports,
    };
    let (source, destination) = (address(8), address(24));
    Flow { source, destination, source_port, destination_port, protocol }.hash(SEED)
}

/// The flow hash of a received frame for software RSS: the same for both directions; `None`: not an
/// IP packet. The frame is not validated yet.
pub fn of_frame(frame: &[u8]) -> Option<u32> {
    let kind = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let mut at = 12;
    for _ in 0..2 {
        if matches!(kind(at)?, 0x8100 | 0x88a8) {
            at += 4;
        }
    }
    let ip = frame.get(at + 2..)?;
    match kind(at)? {
        0x0800 if ip.len() >= 20 => {
            let header_length = usize::from(ip[0] & 0xf) * 4;
            let is_fragment = be32(ip, 4) & 0x3fff != 0;
            let upper = ip.get(header_length..).filter(|_| !is_fragment).unwrap_or(&[]);
            let (source_port, destination_port) = ports(upper, ip[9]);
            // Fragments have no ports: all fragments of a protocol between two hosts share a hash.
            let (source, destination, protocol) = (be32(ip, 12), be32(ip, 16), ip[9]);
            let flow = Flow { source, destination, source_port, destination_port, protocol };
            Some(flow.symmetric_hash(SEED))
        }
        0x86dd => {
            let (header, upper) = ip.split_first_chunk::<{ ipv6::LENGTH }>()?;
            let address = |at: usize| {
                (0..4).fold(0, |sum, word| sum << 32 | u128::from(be32(header, at + 4 * word)))
            };
            let (source, destination, protocol) = (address(8), address(24), header[6]);
            let (source_port, destination_port) = ports(upper, protocol);
            let flow = Flow { source, destination, source_port, destination_port, protocol };
            Some(flow.symmetric_hash(SEED))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_of_a_packet_share_a_hash() {
        let mut first = [0u8; 28];
        first[0] = 0x45;
        first[9] = protocol::UDP;
        first[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        first[20..24].copy_from_slice(&[0, 53, 0, 54]);
        let whole = hash4(&first);
        first[6] = 0x20;
        let mut later = first;
        later[7] = 3;
        later[20..24].copy_from_slice(&[9, 9, 9, 9]);
        assert_eq!(hash4(&first), hash4(&later));
        assert_ne!(hash4(&first), whole);
        assert_eq!(hash4(&[]), hash4(&[]));
    }

    #[test]
    fn ports_or_flow_labels_distinguish_flows() {
        let mut packet = [0u8; 48];
        packet[0] = 0x60;
        packet[6] = protocol::TCP;
        packet[41] = 80;
        let one = hash6(&packet);
        packet[41] = 81;
        assert_ne!(one, hash6(&packet));
        packet[6] = protocol::FRAGMENT;
        let one = hash6(&packet);
        packet[3] = 7;
        assert_ne!(one, hash6(&packet));
        assert_eq!(hash6(&packet[..20]), 0);
    }
}
