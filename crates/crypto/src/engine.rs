//! What an engine is.

use crate::{Algorithm, Key, Lane, Mask};

/// Why a key is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The key for encryption has another length.
    #[error("a key of {} has {} bytes, not {given}", algorithm.name(), algorithm.key_bytes())]
    Encryption {
        /// The algorithm.
        algorithm: Algorithm,
        /// Bytes of the key.
        given: usize,
    },
    /// The key for integrity has another length.
    #[error(
        "an integrity key of {} has {} bytes, not {given}",
        algorithm.name(),
        algorithm.integrity_key_bytes()
    )]
    Integrity {
        /// The algorithm.
        algorithm: Algorithm,
        /// Bytes of the key.
        given: usize,
    },
    /// No engine has the algorithm, or not the one that was called.
    #[error("no engine has {}", .0.name())]
    Algorithm(Algorithm),
}

/// Encrypts and decrypts batches.
///
/// Calls return when all lanes are done. A device that works on its own, as QAT does, would be a second trait: its
/// packets are handed to it by their buffers, and come back in a later call, so that it cannot borrow slices.
pub trait Engine: Send + Sync {
    /// Its name, as commands have it.
    fn name(&self) -> &'static str;

    /// Whether it has an algorithm.
    fn has(&self, algorithm: Algorithm) -> bool;

    /// Prepares a key: `encryption` has [`Algorithm::key_bytes`], `integrity` has [`Algorithm::integrity_key_bytes`].
    ///
    /// # Errors
    /// A key has another length, or the engine does not have the algorithm.
    fn key(
        &self,
        algorithm: Algorithm,
        encryption: &[u8],
        integrity: &[u8],
    ) -> Result<Key, KeyError>;

    /// Encrypts texts in place, and writes their tags. Returns the lanes for which it did: those that are malformed or
    /// have keys of another engine stay as they are, as do those behind the first [`crate::BATCH`].
    fn seal(&self, lanes: &mut [Lane<'_>]) -> Mask;

    /// Decrypts texts in place. Returns the lanes that are authentic; texts and tags of others are of no use. Lanes
    /// that [`Engine::seal`] leaves as they are stay here as well.
    fn open(&self, lanes: &mut [Lane<'_>]) -> Mask;

    /// Takes the memory that the engine needs for the calling thread; else its first call would.
    fn enter(&self) {}
}
