//! RADIUS packets (RFC 2865, RFC 2866): the header, and attributes behind it. The caller, which has the
//! secret, computes digests.

use crate::{BuildError, build_error::prefix_of};
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// UDP port of authentication servers.
pub const PORT: u16 = 1812;
/// UDP port of accounting servers.
pub const ACCOUNTING_PORT: u16 = 1813;
/// Bytes of the header.
pub const LENGTH: usize = 20;
/// Bytes of a packet at most.
pub const LENGTH_MAX: usize = 4_096;
/// Bytes of an authenticator.
pub const AUTHENTICATOR_LENGTH: usize = 16;
/// Bytes of an attribute's value at most.
pub const VALUE_MAX: usize = 253;

/// "Is this so?"
pub const ACCESS_REQUEST: u8 = 1;
/// "It is."
pub const ACCESS_ACCEPT: u8 = 2;
/// "It is not."
pub const ACCESS_REJECT: u8 = 3;
/// "Note this" (RFC 2866 section 4.1).
pub const ACCOUNTING_REQUEST: u8 = 4;
/// "It is noted."
pub const ACCOUNTING_RESPONSE: u8 = 5;
/// "Answer this first."
pub const ACCESS_CHALLENGE: u8 = 11;

/// Attribute: the user name.
pub const USER_NAME: u8 = 1;
/// Attribute: the password, hidden by RFC 2865 section 5.2.
pub const USER_PASSWORD: u8 = 2;
/// Attribute: the IPv4 address of the user.
pub const FRAMED_IP_ADDRESS: u8 = 8;
/// Attribute: the service that the user requests or is granted.
pub const SERVICE_TYPE: u8 = 6;
/// Attribute: the name of a filter list.
pub const FILTER_ID: u8 = 11;
/// Attribute: the server's opaque class of the user.
pub const CLASS: u8 = 25;
/// Attribute: seconds after which the session ends.
pub const SESSION_TIMEOUT: u8 = 27;
/// Attribute: seconds without traffic after which the session ends.
pub const IDLE_TIMEOUT: u8 = 28;
/// Attribute: where the user comes from.
pub const CALLING_STATION_ID: u8 = 31;
/// Attribute: the name of the NAS.
pub const NAS_IDENTIFIER: u8 = 32;
/// Attribute: what an accounting request reports (RFC 2866 section 5.1).
pub const ACCT_STATUS_TYPE: u8 = 40;
/// Attribute: seconds since what is reported.
pub const ACCT_DELAY_TIME: u8 = 41;
/// Attribute: bytes from the user, the lower 32 bits.
pub const ACCT_INPUT_OCTETS: u8 = 42;
/// Attribute: bytes to the user, the lower 32 bits.
pub const ACCT_OUTPUT_OCTETS: u8 = 43;
/// Attribute: the name of the session.
pub const ACCT_SESSION_ID: u8 = 44;
/// Attribute: who has authenticated the user.
pub const ACCT_AUTHENTIC: u8 = 45;
/// Attribute: seconds of the session.
pub const ACCT_SESSION_TIME: u8 = 46;
/// Attribute: packets from the user.
pub const ACCT_INPUT_PACKETS: u8 = 47;
/// Attribute: packets to the user.
pub const ACCT_OUTPUT_PACKETS: u8 = 48;
/// Attribute: why the session has ended.
pub const ACCT_TERMINATE_CAUSE: u8 = 49;
/// Attribute: bytes from the user, the upper 32 bits (RFC 2869 section 5.1).
pub const ACCT_INPUT_GIGAWORDS: u8 = 52;
/// Attribute: bytes to the user, the upper 32 bits.
pub const ACCT_OUTPUT_GIGAWORDS: u8 = 53;
/// Attribute: when it happened, seconds since 1970.
pub const EVENT_TIMESTAMP: u8 = 55;
/// Attribute: over which kind of port the user comes.
pub const NAS_PORT_TYPE: u8 = 61;
/// Attribute: HMAC-MD5 over the packet (RFC 3579 section 3.2).
pub const MESSAGE_AUTHENTICATOR: u8 = 80;
/// Attribute: seconds between reports while a session lasts (RFC 2869 section 5.16).
pub const ACCT_INTERIM_INTERVAL: u8 = 85;
/// Attribute: the name of the port (RFC 2869 section 5.17).
pub const NAS_PORT_ID: u8 = 87;
/// Attribute: an IPv6 address of the user (RFC 6911 section 3.1).
pub const FRAMED_IPV6_ADDRESS: u8 = 168;
/// Attribute: the management policy (RFC 5607 section 6.3).
pub const MANAGEMENT_POLICY_ID: u8 = 135;

