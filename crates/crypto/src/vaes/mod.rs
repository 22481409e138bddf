//! AES-GCM (NIST SP 800-38D) by VAES and VPCLMULQDQ with vectors of 512 bits: four blocks an instruction, and several
//! packets at a time.
//!
//! The blocks of a packet are one stream: block 0 has the header and the counter of the tag, blocks 1 to n the text,
//! block n + 1 the lengths. So a packet of up to 96 bytes takes two vectors, and one sum of products of its blocks with
//! the powers of H, which is reduced once.
//!
//! No branch and no address depends on keys or texts.

mod avx512;
mod blocks_avx512;
mod ghash_avx512;
mod key;
mod key_avx512;
mod long_avx512;
mod packet;

pub use key::GcmKey;

use crate::lane::Prepared;
use crate::{Algorithm, Engine, Key, KeyError, Lane, Mask};

/// The engine.
#[derive(Clone, Copy, Debug)]
pub struct Vaes(());

impl Vaes {
    /// `None`: the processor or the system lacks what it needs.
    #[must_use]
    pub fn new() -> Option<Self> {
        let has_all = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("aes")
            && is_x86_feature_detected!("vaes")
            && is_x86_feature_detected!("vpclmulqdq");
        has_all.then_some(Self(()))
    }
}

impl Engine for Vaes {
    fn name(&self) -> &'static str {
        "vaes"
    }

    fn has(&self, algorithm: Algorithm) -> bool {
        matches!(algorithm, Algorithm::Aes128Gcm | Algorithm::Aes256Gcm)
    }

    fn key(&self, algorithm: Algorithm, bytes: &[u8]) -> Result<Key, KeyError> {
        if !self.has(algorithm) {
            return Err(KeyError::Algorithm(algorithm));
        }
        if bytes.len() != algorithm.key_bytes() {
            return Err(KeyError::length(algorithm, bytes));
        }
        let prepared = Prepared::Vaes(Box::new(key_avx512::prepare(self, bytes)));
        Ok(Key { algorithm, prepared })
    }

    fn seal(&self, lanes: &mut [Lane<'_>]) {
        avx512::run::<true>(self, lanes);
    }

    fn open(&self, lanes: &mut [Lane<'_>]) -> Mask {
        avx512::run::<false>(self, lanes)
    }
}

#[cfg(test)]
mod tests;
