//! The outer IP header of a packet that comes out of a tunnel.

use stoa_wire::{ipv4, ipv6};

use super::congestion;

/// What an outer header says of its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OuterIp {
    /// The type of service or traffic class.
    pub(crate) class: u8,
    /// The protocol behind the header.
    pub(crate) protocol: u8,
    /// Bytes in front of what the protocol carries: the header with its options or extension headers.
    pub(crate) behind: u16,
    /// Bytes of the whole packet, without padding of the link layer.
    pub(crate) whole: u16,
}

impl OuterIp {
    /// That of a packet without options and extension headers; `None`: another one. The node before has checked it.
    #[inline(always)]
    pub(crate) fn plain(bytes: &[u8]) -> Option<Self> {
        let start = bytes.first_chunk::<{ ipv4::LENGTH }>()?;
        let word = |at: usize| u16::from_be_bytes([start[at], start[at + 1]]);
        let (behind, protocol, whole, class) = if start[0] == 0x45 {
            (ipv4::LENGTH, start[9], word(2), start[1])
        } else if start[0] >> 4 == 6 {
            let whole = word(4).checked_add(ipv6::LENGTH as u16)?;
            (ipv6::LENGTH, start[6], whole, congestion::class(start))
        } else {
            return None;
        };
        let is_whole = usize::from(whole) <= bytes.len() && behind <= usize::from(whole);
        is_whole.then_some(Self { class, protocol, behind: behind as u16, whole })
    }

    /// That of any packet.
    #[cold]
    pub(crate) fn any(bytes: &[u8]) -> Option<Self> {
        let (protocol, carried, packet) = if bytes.first()? >> 4 == 4 {
            let view = ipv4::check(bytes).ok()?;
            (view.header().protocol, view.payload().len(), view.packet())
        } else {
            let view = ipv6::check(bytes).ok()?;
            let upper = view.upper().ok()?;
            (upper.protocol, upper.payload.len(), view.packet())
        };
        let (class, whole) = (congestion::class(packet), packet.len());
        Some(Self { class, protocol, behind: (whole - carried) as u16, whole: whole as u16 })
    }
}
