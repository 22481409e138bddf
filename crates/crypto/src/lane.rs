//! Packets of a batch.

use aws_lc_rs::aead::LessSafeKey;

use crate::Algorithm;
use crate::vaes;

/// The most lanes of a batch.
pub const BATCH: usize = 256;
/// Bytes of a tag.
pub const TAG: usize = 16;

/// A key as its engine has prepared it.
pub struct Key {
    pub(crate) algorithm: Algorithm,
    pub(crate) prepared: Prepared,
}

pub(crate) enum Prepared {
    AwsLc(Box<LessSafeKey>),
    Vaes(Box<vaes::GcmKey>),
}

impl Key {
    /// Its algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// A packet of a batch.
pub struct Lane<'a> {
    /// The key, of the engine that is called.
    pub key: &'a Key,
    /// The nonce, which is used once with this key.
    pub nonce: [u8; 12],
    /// What is authenticated in front of the text: its first `header_length` bytes.
    pub header: [u8; 16],
    /// At most 16.
    pub header_length: u8,
    /// What is encrypted or decrypted in place.
    pub text: &'a mut [u8],
    /// Where the tag is, or will be.
    pub tag: &'a mut [u8; TAG],
}

/// Lanes of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mask([u64; BATCH / 64]);

impl Mask {
    /// Whether it has a lane.
    #[must_use]
    pub fn has(&self, lane: usize) -> bool {
        self.0.get(lane / 64).is_some_and(|word| word >> (lane % 64) & 1 == 1)
    }

    /// Adds a lane, if `is`.
    pub(crate) fn add(&mut self, lane: usize, is: bool) {
        if let Some(word) = self.0.get_mut(lane / 64) {
            *word |= u64::from(is) << (lane % 64);
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}
