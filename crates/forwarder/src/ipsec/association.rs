//! Security associations as workers read them: what is fixed, and what packets write, in lines apart.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_utils::CachePadded;
use stoa_crypto::{Algorithm, Authentication, Key, Salt};
use stoa_tables::replay_window::ReplayWindow;
use stoa_wire::{esp, protocol, udp};

use crate::tunnel::line::TunnelLine;

/// What of an algorithm both nodes need for each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes in front of what is encrypted: ESP header and IV.
    pub front: u8,
    /// Bytes of the IV in the packet.
    pub iv: u8,
    /// What is encrypted is padded to a multiple of it.
    pub block: u8,
    /// Bytes of the ICV.
    pub tag: u8,
    /// What is authenticated, and how.
    pub authentication: Authentication,
    /// Whether sequence numbers have 64 bits (ESN, RFC 4303 section 2.2.1).
    pub is_extended: bool,
}

impl Shape {
    /// That of an algorithm. `is_implicit`: the IV is the sequence number, and not in the packet (RFC 8750).
    #[must_use]
    pub fn of(algorithm: Algorithm, is_implicit: bool, is_extended: bool) -> Self {
        let iv = if is_implicit { 0 } else { algorithm.iv_bytes() as u8 };
        Self {
            front: esp::LENGTH as u8 + iv,
            iv,
            block: algorithm.block() as u8,
            tag: algorithm.tag_bytes() as u8,
            authentication: algorithm.authentication(),
            is_extended,
        }
    }

    /// Bytes of an ESP packet with so many bytes of payload.
    #[inline]
    #[must_use]
    pub fn length(&self, payload: usize) -> usize {
        let padding = esp::pad_length(payload, self.block.into());
        usize::from(self.front) + payload + padding + esp::TRAILER + usize::from(self.tag)
    }

    /// The last sequence number that packets may have: then the association is over (RFC 4303 section 3.3.3).
    #[inline]
    #[must_use]
    pub fn last(&self) -> u64 {
        if self.is_extended { u64::MAX - (1 << 32) } else { u32::MAX.into() }
    }

    /// What is authenticated and not in the packet, or not in this form (RFC 4106 section 5, RFC 4303 section 3.3.2).
    #[inline(always)]
    pub(super) fn authenticated(&self, spi: u32, sequence: u64) -> ([u8; 16], u8) {
        let words = |first: u32, second: u32, third: u32| {
            (u128::from(first) << 96 | u128::from(second) << 64 | u128::from(third) << 32)
                .to_be_bytes()
        };
        let (high, low) = ((sequence >> 32) as u32, sequence as u32);
        match (self.authentication, self.is_extended) {
            (Authentication::Hmac, true) => (words(high, 0, 0), 4),
            (Authentication::Hmac, false) => ([0; 16], 0),
            (_, true) => (words(spi, high, low), 12),
            (_, false) => (words(spi, low, 0), 8),
        }
    }
}

/// The don't-fragment flag of outer IPv4 packets (RFC 4301 section 8.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DontFragment {
    /// That of the inner packet.
    #[default]
    Copy,
    /// Set.
    Set,
    /// Clear.
    Clear,
}

/// UDP ports of ESP in UDP (RFC 3948).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPorts {
    /// Ours.
    pub source: u16,
    /// Those of the other end.
    pub destination: u16,
}

/// An outbound association.
#[derive(Debug)]
pub struct Outbound {
    /// The outer header of its packets.
    pub(super) line: TunnelLine,
    pub(super) spi: u32,
    pub(super) salt: Salt,
    pub(super) shape: Shape,
    pub(super) udp: Option<UdpPorts>,
    pub(super) dont_fragment: DontFragment,
    /// DSCP of outer packets; `None`: that of the inner one.
    pub(super) dscp: Option<u8>,
    pub(super) key: Key,
    /// The last sequence number that was taken, and what it counts.
    pub(super) sent: CachePadded<Sent>,
}

/// What packets write.
#[derive(Debug, Default)]
pub struct Sent {
    /// The last sequence number that was taken.
    pub(super) sequence: AtomicU64,
    /// Bytes of inner packets.
    pub(super) bytes: AtomicU64,
}

/// What an association is made of, besides its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The number at the receiver.
    pub spi: u32,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// In front of the IV in a nonce; zeros where the algorithm has none.
    pub salt: Salt,
    /// Sequence numbers of 64 bits.
    pub is_extended: bool,
    /// The IV is not in the packet (RFC 8750).
    pub is_implicit: bool,
    /// ESP in UDP, with these ports.
    pub udp: Option<UdpPorts>,
}

impl Settings {
    /// The shape of its packets.
    #[must_use]
    pub fn shape(&self) -> Shape {
        Shape::of(self.algorithm, self.is_implicit, self.is_extended)
    }

    /// The protocol behind the outer header.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        if self.udp.is_some() { protocol::UDP } else { protocol::ESP }
    }
}

impl Outbound {
    /// An association whose packets have the outer header of `line`. The first packet has the number behind `last`.
    #[must_use]
    pub fn new(
        settings: &Settings,
        key: Key,
        line: TunnelLine,
        (dont_fragment, dscp): (DontFragment, Option<u8>),
        last: u64,
    ) -> Self {
        let sent = Sent { sequence: AtomicU64::new(last), bytes: AtomicU64::new(0) };
        Self {
            line,
            spi: settings.spi,
            salt: settings.salt.clone(),
            shape: settings.shape(),
            udp: settings.udp,
            dont_fragment,
            dscp,
            key,
            sent: CachePadded::new(sent),
        }
    }

