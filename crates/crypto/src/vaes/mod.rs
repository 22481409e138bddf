//! AES-GCM (NIST SP 800-38D) by VAES and VPCLMULQDQ with vectors of 512 bits: four blocks an instruction, and several
//! packets at a time.
//!
//! The blocks of a packet are one stream: block 0 has AAD and the counter of the tag, blocks 1 to n the text,
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

use crate::lane::{Prepared, check_keys};
use crate::{Algorithm, Engine, Key, KeyError, Lane, Mask, Refusal};

/// The engine.
#[derive(Clone, Copy, Debug)]
pub struct Vaes(());

impl Vaes {
    /// # Errors
    /// The processor or the system lacks what it needs.
    pub fn new() -> Result<Self, Refusal> {
        macro_rules! need {
            ($($feature:tt)*) => { $(
                if !is_x86_feature_detected!($feature) {
                    return Err(Refusal::Processor($feature));
                }
            )* };
        }
        need!("avx512f" "avx512bw" "avx512vl" "avx512dq" "bmi2" "aes" "vaes" "vpclmulqdq");
        Ok(Self(()))
    }
}

impl Engine for Vaes {
    fn name(&self) -> &'static str {
        "vaes-512"
    }

    fn has(&self, algorithm: Algorithm) -> bool {
        matches!(algorithm, Algorithm::Aes128Gcm | Algorithm::Aes256Gcm)
    }

    fn key(
        &self,
        algorithm: Algorithm,
        encryption: &[u8],
        integrity: &[u8],
    ) -> Result<Key, KeyError> {
        if !self.has(algorithm) {
            return Err(KeyError::Algorithm(algorithm));
        }
        check_keys(algorithm, encryption, integrity)?;
        let prepared = Prepared::Vaes(Box::new(key_avx512::prepare(self, encryption)));
        Ok(Key { algorithm, prepared })
    }

    fn seal(&self, lanes: &mut [Lane<'_>]) -> Mask {
        avx512::run::<true>(self, lanes)
    }

    fn open(&self, lanes: &mut [Lane<'_>]) -> Mask {
        avx512::run::<false>(self, lanes)
    }
}
