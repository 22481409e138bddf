//! The engine that is always there: aws-lc, one packet a call.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};

use crate::lane::{Prepared, TAG};
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
        for lane in lanes {
            let Prepared::AwsLc(key) = &lane.key.prepared else { continue };
            let nonce = Nonce::assume_unique_for_key(lane.nonce);
            let header =
                Aad::from(lane.header.get(..lane.header_length.into()).unwrap_or_default());
            if let Ok(tag) = key.seal_in_place_separate_tag(nonce, header, lane.text) {
                lane.tag.copy_from_slice(tag.as_ref().first_chunk::<TAG>().unwrap_or(&[0; TAG]));
            }
        }
    }

    fn open(&self, lanes: &mut [Lane<'_>]) -> Mask {
        let mut good = Mask::default();
        for (at, lane) in lanes.iter_mut().enumerate() {
            let Prepared::AwsLc(key) = &lane.key.prepared else { continue };
            let nonce = Nonce::assume_unique_for_key(lane.nonce);
            let header =
                Aad::from(lane.header.get(..lane.header_length.into()).unwrap_or_default());
            let tag = lane.tag.as_slice();
            good.add(at, key.open_in_place_separate_tag(nonce, header, tag, lane.text).is_ok());
        }
        good
    }
}
