//! ICMP router discovery (RFC 1256): how IPv4 hosts discover the routers on their link.

use core::net::Ipv4Addr;

use crate::build_error::prefix_of;
use crate::{BuildError, checksum};

/// ICMP type of an advertisement.
pub const ADVERTISEMENT: u8 = 9;
/// ICMP type of a solicitation.
pub const SOLICITATION: u8 = 10;
/// All systems on the link: where advertisements go (RFC 1256 section 4.1).
pub const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// All routers on the link: where solicitations go (RFC 1256 section 5.1).
pub const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// Most addresses in one advertisement.
pub const MOST: usize = 255;
/// The preference of an address that is not to be used as default router.
pub const NEVER: i32 = i32::MIN;

const FIXED: usize = 8;
const ENTRY: usize = 8;

causes! {
    /// Why a message of router discovery is not believed.
    IrdpError {
        Truncated = "irdp-truncated", "the message is shorter than its length fields";
        BadType = "irdp-bad-type", "the ICMP type is no router discovery";
        BadChecksum = "irdp-bad-checksum", "the ICMP checksum is wrong";
        BadCode = "irdp-bad-code", "the ICMP code is not 0";
        BadCount = "irdp-bad-count", "the advertisement contains no address, or entries of less than two words";
    }
}

/// A message that [`check`] has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Router solicitation.
    Solicitation,
    /// Router advertisement.
    Advertisement {
        /// Seconds for which they are good.
        lifetime_s: u16,
        /// The addresses.
        addresses: Addresses<'a>,
    },
}

/// The addresses of an advertisement, each with its preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses<'a> {
    entries: &'a [u8],
    /// Bytes of one entry, at least [`ENTRY`].
    size: usize,
}

impl Iterator for Addresses<'_> {
    type Item = (Ipv4Addr, i32);

    fn next(&mut self) -> Option<Self::Item> {
        let (entry, rest) = self.entries.split_at_checked(self.size)?;
        self.entries = rest;
        let word = |at: usize| entry.get(at..at + 4)?.first_chunk::<4>().copied();
        Some((word(0)?.into(), i32::from_be_bytes(word(4)?)))
    }
}

/// Whether the bytes of an IPv4 payload have a solicitation's type and length; nothing else is checked.
pub fn is_solicitation(message: &[u8]) -> bool {
    message.first() == Some(&SOLICITATION)
}

/// Checks an ICMP message as RFC 1256 sections 4.2 and 5.2 list.
///
/// # Errors
/// One cause per rule broken.
pub fn check(message: &[u8]) -> Result<Message<'_>, IrdpError> {
    let Some((head, rest)) = message.split_first_chunk::<FIXED>() else {
        return Err(IrdpError::Truncated);
    };
    if !matches!(head[0], ADVERTISEMENT | SOLICITATION) {
        return Err(IrdpError::BadType);
    }
    if !checksum::is_valid(checksum::sum(message)) {
        return Err(IrdpError::BadChecksum);
    }
    if head[1] != 0 {
        return Err(IrdpError::BadCode);
    }
    if head[0] == SOLICITATION {
        return Ok(Message::Solicitation);
    }
    let (count, size) = (usize::from(head[4]), usize::from(head[5]) * 4);
    if count == 0 || size < ENTRY {
        return Err(IrdpError::BadCount);
    }
    let entries = rest.get(..count * size).ok_or(IrdpError::Truncated)?;
    let lifetime_s = u16::from_be_bytes([head[6], head[7]]);
    Ok(Message::Advertisement { lifetime_s, addresses: Addresses { entries, size } })
}

