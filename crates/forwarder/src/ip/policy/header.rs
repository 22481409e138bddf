//! The header fields that policy rules match, for both families.

use std::ops::BitAnd;

use stoa_wire::{ipv6, protocol};

use super::{Policy, Rules};
use crate::ip::lookup::Address;

/// The protocol of a packet without an upper-layer header: no rule can match it.
pub(super) const NO_PROTOCOL: u16 = 0x100;

/// The fields that rules match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header<K> {
    /// Addresses in host byte order.
    pub(super) source: K,
    pub(super) destination: K,
    /// The TOS byte, or the traffic class.
    pub(super) class: u8,
    /// The upper protocol, or [`NO_PROTOCOL`].
    pub(super) protocol: u16,
    /// Source and destination port; 0 without ports.
    pub(super) ports: (u16, u16),
}

/// An address of either family, and the differences between the families.
pub(super) trait Family: Address + BitAnd<Output = Self> {
    /// Whether it is IPv4.
    const IS_IP4: bool;

    /// The header fields of a packet, with `deep` also protocol and ports; `None`: it is truncated.
    fn header(packet: &[u8], deep: bool) -> Option<Header<Self>>;
    /// The rules of this family.
    fn rules(policy: &Policy) -> &Rules<Self>;
}

impl Family for u32 {
    const IS_IP4: bool = true;

    fn header(packet: &[u8], _: bool) -> Option<Header<Self>> {
        let head = packet.first_chunk::<20>()?;
        let word =
            |at: usize| Self::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let is_later = u16::from_be_bytes([head[6], head[7]]) & 0x1fff != 0;
        let behind = packet.get(usize::from(head[0] & 0xf) * 4..).filter(|_| !is_later);
        Some(Header {
            source: word(12),
            destination: word(16),
            class: head[1],
            protocol: head[9].into(),
            ports: ports(head[9], behind),
        })
    }

    fn rules(policy: &Policy) -> &Rules<Self> {
        &policy.ip4
    }
}

impl Family for u128 {
    const IS_IP4: bool = false;

    fn header(packet: &[u8], deep: bool) -> Option<Header<Self>> {
        let head = packet.first_chunk::<{ ipv6::LENGTH }>()?;
        let address = |at: usize| head.get(at..at + 16).and_then(<[u8]>::first_chunk::<16>);
        let mut header = Header {
            source: Self::from_be_bytes(*address(8)?),
            destination: Self::from_be_bytes(*address(24)?),
            class: head[0] << 4 | head[1] >> 4,
            protocol: NO_PROTOCOL,
            ports: (0, 0),
        };
        if let Some(upper) = deep.then(|| ipv6::check(packet).ok()?.upper().ok()).flatten() {
            let is_later = upper.fragment.is_some_and(|fragment| fragment.offset() > 0);
            header.protocol = upper.protocol.into();
            header.ports = ports(upper.protocol, (!is_later).then_some(upper.payload));
        }
        Some(header)
    }

    fn rules(policy: &Policy) -> &Rules<Self> {
        &policy.ip6
    }
}

/// The ports, for protocols that have them in their first four bytes.
fn ports(protocol: u8, behind: Option<&[u8]>) -> (u16, u16) {
    match behind.and_then(<[u8]>::first_chunk::<4>) {
        Some([a, b, c, d]) if protocol::has_ports(protocol) => {
            (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))
        }
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_packets_and_first_fragments_have_ports() {
        let mut packet = [0; 24];
        (packet[0], packet[1], packet[9]) = (0x45, 0xb8, protocol::UDP);
        packet[12..16].copy_from_slice(&[10, 0, 0, 1]);
        packet[20..24].copy_from_slice(&[0, 53, 0x1f, 0x90]);
        let read = |packet: &[u8]| <u32 as Family>::header(packet, true);
        let header = read(&packet).unwrap();
        assert_eq!((header.source, header.class), (0x0a00_0001, 0xb8));
        assert_eq!((header.protocol, header.ports), (17, (53, 8080)));
        packet[6] = 0x20;
        assert_eq!(read(&packet).unwrap().ports, (53, 8080));
        packet[7] = 1;
        assert_eq!(read(&packet).unwrap().ports, (0, 0));
        (packet[6], packet[7], packet[9]) = (0, 0, protocol::GRE);
        assert_eq!(read(&packet).unwrap().ports, (0, 0));
        packet[9] = protocol::TCP;
        // Options beyond the end of the packet, and truncated packets.
        packet[0] = 0x4f;
        assert_eq!(read(&packet).unwrap().ports, (0, 0));
        for length in 0..24 {
            assert_eq!(read(&packet[..length]).is_some(), length >= 20);
        }
    }

    #[test]
    fn deep_matching_skips_extension_headers() {
        let mut packet = [0; 56];
        (packet[0], packet[1], packet[5], packet[6]) = (0x6b, 0x80, 16, 60);
        packet[40] = protocol::UDP;
        packet[48..52].copy_from_slice(&[0, 53, 0, 54]);
        let read = |packet: &[u8], deep| <u128 as Family>::header(packet, deep);
        let header = read(&packet, true).unwrap();
        assert_eq!((header.class, header.protocol, header.ports), (0xb8, 17, (53, 54)));
        let shallow = read(&packet, false).unwrap();
        assert_eq!((shallow.protocol, shallow.ports), (NO_PROTOCOL, (0, 0)));
        // The options header is longer than the packet.
        packet[41] = 9;
        assert_eq!(read(&packet, true).unwrap().protocol, NO_PROTOCOL);
        for length in 0..56 {
            assert_eq!(read(&packet[..length], true).is_some(), length >= 40);
        }
    }
}