/// Service type: a user of a network.
pub const SERVICE_LOGIN: u32 = 1;
/// Service type: management of the device, read-only.
pub const SERVICE_NAS_PROMPT: u32 = 7;
/// Service type: management of the device with full rights.
pub const SERVICE_ADMINISTRATIVE: u32 = 6;
/// Port type: Ethernet.
pub const PORT_ETHERNET: u32 = 15;
/// Acct-Status-Type: a session has begun.
pub const STATUS_START: u32 = 1;
/// Acct-Status-Type: a session has ended.
pub const STATUS_STOP: u32 = 2;
/// Acct-Status-Type: a session goes on.
pub const STATUS_INTERIM: u32 = 3;
/// Acct-Authentic: a RADIUS server.
pub const AUTHENTIC_RADIUS: u32 = 1;
/// Acct-Authentic: this router.
pub const AUTHENTIC_LOCAL: u32 = 2;
/// Port type: none of wires, as a network log-in.
pub const PORT_VIRTUAL: u32 = 5;

causes! {
    /// Why a RADIUS packet is refused.
    RadiusError {
        Truncated = "radius-truncated", "the packet is shorter than a RADIUS header, or than its length field";
        BadLength = "radius-bad-length", "the RADIUS length is below 20 or above 4,096 bytes";
        BadAttribute = "radius-bad-attribute", "an attribute is cut, or shorter than its own head";
    }
}

/// The header as it lies in the packet.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// What it is.
    pub code: u8,
    /// By which a reply is found for its request.
    pub identifier: u8,
    /// Bytes of header and attributes.
    pub length: U16,
    /// Random in a request; in a reply a digest of both and the secret.
    pub authenticator: [u8; AUTHENTICATOR_LENGTH],
}

/// A packet that [`check`] has accepted, cut to its length.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a Header,
    packet: &'a [u8],
}

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// What it is.
    pub kind: u8,
    /// Where its value begins, from the start of the packet.
    pub at: usize,
    /// Its value: 0 to 253 bytes.
    pub value: &'a [u8],
}

impl<'a> View<'a> {
    /// The header.
    pub const fn header(&self) -> &'a Header {
        self.header
    }

    /// Header and attributes.
    pub const fn packet(&self) -> &'a [u8] {
        self.packet
    }

    /// All attributes, in their order.
    pub fn attributes(&self) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        let packet = self.packet;
        let mut at = LENGTH;
        std::iter::from_fn(move || {
            let attribute = attribute(packet, at)?;
            at = attribute.at + attribute.value.len();
            Some(attribute)
        })
    }

    /// The values of all attributes of a kind.
    pub fn values(&self, kind: u8) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.attributes().filter(move |one| one.kind == kind).map(|one| one.value)
    }
}

/// The attribute that begins here; `None`: none, or none that is whole.
fn attribute(packet: &[u8], at: usize) -> Option<Attribute<'_>> {
    let [kind, length] = *packet.get(at..at + 2)? else { return None };
    let value = packet.get(at + 2..at + usize::from(length))?;
    Some(Attribute { kind, at: at + 2, value })
}

/// Checks a packet and every attribute's length. What is behind its length is padding.
///
/// # Errors
/// One cause per rule broken: length, length field, attributes.
pub fn check(bytes: &[u8]) -> Result<View<'_>, RadiusError> {
    let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| RadiusError::Truncated)?;
    let length = usize::from(header.length.get());
    if !(LENGTH..=LENGTH_MAX).contains(&length) {
        return Err(RadiusError::BadLength);
    }
    let packet = bytes.get(..length).ok_or(RadiusError::Truncated)?;
    let mut at = LENGTH;
    while at < length {
        let attribute = attribute(packet, at).ok_or(RadiusError::BadAttribute)?;
        at = attribute.at + attribute.value.len();
    }
    Ok(View { header, packet })
}

