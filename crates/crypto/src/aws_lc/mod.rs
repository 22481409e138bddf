//! The engine that is always there: aws-lc, one packet a call.

mod aead;
mod aes;
mod cbc;

pub(crate) use aes::AesKey;

use crate::algorithm::Cipher;
use crate::lane::{Prepared, check_keys};
use crate::{Algorithm, BATCH, Engine, Key, KeyError, Lane, Mask};

/// The engine.
#[derive(Clone, Copy, Debug)]
pub struct AwsLc;

/// A key, prepared.
pub(crate) enum AwsLcKey {
    Aead(Box<aead::AeadKey>),
    Gmac(Box<aead::AeadKey>),
    Hmac(Box<cbc::HmacKey>),
}

impl Engine for AwsLc {
    fn name(&self) -> &'static str {
        "aws-lc"
    }

    fn has(&self, _: Algorithm) -> bool {
        true
    }

    fn key(
        &self,
        algorithm: Algorithm,
        encryption: &[u8],
        integrity: &[u8],
    ) -> Result<Key, KeyError> {
        check_keys(algorithm, encryption, integrity)?;
        let aead = || aead::AeadKey::new(algorithm, encryption).map(Box::new);
        let prepared = match algorithm.cipher() {
            Cipher::Gcm | Cipher::ChaCha20Poly1305 => aead().map(AwsLcKey::Aead),
            Cipher::Gmac => aead().map(AwsLcKey::Gmac),
            Cipher::Cbc | Cipher::Null => cbc::HmacKey::new(algorithm, encryption, integrity)
                .map(|key| AwsLcKey::Hmac(Box::new(key))),
        };
        let prepared = prepared.ok_or(KeyError::Algorithm(algorithm))?;
        Ok(Key { algorithm, prepared: Prepared::AwsLc(prepared) })
    }

    fn seal(&self, lanes: &mut [Lane<'_>]) -> Mask {
        each(lanes, |key, lane| match key {
            AwsLcKey::Aead(key) => key.seal(lane),
            AwsLcKey::Gmac(key) => key.sign(lane),
            AwsLcKey::Hmac(key) => key.seal(lane),
        })
    }

    fn open(&self, lanes: &mut [Lane<'_>]) -> Mask {
        each(lanes, |key, lane| match key {
            AwsLcKey::Aead(key) => key.open(lane),
            AwsLcKey::Gmac(key) => key.verify(lane),
            AwsLcKey::Hmac(key) => key.open(lane),
        })
    }

    fn enter(&self) {
        aead::enter();
    }
}

/// Lanes with keys of this engine for which `run` is true.
fn each(lanes: &mut [Lane<'_>], run: impl Fn(&AwsLcKey, &mut Lane<'_>) -> Option<bool>) -> Mask {
    let mut good = Mask::default();
    for (at, lane) in lanes.iter_mut().enumerate().take(BATCH) {
        if let Prepared::AwsLc(key) = &lane.key.prepared {
            good.add(at, run(key, lane).unwrap_or(false));
        }
    }
    good
}