    /// Bytes in front of the inner packet: outer headers, ESP header and IV.
    #[inline]
    pub(super) fn front(&self) -> usize {
        let udp = if self.udp.is_some() { udp::LENGTH } else { 0 };
        self.line.length() + udp + usize::from(self.shape.front)
    }

    /// The last sequence number that packets may have.
    #[inline]
    #[must_use]
    pub fn last(&self) -> u64 {
        self.shape.last()
    }

    /// The last sequence number that was taken, and bytes of the inner packets.
    #[must_use]
    pub fn sent(&self) -> (u64, u64) {
        (self.sent.sequence.load(Relaxed).min(self.last()), self.sent.bytes.load(Relaxed))
    }

    /// Takes all numbers that are left, so that no more packets are sent; returns the last one that was taken before.
    pub(crate) fn retire(&self) -> u64 {
        self.sent.sequence.swap(self.last(), Relaxed).min(self.last())
    }

    /// Takes so many sequence numbers; returns the first one. Those behind [`Self::last`] must not be sent. Nothing is
    /// taken behind it, so that numbers never begin anew.
    #[inline]
    pub(super) fn take(&self, packets: u64) -> u64 {
        if self.sent.sequence.load(Relaxed) > self.last() {
            return u64::MAX - packets;
        }
        self.sent.sequence.fetch_add(packets, Relaxed) + 1
    }

    /// Counts bytes of inner packets.
    #[inline]
    pub(super) fn count(&self, bytes: u64) {
        self.sent.bytes.fetch_add(bytes, Relaxed);
    }
}

/// An inbound association.
#[derive(Debug)]
pub struct Inbound {
    /// The interface of the tunnel. Its VRF is that of the outer packets.
    pub(super) interface: u32,
    pub(super) spi: u32,
    pub(super) salt: Salt,
    pub(super) shape: Shape,
    pub(super) is_udp: bool,
    pub(super) key: Key,
    /// `None`: numbers are not checked.
    pub(super) window: Option<CachePadded<ReplayWindow>>,
    pub(super) received: CachePadded<Received>,
}

/// What packets write, and why others were refused.
#[derive(Debug, Default)]
pub struct Received {
    /// Packets that were authentic, and not seen before.
    pub packets: AtomicU64,
    /// Bytes of their inner packets.
    pub bytes: AtomicU64,
    /// Sequence numbers that were seen before.
    pub replayed: AtomicU64,
    /// Sequence numbers behind the window.
    pub late: AtomicU64,
    /// Packets that are not authentic.
    pub forged: AtomicU64,
    /// Packets that are too short or no multiple of a block, and authentic ones whose padding, next header or inner
    /// packet is wrong.
    pub malformed: AtomicU64,
}

impl Inbound {
    /// An association of a tunnel.
    #[must_use]
    pub fn new(
        settings: &Settings,
        key: Key,
        interface: u32,
        window: Option<ReplayWindow>,
    ) -> Self {
        Self {
            interface,
            spi: settings.spi,
            salt: settings.salt.clone(),
            shape: settings.shape(),
            is_udp: settings.udp.is_some(),
            key,
            window: window.map(CachePadded::new),
            received: CachePadded::default(),
        }
    }

    /// The interface of its tunnel.
    #[must_use]
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// What it has received.
    #[must_use]
    pub fn received(&self) -> &Received {
        &self.received
    }

    /// Its window.
    #[must_use]
    pub fn window(&self) -> Option<&ReplayWindow> {
        self.window.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packets_have_the_form_of_their_algorithm() {
        let shape = Shape::of(Algorithm::Aes128Gcm, false, false);
        // RFC 4303 section 2.4: 2 bytes of trailer behind padding to 4 bytes.
        assert_eq!((shape.front, shape.tag, shape.length(50)), (16, 16, 16 + 52 + 16));
        assert_eq!(Shape::of(Algorithm::Aes128Gcm, true, false).length(50), 8 + 52 + 16);
        let shape = Shape::of(Algorithm::Aes128CbcSha1, false, false);
        assert_eq!(shape.length(64), 8 + 16 + 80 + 12);
    }

    #[test]
    fn upper_halves_are_authenticated_where_they_are_not_sent() {
        let of = |algorithm, is_extended| {
            let (aad, length) =
                Shape::of(algorithm, false, is_extended).authenticated(0x0102_0304, 0x5_0000_0006);
            aad[..length.into()].to_vec()
        };
        assert_eq!(of(Algorithm::Aes128Gcm, false), [1, 2, 3, 4, 0, 0, 0, 6]);
        assert_eq!(of(Algorithm::Aes128Gcm, true), [1, 2, 3, 4, 0, 0, 0, 5, 0, 0, 0, 6]);
        assert_eq!(of(Algorithm::Aes128CbcSha1, true), [0, 0, 0, 5]);
        assert_eq!(of(Algorithm::Aes128CbcSha1, false), [0; 0]);
    }

    proptest! {
        #[test]
        fn a_packet_has_whole_blocks_and_little_padding(
            payload in 0_usize..12_000,
            at in 0..Algorithm::ALL.len(),
        ) {
            let shape = Shape::of(Algorithm::ALL[at], false, true);
            let text = shape.length(payload) - usize::from(shape.front) - usize::from(shape.tag);
            let block = usize::from(shape.block);
            prop_assert!(text.is_multiple_of(block));
            prop_assert!((payload + esp::TRAILER..payload + esp::TRAILER + block).contains(&text));
        }
    }
}
