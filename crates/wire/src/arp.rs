//! ARP for IPv4 over Ethernet (RFC 826, RFC 5227): the MAC addresses of a link's IPv4 addresses.

use crate::ethernet::{Mac, ethertype};
use crate::{BuildError, build_error::prefix_of};
use core::net::Ipv4Addr;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of an ARP packet for IPv4 over Ethernet.
pub const LENGTH: usize = 28;
/// Hardware type of Ethernet.
pub const ETHERNET: u16 = 1;
/// Operation "who has the target address?".
pub const REQUEST: u16 = 1;
/// Operation "the sender has the sender address".
pub const REPLY: u16 = 2;

causes! {
    /// Why an ARP packet is not believed.
    ArpError {
        Truncated = "arp-truncated", "the ARP packet is shorter than 28 bytes";
        BadHardwareType = "arp-bad-hardware-type", "the ARP hardware type is not Ethernet";
        BadProtocolType = "arp-bad-protocol-type", "the ARP protocol type is not IPv4";
        BadHardwareLength = "arp-bad-hardware-length", "the ARP hardware length is not 6";
        BadProtocolLength = "arp-bad-protocol-length", "the ARP protocol length is not 4";
        BadOperation = "arp-bad-operation", "the ARP operation is neither request nor reply";
        BadSenderMac = "arp-bad-sender-mac",
            "the ARP sender's MAC address is a group or all zeroes (RFC 1812 section 3.3.2)";
        BadSenderAddress = "arp-bad-sender-address",
            "the ARP sender's IPv4 address is no host's: a group, reserved, or loopback";
    }
}

/// An ARP packet as it lies in the frame.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Packet {
    /// Hardware type: [`ETHERNET`].
    pub hardware_type: U16,
    /// Protocol type: the EtherType of IPv4.
    pub protocol_type: U16,
    /// Bytes of a hardware address: 6.
    pub hardware_length: u8,
    /// Bytes of a protocol address: 4.
    pub protocol_length: u8,
    /// [`REQUEST`] or [`REPLY`].
    pub operation: U16,
    /// The sender.
    pub sender_mac: Mac,
    /// The sender's IPv4 address; 0.0.0.0 in a probe (RFC 5227 section 2.1.1).
    pub sender: [u8; 4],
    /// The target's MAC address: ignored in a request, the requester's in a reply.
    pub target_mac: Mac,
    /// The target's IPv4 address: the address to resolve in a request, the requester's in a reply.
    pub target: [u8; 4],
}

impl Packet {
    /// The sender's IPv4 address.
    #[inline]
    pub const fn sender(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.sender)
    }

    /// The target's IPv4 address.
    #[inline]
    pub const fn target(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.target)
    }

    /// Whether this is a request.
    #[inline]
    pub fn is_request(&self) -> bool {
        self.operation.get() == REQUEST
    }

    /// Whether this answers.
    #[inline]
    pub fn is_reply(&self) -> bool {
        self.operation.get() == REPLY
    }

    /// Whether this is an ARP probe, which must not update caches (RFC 5227 section 1.1).
    #[inline]
    pub fn is_probe(&self) -> bool {
        self.is_request() && self.sender == [0; 4]
    }

    /// Whether this is an ARP announcement ("gratuitous", RFC 5227 section 1.1).
    #[inline]
    pub fn is_announcement(&self) -> bool {
        self.sender == self.target && self.sender != [0; 4]
    }

    fn new(
        operation: u16,
        sender_mac: Mac,
        sender: Ipv4Addr,
        target_mac: Mac,
        target: Ipv4Addr,
    ) -> Self {
        Self {
            hardware_type: U16::new(ETHERNET),
            protocol_type: U16::new(ethertype::IP4),
            hardware_length: 6,
            protocol_length: 4,
            operation: U16::new(operation),
            sender_mac,
            sender: sender.octets(),
            target_mac,
            target: target.octets(),
        }
    }

    /// A request for `target` by the station `sender_mac` that has the address `sender`; with
    /// `sender` 0.0.0.0, a probe.
    pub fn request(sender_mac: Mac, sender: Ipv4Addr, target: Ipv4Addr) -> Self {
        Self::new(REQUEST, sender_mac, sender, Mac::ZERO, target)
    }

    /// The reply to `request`: `mac` owns the requested address.
    pub fn reply(request: &Packet, mac: Mac) -> Self {
        Self::new(REPLY, mac, request.target(), request.sender_mac, request.sender())
    }

    /// An announcement that `mac` has `address`, in the form of a request (RFC 5227 section 3).
    pub fn announcement(mac: Mac, address: Ipv4Addr) -> Self {
        Self::new(REQUEST, mac, address, Mac::ZERO, address)
    }

    /// Writes the packet; returns its length.
    ///
    /// # Errors
    /// [`BuildError::NoSpace`].
    #[inline]
    pub fn build(&self, out: &mut [u8]) -> Result<usize, BuildError> {
        prefix_of(out, LENGTH)?.copy_from_slice(self.as_bytes());
        Ok(LENGTH)
    }
}

