//! Algorithms of ESP (RFC 8221): each one encrypts and authenticates, or authenticates only.

/// An algorithm, with the length of its keys and of its ICV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// AES-GCM with a key of 128 bits and an ICV of 16 bytes (RFC 4106).
    Aes128Gcm,
    /// AES-GCM with a key of 256 bits and an ICV of 16 bytes (RFC 4106).
    Aes256Gcm,
    /// ChaCha20 and Poly1305 (RFC 7634).
    ChaCha20Poly1305,
    /// AES-CBC with a key of 128 bits (RFC 3602), HMAC-SHA1-96 (RFC 2404).
    Aes128CbcSha1,
    /// AES-CBC with a key of 128 bits (RFC 3602), HMAC-SHA-256-128 (RFC 4868).
    Aes128CbcSha256,
    /// AES-CBC with a key of 128 bits (RFC 3602), HMAC-SHA-512-256 (RFC 4868).
    Aes128CbcSha512,
    /// AES-CBC with a key of 256 bits (RFC 3602), HMAC-SHA1-96 (RFC 2404).
    Aes256CbcSha1,
    /// AES-CBC with a key of 256 bits (RFC 3602), HMAC-SHA-256-128 (RFC 4868).
    Aes256CbcSha256,
    /// AES-CBC with a key of 256 bits (RFC 3602), HMAC-SHA-512-256 (RFC 4868).
    Aes256CbcSha512,
    /// AES-GMAC with a key of 128 bits: no encryption (RFC 4543).
    Aes128Gmac,
    /// AES-GMAC with a key of 256 bits: no encryption (RFC 4543).
    Aes256Gmac,
    /// No encryption (RFC 2410), HMAC-SHA-256-128 (RFC 4868): for tests.
    NullSha256,
}

/// What is authenticated, and where [`crate::Lane::aad`] belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// AAD, then the text. The front of the packet is not looked at.
    Aead,
    /// AAD, then the IV (the last 8 bytes of the nonce), then the text, which stays plain (RFC 4543 section 3.3).
    Gmac,
    /// The front of the packet, then the encrypted text, then AAD: the high half of an extended sequence number is
    /// behind the text (RFC 4303 section 2.2.1).
    Hmac,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cipher {
    Gcm,
    ChaCha20Poly1305,
    Gmac,
    Cbc,
    Null,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha1,
    Sha256,
    Sha512,
}

/// What there is to know of an algorithm. Lengths are in bytes.
struct Row {
    name: &'static str,
    cipher: Cipher,
    hash: Option<Hash>,
    key: usize,
}

const fn row(name: &'static str, cipher: Cipher, hash: Option<Hash>, key: usize) -> Row {
    Row { name, cipher, hash, key }
}

