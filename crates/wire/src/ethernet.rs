//! The Ethernet header (IEEE 802.3 clause 3): the first bytes of each frame, tags included.

use crate::vlan::{self, Stack};
use crate::{BuildError, build_error::prefix_of};
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::ops::Range;
use core::str::FromStr;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of an Ethernet header without tags.
pub const LENGTH: usize = 14;
/// Bytes of an Ethernet header with as many tags as [`check`] takes.
pub const LONGEST: usize = LENGTH + vlan::MOST * vlan::LENGTH;

/// Values of the EtherType field (IANA "IEEE 802 Numbers").
pub mod ethertype {
    /// IPv4 (RFC 894).
    pub const IP4: u16 = 0x0800;
    /// ARP (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// IEEE 802.1Q customer tag.
    pub const VLAN: u16 = 0x8100;
    /// IPv6 (RFC 2464).
    pub const IP6: u16 = 0x86dd;
    /// IEEE 802.1ad service tag.
    pub const QINQ: u16 = 0x88a8;
    /// The least EtherType: anything below it is an IEEE 802.3 length.
    pub const LEAST: u16 = 0x0600;
}

causes! {
    /// Why a frame is not Ethernet.
    EthernetError {
        Truncated = "ethernet-truncated", "the frame is shorter than an Ethernet header";
        TagTruncated = "ethernet-tag-truncated", "the frame ends inside a VLAN tag";
    }
}

