//! Options of neighbour discovery messages (RFC 4861 section 4.6): bounded, no length of 0.

use crate::ethernet::Mac;
use crate::ndp::NdpError;
use core::net::Ipv6Addr;
use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Most options in one message; a message with more is refused.
pub const MOST: usize = 64;

/// Values of an option's type.
pub mod kind {
    /// The sender's link-layer address.
    pub const SOURCE_LINK_LAYER: u8 = 1;
    /// The target's link-layer address.
    pub const TARGET_LINK_LAYER: u8 = 2;
    /// A prefix of the link.
    pub const PREFIX: u8 = 3;
    /// The packet that a redirect is about.
    pub const REDIRECTED: u8 = 4;
    /// The link's MTU.
    pub const MTU: u8 = 5;
    /// Ties an advertisement to its solicitation (RFC 3971).
    pub const NONCE: u8 = 14;
    /// Recursive name servers (RFC 8106 section 5.1).
    pub const NAME_SERVERS: u8 = 25;
    /// Domains to search names in (RFC 8106 section 5.2).
    pub const SEARCH: u8 = 31;
    /// The API of a captive portal (RFC 8910 section 2.3).
    pub const CAPTIVE_PORTAL: u8 = 37;
    /// The prefix of NAT64 (RFC 8781 section 4).
    pub const NAT64_PREFIX: u8 = 38;
}

/// A prefix of the link (RFC 4861 section 4.6.2).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Prefix {
    /// [`kind::PREFIX`].
    pub kind: u8,
    /// 4: units of 8 bytes.
    pub length: u8,
    /// Bits of the prefix that count; a value above 128 makes no sense.
    pub prefix_length: u8,
    /// On-link (0x80), autonomous configuration (0x40).
    pub flags: u8,
    /// Seconds for which the prefix is on the link; all ones for ever.
    pub valid_lifetime: U32,
    /// Seconds for which addresses formed from it are preferred; all ones for ever.
    pub preferred_lifetime: U32,
    /// 0 when sent, ignored when received.
    pub reserved: U32,
    /// The prefix.
    pub prefix: [u8; 16],
}

impl Prefix {
    /// The prefix's address; bits behind `prefix_length` are to be ignored.
    pub const fn prefix(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.prefix)
    }
}

/// One option. An option of a known type whose length is not the type's is handed out as
/// [`NdpOption::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdpOption<'a> {
    /// The sender's link-layer address.
    SourceLinkLayer(Mac),
    /// The target's link-layer address.
    TargetLinkLayer(Mac),
    /// A prefix of the link.
    Prefix(&'a Prefix),
    /// The beginning of the packet that a redirect is about.
    Redirected(&'a [u8]),
    /// The link's MTU, in bytes.
    Mtu(u32),
    /// Any other, which is to be ignored (RFC 4861 section 6.1.1).
    Other {
        /// Type.
        kind: u8,
        /// What follows type and length.
        data: &'a [u8],
    },
}

impl<'a> NdpOption<'a> {
    fn read(option: &'a [u8]) -> Self {
        let (kind, data) = (option[0], &option[2..]);
        let mac = || data.try_into().map(Mac).ok();
        let known = match kind {
            kind::SOURCE_LINK_LAYER => mac().map(Self::SourceLinkLayer),
            kind::TARGET_LINK_LAYER => mac().map(Self::TargetLinkLayer),
            kind::PREFIX => Prefix::ref_from_bytes(option).ok().map(Self::Prefix),
            kind::REDIRECTED => data.get(6..).map(Self::Redirected),
            kind::MTU => match *data {
                [_, _, a, b, c, d] => Some(Self::Mtu(u32::from_be_bytes([a, b, c, d]))),
                _ => None,
            },
            _ => None,
        };
        known.unwrap_or(Self::Other { kind, data })
    }
}

/// The options of a message, whose lengths are right.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Checks the lengths of all options.
    ///
    /// # Errors
    /// [`NdpError::BadOption`] for a length of 0 or beyond the message,
    /// [`NdpError::TooManyOptions`] for more than [`MOST`].
    pub fn check(bytes: &'a [u8]) -> Result<Self, NdpError> {
        let mut rest = bytes;
        for _ in 0..MOST {
            if rest.is_empty() {
                return Ok(Self { rest: bytes });
            }
            (_, rest) = Self::split(rest).ok_or(NdpError::BadOption)?;
        }
        if rest.is_empty() { Ok(Self { rest: bytes }) } else { Err(NdpError::TooManyOptions) }
    }

    /// The first option with type and length, and what follows it.
    fn split(bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let length = usize::from(*bytes.get(1)?) * 8;
        if length == 0 { None } else { bytes.split_at_checked(length) }
    }

    /// Whether an option of this type is there, whatever its length.
    pub fn has(&self, kind: u8) -> bool {
        let mut rest = self.rest;
        while let Some((option, behind)) = Self::split(rest) {
            if option[0] == kind {
                return true;
            }
            rest = behind;
        }
        false
    }

    /// The sender's link-layer address, when it is there.
    pub fn source_mac(mut self) -> Option<Mac> {
        self.find_map(|option| match option {
            NdpOption::SourceLinkLayer(mac) => Some(mac),
            _ => None,
        })
    }

    /// The target's link-layer address, when it is there.
    pub fn target_mac(mut self) -> Option<Mac> {
        self.find_map(|option| match option {
            NdpOption::TargetLinkLayer(mac) => Some(mac),
            _ => None,
        })
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = NdpOption<'a>;

    fn next(&mut self) -> Option<NdpOption<'a>> {
        let (option, rest) = Self::split(self.rest)?;
        self.rest = rest;
        Some(NdpOption::read(option))
    }
}