const ROWS: [Row; 12] = [
    row("aes-128-gcm", Cipher::Gcm, None, 16),
    row("aes-256-gcm", Cipher::Gcm, None, 32),
    row("chacha20-poly1305", Cipher::ChaCha20Poly1305, None, 32),
    row("aes-128-cbc-sha1", Cipher::Cbc, Some(Hash::Sha1), 16),
    row("aes-128-cbc-sha256", Cipher::Cbc, Some(Hash::Sha256), 16),
    row("aes-128-cbc-sha512", Cipher::Cbc, Some(Hash::Sha512), 16),
    row("aes-256-cbc-sha1", Cipher::Cbc, Some(Hash::Sha1), 32),
    row("aes-256-cbc-sha256", Cipher::Cbc, Some(Hash::Sha256), 32),
    row("aes-256-cbc-sha512", Cipher::Cbc, Some(Hash::Sha512), 32),
    row("aes-128-gmac", Cipher::Gmac, None, 16),
    row("aes-256-gmac", Cipher::Gmac, None, 32),
    row("null-sha256", Cipher::Null, Some(Hash::Sha256), 0),
];

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Aes128Gcm,
        Self::Aes256Gcm,
        Self::ChaCha20Poly1305,
        Self::Aes128CbcSha1,
        Self::Aes128CbcSha256,
        Self::Aes128CbcSha512,
        Self::Aes256CbcSha1,
        Self::Aes256CbcSha256,
        Self::Aes256CbcSha512,
        Self::Aes128Gmac,
        Self::Aes256Gmac,
        Self::NullSha256,
    ];

    const fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    pub(crate) const fn cipher(self) -> Cipher {
        self.row().cipher
    }

    pub(crate) const fn hash(self) -> Option<Hash> {
        self.row().hash
    }

    /// The name, as commands and YANG have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The algorithm of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// What is authenticated.
    #[must_use]
    pub const fn authentication(self) -> Authentication {
        match self.cipher() {
            Cipher::Gcm | Cipher::ChaCha20Poly1305 => Authentication::Aead,
            Cipher::Gmac => Authentication::Gmac,
            Cipher::Cbc | Cipher::Null => Authentication::Hmac,
        }
    }

    /// Bytes of the key, without the salt: 0, 16 or 32.
    #[must_use]
    pub const fn key_bytes(self) -> usize {
        self.row().key
    }

    /// Bytes of the key of the HMAC, as long as its hash (RFC 2404 section 3, RFC 4868 section 2.1.1): 0, 20, 32 or 64.
    #[must_use]
    pub const fn integrity_key_bytes(self) -> usize {
        match self.hash() {
            None => 0,
            Some(Hash::Sha1) => 20,
            Some(Hash::Sha256) => 32,
            Some(Hash::Sha512) => 64,
        }
    }

    /// Bytes of the salt, which a key exchange agrees on with the key (RFC 4106 section 8.1): 0 or 4.
    #[must_use]
    pub const fn salt_bytes(self) -> usize {
        match self.cipher() {
            Cipher::Gcm | Cipher::ChaCha20Poly1305 | Cipher::Gmac => 4,
            Cipher::Cbc | Cipher::Null => 0,
        }
    }

    /// Bytes of the IV in a packet: 0, 8 or 16. An implicit IV takes none: ESP decides on it, engines do not notice.
    #[must_use]
    pub const fn iv_bytes(self) -> usize {
        match self.cipher() {
            Cipher::Gcm | Cipher::ChaCha20Poly1305 | Cipher::Gmac => 8,
            Cipher::Cbc => 16,
            Cipher::Null => 0,
        }
    }

    /// Whether ESP may leave out the IV and take the sequence number (RFC 8750 section 1).
    #[must_use]
    pub const fn can_have_implicit_iv(self) -> bool {
        matches!(self.authentication(), Authentication::Aead)
    }

    /// What ESP pads a text to a multiple of, in bytes: 4 or 16 (RFC 4303 section 2.4).
    #[must_use]
    pub const fn block(self) -> usize {
        if matches!(self.cipher(), Cipher::Cbc) { 16 } else { 4 }
    }

    /// Bytes of the ICV: 12, 16 or 32.
    #[must_use]
    pub const fn tag_bytes(self) -> usize {
        match self.hash() {
            Some(Hash::Sha1) => 12,
            Some(Hash::Sha256) | None => 16,
            Some(Hash::Sha512) => 32,
        }
    }

    /// The most bytes of AAD: 4 or 16.
    #[must_use]
    pub const fn aad_bytes_max(self) -> usize {
        if matches!(self.authentication(), Authentication::Hmac) { 4 } else { 16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_their_algorithms() {
        for (at, algorithm) in Algorithm::ALL.into_iter().enumerate() {
            assert_eq!(algorithm as usize, at);
            assert_eq!(Algorithm::from_name(algorithm.name()), Some(algorithm));
            let words: String = format!("{algorithm:?}").to_lowercase();
            assert_eq!(words, algorithm.name().replace('-', ""));
        }
        assert_eq!(Algorithm::from_name("aes-128-cbc-md5"), None);
    }
}
