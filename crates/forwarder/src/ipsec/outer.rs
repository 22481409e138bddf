//! The outer header of a received ESP packet.

use stoa_wire::{ipv4, ipv6, protocol, udp};

use crate::tunnel::congestion;

/// Where ESP begins behind an outer header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outer {
    /// Bytes in front of the ESP header.
    pub(super) header: u16,
    /// Bytes of the whole packet, without padding of the link layer.
    pub(super) whole: u16,
    /// The type of service or traffic class.
    pub(super) class: u8,
    /// Whether there is a UDP header.
    pub(super) is_udp: bool,
}

impl Outer {
    /// That of a packet whose header a node before has checked; `None`: there is no ESP in it.
    #[inline]
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        Self::plain(bytes).or_else(|| Self::any(bytes))
    }

    /// That of a packet without options and extension headers.
    #[inline(always)]
    fn plain(bytes: &[u8]) -> Option<Self> {
        let start = bytes.first_chunk::<{ ipv4::LENGTH }>()?;
        let word = |at: usize| u16::from_be_bytes([start[at], start[at + 1]]);
        let (behind, carried, whole) = if start[0] == 0x45 {
            (ipv4::LENGTH, start[9], word(2))
        } else if start[0] >> 4 == 6 {
            (ipv6::LENGTH, start[6], word(4).checked_add(ipv6::LENGTH as u16)?)
        } else {
            return None;
        };
        let udp = udp_bytes(carried)?;
        let header = behind + udp;
        let is_whole = usize::from(whole) <= bytes.len() && header <= usize::from(whole);
        let class = congestion::class(start);
        is_whole.then_some(Self { header: header as u16, whole, class, is_udp: udp > 0 })
    }

    /// That of any other packet.
    #[cold]
    fn any(bytes: &[u8]) -> Option<Self> {
        let (carried, payload, packet) = if bytes.first()? >> 4 == 4 {
            let view = ipv4::check(bytes).ok()?;
            (view.header().protocol, view.payload(), view.packet())
        } else {
            let view = ipv6::check(bytes).ok()?;
            let upper = view.upper().ok()?;
            (upper.protocol, upper.payload, view.packet())
        };
        let udp = udp_bytes(carried)?;
        let rest = payload.len().checked_sub(udp)?;
        let (header, whole) = ((packet.len() - rest) as u16, packet.len() as u16);
        Some(Self { header, whole, class: congestion::class(packet), is_udp: udp > 0 })
    }
}

/// Bytes between the IP header and ESP.
#[inline(always)]
fn udp_bytes(carried: u8) -> Option<usize> {
    match carried {
        protocol::ESP => Some(0),
        protocol::UDP => Some(udp::LENGTH),
        _ => None,
    }
}
