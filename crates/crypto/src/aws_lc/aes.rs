//! AES in CBC mode without padding, which `aws-lc-rs` does not have: the functions of aws-lc itself.
#![allow(unsafe_code)]

use aws_lc_sys::{AES_KEY, AES_cbc_encrypt, AES_encrypt, AES_set_decrypt_key, AES_set_encrypt_key};
use zeroize::Zeroize;

const ENCRYPT: i32 = aws_lc_sys::AES_ENCRYPT;
const DECRYPT: i32 = aws_lc_sys::AES_DECRYPT;

/// Round keys of one direction. They are zeroed when they are dropped.
pub(crate) struct AesKey(AES_KEY);

impl AesKey {
    /// `None`: the key has neither 16 nor 32 bytes.
    pub(crate) fn for_encryption(bytes: &[u8]) -> Option<Self> {
        Self::new(bytes, AES_set_encrypt_key)
    }

    /// `None`: the key has neither 16 nor 32 bytes.
    pub(crate) fn for_decryption(bytes: &[u8]) -> Option<Self> {
        Self::new(bytes, AES_set_decrypt_key)
    }

    fn new(
        bytes: &[u8],
        set: unsafe extern "C" fn(*const u8, u32, *mut AES_KEY) -> i32,
    ) -> Option<Self> {
        if !matches!(bytes.len(), 16 | 32) {
            return None;
        }
        let mut key = Self(AES_KEY { rd_key: [0; 60], rounds: 0 });
        // SAFETY: there are so many bits behind the pointer, and the key is written only.
        let result = unsafe { set(bytes.as_ptr(), bytes.len() as u32 * 8, &raw mut key.0) };
        (result == 0).then_some(key)
    }

    /// AES of a block.
    pub(crate) fn encrypted(&self, block: [u8; 16]) -> [u8; 16] {
        let mut result = [0; 16];
        // SAFETY: both blocks have 16 bytes, and the key is prepared.
        unsafe { AES_encrypt(block.as_ptr(), result.as_mut_ptr(), &raw const self.0) };
        result
    }

    /// Encrypts whole blocks; bytes behind the last one stay as they are. The key is one for encryption.
    pub(crate) fn encrypt_cbc(&self, iv: [u8; 16], text: &mut [u8]) {
        self.cbc(iv, text, ENCRYPT);
    }

    /// Decrypts whole blocks; bytes behind the last one stay as they are. The key is one for decryption.
    pub(crate) fn decrypt_cbc(&self, iv: [u8; 16], text: &mut [u8]) {
        self.cbc(iv, text, DECRYPT);
    }

    fn cbc(&self, mut iv: [u8; 16], text: &mut [u8], direction: i32) {
        let length = text.len() / 16 * 16;
        if length == 0 {
            return;
        }
        let place = text.as_mut_ptr();
        // SAFETY: the text has so many bytes; the function works in place, and reads an IV of 16 bytes.
        unsafe {
            let key = &raw const self.0;
            AES_cbc_encrypt(place, place, length, key, iv.as_mut_ptr(), direction);
        }
    }
}

impl Drop for AesKey {
    fn drop(&mut self) {
        self.0.rd_key.zeroize();
    }
}
