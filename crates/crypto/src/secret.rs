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
        Self::of_both(key, &[])
    }

    /// That of a key for encryption and one for integrity.
    #[must_use]
    pub fn of_both(encryption: &[u8], integrity: &[u8]) -> Self {
        const NAME: &[u8] = b"stoa ipsec key ";
        let length = NAME.len() + encryption.len() + integrity.len();
        // With its room from the beginning: memory that is left behind would not be zeroed.
        let mut bytes = Zeroizing::new(Vec::with_capacity(length));
        [NAME, encryption, integrity].iter().for_each(|it| bytes.extend_from_slice(it));
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
