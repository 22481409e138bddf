//! AES-GCM (NIST SP 800-38D) by VAES and VPCLMULQDQ: four blocks an instruction with vectors of 512 bits, two with
//! those of 256, and several packets at a time.
//!
//! The blocks of a packet are one stream: block 0 has AAD and the counter of the tag, blocks 1 to n the text, block n +
//! 1 the lengths. So a packet of up to 96 bytes takes two vectors of 512 bits, and one sum of products of its blocks
//! with the powers of H, which is reduced once.
//!
//! GMAC is GCM whose text is empty: all of its stream is AAD.
//!
//! No branch and no address depends on keys or texts.

mod avx2;
mod avx512;
mod blocks_avx2;
mod blocks_avx512;
mod ghash_avx2;
mod ghash_avx512;
mod gmac_avx2;
mod key;
mod key_avx2;
mod long_avx512;
mod packet;

pub use key::GcmKey;

use crate::algorithm::Cipher;
use crate::lane::{Prepared, check_keys};
use crate::{Algorithm, Engine, Key, KeyError, Lane, Mask, Refusal};

/// Fails with the first feature that processor and system do not have.
macro_rules! need {
    ($($feature:tt)*) => { $(
        if !is_x86_feature_detected!($feature) {
            return Err(Refusal::Processor($feature));
        }
    )* };
}

/// The engine with vectors of 512 bits.
#[derive(Clone, Copy, Debug)]
pub struct Vaes512(Vaes256);

/// The engine with vectors of 256 bits. Both engines understand each other's keys.
#[derive(Clone, Copy, Debug)]
pub struct Vaes256(());

impl Vaes512 {
    /// # Errors
    /// The processor or the system lacks what it needs.
    pub fn new() -> Result<Self, Refusal> {
        need!("avx512f" "avx512bw" "avx512vl" "avx512dq" "bmi2");
        Vaes256::new().map(Self)
    }
}

impl Vaes256 {
    /// # Errors
    /// The processor or the system lacks what it needs.
    pub fn new() -> Result<Self, Refusal> {
        need!("avx2" "aes" "vaes" "vpclmulqdq");
        Ok(Self(()))
    }
}

impl Engine for Vaes512 {
    fn name(&self) -> &'static str {
        "vaes-512"
    }

    fn has(&self, algorithm: Algorithm) -> bool {
        self.0.has(algorithm)
    }

    fn key(
        &self,
        algorithm: Algorithm,
        encryption: &[u8],
        integrity: &[u8],
    ) -> Result<Key, KeyError> {
        self.0.key(algorithm, encryption, integrity)
    }

    fn seal(&self, lanes: &mut [Lane<'_>]) -> Mask {
        avx512::run::<true>(self, lanes)
    }

    fn open(&self, lanes: &mut [Lane<'_>]) -> Mask {
        avx512::run::<false>(self, lanes)
    }
}

impl Engine for Vaes256 {
    fn name(&self) -> &'static str {
        "vaes-256"
    }

    fn has(&self, algorithm: Algorithm) -> bool {
        matches!(algorithm.cipher(), Cipher::Gcm | Cipher::Gmac)
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
        let prepared = Prepared::Vaes(key_avx2::prepare(self, encryption));
        Ok(Key { algorithm, prepared })
    }

    fn seal(&self, lanes: &mut [Lane<'_>]) -> Mask {
        avx2::run::<true>(self, lanes)
    }

    fn open(&self, lanes: &mut [Lane<'_>]) -> Mask {
        avx2::run::<false>(self, lanes)
    }
}
