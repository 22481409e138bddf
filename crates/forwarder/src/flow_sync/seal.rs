//! How messages are protected: a handshake, and frames that nobody else can read, write or repeat.
//!
//! Each end sends a hello: what it speaks, and the public half of an X25519 key (RFC 7748) that it makes for this
//! connection. HKDF (RFC 5869) makes a key for each direction of the shared point, the secret and both hellos, so only
//! who knows the secret has them, and who learns it later cannot read what was sent before. Frames are sealed by
//! AES-256-GCM (RFC 5116) with the number of the frame as nonce: a frame that is changed, left out, repeated or of
//! another connection does not open, which ends the connection.
//!
//! ```text
//! hello   8  "stoasync"
//!         2  version
//!         6  0
//!        32  public key
//! frame   4  length of what follows
//!         n  sealed items, and 16 bytes of the tag; the length is authenticated, too
//! ```

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, MAX_TAG_LEN, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};

const MAGIC: &[u8; 8] = b"stoasync";
/// Changes when hellos, frames or items change.
pub const VERSION: u16 = 2;
/// Bytes of a hello.
pub const HELLO: usize = 48;
/// Where the public key is.
const KEY: usize = 16;
/// Bytes in front of a sealed frame.
pub const LENGTH: usize = 4;
/// The most bytes of items in a frame.
pub const FRAME_MAX: usize = 32 << 10;

/// Why a frame or hello is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is no hello of this protocol.
    #[error("the partner speaks another protocol")]
    Protocol,
    /// The partner has another version.
    #[error("the partner has version {0} of the protocol, and not {VERSION}")]
    Version(u16),
    /// It was not sealed with the keys of this connection.
    #[error("the partner has another secret, or a frame was changed on its way")]
    Secret,
    /// It is longer than any.
    #[error("the partner sends a frame of {0} bytes")]
    Length(usize),
}

impl From<Unspecified> for Refusal {
    fn from(_: Unspecified) -> Self {
        Self::Secret
    }
}

/// One end before the other one has said hello.
pub struct Handshake {
    private: PrivateKey,
    hello: [u8; HELLO],
}

impl Handshake {
    /// With a new key; `None`: the system gives no random numbers.
    pub fn new() -> Option<Self> {
        let private = PrivateKey::generate(&X25519).ok()?;
        let public = private.compute_public_key().ok()?;
        let mut hello = [0; HELLO];
        hello[..8].copy_from_slice(MAGIC);
        hello[8..10].copy_from_slice(&VERSION.to_be_bytes());
        hello.get_mut(KEY..)?.copy_from_slice(public.as_ref().get(..HELLO - KEY)?);
        Some(Self { private, hello })
    }

    /// What it sends.
    pub fn hello(&self) -> &[u8; HELLO] {
        &self.hello
    }

    /// The keys of the connection with an end that has sent this hello. `connects`: this end has begun the connection.
    ///
    /// # Errors
    /// The other end is none of this protocol.
    pub fn finish(
        self,
        hello: &[u8; HELLO],
        secret: &str,
        connects: bool,
    ) -> Result<(Sealer, Opener), Refusal> {
        if hello[..8] != *MAGIC {
            return Err(Refusal::Protocol);
        }
        let version = u16::from_be_bytes([hello[8], hello[9]]);
        if version != VERSION {
            return Err(Refusal::Version(version));
        }
        let (first, second) = if connects { (&self.hello, hello) } else { (hello, &self.hello) };
        let salt = Salt::new(HKDF_SHA256, &[&first[..], &second[..]].concat());
        let public = UnparsedPublicKey::new(&X25519, &hello[KEY..]);
        let extract = |point: &[u8]| Ok(salt.extract(&[point, secret.as_bytes()].concat()));
        let whole: Prk = agree(&self.private, public, Refusal::Protocol, extract)?;
        let key = |name: &[u8]| {
            let info = [b"stoa flow sync ", name];
            Ok::<_, Refusal>(LessSafeKey::new(UnboundKey::from(whole.expand(&info, &AES_256_GCM)?)))
        };
        let [of_first, of_second] = [key(b"connecting end")?, key(b"listening end")?];
        let (own, other) = if connects { (of_first, of_second) } else { (of_second, of_first) };
        Ok((Sealer { key: own, next: 0 }, Opener { key: other, next: 0 }))
    }
}

/// The nonce of a frame.
fn nonce(next: &mut u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&next.to_be_bytes());
    *next += 1;
    Nonce::assume_unique_for_key(bytes)
}

/// Seals what this end sends.
pub struct Sealer {
    key: LessSafeKey,
    next: u64,
}

