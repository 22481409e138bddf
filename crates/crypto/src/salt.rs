//! Salts of nonces.

use core::fmt;

use zeroize::Zeroizing;

/// The secret part of a nonce, in front of the IV (RFC 4106 section 4): zeros where an algorithm has none. Its memory
/// is zeroed when it is dropped; where it was moved from is not.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Salt(Zeroizing<[u8; 4]>);

impl Salt {
    /// Whether it has zeros only.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self.0 == [0; 4]
    }

    /// The nonce with an IV behind the salt.
    #[inline(always)]
    #[must_use]
    pub fn nonce(&self, iv: [u8; 8]) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&*self.0);
        nonce[4..].copy_from_slice(&iv);
        nonce
    }
}

impl From<[u8; 4]> for Salt {
    fn from(bytes: [u8; 4]) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Salt").finish_non_exhaustive()
    }
}
