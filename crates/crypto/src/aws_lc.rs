//! The engine that is always there: aws-lc, one packet a call.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};

use crate::lane::Prepared;
use crate::{Algorithm, Engine, Key, KeyError, Lane, Mask};

/// The engine.
#[derive(Clone, Copy, Debug)]
pub struct AwsLc;

impl Engine for AwsLc {
    fn name(&self) -> &'static str {
        "aws-lc"
    }

    fn has(&self, _: Algorithm) -> bool {
        true
    }

    fn key(&self, algorithm: Algorithm, bytes: &[u8]) -> Result<Key, KeyError> {
        let of = match algorithm {
            Algorithm::Aes128Gcm => &AES_128_GCM,
            Algorithm::Aes256Gcm => &AES_256_GCM,
            Algorithm::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        let key = UnboundKey::new(of, bytes).map_err(|_| KeyError::length(algorithm, bytes))?;
        Ok(Key { algorithm, prepared: Prepared::AwsLc(Box::new(LessSafeKey::new(key))) })
    }

    fn seal(&self, lanes: &mut [Lane<'_>]) {
        for Lane { key, nonce, header, header_length, text, tag } in lanes {
            let Prepared::AwsLc(key) = &key.prepared else { continue };
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let sealed = key.seal_in_place_separate_tag(nonce, aad(header, *header_length), text);
            if let Some(sealed) = sealed.ok().as_ref().and_then(|it| it.as_ref().first_chunk()) {
                **tag = *sealed;
            }
        }
    }

    fn open(&self, lanes: &mut [Lane<'_>]) -> Mask {
        let mut good = Mask::default();
        for (at, lane) in lanes.iter_mut().enumerate() {
            let Lane { key, nonce, header, header_length, text, tag } = lane;
            let Prepared::AwsLc(key) = &key.prepared else { continue };
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let aad = aad(header, *header_length);
            good.add(at, key.open_in_place_separate_tag(nonce, aad, &tag[..], text).is_ok());
        }
        good
    }
}

/// What is authenticated in front of a text.
fn aad(header: &[u8; 16], length: u8) -> Aad<&[u8]> {
    Aad::from(header.get(..length.into()).unwrap_or(header))
}
