//! A key of AES-GCM, prepared.

use zeroize::Zeroize;

/// The reduction of GHASH: x^128 + x^127 + x^126 + x^121 + 1, reflected.
pub(super) const POLYNOMIAL: i64 = 0xc200_0000_0000_0000_u64.cast_signed();
/// Powers of H that a key holds.
pub(super) const POWERS: usize = 16;
/// Round keys of AES-256, the most.
pub(super) const ROUND_KEYS: usize = 15;

/// Round keys and powers of H: 512 bytes.
#[repr(C, align(64))]
pub struct GcmKey {
    /// H^16 to H, each with its bytes reversed and multiplied by x, as products need them.
    pub(super) powers: [[u8; 16]; POWERS],
    /// Eleven or fifteen.
    pub(super) round_keys: [[u8; 16]; ROUND_KEYS],
    /// Ten or fourteen.
    pub(super) rounds: u8,
    /// The rest of the line: kernels load whole vectors of powers, up to the end of the key.
    pub(super) _rest: [u8; 15],
}

impl Drop for GcmKey {
    fn drop(&mut self) {
        self.powers.zeroize();
        self.round_keys.zeroize();
    }
}

const _: () = assert!(size_of::<GcmKey>() == 512);