/// A MAC address (EUI-48), in the order of the bytes on the wire.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(transparent)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// All ones: every station.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// All zeroes: unspecified.
    pub const ZERO: Self = Self([0; 6]);

    /// Whether this names a group, the broadcast address included.
    #[inline]
    pub const fn is_multicast(&self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether this is the broadcast address.
    #[inline]
    pub fn is_broadcast(&self) -> bool {
        self.0 == [0xff; 6]
    }

    /// Whether this can be one station's address: neither a group nor all zeroes.
    #[inline]
    pub fn is_unicast(&self) -> bool {
        !self.is_multicast() && self.0 != [0; 6]
    }

    /// Whether this was assigned by its owner and not by a vendor (the U/L bit).
    #[inline]
    pub const fn is_local(&self) -> bool {
        self.0[0] & 2 != 0
    }

    /// The group address for an IPv4 group: 01:00:5e and its low 23 bits (RFC 1112 section 6.4).
    #[inline]
    pub const fn of_ip4_group(group: Ipv4Addr) -> Self {
        let [_, b, c, d] = group.octets();
        Self([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The group address for an IPv6 group: 33:33 and its low 32 bits (RFC 2464 section 7).
    #[inline]
    pub const fn of_ip6_group(group: Ipv6Addr) -> Self {
        let [.., a, b, c, d] = group.octets();
        Self([0x33, 0x33, a, b, c, d])
    }

    /// Where a neighbour solicitation for `target` goes: its solicited-node group's address.
    #[inline]
    pub const fn of_solicited_node(target: Ipv6Addr) -> Self {
        Self::of_ip6_group(crate::ipv6::solicited_node(target))
    }

    /// The link-local address that this station forms (modified EUI-64: RFC 2464 section 5).
    pub const fn link_local(&self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.0;
        Ipv6Addr::from_octets([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// The text is not a MAC address: write six pairs of hexadecimal digits, such as
/// `02:00:5e:10:00:01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacSyntax;

impl fmt::Display for MacSyntax {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(
            "not a MAC address: write six pairs of hexadecimal digits, such as 02:00:5e:10:00:01",
        )
    }
}

impl core::error::Error for MacSyntax {}

impl FromStr for Mac {
    type Err = MacSyntax;

    /// Reads six pairs of hexadecimal digits of either case, parted by `:` throughout or by `-`
    /// throughout.
    fn from_str(text: &str) -> Result<Self, MacSyntax> {
        let text = text.as_bytes();
        if text.len() != 17 || !matches!(text[2], b':' | b'-') {
            return Err(MacSyntax);
        }
        let digit = |character: u8| {
            char::from(character).to_digit(16).map(|value| value as u8).ok_or(MacSyntax)
        };
        let mut mac = Self::ZERO;
        for (index, byte) in mac.0.iter_mut().enumerate() {
            let at = 3 * index;
            if index > 0 && text[at - 1] != text[2] {
                return Err(MacSyntax);
            }
            *byte = digit(text[at])? << 4 | digit(text[at + 1])?;
        }
        Ok(mac)
    }
}

/// The Ethernet header as it lies in the frame.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// The station or group that the frame goes to.
    pub destination: Mac,
    /// The station that sent the frame.
    pub source: Mac,
    /// What follows: an [`ethertype`], a tag's included.
    pub ethertype: U16,
}

/// A frame that [`check`] has accepted.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a Header,
    tags: Stack,
    ethertype: u16,
    frame: &'a [u8],
}

impl<'a> View<'a> {
    /// The header without the tags; its EtherType is the first tag's when there is one.
    pub const fn header(&self) -> &'a Header {
        self.header
    }

    /// The tags, outermost first.
    pub const fn tags(&self) -> &Stack {
        &self.tags
    }

    /// The EtherType behind the tags; below [`ethertype::LEAST`] it is an IEEE 802.3 length; a
    /// third tag shows as that tag's EtherType.
    pub const fn ethertype(&self) -> u16 {
        self.ethertype
    }

    /// Where the payload lies in the frame, trailing padding included.
    pub fn payload_range(&self) -> Range<usize> {
        LENGTH + self.tags.bytes()..self.frame.len()
    }

    /// What the frame carries, trailing padding included.
    pub fn payload(&self) -> &'a [u8] {
        &self.frame[self.payload_range()]
    }
}

/// Checks the frame's header and at most two tags behind it.
///
/// # Errors
/// The frame ends inside the header or inside a tag.
#[inline]
pub fn check(frame: &[u8]) -> Result<View<'_>, EthernetError> {
    let (header, rest) = Header::ref_from_prefix(frame).map_err(|_| EthernetError::Truncated)?;
    let (tags, ethertype) = vlan::parse(header.ethertype.get(), rest)?;
    Ok(View { header, tags, ethertype, frame })
}

/// Writes the header and its tags; returns their length: 14, 18 or 22 bytes.
///
/// # Errors
/// [`BuildError::NoSpace`].
#[inline]
pub fn build(
    out: &mut [u8],
    destination: Mac,
    source: Mac,
    tags: &Stack,
    ethertype: u16,
) -> Result<usize, BuildError> {
    let length = LENGTH + tags.bytes();
    let out = prefix_of(out, length)?;
    out[..6].copy_from_slice(&destination.0);
    out[6..12].copy_from_slice(&source.0);
    let mut at = 12;
    for tag in tags.iter() {
        out[at..at + 2].copy_from_slice(&tag.tpid.to_be_bytes());
        out[at + 2..at + 4].copy_from_slice(&tag.tci.0.to_be_bytes());
        at += vlan::LENGTH;
    }
    out[at..].copy_from_slice(&ethertype.to_be_bytes());
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vlan::{Tag, Tci};
    use proptest::prelude::*;

    const FRAME: [u8; 18] = [0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd, 0x60, 0, 0, 0];

    #[test]
    fn parses_a_plain_frame() {
        let view = check(&FRAME).unwrap();
        assert_eq!(view.header().destination, Mac([0x33, 0x33, 0, 0, 0, 1]));
        assert_eq!(view.header().source, Mac([2, 0, 0, 0, 0, 9]));
        assert_eq!(view.ethertype(), ethertype::IP6);
        assert!(view.tags().is_empty());
        assert_eq!(view.payload(), [0x60, 0, 0, 0]);
        let oracle = etherparse::Ethernet2Slice::from_slice_without_fcs(&FRAME).unwrap();
        assert_eq!(oracle.destination(), view.header().destination.0);
        assert_eq!(oracle.source(), view.header().source.0);
        assert_eq!(oracle.ether_type().0, view.ethertype());
    }

    #[test]
    fn refuses_every_truncation() {
        for length in 0..LENGTH {
            assert_eq!(check(&FRAME[..length]).unwrap_err(), EthernetError::Truncated);
        }
        assert!(check(&FRAME[..LENGTH]).unwrap().payload().is_empty());
        assert_eq!(
            build(&mut [0; 13], Mac::ZERO, Mac::ZERO, &Stack::EMPTY, 0),
            Err(BuildError::NoSpace { needed: 14, available: 13 })
        );
    }

    #[test]
    fn tells_addresses_apart() {
        assert!(Mac::BROADCAST.is_broadcast() && Mac::BROADCAST.is_multicast());
        assert!(!Mac::BROADCAST.is_unicast() && !Mac::ZERO.is_unicast());
        let station = Mac([2, 0, 0, 0, 0, 1]);
        assert!(station.is_unicast() && station.is_local() && !station.is_multicast());
        assert_eq!(Mac::of_ip4_group(Ipv4Addr::new(239, 129, 2, 3)), Mac([1, 0, 0x5e, 1, 2, 3]));
        let target: Ipv6Addr = "2001:db8::12:3456".parse().unwrap();
        assert_eq!(Mac::of_solicited_node(target), Mac([0x33, 0x33, 0xff, 0x12, 0x34, 0x56]));
        let mac: Mac = "00:00:5e:00:53:01".parse().unwrap();
        assert_eq!(mac.link_local(), "fe80::200:5eff:fe00:5301".parse::<Ipv6Addr>().unwrap());
        assert_eq!(station.link_local(), "fe80::ff:fe00:1".parse::<Ipv6Addr>().unwrap());
    }

    #[test]
    fn refuses_what_is_not_an_address() {
        let wrong = [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:0",
            "02:00:00:00:00:0g",
            "2:0:0:0:0:1",
            "02:00-00:00:00:01",
            "0200.0000.0001",
            "02:00:00:00:00:01:",
            "+2:00:00:00:00:01",
        ];
        for text in wrong {
            assert_eq!(text.parse::<Mac>(), Err(MacSyntax), "{text}");
        }
        assert_eq!("02-AB-00-00-00-01".parse::<Mac>(), Ok(Mac([2, 0xab, 0, 0, 0, 1])));
    }

    proptest! {
        #[test]
        fn text_round_trip(bytes: [u8; 6]) {
            prop_assert_eq!(Mac(bytes).to_string().parse::<Mac>(), Ok(Mac(bytes)));
        }

        #[test]
        fn build_and_check_agree(
            destination: [u8; 6], source: [u8; 6], last in 0x9200u16..,
            tcis in prop::collection::vec(any::<u16>(), 0..=2),
        ) {
            let mut tags = Stack::EMPTY;
            for (index, tci) in tcis.iter().enumerate() {
                let tpid = if index == 0 && tcis.len() == 2 { ethertype::QINQ } else { ethertype::VLAN };
                let fits = tags.push(Tag { tpid, tci: Tci(*tci) });
                prop_assert!(fits);
            }
            let mut out = [0; LONGEST];
            let length = build(&mut out, Mac(destination), Mac(source), &tags, last).unwrap();
            let view = check(&out[..length]).unwrap();
            prop_assert_eq!(view.header().destination.0, destination);
            prop_assert_eq!(view.header().source.0, source);
            prop_assert_eq!(*view.tags(), tags);
            prop_assert_eq!(view.ethertype(), last);
            prop_assert!(view.payload().is_empty());
            for short in 0..length {
                prop_assert!(check(&out[..short]).is_err());
            }
        }
    }
}
