//! The engines of this machine, and how they prove that they compute what they should.

use crate::aws_lc::AwsLc;
use crate::vaes::Vaes;
use crate::{Algorithm, Key, Lane, Mask};

/// Why a key is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It has another length.
    #[error("a key of {} has {} bytes, not {given}", algorithm.name(), algorithm.key_bytes())]
    Length {
        /// The algorithm.
        algorithm: Algorithm,
        /// Bytes of the key.
        given: usize,
    },
    /// The engine does not have the algorithm.
    #[error("the engine does not have {}", .0.name())]
    Algorithm(Algorithm),
}

impl KeyError {
    pub(crate) fn length(algorithm: Algorithm, bytes: &[u8]) -> Self {
        Self::Length { algorithm, given: bytes.len() }
    }
}

/// Encrypts and decrypts batches.
pub trait Engine: Send + Sync {
    /// Its name, as commands have it.
    fn name(&self) -> &'static str;

    /// Whether it has an algorithm.
    fn has(&self, algorithm: Algorithm) -> bool;

    /// Prepares a key.
    ///
    /// # Errors
    /// The key has another length, or the engine does not have the algorithm.
    fn key(&self, algorithm: Algorithm, bytes: &[u8]) -> Result<Key, KeyError>;

    /// Encrypts texts in place, and writes their tags. Lanes with keys of another engine stay as they are.
    fn seal(&self, lanes: &mut [Lane<'_>]);

    /// Decrypts texts in place, at most [`crate::BATCH`]. Returns the lanes that are authentic; the texts of others are
    /// of no use.
    fn open(&self, lanes: &mut [Lane<'_>]) -> Mask;
}

/// The engines that work here, the fastest first.
#[must_use]
pub fn engines() -> Vec<Box<dyn Engine>> {
    let fast = Vaes::new().map(|it| Box::new(it) as Box<dyn Engine>);
    let all = fast.into_iter().chain([Box::new(AwsLc) as Box<dyn Engine>]);
    all.filter(|it| is_right(it.as_ref())).collect()
}

/// A known answer: the key, the nonce, the header, the text, the encrypted text with its tag.
struct Known {
    algorithm: Algorithm,
    key: &'static [u8],
    nonce: [u8; 12],
    header: &'static [u8],
    text: &'static [u8],
    sealed: &'static [u8],
}

mod known;

/// Whether an engine computes all known answers of its algorithms, and refuses what was changed.
fn is_right(engine: &dyn Engine) -> bool {
    known::ALL.iter().filter(|it| engine.has(it.algorithm)).all(|known| {
        let Ok(key) = engine.key(known.algorithm, known.key) else { return false };
        let mut header = [0; 16];
        let Some(start) = header.get_mut(..known.header.len()) else { return false };
        start.copy_from_slice(known.header);
        let (mut text, mut tag) = (known.text.to_vec(), [0; 16]);
        let run = |text: &mut Vec<u8>, tag: &mut [u8; 16], is_seal: bool| {
            let header_length = known.header.len() as u8;
            let nonce = known.nonce;
            let mut lanes = [Lane { key: &key, nonce, header, header_length, text, tag }];
            if is_seal {
                engine.seal(&mut lanes);
                return true;
            }
            engine.open(&mut lanes).has(0)
        };
        run(&mut text, &mut tag, true);
        let is_sealed = [&text[..], &tag[..]].concat() == known.sealed;
        let mut changed = tag;
        changed[15] ^= 1;
        let refuses = !run(&mut text.clone(), &mut changed, false);
        is_sealed && refuses && run(&mut text, &mut tag, false) && text == known.text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_has_every_algorithm() {
        let all = engines();
        let last = all.last().expect("aws-lc is always there");
        assert_eq!(last.name(), "aws-lc");
        assert!(Algorithm::ALL.into_iter().all(|it| last.has(it)));
    }
}
