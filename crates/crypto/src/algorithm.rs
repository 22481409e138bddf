//! Algorithms that encrypt and authenticate at once.

/// An algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// AES-GCM with a key of 128 bits and a tag of 16 bytes (RFC 4106).
    Aes128Gcm,
    /// AES-GCM with a key of 256 bits and a tag of 16 bytes (RFC 4106).
    Aes256Gcm,
    /// ChaCha20 and Poly1305 (RFC 7634).
    ChaCha20Poly1305,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// Bytes of a key, without the salt.
    #[must_use]
    pub fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// The name, as commands and YANG have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "aes-128-gcm",
            Self::Aes256Gcm => "aes-256-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
        }
    }
}
