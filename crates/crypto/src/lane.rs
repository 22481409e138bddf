//! Packets of a batch.

use core::fmt;
use core::ops::{BitOrAssign, Range};

use crate::algorithm::Cipher;
use crate::aws_lc::AwsLcKey;
use crate::vaes;
use crate::{Algorithm, KeyError};

/// The most lanes of a batch.
pub const BATCH: usize = 256;
/// The most bytes of a lane's packet: as many as IP has.
pub const PACKET_MAX: usize = 65_535;

/// A key as its engine has prepared it. Its memory is zeroed when it is dropped.
pub struct Key {
    pub(crate) algorithm: Algorithm,
    pub(crate) prepared: Prepared,
}

/// How many engines keep keys in forms of their own.
pub(crate) const KINDS: usize = 3;

pub(crate) enum Prepared {
    AwsLc(AwsLcKey),
    Vaes(Box<vaes::GcmKey>),
    #[cfg(feature = "ipsec-mb")]
    IpsecMb(crate::ipsec_mb::IpsecMbKey),
}

impl Key {
    /// Its algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// Whether keys have the lengths of an algorithm.
pub(crate) fn check_keys(
    algorithm: Algorithm,
    encryption: &[u8],
    integrity: &[u8],
) -> Result<(), KeyError> {
    if encryption.len() != algorithm.key_bytes() {
        return Err(KeyError::Encryption { algorithm, given: encryption.len() });
    }
    if integrity.len() != algorithm.integrity_key_bytes() {
        return Err(KeyError::Integrity { algorithm, given: integrity.len() });
    }
    Ok(())
}

/// A packet of a batch: front, text and tag, one behind another.
///
/// ```text
///          text_offset          tag_bytes of the algorithm
///          ├──────────►          ◄──┤
/// packet = front ‖ text ‖ tag
/// ESP    = SPI, sequence number, IV ‖ encrypted payload, padding, next header ‖ ICV
/// ```
///
/// A lane is malformed, and left as it is, where the packet is shorter than front and tag or longer than
/// [`PACKET_MAX`]; where AAD is longer than [`Algorithm::aad_bytes_max`]; with CBC where the text is not a multiple of
/// 16 bytes or the front is shorter than an IV; without encryption where the front is shorter than the 8 bytes of ESP.
/// So what a peer sends needs no check of its own.
pub struct Lane<'a> {
    /// The key.
    pub key: &'a Key,
    /// Front, text and tag. The text is encrypted or decrypted in place.
    pub packet: &'a mut [u8],
    /// Where the text begins: bytes of the front, which stays as it is. With CBC the IV is its end: 16 bytes that
    /// nobody can predict ([`crate::Ivs`]).
    pub text_offset: u8,
    /// The nonce of GCM, GMAC and ChaCha20-Poly1305, which is used once with this key: salt and IV. Others ignore it.
    pub nonce: [u8; 12],
    /// What is authenticated and is not in the packet in this form: its first `aad_length` bytes. See
    /// [`crate::Authentication`].
    pub aad: [u8; 16],
    /// At most [`Algorithm::aad_bytes_max`].
    pub aad_length: u8,
}

/// The parts of a packet.
pub(crate) struct Parts<'a> {
    pub(crate) front: &'a mut [u8],
    pub(crate) text: &'a mut [u8],
    pub(crate) tag: &'a mut [u8],
}

impl Lane<'_> {
    /// Where the text is; `None` for a malformed lane.
    #[inline]
    pub(crate) fn text_range(&self) -> Option<Range<usize>> {
        let algorithm = self.key.algorithm;
        let begin = usize::from(self.text_offset);
        let end = self.packet.len().checked_sub(algorithm.tag_bytes())?;
        let length = end.checked_sub(begin)?;
        let has_front = match algorithm.cipher() {
            Cipher::Cbc => begin >= 16 && length % 16 == 0,
            Cipher::Null => begin >= 8,
            Cipher::Gcm | Cipher::ChaCha20Poly1305 | Cipher::Gmac => true,
        };
        let is_short = self.packet.len() <= PACKET_MAX
            && usize::from(self.aad_length) <= algorithm.aad_bytes_max();
        (has_front && is_short).then_some(begin..end)
    }

    /// The parts of the packet; `None` for a malformed lane.
    pub(crate) fn parts(&mut self) -> Option<Parts<'_>> {
        let range = self.text_range()?;
        let (rest, tag) = self.packet.split_at_mut_checked(range.end)?;
        let (front, text) = rest.split_at_mut_checked(range.start)?;
        Some(Parts { front, text, tag })
    }

    /// The text; empty for a malformed lane.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        self.text_range().and_then(|range| self.packet.get(range)).unwrap_or_default()
    }

    /// The tag; empty for a malformed lane.
    #[must_use]
    pub fn tag(&self) -> &[u8] {
        self.text_range().and_then(|range| self.packet.get(range.end..)).unwrap_or_default()
    }
}

/// Lanes of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
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

    /// Bit by bit, the first lane lowest.
    #[must_use]
    pub fn words(&self) -> [u64; BATCH / 64] {
        self.0
    }
}

impl BitOrAssign for Mask {
    fn bitor_assign(&mut self, other: Self) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word |= other;
        }
    }
}
