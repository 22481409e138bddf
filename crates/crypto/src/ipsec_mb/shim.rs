//! `shim.h` in Rust.

use core::ffi::c_int;

/// See `struct key`.
#[repr(C)]
pub(super) struct RawKey {
    opaque: [u8; 0],
}

/// See `struct thread`.
#[repr(C)]
pub(super) struct RawThread {
    opaque: [u8; 0],
}

/// See `struct lane`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawLane {
    pub(super) key: *const RawKey,
    pub(super) packet: *mut u8,
    pub(super) nonce: *const u8,
    pub(super) aad: *const u8,
    pub(super) text_offset: u32,
    pub(super) text_length: u32,
    pub(super) aad_length: u32,
    pub(super) is_good: u32,
}

impl RawLane {
    pub(super) const NONE: Self = Self {
        key: core::ptr::null(),
        packet: core::ptr::null_mut(),
        nonce: core::ptr::null(),
        aad: core::ptr::null(),
        text_offset: 0,
        text_length: 0,
        aad_length: 0,
        is_good: 0,
    };
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instructions {
    Sse,
    Avx2,
    Avx512,
}

#[repr(C)]
pub(super) enum RawCipher {
    Null,
    Cbc,
    Gcm,
    ChaCha20Poly1305,
}

#[repr(C)]
pub(super) enum RawHash {
    None,
    Sha1,
    Sha256,
    Sha512,
}

const _: () = assert!(size_of::<RawCipher>() == size_of::<c_int>());

unsafe extern "C" {
    pub(super) fn stoa_ipsec_mb_thread(instructions: Instructions) -> *mut RawThread;
    pub(super) fn stoa_ipsec_mb_thread_free(thread: *mut RawThread);
    pub(super) fn stoa_ipsec_mb_key(
        thread: *mut RawThread,
        cipher: RawCipher,
        hash: RawHash,
        encryption: *const u8,
        key_bytes: u32,
        integrity: *const u8,
        integrity_bytes: u32,
        tag_bytes: u32,
    ) -> *mut RawKey;
    pub(super) fn stoa_ipsec_mb_key_free(key: *mut RawKey);
    pub(super) fn stoa_ipsec_mb_run(
        thread: *mut RawThread,
        lanes: *mut RawLane,
        count: usize,
        is_seal: bool,
    );
}
