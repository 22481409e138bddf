//! The IPv6 header (RFC 8200 section 3), at the front of each IPv6 packet.

use crate::checksum::Pseudo;
use crate::ipv6_extensions::{Extensions, Upper};
use crate::{BuildError, build_error::length16, build_error::prefix_of};
use core::net::Ipv6Addr;
use core::ops::Range;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the fixed header.
pub const LENGTH: usize = 40;
/// The least MTU of a link that carries IPv6, in bytes (RFC 8200 section 5).
pub const LEAST_MTU: usize = 1280;
/// All nodes of the link (RFC 4291 section 2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of the link (RFC 4291 section 2.7.1).
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

causes! {
    /// Why an IPv6 packet is refused.
    Ip6Error {
        Truncated = "ip6-truncated", "the packet is shorter than an IPv6 header";
        BadVersion = "ip6-bad-version", "the IP version is not 6";
        BadPayloadLength = "ip6-bad-payload-length", "the IPv6 payload length is beyond the packet";
        ExtensionTruncated = "ip6-extension-truncated",
            "an IPv6 extension header is longer than the packet";
        TooManyExtensions = "ip6-too-many-extensions",
            "the IPv6 packet has more than 8 extension headers";
        HopByHopNotFirst = "ip6-hop-by-hop-not-first",
            "IPv6 hop-by-hop options do not follow the IPv6 header";
        BadOption = "ip6-bad-option", "an IPv6 option is longer than its extension header";
        TooManyOptions = "ip6-too-many-options",
            "an IPv6 extension header has more than 16 options";
    }
}

/// The IPv6 header as it lies in the packet.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// Version (4 bits), traffic class (8 bits), flow label (20 bits).
    pub version_class_flow: U32,
    /// Bytes behind this header, extension headers included.
    pub payload_length: U16,
    /// What follows: a number of [`crate::protocol`].
    pub next_header: u8,
    /// Hops left.
    pub hop_limit: u8,
    /// The source address.
    pub source: [u8; 16],
    /// The destination address, or the next one of a routing header.
    pub destination: [u8; 16],
}

impl Header {
    /// Version field; 6 when right.
    #[inline]
    pub fn version(&self) -> u8 {
        (self.version_class_flow.get() >> 28) as u8
    }

    /// DSCP (high 6 bits) and ECN (low 2 bits).
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_flow.get() >> 20) as u8
    }

    /// Flow label, 20 bits (RFC 6437).
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.version_class_flow.get() & 0x000f_ffff
    }

    /// The source address.
    #[inline]
    pub const fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.source)
    }

    /// The destination address, or the next one of a routing header.
    #[inline]
    pub const fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.destination)
    }

    /// The addresses, for the checksum of what the packet carries when no routing header is on.
    #[inline]
    pub const fn pseudo(&self) -> Pseudo {
        Pseudo::Ip6 { source: self.source(), destination: self.destination() }
    }
}

/// A packet that [`check`] has accepted, cut to its payload length.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a Header,
    packet: &'a [u8],
}

impl<'a> View<'a> {
    /// The header.
    #[inline]
    pub const fn header(&self) -> &'a Header {
        self.header
    }

    /// Header and payload, without what the link added behind.
    #[inline]
    pub const fn packet(&self) -> &'a [u8] {
        self.packet
    }

    /// The source address.
    #[inline]
    pub const fn source(&self) -> Ipv6Addr {
        self.header.source()
    }

    /// The destination address, or the next one of a routing header.
    #[inline]
    pub const fn destination(&self) -> Ipv6Addr {
        self.header.destination()
    }

    /// Where the payload lies, extension headers included, counted from the header's first byte.
    #[inline]
    pub fn payload_range(&self) -> Range<usize> {
        LENGTH..self.packet.len()
    }

    /// What follows the header, extension headers included.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.packet[LENGTH..]
    }

    /// The addresses, for the checksum of what the packet carries when no routing header is on.
    #[inline]
    pub const fn pseudo(&self) -> Pseudo {
        self.header.pseudo()
    }

    /// The extension headers one by one.
    #[inline]
    pub fn extensions(&self) -> Extensions<'a> {
        Extensions::new(self.header.next_header, self.packet)
    }

    /// What the packet carries behind its extension headers.
    ///
    /// # Errors
    /// An extension header is longer than the packet, out of place, or one of too many.
    #[inline]
    pub fn upper(&self) -> Result<Upper<'a>, Ip6Error> {
        self.extensions().upper()
    }
}