/// Writes a packet with these attributes (kind, value); returns its length.
///
/// # Errors
/// The buffer is too short; a packet above 4,096 bytes, or a value above 253.
pub fn build(
    out: &mut [u8],
    code: u8,
    identifier: u8,
    authenticator: [u8; AUTHENTICATOR_LENGTH],
    attributes: &[(u8, &[u8])],
) -> Result<usize, BuildError> {
    let longest = attributes.iter().map(|(_, value)| value.len()).max().unwrap_or_default();
    if longest > VALUE_MAX {
        return Err(BuildError::TooLong { length: longest, limit: VALUE_MAX });
    }
    let length = LENGTH + attributes.iter().map(|(_, value)| 2 + value.len()).sum::<usize>();
    if length > LENGTH_MAX {
        return Err(BuildError::TooLong { length, limit: LENGTH_MAX });
    }
    let length16 = U16::new(length as u16);
    let header = Header { code, identifier, length: length16, authenticator };
    let packet = prefix_of(out, length)?;
    packet[..LENGTH].copy_from_slice(header.as_bytes());
    let mut at = LENGTH;
    for (kind, value) in attributes {
        let end = at + 2 + value.len();
        packet[at..at + 2].copy_from_slice(&[*kind, (2 + value.len()) as u8]);
        packet[at + 2..end].copy_from_slice(value);
        at = end;
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_that_lie_are_refused_by_name() {
        let mut packet = [0; 64];
        let length = build(&mut packet, ACCESS_ACCEPT, 7, [1; 16], &[(CLASS, b"noc")]).unwrap();
        assert_eq!(length, 25);
        assert!(check(&packet[..length]).is_ok() && check(&packet).is_ok(), "padding is allowed");
        assert_eq!(check(&packet[..length - 1]).err(), Some(RadiusError::Truncated));
        assert_eq!(check(&packet[..19]).err(), Some(RadiusError::Truncated));
        let mut short = packet;
        short[2..4].copy_from_slice(&[0, 19]);
        assert_eq!(check(&short).err(), Some(RadiusError::BadLength));
        for length in [0, 1, 6] {
            let mut malformed = packet;
            malformed[21] = length;
            assert_eq!(check(&malformed).err(), Some(RadiusError::BadAttribute), "{length}");
        }
        let mut half = packet;
        half[2..4].copy_from_slice(&[0, 21]);
        assert_eq!(check(&half).err(), Some(RadiusError::BadAttribute));
    }

    #[test]
    fn what_does_not_fit_is_not_built() {
        let mut out = vec![0; 8_192];
        let long = [0; VALUE_MAX + 1];
        assert!(build(&mut out, 1, 0, [0; 16], &[(1, &long)]).is_err());
        let many = [(1, &long[..VALUE_MAX]); 17];
        assert!(build(&mut out, 1, 0, [0; 16], &many).is_err());
        assert!(build(&mut out[..24], 1, 0, [0; 16], &[(1, b"abc")]).is_err());
    }

    proptest! {
        #[test]
        fn what_was_built_is_read(
            code: u8, identifier: u8, authenticator: [u8; 16],
            attributes in proptest::collection::vec(
                (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..=VALUE_MAX)), 0..12),
        ) {
            let given: Vec<(u8, &[u8])> =
                attributes.iter().map(|(kind, value)| (*kind, &value[..])).collect();
            let mut out = vec![0; LENGTH_MAX];
            let length = build(&mut out, code, identifier, authenticator, &given).unwrap();
            let view = check(&out[..length]).unwrap();
            prop_assert_eq!((view.header().code, view.header().identifier), (code, identifier));
            prop_assert_eq!(view.header().authenticator, authenticator);
            let read: Vec<(u8, &[u8])> =
                view.attributes().map(|one| (one.kind, one.value)).collect();
            prop_assert_eq!(read, given);
            for one in view.attributes() {
                prop_assert_eq!(&view.packet()[one.at..one.at + one.value.len()], one.value);
            }
        }

        /// Any bytes are read or refused, and what was read stays within the packet.
        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), length in 0..200_u8,
        ) {
            let mut bytes = bytes;
            if bytes.len() >= 4 {
                bytes[2..4].copy_from_slice(&[0, length]);
            }
            if let Ok(view) = check(&bytes) {
                let within: usize = view.attributes().map(|one| 2 + one.value.len()).sum();
                prop_assert_eq!(LENGTH + within, view.packet().len());
            }
        }
    }
}
