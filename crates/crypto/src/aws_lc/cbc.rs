//! CBC or no encryption, and a HMAC of what is sent. Each returns whether a lane is good, and `None` where it is
//! malformed.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;

use super::AesKey;
use crate::algorithm::{Cipher, Hash};
use crate::lane::Parts;
use crate::{Algorithm, Lane};

/// The keys of CBC and of the HMAC. The library zeroes the latter.
pub(crate) struct HmacKey {
    /// For encryption, for decryption.
    cbc: Option<(AesKey, AesKey)>,
    mac: hmac::Key,
}

impl HmacKey {
    pub(super) fn new(algorithm: Algorithm, encryption: &[u8], integrity: &[u8]) -> Option<Self> {
        let hash = match algorithm.hash()? {
            Hash::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Hash::Sha256 => hmac::HMAC_SHA256,
            Hash::Sha512 => hmac::HMAC_SHA512,
        };
        let cbc = match algorithm.cipher() {
            Cipher::Cbc => {
                Some((AesKey::for_encryption(encryption)?, AesKey::for_decryption(encryption)?))
            }
            _ => None,
        };
        Some(Self { cbc, mac: hmac::Key::new(hash, integrity) })
    }

    pub(super) fn seal(&self, lane: &mut Lane<'_>) -> Option<bool> {
        let (aad, aad_length) = (lane.aad, usize::from(lane.aad_length));
        let Parts { front, text, tag } = lane.parts()?;
        if let Some((key, _)) = &self.cbc {
            key.encrypt_cbc(*front.last_chunk()?, text);
        }
        let made = self.mac([front, text, aad.get(..aad_length)?]);
        tag.copy_from_slice(made.as_ref().get(..tag.len())?);
        Some(true)
    }

    pub(super) fn open(&self, lane: &mut Lane<'_>) -> Option<bool> {
        let (aad, aad_length) = (lane.aad, usize::from(lane.aad_length));
        let Parts { front, text, tag } = lane.parts()?;
        let made = self.mac([front, text, aad.get(..aad_length)?]);
        verify_slices_are_equal(made.as_ref().get(..tag.len())?, tag).ok()?;
        if let Some((_, key)) = &self.cbc {
            key.decrypt_cbc(*front.last_chunk()?, text);
        }
        Some(true)
    }

    /// The HMAC, before it is truncated.
    fn mac(&self, parts: [&[u8]; 3]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.mac);
        for part in parts {
            context.update(part);
        }
        context.sign()
    }
}