/// Checks an IPv6 packet's fixed header; extension headers are checked on request.
///
/// Bytes behind the payload length are the link's padding. Jumbograms (RFC 2675) are not supported:
/// their payload length of 0 gives an empty payload.
///
/// # Errors
/// One cause per rule broken: length, version, payload length.
#[inline]
pub fn check(bytes: &[u8]) -> Result<View<'_>, Ip6Error> {
    let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| Ip6Error::Truncated)?;
    if header.version() != 6 {
        return Err(Ip6Error::BadVersion);
    }
    let length = LENGTH + usize::from(header.payload_length.get());
    let packet = bytes.get(..length).ok_or(Ip6Error::BadPayloadLength)?;
    Ok(View { header, packet })
}

/// The group in which a neighbour solicitation finds `target` (RFC 4291 section 2.7.1).
#[inline]
pub const fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = target.octets();
    Ipv6Addr::from_octets([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

/// Whether `address` is some node's solicited-node group.
#[inline]
pub fn is_solicited_node(address: Ipv6Addr) -> bool {
    address == solicited_node(address)
}

/// Whether a router must not forward a packet from `source`: unspecified, loopback, group,
/// link-local or IPv4-mapped (RFC 4291 sections 2.5.2, 2.5.3, 2.5.6, 2.7; RFC 6890 table 20).
#[inline]
pub const fn is_martian_source(source: Ipv6Addr) -> bool {
    source.is_multicast() || is_martian_destination(source)
}

/// Whether a router must not forward a packet to `destination`: unspecified, loopback, link-local
/// or IPv4-mapped; groups are not martians.
#[inline]
pub const fn is_martian_destination(destination: Ipv6Addr) -> bool {
    destination.is_unspecified()
        || destination.is_loopback()
        || destination.is_unicast_link_local()
        || destination.to_ipv4_mapped().is_some()
}

/// The fields of a header to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builder {
    /// The source address.
    pub source: Ipv6Addr,
    /// The destination address.
    pub destination: Ipv6Addr,
    /// What follows: a number of [`crate::protocol`].
    pub next_header: u8,
    /// Hops left; 64 by default.
    pub hop_limit: u8,
    /// DSCP and ECN; 0 by default.
    pub traffic_class: u8,
    /// Flow label, the low 20 bits; 0 by default.
    pub flow_label: u32,
}

impl Builder {
    /// A header with the defaults named at each field.
    pub const fn new(source: Ipv6Addr, destination: Ipv6Addr, next_header: u8) -> Self {
        Self { source, destination, next_header, hop_limit: 64, traffic_class: 0, flow_label: 0 }
    }

    /// The fields of the header of `view`.
    pub fn of(view: &View<'_>) -> Self {
        Self {
            source: view.source(),
            destination: view.destination(),
            next_header: view.header.next_header,
            hop_limit: view.header.hop_limit,
            traffic_class: view.header.traffic_class(),
            flow_label: view.header.flow_label(),
        }
    }

    /// Writes the header for `payload_length` bytes behind it; returns its length, 40.
    ///
    /// # Errors
    /// The buffer is too short; a payload above 65,535 bytes.
    #[inline]
    pub fn build(&self, out: &mut [u8], payload_length: usize) -> Result<usize, BuildError> {
        let payload_length = length16(payload_length)?;
        let out = prefix_of(out, LENGTH)?;
        let class = u32::from(self.traffic_class) << 20;
        let header = Header {
            version_class_flow: U32::new(6 << 28 | class | self.flow_label & 0x000f_ffff),
            payload_length: U16::new(payload_length),
            next_header: self.next_header,
            hop_limit: self.hop_limit,
            source: self.source.octets(),
            destination: self.destination.octets(),
        };
        out.copy_from_slice(header.as_bytes());
        Ok(LENGTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 8 bytes of UDP from 2001:db8::1 to 2001:db8:1::2, class 0xb8, flow label 0x12345.
    const PACKET: [u8; 48] = [
        0x6b, 0x81, 0x23, 0x45, 0, 8, 17, 64, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        1, 0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 53, 0, 54, 0, 8, 0, 0,
    ];

    #[test]
    fn parses_and_builds_real_bytes() {
        let view = check(&PACKET).unwrap();
        assert_eq!(view.source(), "2001:db8::1".parse::<Ipv6Addr>().unwrap());
        assert_eq!(view.destination(), "2001:db8:1::2".parse::<Ipv6Addr>().unwrap());
        assert_eq!((view.header().traffic_class(), view.header().flow_label()), (0xb8, 0x12345));
        assert_eq!((view.header().next_header, view.header().hop_limit), (17, 64));
        assert_eq!(view.payload_range(), 40..48);
        assert_eq!(view.payload(), &PACKET[40..]);
        let upper = view.upper().unwrap();
        assert_eq!((upper.protocol, upper.offset), (17, 40));
        let mut out = [0; 40];
        assert_eq!(Builder::of(&view).build(&mut out, 8), Ok(40));
        assert_eq!(out, PACKET[..40]);
    }

    #[test]
    fn each_cause_has_its_packet() {
        for length in 0..40 {
            assert_eq!(check(&PACKET[..length]).unwrap_err(), Ip6Error::Truncated);
        }
        for length in 40..48 {
            assert_eq!(check(&PACKET[..length]).unwrap_err(), Ip6Error::BadPayloadLength);
        }
        let mut wrong = PACKET;
        wrong[0] = 0x45;
        assert_eq!(check(&wrong).unwrap_err(), Ip6Error::BadVersion);
        let mut padded = [0; 60];
        padded[..48].copy_from_slice(&PACKET);
        assert_eq!(check(&padded).unwrap().packet(), PACKET);
    }

    #[test]
    fn groups_and_martians() {
        let address = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        let group = solicited_node(address("fe80::12:3456"));
        assert_eq!(group, address("ff02::1:ff12:3456"));
        assert!(is_solicited_node(group) && !is_solicited_node(ALL_NODES));
        for text in ["::", "::1", "ff02::1", "fe80::1", "::ffff:192.0.2.1"] {
            assert!(is_martian_source(address(text)), "{text}");
        }
        assert!(!is_martian_source(address("2001:db8::1")));
        assert!(!is_martian_destination(address("ff0e::1")));
        assert!(is_martian_destination(address("::1")));
    }

    #[test]
    fn builder_refuses_what_does_not_fit() {
        let builder = Builder::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 17);
        for length in 0..LENGTH {
            let refused = builder.build(&mut [0; LENGTH][..length], 0);
            assert_eq!(refused, Err(BuildError::NoSpace { needed: 40, available: length }));
        }
        assert!(builder.build(&mut [0; LENGTH], 65_536).is_err());
    }

    proptest! {
        #[test]
        fn round_trip_and_oracle(
            addresses: [[u8; 16]; 2], fields: [u8; 3], flow_label in 0u32..0x10_0000,
            payload in 0usize..64,
        ) {
            let builder = Builder {
                source: addresses[0].into(),
                destination: addresses[1].into(),
                next_header: fields[0],
                hop_limit: fields[1],
                traffic_class: fields[2],
                flow_label,
            };
            let mut out = [0; 128];
            let length = builder.build(&mut out, payload).unwrap();
            let view = check(&out[..length + payload]).unwrap();
            prop_assert_eq!(Builder::of(&view), builder);
            let oracle = etherparse::Ipv6HeaderSlice::from_slice(&out).unwrap();
            prop_assert_eq!(oracle.source_addr(), view.source());
            prop_assert_eq!(oracle.destination_addr(), view.destination());
            prop_assert_eq!(oracle.flow_label().value(), view.header().flow_label());
            prop_assert_eq!(oracle.traffic_class(), view.header().traffic_class());
            prop_assert_eq!(usize::from(oracle.payload_length()), view.payload().len());
            for short in 0..length + payload {
                prop_assert!(check(&out[..short]).is_err());
            }
        }
    }
}