impl Sealer {
    /// Appends a frame with these items, at most [`FRAME_MAX`] bytes.
    ///
    /// # Errors
    /// They are too long.
    pub fn seal(&mut self, items: &[u8], to: &mut Vec<u8>) -> Result<(), Refusal> {
        let length = ((items.len() + MAX_TAG_LEN) as u32).to_be_bytes();
        if items.len() > FRAME_MAX {
            return Err(Refusal::Length(items.len()));
        }
        to.extend_from_slice(&length);
        let at = to.len();
        to.extend_from_slice(items);
        let sealed = to.get_mut(at..).unwrap_or_default();
        let of = (nonce(&mut self.next), Aad::from(length));
        let tag = self.key.seal_in_place_separate_tag(of.0, of.1, sealed)?;
        to.extend_from_slice(tag.as_ref());
        Ok(())
    }
}

/// The length of the frame that begins with these bytes, with the length itself; `None`: more bytes have to come.
///
/// # Errors
/// No frame is so long or so short.
pub fn frame_length(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    let Some(length) = bytes.first_chunk::<LENGTH>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if !(MAX_TAG_LEN..=FRAME_MAX + MAX_TAG_LEN).contains(&length) {
        return Err(Refusal::Length(length));
    }
    Ok(Some(LENGTH + length))
}

/// Opens what the other end has sealed.
pub struct Opener {
    key: LessSafeKey,
    next: u64,
}

impl Opener {
    /// The items of a whole frame, which is the next one.
    ///
    /// # Errors
    /// The other end has not sealed it, or has sealed it as another one.
    pub fn open<'a>(&mut self, frame: &'a mut [u8]) -> Result<&'a [u8], Refusal> {
        let whole = frame.len();
        let Some((length, sealed)) = frame.split_first_chunk_mut::<LENGTH>() else {
            return Err(Refusal::Length(whole));
        };
        let of = (nonce(&mut self.next), Aad::from(*length));
        Ok(self.key.open_in_place(of.0, of.1, sealed)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(secrets: [&str; 2]) -> [(Sealer, Opener); 2] {
        let [one, other] = [Handshake::new().unwrap(), Handshake::new().unwrap()];
        let hellos = [*one.hello(), *other.hello()];
        let one = one.finish(&hellos[1], secrets[0], true).unwrap();
        [one, other.finish(&hellos[0], secrets[1], false).unwrap()]
    }

    #[test]
    fn frames_are_opened_once_in_order_by_the_other_end() {
        let [mut one, mut other] = pair(["secret", "secret"]);
        let mut frames = [Vec::new(), Vec::new()];
        one.0.seal(b"first", &mut frames[0]).unwrap();
        one.0.seal(b"", &mut frames[1]).unwrap();
        let length = frame_length(&frames[0]);
        assert_eq!(length, Ok(Some(frames[0].len())));
        let [first, second] = frames;
        // The own end does not take its frames for those of the other.
        assert_eq!(one.1.open(&mut first.clone()), Err(Refusal::Secret));
        assert_eq!(other.1.open(&mut first.clone()), Ok(&b"first"[..]));
        assert_eq!(other.1.open(&mut second.clone()), Ok(&b""[..]));
        assert_eq!(other.1.open(&mut first.clone()), Err(Refusal::Secret), "repeated");
        assert!(!first.windows(5).any(|it| it == b"first"), "it is readable");
    }

    #[test]
    fn each_changed_bit_is_noticed() {
        for at in 0..4 + 3 + 16 {
            let [mut one, mut other] = pair(["secret", "secret"]);
            let mut frame = Vec::new();
            one.0.seal(b"abc", &mut frame).unwrap();
            frame[at] ^= 1;
            assert_eq!(other.1.open(&mut frame), Err(Refusal::Secret), "{at}");
        }
    }

    #[test]
    fn another_secret_and_other_protocols_are_refused() {
        let [mut one, mut other] = pair(["secret", "Secret"]);
        let mut frame = Vec::new();
        one.0.seal(b"abc", &mut frame).unwrap();
        assert_eq!(other.1.open(&mut frame), Err(Refusal::Secret));
        let hello = *Handshake::new().unwrap().hello();
        let refused = |change: fn(&mut [u8; HELLO])| {
            let mut hello = hello;
            change(&mut hello);
            Handshake::new().unwrap().finish(&hello, "secret", true).err()
        };
        assert_eq!(refused(|_| {}), None);
        assert_eq!(refused(|it| it[0] = 0), Some(Refusal::Protocol));
        assert_eq!(refused(|it| it[9] = 9), Some(Refusal::Version(9)));
        // A point of small order: the shared point would be the same for all.
        assert_eq!(refused(|it| it[16..].fill(0)), Some(Refusal::Protocol));
        let long = (FRAME_MAX + 100) as u32;
        assert!(frame_length(&long.to_be_bytes()).is_err());
        assert_eq!(frame_length(&[0, 0]), Ok(None));
    }
}
