//! The engine `ipsec-mb`: intel-ipsec-mb, which hashes and encrypts packets of several keys at a time, for CBC with
//! HMAC and ChaCha20-Poly1305. It has GCM as well, packet by packet, to compare with.
#![allow(unsafe_code)]

mod shim;

use core::cell::OnceCell;
use core::ptr::NonNull;

use crate::algorithm::{Cipher, Hash};
use crate::lane::{Prepared, check_keys};
use crate::{Algorithm, BATCH, Engine, Key, KeyError, Lane, Mask, Refusal};
use shim::{Instructions, RawCipher, RawHash, RawKey, RawLane, RawThread};

/// The engine.
#[derive(Clone, Copy, Debug)]
pub struct IpsecMb {
    instructions: Instructions,
}

/// A key, prepared. The shim zeroes it when it frees it.
pub(crate) struct IpsecMbKey(NonNull<RawKey>);

// SAFETY: nothing changes a key once it is prepared, and any thread may free it.
unsafe impl Send for IpsecMbKey {}
// SAFETY: as above.
unsafe impl Sync for IpsecMbKey {}

impl Drop for IpsecMbKey {
    fn drop(&mut self) {
        // SAFETY: it is of the shim, and freed once.
        unsafe { shim::stoa_ipsec_mb_key_free(self.0.as_ptr()) }
    }
}

/// What a thread needs: its jobs, and its tags.
struct Thread(NonNull<RawThread>);

impl Thread {
    fn new(instructions: Instructions) -> Option<Self> {
        // SAFETY: whether there are these instructions was looked at before.
        NonNull::new(unsafe { shim::stoa_ipsec_mb_thread(instructions) }).map(Self)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: it is of the shim, and freed once, by its own thread.
        unsafe { shim::stoa_ipsec_mb_thread_free(self.0.as_ptr()) }
    }
}

thread_local! {
    /// `None`: the library does not work.
    static THREAD: OnceCell<Option<Thread>> = const { OnceCell::new() };
}

impl IpsecMb {
    /// # Errors
    /// The processor or the system lacks what it needs, or the library does not work.
    pub fn new() -> Result<Self, Refusal> {
        macro_rules! has {
            ($($feature:tt)*) => { $(is_x86_feature_detected!($feature))&&* };
        }
        // Not by the library: of AVX-512 it asks the processor alone, and not whether the system keeps its registers.
        for (name, has) in
            [("sse4.2", has!("sse4.2")), ("aes", has!("aes")), ("pclmulqdq", has!("pclmulqdq"))]
        {
            if !has {
                return Err(Refusal::Processor(name));
            }
        }
        let has_avx2 = has!("avx" "avx2" "bmi2");
        let has_avx512 = has!("avx512f" "avx512dq" "avx512cd" "avx512bw" "avx512vl");
        let instructions = match (has_avx2, has_avx512) {
            (false, _) => Instructions::Sse,
            (true, false) => Instructions::Avx2,
            (true, true) => Instructions::Avx512,
        };
        let engine = Self { instructions };
        engine.with_thread(|_| ()).map(|()| engine).ok_or(Refusal::Library)
    }

    /// Calls with the calling thread's memory. `None`: the library does not work.
    fn with_thread<T>(&self, run: impl FnOnce(&Thread) -> T) -> Option<T> {
        THREAD.with(|it| it.get_or_init(|| Thread::new(self.instructions)).as_ref().map(run))
    }

    fn run(&self, lanes: &mut [Lane<'_>], is_seal: bool) -> Mask {
        self.with_thread(|thread| run(thread, lanes, is_seal)).unwrap_or_default()
    }
}

impl Engine for IpsecMb {
    fn name(&self) -> &'static str {
        "ipsec-mb"
    }

    fn has(&self, algorithm: Algorithm) -> bool {
        algorithm.cipher() != Cipher::Gmac
    }

    fn key(
        &self,
        algorithm: Algorithm,
        encryption: &[u8],
        integrity: &[u8],
    ) -> Result<Key, KeyError> {
        check_keys(algorithm, encryption, integrity)?;
        let cipher = match algorithm.cipher() {
            Cipher::Gcm => RawCipher::Gcm,
            Cipher::ChaCha20Poly1305 => RawCipher::ChaCha20Poly1305,
            Cipher::Cbc => RawCipher::Cbc,
            Cipher::Null => RawCipher::Null,
            Cipher::Gmac => return Err(KeyError::Algorithm(algorithm)),
        };
        let hash = match algorithm.hash() {
            None => RawHash::None,
            Some(Hash::Sha1) => RawHash::Sha1,
            Some(Hash::Sha256) => RawHash::Sha256,
            Some(Hash::Sha512) => RawHash::Sha512,
        };
        let key = self.with_thread(|thread| {
            // SAFETY: the keys have the lengths of the algorithm, checked above.
            NonNull::new(unsafe {
                shim::stoa_ipsec_mb_key(
                    thread.0.as_ptr(),
                    cipher,
                    hash,
                    encryption.as_ptr(),
                    encryption.len() as u32,
                    integrity.as_ptr(),
                    integrity.len() as u32,
                    algorithm.tag_bytes() as u32,
                )
            })
        });
        let key = key.flatten().ok_or(KeyError::Algorithm(algorithm))?;
        Ok(Key { algorithm, prepared: Prepared::IpsecMb(IpsecMbKey(key)) })
    }

    fn seal(&self, lanes: &mut [Lane<'_>]) -> Mask {
        self.run(lanes, true)
    }

    fn open(&self, lanes: &mut [Lane<'_>]) -> Mask {
        self.run(lanes, false)
    }

    fn enter(&self) {
        let _ = self.with_thread(|_| ());
    }
}

fn run(thread: &Thread, lanes: &mut [Lane<'_>], is_seal: bool) -> Mask {
    let mut raw = [RawLane::NONE; BATCH];
    let mut count = 0;
    let mut of = [0_u8; BATCH];
    for (at, lane) in lanes.iter_mut().enumerate().take(BATCH) {
        let Prepared::IpsecMb(key) = &lane.key.prepared else { continue };
        let Some(text) = lane.text_range() else { continue };
        raw[count] = RawLane {
            key: key.0.as_ptr(),
            packet: lane.packet.as_mut_ptr(),
            nonce: lane.nonce.as_ptr(),
            aad: lane.aad.as_ptr(),
            text_offset: text.start as u32,
            text_length: text.len() as u32,
            aad_length: lane.aad_length.into(),
            is_good: 0,
        };
        of[count] = at as u8;
        count += 1;
    }
    // SAFETY: so many lanes are well-formed: front, text and tag are of a packet, which nothing else borrows.
    unsafe { shim::stoa_ipsec_mb_run(thread.0.as_ptr(), raw.as_mut_ptr(), count, is_seal) }
    let mut good = Mask::default();
    for (lane, at) in raw[..count].iter().zip(of) {
        good.add(at.into(), lane.is_good == 1);
    }
    good
}
