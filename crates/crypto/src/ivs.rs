//! IVs of CBC.

use aws_lc_rs::error::Unspecified;

use crate::aws_lc::AesKey;

/// The system gave no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gave no random bytes for the IVs of CBC")]
pub struct RandomError;

impl From<Unspecified> for RandomError {
    fn from(_: Unspecified) -> Self {
        Self
    }
}

/// IVs that nobody can predict (RFC 3602 section 3), for one worker: a counter, encrypted with a random key of its own
/// (NIST SP 800-38A, appendix C).
pub struct Ivs {
    key: AesKey,
    counter: u128,
}

impl Ivs {
    /// Takes a random key from the system.
    ///
    /// # Errors
    /// The system gave no random bytes.
    pub fn new() -> Result<Self, RandomError> {
        let (mut key, mut counter) = (zeroize::Zeroizing::new([0; 32]), [0; 16]);
        aws_lc_rs::rand::fill(&mut key[..])?;
        aws_lc_rs::rand::fill(&mut counter)?;
        let key = AesKey::for_encryption(&key[..]).ok_or(RandomError)?;
        Ok(Self { key, counter: u128::from_le_bytes(counter) })
    }

    /// The next IV.
    pub fn next_iv(&mut self) -> [u8; 16] {
        self.counter = self.counter.wrapping_add(1);
        self.key.encrypted(self.counter.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_iv_comes_twice_and_workers_have_their_own() {
        let (mut one, mut other) = (Ivs::new().unwrap(), Ivs::new().unwrap());
        let mut all: Vec<_> = (0..1_000).flat_map(|_| [one.next_iv(), other.next_iv()]).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2_000);
    }
}
