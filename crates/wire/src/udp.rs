//! The UDP header (RFC 768), behind IPv4 or IPv6.

use crate::checksum::{self, Pseudo};
use crate::{BuildError, build_error::length16, build_error::prefix_of, protocol};
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header.
pub const LENGTH: usize = 8;

causes! {
    /// Why a UDP datagram is refused.
    UdpError {
        Truncated = "udp-truncated", "the datagram is shorter than a UDP header";
        BadLength = "udp-bad-length", "the UDP length is below 8 bytes or beyond the packet";
        BadChecksum = "udp-bad-checksum", "the UDP checksum is wrong";
        NoChecksum = "udp-no-checksum",
            "the UDP datagram over IPv6 has no checksum (RFC 8200 section 8.1)";
    }
}

/// The UDP header as it lies in the packet.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// Port of the sender; 0 when it expects no answer.
    pub source_port: U16,
    /// Port of the receiver.
    pub destination_port: U16,
    /// Bytes of header and data.
    pub length: U16,
    /// Checksum of pseudo-header, header and data; 0 for none.
    pub checksum: U16,
}

/// A datagram that [`parse`] or [`check`] has accepted, cut to its length.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a Header,
    datagram: &'a [u8],
}

impl<'a> View<'a> {
    /// The header.
    pub const fn header(&self) -> &'a Header {
        self.header
    }

    /// Port of the sender.
    pub fn source_port(&self) -> u16 {
        self.header.source_port.get()
    }

    /// Port of the receiver.
    pub fn destination_port(&self) -> u16 {
        self.header.destination_port.get()
    }

    /// Header and data.
    pub const fn datagram(&self) -> &'a [u8] {
        self.datagram
    }

    /// The data.
    pub fn payload(&self) -> &'a [u8] {
        &self.datagram[LENGTH..]
    }

    /// Verifies the checksum between the addresses of `pseudo`.
    ///
    /// # Errors
    /// It is wrong, or missing over IPv6.
    pub fn verify(&self, pseudo: &Pseudo) -> Result<(), UdpError> {
        if self.header.checksum.get() == 0 {
            return if pseudo.is_ip6() { Err(UdpError::NoChecksum) } else { Ok(()) };
        }
        let sum = checksum::sum(self.datagram) + pseudo.sum(protocol::UDP, self.datagram.len());
        if checksum::is_valid(sum) { Ok(()) } else { Err(UdpError::BadChecksum) }
    }
}

/// Reads a datagram without its checksum, as a transit router does.
///
/// # Errors
/// The header is cut, or the length field wrong.
#[inline]
pub fn parse(bytes: &[u8]) -> Result<View<'_>, UdpError> {
    let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| UdpError::Truncated)?;
    let length = usize::from(header.length.get());
    if length < LENGTH {
        return Err(UdpError::BadLength);
    }
    let datagram = bytes.get(..length).ok_or(UdpError::BadLength)?;
    Ok(View { header, datagram })
}

/// Checks a datagram that has arrived, checksum included.
///
/// # Errors
/// One cause per rule broken: length, length field, checksum.
#[inline]
pub fn check<'a>(bytes: &'a [u8], pseudo: &Pseudo) -> Result<View<'a>, UdpError> {
    let view = parse(bytes)?;
    view.verify(pseudo)?;
    Ok(view)
}

