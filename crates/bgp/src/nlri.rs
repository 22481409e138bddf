//! NLRI: the prefixes in UPDATE messages (RFC 4271, section 4.3; path identifiers RFC 7911, section 3).

use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;

use crate::message::ProtocolError;

/// An address of one family, in host byte order.
pub trait Address: Copy + Debug + Eq + Ord + Hash {
    /// Bits of an address.
    const BITS: u8;

    /// Builds an address from its leading bytes; bits after `length` are zeroed.
    fn from_bytes(bytes: &[u8], length: u8) -> Self;

    /// Whether a route to the prefix is acceptable: not multicast, not link-local.
    fn is_routable(self, length: u8) -> bool;
}

impl Address for u32 {
    const BITS: u8 = 32;

    fn from_bytes(bytes: &[u8], length: u8) -> Self {
        let mut octets = [0; 4];
        for (to, from) in octets.iter_mut().zip(bytes) {
            *to = *from;
        }
        let hosts = u32::MAX.checked_shr(u32::from(length)).unwrap_or(0);
        u32::from_be_bytes(octets) & !hosts
    }

    fn is_routable(self, length: u8) -> bool {
        length < 4 || self >> 28 != 0xe
    }
}

impl Address for u128 {
    const BITS: u8 = 128;

    fn from_bytes(bytes: &[u8], length: u8) -> Self {
        let mut octets = [0; 16];
        for (to, from) in octets.iter_mut().zip(bytes) {
            *to = *from;
        }
        let hosts = u128::MAX.checked_shr(u32::from(length)).unwrap_or(0);
        u128::from_be_bytes(octets) & !hosts
    }

    fn is_routable(self, length: u8) -> bool {
        let is_multicast = length >= 8 && self >> 120 == 0xff;
        let is_link_local = length >= 10 && self >> 118 == 0xfe80 >> 6;
        !is_multicast && !is_link_local
    }
}

/// Checked NLRI; iterates over path identifier (0 without add-path), address without host bits, prefix length.
#[derive(Clone, Debug)]
pub struct Nlri<'a, A> {
    bytes: &'a [u8],
    has_ids: bool,
    family: PhantomData<A>,
}

impl<'a, A: Address> Nlri<'a, A> {
    /// Checks the encoding of every prefix.
    ///
    /// # Errors
    /// When a prefix length is invalid or the field is truncated: the session has to be reset (RFC 7606, section
    /// 5.3).
    pub(crate) fn check(bytes: &'a [u8], has_ids: bool) -> Result<Self, ProtocolError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if has_ids {
                rest = rest.get(4..).ok_or_else(|| cut("a path identifier"))?;
            }
            let (length, behind) = rest.split_first().ok_or_else(|| cut("a prefix"))?;
            if *length > A::BITS {
                let reason = format!("the prefix length {length} exceeds {}", A::BITS);
                return Err(ProtocolError::new(3, 10, reason));
            }
            let size = usize::from(length.div_ceil(8));
            rest = behind.get(size..).ok_or_else(|| cut("a prefix"))?;
        }
        Ok(Self { bytes, has_ids, family: PhantomData })
    }

    /// Whether there are no prefixes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether the prefixes have path identifiers.
    #[must_use]
    pub fn has_ids(&self) -> bool {
        self.has_ids
    }
}

fn cut(what: &str) -> ProtocolError {
    ProtocolError::new(3, 10, format!("{what} is truncated at the end of its field"))
}

impl<A: Address> Iterator for Nlri<'_, A> {
    type Item = (u32, A, u8);

    // `check` has refused malformed NLRI; here it would end the iteration.
    fn next(&mut self) -> Option<Self::Item> {
        let mut id = 0;
        if self.has_ids {
            let (first, rest) = self.bytes.split_first_chunk::<4>()?;
            (id, self.bytes) = (u32::from_be_bytes(*first), rest);
        }
        let (&length, rest) = self.bytes.split_first()?;
        let (prefix, rest) = rest.split_at_checked(usize::from(length.div_ceil(8)))?;
        self.bytes = rest;
        Some((id, A::from_bytes(prefix, length), length))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prefixes_are_read_without_host_bits() {
        let bytes = [0, 8, 10, 25, 192, 0, 2, 255, 32, 1, 2, 3, 4];
        let read: Vec<_> = Nlri::<u32>::check(&bytes, false).expect("well formed").collect();
        assert_eq!(
            read,
            [(0, 0, 0), (0, 0x0a00_0000, 8), (0, 0xc000_0280, 25), (0, 0x0102_0304, 32)]
        );
        let bytes = [0, 0, 0, 7, 33, 0x20, 1, 0xd, 0xb8, 0xff];
        let read: Vec<_> = Nlri::<u128>::check(&bytes, true).expect("well formed").collect();
        assert_eq!(read, [(7, 0x2001_0db8_8000_u128 << 80, 33)]);
    }

    #[test]
    fn malformed_prefixes_are_refused() {
        for bytes in [&[33, 1, 2, 3, 4, 5][..], &[24, 1, 2], &[8]] {
            let fault = Nlri::<u32>::check(bytes, false).expect_err("refused");
            assert_eq!((fault.code, fault.subcode), (3, 10));
        }
        assert!(Nlri::<u32>::check(&[0, 0, 0], true).is_err());
        assert!(Nlri::<u32>::check(&[0, 0, 0, 1], true).is_err());
        assert!(Nlri::<u128>::check(&[129; 18], false).is_err());
    }

    #[test]
    fn multicast_and_link_local_prefixes_are_not_routable() {
        assert!(!0xe000_0000_u32.is_routable(4));
        assert!(!0xef01_0203_u32.is_routable(32));
        assert!(0_u32.is_routable(0) && 0xf000_0000_u32.is_routable(4));
        assert!(!(0xff02_u128 << 112).is_routable(16) && !(0xfe80_u128 << 112).is_routable(64));
        assert!(0_u128.is_routable(0) && (0xfc00_u128 << 112).is_routable(7));
    }

    proptest! {
        #[test]
        fn checked_nlri_is_read_completely(bytes: Vec<u8>, has_ids: bool) {
            if let Ok(nlri) = Nlri::<u32>::check(&bytes, has_ids) {
                let size = |length: u8| usize::from(length.div_ceil(8)) + 1 + 4 * usize::from(has_ids);
                let read: usize = nlri.map(|(_, _, length)| size(length)).sum();
                prop_assert_eq!(read, bytes.len());
            }
            if let Ok(nlri) = Nlri::<u128>::check(&bytes, has_ids) {
                let size = |length: u8| usize::from(length.div_ceil(8)) + 1 + 4 * usize::from(has_ids);
                let read: usize = nlri.map(|(_, _, length)| size(length)).sum();
                prop_assert_eq!(read, bytes.len());
            }
        }
    }
}
