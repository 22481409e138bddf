//! Random secrets, their text form and their stored form.

use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// 256 random bits.
///
/// # Panics
/// When the system has no randomness: then nothing here is secure.
pub fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

/// A random number.
pub fn number() -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&random()[..8]);
    u64::from_le_bytes(bytes)
}

/// Base64 for URLs.
pub fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A random secret that fits into a header or a cookie.
pub fn text() -> String {
    encoded(&random())
}

/// SHA-256 of the concatenated parts.
pub fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.finish().as_ref());
    bytes
}

/// The stored form of a random secret. It has 256 bits, so a plain digest cannot be reversed by guessing.
pub fn kept(secret: &str) -> String {
    encoded(&digest(&[secret.as_bytes()]))
}

/// Whether two texts are equal, in constant time.
pub fn is_same(one: &str, other: &str) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}