/// Checks an ARP packet; trailing bytes are the frame's padding.
///
/// Whether the sender address lies in the link's network, and equals the frame's source, is for
/// the caller, which has the link's configuration.
///
/// # Errors
/// One cause per rule broken, the first in the order of the fields.
#[inline]
pub fn check(bytes: &[u8]) -> Result<&Packet, ArpError> {
    let (packet, _) = Packet::ref_from_prefix(bytes).map_err(|_| ArpError::Truncated)?;
    if packet.hardware_type.get() != ETHERNET {
        return Err(ArpError::BadHardwareType);
    }
    if packet.protocol_type.get() != ethertype::IP4 {
        return Err(ArpError::BadProtocolType);
    }
    if packet.hardware_length != 6 {
        return Err(ArpError::BadHardwareLength);
    }
    if packet.protocol_length != 4 {
        return Err(ArpError::BadProtocolLength);
    }
    if !packet.is_request() && !packet.is_reply() {
        return Err(ArpError::BadOperation);
    }
    if !packet.sender_mac.is_unicast() {
        return Err(ArpError::BadSenderMac);
    }
    let sender = packet.sender();
    let unusable = sender.is_loopback() || packet.sender[0] >= 224;
    if unusable || (sender.is_unspecified() && packet.is_reply()) {
        return Err(ArpError::BadSenderAddress);
    }
    Ok(packet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REQUEST_BYTES: [u8; LENGTH] =
        [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 192, 0, 2, 2];
    const US: Mac = Mac([2, 0, 0, 0, 0, 2]);

    fn with(at: usize, value: &[u8]) -> [u8; LENGTH] {
        let mut bytes = REQUEST_BYTES;
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    }

    #[test]
    fn parses_and_builds_a_request() {
        let packet = check(&REQUEST_BYTES).unwrap();
        assert!(packet.is_request() && !packet.is_probe() && !packet.is_announcement());
        let (them, we) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
        assert_eq!((packet.sender(), packet.target()), (them, we));
        let mut out = [0; LENGTH];
        assert_eq!(Packet::request(packet.sender_mac, them, we).build(&mut out), Ok(LENGTH));
        assert_eq!(out, REQUEST_BYTES);

        assert_eq!(Packet::reply(packet, US).build(&mut out), Ok(LENGTH));
        let reply = check(&out).unwrap();
        assert!(reply.is_reply());
        assert_eq!((reply.sender_mac, reply.sender()), (US, we));
        assert_eq!((reply.target_mac, reply.target()), (packet.sender_mac, them));
    }

    #[test]
    fn tells_probes_and_announcements() {
        let address = Ipv4Addr::new(192, 0, 2, 9);
        assert!(Packet::request(US, Ipv4Addr::UNSPECIFIED, address).is_probe());
        let announcement = Packet::announcement(US, address);
        assert!(announcement.is_announcement() && !announcement.is_probe());
        assert!(check(announcement.as_bytes()).is_ok());
    }

    #[test]
    fn each_cause_has_its_packet() {
        let cases = [
            (with(1, &[6]), ArpError::BadHardwareType),
            (with(2, &[0x86, 0xdd]), ArpError::BadProtocolType),
            (with(4, &[8]), ArpError::BadHardwareLength),
            (with(5, &[16]), ArpError::BadProtocolLength),
            (with(7, &[3]), ArpError::BadOperation),
            (with(8, &[0xff; 6]), ArpError::BadSenderMac),
            (with(8, &[0; 6]), ArpError::BadSenderMac),
            (with(14, &[224, 0, 0, 1]), ArpError::BadSenderAddress),
            (with(14, &[255; 4]), ArpError::BadSenderAddress),
            (with(14, &[127, 0, 0, 1]), ArpError::BadSenderAddress),
        ];
        for (bytes, cause) in cases {
            assert_eq!(check(&bytes), Err(cause));
        }
        let mut unspecified_reply = with(14, &[0; 4]);
        assert!(check(&unspecified_reply).unwrap().is_probe());
        unspecified_reply[7] = 2;
        assert_eq!(check(&unspecified_reply), Err(ArpError::BadSenderAddress));
    }

    #[test]
    fn refuses_every_truncation() {
        for length in 0..LENGTH {
            assert_eq!(check(&REQUEST_BYTES[..length]), Err(ArpError::Truncated));
            let mut out = [0; LENGTH];
            let packet = Packet::announcement(US, Ipv4Addr::LOCALHOST);
            assert!(packet.build(&mut out[..length]).is_err());
        }
    }

    proptest! {
        #[test]
        fn round_trip_and_oracle(mac: [u8; 6], sender: [u8; 4], target: [u8; 4]) {
            let mac = Mac([mac[0] & !1 | 2, mac[1], mac[2], mac[3], mac[4], mac[5]]);
            let packet = Packet::request(mac, sender.into(), target.into());
            let mut out = [0; 60];
            let length = packet.build(&mut out).unwrap();
            let oracle = etherparse::ArpPacketSlice::from_slice(&out[..length]).unwrap();
            prop_assert_eq!(oracle.sender_hw_addr(), &mac.0[..]);
            prop_assert_eq!(oracle.sender_protocol_addr(), &sender[..]);
            prop_assert_eq!(oracle.target_protocol_addr(), &target[..]);
            if let Ok(view) = check(&out) {
                prop_assert_eq!(*view, packet);
            } else {
                prop_assert!(sender[0] >= 224 || sender[0] == 127);
            }
        }
    }
}
