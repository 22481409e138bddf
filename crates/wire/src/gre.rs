//! The GRE header (RFC 2784), behind IPv4 or IPv6 (RFC 7676).

use crate::checksum;
use crate::{BuildError, build_error::prefix_of};
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header without a checksum.
pub const LENGTH: usize = 4;
/// Bytes of the checksum and what is reserved beside it.
const CHECKSUM_LENGTH: usize = 4;
/// "A checksum is there" in [`Header::flags`].
const CHECKSUM: u16 = 0x8000;
/// Bits that must be 0 in a packet that is taken (RFC 2784 section 2.3), among them those of
/// RFC 2890, "key" and "sequence number".
const RESERVED: u16 = 0x7c00;
const VERSION: u16 = 0x0007;

causes! {
    /// Why a GRE packet is refused.
    GreError {
        Truncated = "gre-truncated", "the packet is shorter than its GRE header";
        BadVersion = "gre-bad-version", "the GRE version is not 0";
        Reserved = "gre-reserved", "a GRE key, sequence number or routing, which is not spoken here";
        BadChecksum = "gre-bad-checksum", "the GRE checksum is wrong";
    }
}

/// The GRE header as it lies in the packet, without the checksum.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// What else is there, and the version.
    pub flags: U16,
    /// What the payload is: an ethertype.
    pub protocol: U16,
}

/// A packet that [`check`] has accepted.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a Header,
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// What the payload is: an ethertype.
    pub fn protocol(&self) -> u16 {
        self.header.protocol.get()
    }

    /// What the header carries.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Checks a packet, its checksum included when it has one.
///
/// # Errors
/// One cause per rule broken: length, version, unsupported flags, checksum.
pub fn check(bytes: &[u8]) -> Result<View<'_>, GreError> {
    let (header, rest) = Header::ref_from_prefix(bytes).map_err(|_| GreError::Truncated)?;
    let flags = header.flags.get();
    if flags & VERSION != 0 {
        return Err(GreError::BadVersion);
    }
    if flags & RESERVED != 0 {
        return Err(GreError::Reserved);
    }
    if flags & CHECKSUM == 0 {
        return Ok(View { header, payload: rest });
    }
    let payload = rest.get(CHECKSUM_LENGTH..).ok_or(GreError::Truncated)?;
    if !checksum::is_valid(checksum::sum(bytes)) {
        return Err(GreError::BadChecksum);
    }
    Ok(View { header, payload })
}

/// Writes a header without checksum for a payload of this ethertype; returns its length.
///
/// # Errors
/// The buffer is too short.
pub fn build(out: &mut [u8], protocol: u16) -> Result<usize, BuildError> {
    let header = Header { flags: U16::ZERO, protocol: U16::new(protocol) };
    prefix_of(out, LENGTH)?.copy_from_slice(header.as_bytes());
    Ok(LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_not_spoken_is_refused_by_name() {
        let with = |flags: u16| [flags.to_be_bytes(), [8, 0]].concat();
        assert_eq!(check(&with(0x2000)).err(), Some(GreError::Reserved), "a key");
        assert_eq!(check(&with(0x1000)).err(), Some(GreError::Reserved), "a sequence number");
        assert_eq!(check(&with(0x4000)).err(), Some(GreError::Reserved), "routing");
        assert_eq!(check(&with(0x0001)).err(), Some(GreError::BadVersion), "PPTP");
        assert_eq!(check(&with(0x8000)).err(), Some(GreError::Truncated), "no checksum there");
        assert!(check(&with(0x03f8)).is_ok(), "bits that are to be ignored");
        assert_eq!(check(&[0, 0, 8]).err(), Some(GreError::Truncated));
    }

    proptest! {
        #[test]
        fn what_was_built_is_read(protocol: u16, payload: Vec<u8>) {
            let mut packet = vec![0; LENGTH + payload.len()];
            prop_assert_eq!(build(&mut packet, protocol), Ok(LENGTH));
            packet[LENGTH..].copy_from_slice(&payload);
            let view = check(&packet).unwrap();
            prop_assert_eq!((view.protocol(), view.payload()), (protocol, &payload[..]));
        }

        #[test]
        fn a_checksum_is_verified(payload: Vec<u8>, wrong in 1..=u16::MAX) {
            let mut packet = [&[0x80, 0, 8, 0, 0, 0, 0, 0][..], &payload].concat();
            let sum = checksum::ones_complement(&packet);
            packet[4..6].copy_from_slice(&sum.to_be_bytes());
            prop_assert_eq!(check(&packet).unwrap().payload(), &payload[..]);
            let other = sum.wrapping_add(wrong);
            // 0 and 0xffff are the same number.
            prop_assume!(sum % 0xffff != other % 0xffff);
            packet[4..6].copy_from_slice(&other.to_be_bytes());
            prop_assert_eq!(check(&packet).err(), Some(GreError::BadChecksum));
        }
    }
}