/// Writes an advertisement of `addresses` with their preferences; returns its length, 8 bytes and
/// 8 for each. Send it with a time to live of 1.
///
/// # Errors
/// [`BuildError::NoSpace`]; [`BuildError::TooLong`] for more than [`MOST`] addresses.
pub fn build_advertisement(
    out: &mut [u8],
    lifetime_s: u16,
    addresses: &[(Ipv4Addr, i32)],
) -> Result<usize, BuildError> {
    let count = u8::try_from(addresses.len())
        .map_err(|_| BuildError::TooLong { length: addresses.len(), limit: MOST })?;
    let length = FIXED + ENTRY * addresses.len();
    let out = prefix_of(out, length)?;
    let [high, low] = lifetime_s.to_be_bytes();
    out[..FIXED].copy_from_slice(&[ADVERTISEMENT, 0, 0, 0, count, (ENTRY / 4) as u8, high, low]);
    for (entry, (address, preference)) in out[FIXED..].chunks_exact_mut(ENTRY).zip(addresses) {
        entry[..4].copy_from_slice(&address.octets());
        entry[4..].copy_from_slice(&preference.to_be_bytes());
    }
    let sum = checksum::finish(checksum::sum(out));
    out[2..4].copy_from_slice(&sum.to_be_bytes());
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sealed(mut message: Vec<u8>) -> Vec<u8> {
        message[2..4].fill(0);
        let sum = checksum::finish(checksum::sum(&message));
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        message
    }

    #[test]
    fn solicitations_are_distinguished_from_others() {
        let solicitation = sealed(vec![10, 0, 0, 0, 0, 0, 0, 0]);
        assert!(is_solicitation(&solicitation));
        assert_eq!(check(&solicitation), Ok(Message::Solicitation));
        assert_eq!(check(&sealed(vec![10, 1, 0, 0, 0, 0, 0, 0])), Err(IrdpError::BadCode));
        assert_eq!(check(&sealed(vec![8, 0, 0, 0, 0, 0, 0, 0])), Err(IrdpError::BadType));
        assert_eq!(check(&[10, 0, 0, 0, 0, 0, 0, 0]), Err(IrdpError::BadChecksum));
        assert_eq!(check(&solicitation[..7]), Err(IrdpError::Truncated));
    }

    #[test]
    fn advertisements_that_lie_about_their_length_are_refused() {
        let entries =
            |count: u8, size: u8| sealed([&[9, 0, 0, 0, count, size, 0, 9][..], &[0; 16]].concat());
        assert!(check(&entries(2, 2)).is_ok() && check(&entries(1, 4)).is_ok());
        assert_eq!(check(&entries(0, 2)), Err(IrdpError::BadCount));
        assert_eq!(check(&entries(1, 1)), Err(IrdpError::BadCount));
        assert_eq!(check(&entries(3, 2)), Err(IrdpError::Truncated));
        let many = [(Ipv4Addr::LOCALHOST, 0); 256];
        let built = build_advertisement(&mut [0; 4096], 1, &many);
        assert_eq!(built, Err(BuildError::TooLong { length: 256, limit: 255 }));
    }

    proptest! {
        #[test]
        fn what_is_built_is_read_back(
            entries in prop::collection::vec((any::<[u8; 4]>(), any::<i32>()), 1..=255),
            lifetime in any::<u16>(),
        ) {
            let entries: Vec<_> = entries.into_iter().map(|(ip, level)| (Ipv4Addr::from(ip), level)).collect();
            let mut out = [0xaa; 8 + 8 * 255];
            let length = build_advertisement(&mut out, lifetime, &entries).unwrap();
            prop_assert_eq!(length, 8 + 8 * entries.len());
            let Ok(Message::Advertisement { lifetime_s, addresses }) = check(&out[..length]) else {
                panic!("what is built is valid")
            };
            prop_assert_eq!(lifetime_s, lifetime);
            prop_assert_eq!(addresses.collect::<Vec<_>>(), entries);
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 8..200)) {
            for bytes in [bytes.clone(), sealed(bytes)] {
                if let Ok(Message::Advertisement { addresses, .. }) = check(&bytes) {
                    prop_assert_eq!(addresses.count(), usize::from(bytes[4]));
                }
            }
        }
    }
}
