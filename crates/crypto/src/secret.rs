//! Keys as bytes, before an engine has prepared them.

use core::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use zeroize::Zeroizing;

/// A key as bytes. Its memory is zeroed when it is dropped, and `Debug` leaves it out.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Secret {
    fn from(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

/// What tells a key from others, and does not disclose it if it is random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 16]);

impl Fingerprint {
    /// That of a key, whatever algorithm it is used with.
    #[must_use]
    pub fn of(key: &[u8]) -> Self {
        let mut bytes = Zeroizing::new(b"stoa ipsec key ".to_vec());
        bytes.extend_from_slice(key);
        let whole = digest(&SHA256, &bytes);
        let mut first = [0; 16];
        first.iter_mut().zip(whole.as_ref()).for_each(|(to, from)| *to = *from);
        Self(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart_and_not_shown() {
        let (one, other) = (Fingerprint::of(&[7; 16]), Fingerprint::of(&[8; 16]));
        assert!(one != other && one == Fingerprint::of(&[7; 16]));
        assert_ne!(one.0, [7; 16]);
        assert_eq!(format!("{:?}", Secret::from(&[1, 2, 3][..])), "Secret { .. }");
    }
}
