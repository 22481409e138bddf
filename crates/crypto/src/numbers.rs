//! The numbers that IKE and YANG have for algorithms (IANA, "IKEv2 Transform Type 1 and 3"; RFC 9061).

use crate::algorithm::{Algorithm, Authentication, Cipher, Hash};

/// Why numbers and a length of a key are none of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    /// The encryption algorithm is not supported.
    #[error("the encryption algorithm {0} is not supported")]
    Encryption(u16),
    /// The key for encryption has a wrong length.
    #[error("the key has {given} bytes, and not {lengths}")]
    Key {
        /// Bytes of the key.
        given: usize,
        /// The lengths that it may have.
        lengths: &'static str,
    },
    /// The integrity algorithm is not supported with this encryption.
    #[error("the integrity algorithm {given} is not supported with this encryption")]
    Integrity {
        /// The number; 0: none.
        given: u16,
        /// What there is.
        supported: &'static str,
    },
}

/// Encryption without integrity of its own: 12 is AES-CBC, 11 none.
const CBC: u16 = 12;
const NULL: u16 = 11;
const GCM: u16 = 20;
const GMAC: u16 = 21;
const CHACHA: u16 = 28;
const GCM_IMPLICIT: u16 = 30;
const CHACHA_IMPLICIT: u16 = 31;

impl Algorithm {
    /// The algorithm with these numbers for encryption and integrity (0: none) and so many bytes of the key, and
    /// whether its IV is implicit (RFC 8750).
    ///
    /// # Errors
    /// There is none.
    pub fn from_numbers(
        (encryption, integrity): (u16, u16),
        key: usize,
    ) -> Result<(Self, bool), NumberError> {
        let aead = matches!(encryption, GCM | GMAC | CHACHA | GCM_IMPLICIT | CHACHA_IMPLICIT);
        let short = match key {
            16 => true,
            32 => false,
            _ if encryption == NULL => false,
            given if matches!(encryption, CHACHA | CHACHA_IMPLICIT) => {
                return Err(NumberError::Key { given, lengths: "32" });
            }
            given if aead || encryption == CBC => {
                return Err(NumberError::Key { given, lengths: "16 or 32" });
            }
            _ => return Err(NumberError::Encryption(encryption)),
        };
        if aead && integrity != 0 {
            let supported = "0: the encryption has integrity of its own";
            return Err(NumberError::Integrity { given: integrity, supported });
        }
        Ok(match (encryption, integrity, short) {
            (GCM, _, true) => (Self::Aes128Gcm, false),
            (GCM, _, false) => (Self::Aes256Gcm, false),
            (GCM_IMPLICIT, _, true) => (Self::Aes128Gcm, true),
            (GCM_IMPLICIT, _, false) => (Self::Aes256Gcm, true),
            (GMAC, _, true) => (Self::Aes128Gmac, false),
            (GMAC, _, false) => (Self::Aes256Gmac, false),
            (CHACHA | CHACHA_IMPLICIT, _, true) => {
                return Err(NumberError::Key { given: key, lengths: "32" });
            }
            (CHACHA, ..) => (Self::ChaCha20Poly1305, false),
            (CHACHA_IMPLICIT, ..) => (Self::ChaCha20Poly1305, true),
            (CBC, 2, true) => (Self::Aes128CbcSha1, false),
            (CBC, 12, true) => (Self::Aes128CbcSha256, false),
            (CBC, 14, true) => (Self::Aes128CbcSha512, false),
            (CBC, 2, false) => (Self::Aes256CbcSha1, false),
            (CBC, 12, false) => (Self::Aes256CbcSha256, false),
            (CBC, 14, false) => (Self::Aes256CbcSha512, false),
            (CBC, given, _) => {
                let supported =
                    "2 (HMAC-SHA1-96), 12 (HMAC-SHA2-256-128) or 14 (HMAC-SHA2-512-256)";
                return Err(NumberError::Integrity { given, supported });
            }
            (NULL, 12, _) if key == 0 => (Self::NullSha256, false),
            (NULL, 12, _) => return Err(NumberError::Key { given: key, lengths: "0" }),
            (NULL, given, _) => {
                return Err(NumberError::Integrity { given, supported: "12 (HMAC-SHA2-256-128)" });
            }
            _ => return Err(NumberError::Encryption(encryption)),
        })
    }

    /// The numbers for encryption and integrity.
    #[must_use]
    pub fn numbers(self, is_implicit: bool) -> (u16, u16) {
        let integrity = match self.hash() {
            None => 0,
            Some(Hash::Sha1) => 2,
            Some(Hash::Sha256) => 12,
            Some(Hash::Sha512) => 14,
        };
        let encryption = match (self.cipher(), is_implicit) {
            (Cipher::Gcm, false) => GCM,
            (Cipher::Gcm, true) => GCM_IMPLICIT,
            (Cipher::ChaCha20Poly1305, false) => CHACHA,
            (Cipher::ChaCha20Poly1305, true) => CHACHA_IMPLICIT,
            (Cipher::Gmac, _) => GMAC,
            (Cipher::Cbc, _) => CBC,
            (Cipher::Null, _) => NULL,
        };
        (encryption, integrity)
    }

    /// Whether a nonce that occurs twice with a key destroys its security: then the key must not be used again after
    /// the numbers of packets have begun anew (RFC 4106 section 9, RFC 8221 section 3).
    #[must_use]
    pub const fn needs_unique_nonces(self) -> bool {
        !matches!(self.authentication(), Authentication::Hmac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_algorithms_have_their_numbers() {
        for algorithm in Algorithm::ALL {
            for is_implicit in [false, true] {
                if is_implicit && !algorithm.can_have_implicit_iv() {
                    continue;
                }
                let numbers = algorithm.numbers(is_implicit);
                let found = Algorithm::from_numbers(numbers, algorithm.key_bytes());
                assert_eq!(found, Ok((algorithm, is_implicit)));
            }
            assert_eq!(algorithm.needs_unique_nonces(), algorithm.salt_bytes() > 0);
        }
    }

    #[test]
    fn other_numbers_are_refused_by_what_is_wrong() {
        let of = Algorithm::from_numbers;
        assert_eq!(of((13, 0), 16), Err(NumberError::Encryption(13)));
        assert_eq!(of((13, 0), 24), Err(NumberError::Encryption(13)));
        assert!(matches!(of((20, 0), 20), Err(NumberError::Key { given: 20, .. })));
        assert!(matches!(of((28, 0), 16), Err(NumberError::Key { given: 16, .. })));
        assert!(matches!(of((28, 0), 36), Err(NumberError::Key { given: 36, .. })));
        assert!(matches!(of((20, 12), 16), Err(NumberError::Integrity { given: 12, .. })));
        assert!(matches!(of((12, 0), 16), Err(NumberError::Integrity { given: 0, .. })));
        assert!(matches!(of((11, 0), 0), Err(NumberError::Integrity { given: 0, .. })));
        assert!(matches!(of((11, 12), 16), Err(NumberError::Key { given: 16, .. })));
    }
}