/// A link-layer address option of type `kind`.
pub(crate) const fn link_layer(kind: u8, mac: Mac) -> [u8; 8] {
    let [a, b, c, d, e, f] = mac.0;
    [kind, 1, a, b, c, d, e, f]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_each_kind() {
        let mut prefix = [0; 32];
        prefix[..8].copy_from_slice(&[3, 4, 64, 0xc0, 0, 0, 0x0e, 0x10]);
        prefix[16..18].copy_from_slice(&[0x20, 0x01]);
        let bytes = [
            &[1, 1, 2, 0, 0, 0, 0, 1][..],
            &[2, 1, 2, 0, 0, 0, 0, 2],
            &[5, 1, 0, 0, 0, 0, 5, 0xdc],
            &prefix,
            &[4, 2, 0, 0, 0, 0, 0, 0, 0x60, 0, 0, 0, 0, 0, 0, 0],
            &[14, 1, 1, 2, 3, 4, 5, 6],
            &[1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        let options = Options::check(&bytes).unwrap();
        let read: Vec<_> = options.collect();
        assert_eq!(read[0], NdpOption::SourceLinkLayer(Mac([2, 0, 0, 0, 0, 1])));
        assert_eq!(read[1], NdpOption::TargetLinkLayer(Mac([2, 0, 0, 0, 0, 2])));
        assert_eq!(read[2], NdpOption::Mtu(1500));
        let NdpOption::Prefix(prefix) = read[3] else { panic!("a prefix") };
        assert_eq!((prefix.prefix_length, prefix.valid_lifetime.get()), (64, 3600));
        assert_eq!(prefix.prefix(), "2001::".parse::<Ipv6Addr>().unwrap());
        assert_eq!(read[4], NdpOption::Redirected(&[0x60, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(read[5], NdpOption::Other { kind: 14, data: &[1, 2, 3, 4, 5, 6] });
        assert_eq!(read[6], NdpOption::Other { kind: 1, data: &[0; 14] });
        assert_eq!(options.source_mac(), Some(Mac([2, 0, 0, 0, 0, 1])));
        assert_eq!(options.target_mac(), Some(Mac([2, 0, 0, 0, 0, 2])));
        assert!(options.has(kind::NONCE) && !options.has(99));
    }

    #[test]
    fn refuses_wrong_lengths() {
        let one = link_layer(kind::SOURCE_LINK_LAYER, Mac::ZERO);
        for length in 1..8 {
            assert_eq!(Options::check(&one[..length]).unwrap_err(), NdpError::BadOption);
        }
        assert_eq!(Options::check(&[1, 0, 0, 0, 0, 0, 0, 0]).unwrap_err(), NdpError::BadOption);
        assert_eq!(Options::check(&one.repeat(MOST)).unwrap().count(), MOST);
        let many = one.repeat(MOST + 1);
        assert_eq!(Options::check(&many).unwrap_err(), NdpError::TooManyOptions);
        assert_eq!(Options::check(&[]).unwrap().count(), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            if let Ok(options) = Options::check(&bytes) {
                let kinds = options.count();
                prop_assert!(kinds <= MOST && kinds * 8 <= bytes.len());
                prop_assert_eq!(bytes.len() % 8, 0);
            }
        }
    }
}