/// The checksum to send for a computed one: 0 means "no checksum", so 0xffff is sent instead.
#[inline]
pub const fn transmitted(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// Writes header, checksum included, and `payload`; returns the datagram's length.
///
/// # Errors
/// The buffer is too short; a datagram above 65,535 bytes.
pub fn build(
    out: &mut [u8],
    pseudo: &Pseudo,
    source_port: u16,
    destination_port: u16,
    payload: &[u8],
) -> Result<usize, BuildError> {
    let length = LENGTH + payload.len();
    let header = Header {
        source_port: U16::new(source_port),
        destination_port: U16::new(destination_port),
        length: U16::new(length16(length)?),
        checksum: U16::ZERO,
    };
    let out = prefix_of(out, length)?;
    out[..LENGTH].copy_from_slice(header.as_bytes());
    out[LENGTH..].copy_from_slice(payload);
    let sum = checksum::sum(out) + pseudo.sum(protocol::UDP, length);
    out[6..8].copy_from_slice(&transmitted(checksum::finish(sum)).to_be_bytes());
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    const LOCAL4: Pseudo =
        Pseudo::Ip4 { source: Ipv4Addr::LOCALHOST, destination: Ipv4Addr::LOCALHOST };
    const LOCAL6: Pseudo =
        Pseudo::Ip6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST };
    /// Port 68 to 67, "hi", no checksum.
    const DATAGRAM: [u8; 10] = [0, 68, 0, 67, 0, 10, 0, 0, b'h', b'i'];

    #[test]
    fn parses_real_bytes() {
        let view = check(&DATAGRAM, &LOCAL4).unwrap();
        assert_eq!((view.source_port(), view.destination_port()), (68, 67));
        assert_eq!(view.payload(), b"hi");
        assert_eq!(check(&DATAGRAM, &LOCAL6).unwrap_err(), UdpError::NoChecksum);
        let mut wrong = DATAGRAM;
        wrong[7] = 1;
        assert_eq!(check(&wrong, &LOCAL4).unwrap_err(), UdpError::BadChecksum);
        wrong[5] = 7;
        assert_eq!(parse(&wrong).unwrap_err(), UdpError::BadLength);
        let padded = [&DATAGRAM[..], &[0; 6]].concat();
        assert_eq!(parse(&padded).unwrap().datagram(), DATAGRAM);
    }

    #[test]
    fn refuses_every_truncation() {
        for length in 0..DATAGRAM.len() {
            let cause = if length < LENGTH { UdpError::Truncated } else { UdpError::BadLength };
            assert_eq!(parse(&DATAGRAM[..length]).unwrap_err(), cause);
            let mut out = [0; 10];
            assert!(build(&mut out[..length], &LOCAL4, 68, 67, b"hi").is_err());
        }
        assert!(build(&mut [0; 10], &LOCAL4, 1, 2, &[0; 65_528]).is_err());
    }

    #[test]
    fn a_checksum_of_zero_goes_out_as_all_ones() {
        let mut out = [0; 10];
        assert_eq!(build(&mut out, &LOCAL6, 68, 67, &[0, 0]), Ok(10));
        // Data equal to the checksum without it brings the sum to 0xffff, the checksum to 0.
        let data = [out[6], out[7]];
        assert_eq!(build(&mut out, &LOCAL6, 68, 67, &data), Ok(10));
        assert_eq!(out[6..8], [0xff, 0xff]);
        assert!(check(&out, &LOCAL6).is_ok());
    }

    proptest! {
        #[test]
        fn round_trip_and_oracle(
            source: [u8; 16], destination: [u8; 16], ports: [u16; 2],
            payload in prop::collection::vec(any::<u8>(), 0..64), six: bool,
        ) {
            let (source4, destination4): ([u8; 4], [u8; 4]) =
                (source[..4].try_into().unwrap(), destination[..4].try_into().unwrap());
            let pseudo = if six {
                Pseudo::Ip6 { source: source.into(), destination: destination.into() }
            } else {
                Pseudo::Ip4 { source: source4.into(), destination: destination4.into() }
            };
            let mut out = [0; 128];
            let length = build(&mut out, &pseudo, ports[0], ports[1], &payload).unwrap();
            let view = check(&out, &pseudo).unwrap();
            prop_assert_eq!(view.datagram().len(), length);
            prop_assert_eq!([view.source_port(), view.destination_port()], ports);
            prop_assert_eq!(view.payload(), &payload[..]);
            let oracle = etherparse::UdpHeader::from_slice(&out).unwrap().0;
            let expected = if six {
                oracle.calc_checksum_ipv6_raw(source, destination, &payload)
            } else {
                oracle.calc_checksum_ipv4_raw(source4, destination4, &payload)
            };
            prop_assert_eq!(expected.unwrap(), view.header().checksum.get());
        }
    }
}
