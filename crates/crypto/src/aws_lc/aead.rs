//! GCM, ChaCha20-Poly1305 and GMAC. Each returns whether a lane is good, and `None` where it is malformed.

use core::cell::RefCell;

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};

use crate::lane::{PACKET_MAX, Parts};
use crate::{Algorithm, Lane};

/// A key of an AEAD. Its memory is the library's, which zeroes whatever it frees.
pub(crate) struct AeadKey(LessSafeKey);

impl AeadKey {
    pub(super) fn new(algorithm: Algorithm, bytes: &[u8]) -> Option<Self> {
        let of = match algorithm {
            Algorithm::Aes128Gcm | Algorithm::Aes128Gmac => &AES_128_GCM,
            Algorithm::Aes256Gcm | Algorithm::Aes256Gmac => &AES_256_GCM,
            Algorithm::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            _ => return None,
        };
        let key = UnboundKey::new(of, bytes).ok()?;
        Some(Self(LessSafeKey::new(key)))
    }

    pub(super) fn seal(&self, lane: &mut Lane<'_>) -> Option<bool> {
        let (nonce, aad) = (Nonce::assume_unique_for_key(lane.nonce), lane.aad);
        let aad = Aad::from(aad.get(..lane.aad_length.into())?);
        let Parts { text, tag, .. } = lane.parts()?;
        let sealed = self.0.seal_in_place_separate_tag(nonce, aad, text).ok()?;
        tag.copy_from_slice(sealed.as_ref().get(..tag.len())?);
        Some(true)
    }

    pub(super) fn open(&self, lane: &mut Lane<'_>) -> Option<bool> {
        let (nonce, aad) = (Nonce::assume_unique_for_key(lane.nonce), lane.aad);
        let aad = Aad::from(aad.get(..lane.aad_length.into())?);
        let Parts { text, tag, .. } = lane.parts()?;
        Some(self.0.open_in_place_separate_tag(nonce, aad, tag, text).is_ok())
    }

    pub(super) fn sign(&self, lane: &mut Lane<'_>) -> Option<bool> {
        let nonce = Nonce::assume_unique_for_key(lane.nonce);
        let sealed = authenticated(lane, |it| {
            self.0.seal_in_place_separate_tag(nonce, Aad::from(it), &mut []).ok()
        })??;
        let tag = lane.parts()?.tag;
        tag.copy_from_slice(sealed.as_ref().get(..tag.len())?);
        Some(true)
    }

    pub(super) fn verify(&self, lane: &mut Lane<'_>) -> Option<bool> {
        let nonce = Nonce::assume_unique_for_key(lane.nonce);
        authenticated(lane, |it| {
            let aad = Aad::from(it);
            self.0.open_in_place_separate_tag(nonce, aad, lane.tag(), &mut []).is_ok()
        })
    }
}

thread_local! {
    /// The library takes AAD as one slice only.
    static AAD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Takes the memory of a thread.
pub(super) fn enter() {
    AAD.with_borrow_mut(|aad| aad.reserve(PACKET_MAX + 24));
}

/// Calls with what GMAC authenticates: AAD, IV and text (RFC 4543 section 3.3). Returns `None` for a malformed lane.
fn authenticated<T>(lane: &Lane<'_>, run: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let range = lane.text_range()?;
    let (header, text) = (lane.aad.get(..lane.aad_length.into())?, lane.packet.get(range)?);
    AAD.with_borrow_mut(|aad| {
        aad.clear();
        for part in [header, &lane.nonce[4..], text] {
            aad.extend_from_slice(part);
        }
        Some(run(aad))
    })
}
