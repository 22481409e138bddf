//! One AF_XDP socket: its frame memory (UMEM), its rings, and its system calls
//! (`Documentation/networking/af_xdp.rst`).
//!
//! ```text
//! UMEM:  | chunks for received frames | chunks for frames to send |
//! ```
//! The two halves of a queue share nothing else, so that two workers may own them.

use std::ffi::{c_int, c_void};
use std::io::{Error, Result};
use std::mem::{size_of, size_of_val, zeroed};
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::ring::Ring;
use super::tx_tracker::{Frame, TxTracker};
use crate::device_opener::{self, SocketKind};
use crate::netdevice::{bind_to, check};
use crate::netns::Namespace;

/// Chunks for received frames: 2 ms at 1 Mpps.
pub(super) const RX_FRAMES: u32 = 2048;
/// Chunks for frames to send.
pub(super) const TX_FRAMES: u32 = 1024;
/// Frames that the kernel sends in one system call (`XDP_MAX_TX_SKB_BUDGET`, since 6.17); else 32.
const TX_BUDGET: c_int = 9;
/// System calls for one burst at most: a call ends with each frame that the device refuses, and
/// kernels before 6.17 take 32 frames with each.
const CALLS: usize = 40;

/// Memory that the kernel reads frames from and writes them to.
pub(super) struct Umem {
    base: NonNull<u8>,
    length: NonZeroUsize,
    /// Bytes of a chunk, a power of two.
    pub chunk: usize,
}

// SAFETY: only addresses are given out; the user of an address states why the bytes are its own.
unsafe impl Send for Umem {}
// SAFETY: as above.
unsafe impl Sync for Umem {}

impl Umem {
    fn new(chunk: usize) -> Result<Self> {
        let bytes = (RX_FRAMES + TX_FRAMES) as usize * chunk;
        let length = NonZeroUsize::new(bytes).ok_or(std::io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_PRIVATE;
        // SAFETY: new anonymous memory at an address that the kernel picks.
        let base = unsafe { mmap_anonymous(None, length, access, flags) }?.cast();
        Ok(Self { base, length, chunk })
    }

    /// Where the bytes `at..at + length` lie; `None`: not in one piece of this memory.
    #[inline]
    pub fn place(&self, at: u64, length: usize) -> Option<NonNull<[u8]>> {
        let start = usize::try_from(at).ok()?;
        if start > self.length.get() || length > self.length.get() - start {
            return None;
        }
        // SAFETY: inside the mapping.
        Some(NonNull::slice_from_raw_parts(unsafe { self.base.add(start) }, length))
    }
}

impl Umem {
    /// Whether a chunk for frames to send begins there.
    #[inline]
    pub fn is_to_send(&self, at: u64) -> bool {
        let number = at / self.chunk as u64;
        at.is_multiple_of(self.chunk as u64)
            && (u64::from(RX_FRAMES)..u64::from(RX_FRAMES + TX_FRAMES)).contains(&number)
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`; the socket and both halves of the queue, which
        // lent it, are gone. A failure would only leave the memory mapped.
        let _ = unsafe { munmap(self.base.cast(), self.length.get()) };
    }
}

/// What both halves of a queue share.
pub(super) struct Socket {
    /// Closed before the memory goes.
    pub fd: OwnedFd,
    pub umem: Umem,
    /// Frames in the TX ring.
    pub tx_tracker: TxTracker,
    /// A second mapping of the TX ring, to read the kernel's index.
    sent: Ring<libc::xdp_desc>,
    zero_copy: OnceLock<bool>,
}

/// A socket with its rings, not bound yet.
pub(super) struct Parts {
    pub socket: Arc<Socket>,
    pub rx: Ring<libc::xdp_desc>,
    pub fill: Ring<u64>,
    pub tx: Ring<libc::xdp_desc>,
    pub completion: Ring<u64>,
}

impl Parts {
    /// Makes a socket of that namespace with chunks of `chunk` bytes: 2,048 or 4,096.
    pub fn new(namespace: &Namespace, chunk: usize) -> Result<Self> {
        let fd = device_opener::flat(device_opener::socket(namespace, SocketKind::Xdp))?;
        let umem = Umem::new(chunk)?;
        let register = libc::xdp_umem_reg {
            addr: umem.base.as_ptr().expose_provenance() as u64,
            len: umem.length.get() as u64,
            chunk_size: chunk as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(&fd, libc::XDP_UMEM_REG, &register)?;
        for (option, size) in [
            (libc::XDP_UMEM_FILL_RING, RX_FRAMES),
            (libc::XDP_UMEM_COMPLETION_RING, TX_FRAMES),
            (libc::XDP_RX_RING, RX_FRAMES),
            (libc::XDP_TX_RING, TX_FRAMES),
        ] {
            set(&fd, option, &size)?;
        }
        // Kernels before 6.17 do not know it: more system calls then.
        let _ = set(&fd, TX_BUDGET, &(stoa_engine::VECTOR as u32));
        crate::af_packet::sys::enlarge(&fd, 8 << 20);
        // SAFETY: all-zero is a valid xdp_mmap_offsets.
        let mut offsets: libc::xdp_mmap_offsets = unsafe { zeroed() };
        get(&fd, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
        let rx = Ring::map(&fd, libc::XDP_PGOFF_RX_RING, &offsets.rx, RX_FRAMES)?;
        let map_tx = || Ring::map(&fd, libc::XDP_PGOFF_TX_RING, &offsets.tx, TX_FRAMES);
        let (tx, sent) = (map_tx()?, map_tx()?);
        let page = libc::XDP_UMEM_PGOFF_FILL_RING as i64;
        let mut fill = Ring::map(&fd, page, &offsets.fr, RX_FRAMES)?;
        let page = libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64;
        let completion = Ring::map(&fd, page, &offsets.cr, TX_FRAMES)?;
        for number in 0..RX_FRAMES {
            fill.set(number, u64::from(number) * chunk as u64);
        }
        fill.offer(RX_FRAMES);
        let (tx_tracker, zero_copy) = (TxTracker::new(TX_FRAMES), OnceLock::new());
        let socket = Arc::new(Socket { fd, umem, tx_tracker, sent, zero_copy });
        Ok(Self { socket, rx, fill, tx, completion })
    }
}

impl Socket {
    /// Binds to a queue of a device.
    pub fn bind(&self, index: u32, queue: u32, flags: u16) -> Result<()> {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        bind_to(&self.fd, &address)
    }

    /// Whether the device reads and writes our memory itself. Valid once bound.
    pub fn is_zero_copy(&self) -> bool {
        *self.zero_copy.get_or_init(|| {
            let mut options = libc::xdp_options { flags: 0 };
            let got = get(&self.fd, libc::XDP_OPTIONS, &mut options);
            got.is_ok() && options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0
        })
    }

    /// Frames that the kernel had no space for since the socket was made.
    pub fn missed(&self) -> u64 {
        // SAFETY: all-zero is a valid xdp_statistics.
        let mut statistics: libc::xdp_statistics = unsafe { zeroed() };
        match get(&self.fd, libc::XDP_STATISTICS, &mut statistics) {
            Ok(()) => statistics.rx_dropped + statistics.rx_ring_full,
            Err(_) => 0,
        }
    }

    /// Makes the kernel send the TX ring.
    #[inline]
    fn send(&self) -> Result<()> {
        // SAFETY: no bytes are passed.
        check(unsafe {
            let nothing = std::ptr::null();
            libc::sendto(self.fd.as_raw_fd(), nothing, 0, libc::MSG_DONTWAIT, nothing.cast(), 0)
                as c_int
        })?;
        Ok(())
    }

    /// Reads the kernel's progress in the TX ring. Only the holder of the transmit lock may call it.
    #[inline]
    pub fn update_progress(&self) {
        self.tx_tracker.saw(self.sent.taken());
    }

    /// Calls the kernel until it has taken all frames, or takes no more now. Only the holder of the
    /// transmit lock may call it; `refused` is called for each frame that the device refused (too long for its
    /// peer, or no space there), with the index of its last entry.
    pub fn push(&self, mut refused: impl FnMut(u32, Frame)) {
        let tx_tracker = &self.tx_tracker;
        tx_tracker.set_pending(false);
        for _ in 0..CALLS {
            let before = tx_tracker.waiting();
            if before == 0 {
                break;
            }
            match self.send() {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && !self.is_zero_copy() => {
                    let (place, frame) = tx_tracker.refuse(self.sent.taken());
                    refused(place, frame);
                }
                _ => self.update_progress(),
            }
            if tx_tracker.waiting() >= before {
                break;
            }
        }
        if tx_tracker.waiting() > 0 {
            tx_tracker.set_pending(true);
        }
    }

    /// Wakes the kernel for chunks in the fill ring.
    #[inline]
    pub fn refilled(&self) {
        // SAFETY: no bytes are passed. The port detects a failure when it checks its device.
        unsafe {
            let nothing: *mut c_void = std::ptr::null_mut();
            libc::recv(self.fd.as_raw_fd(), nothing, 0, libc::MSG_DONTWAIT);
        }
    }
}

fn set<T>(socket: &OwnedFd, option: c_int, value: &T) -> Result<()> {
    let (pointer, length) = ((&raw const *value).cast(), size_of_val(value) as u32);
    // SAFETY: the value lives through the call and has the length given.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, pointer, length) })?;
    Ok(())
}

fn get<T>(socket: &OwnedFd, option: c_int, value: &mut T) -> Result<()> {
    let mut length = size_of::<T>() as u32;
    let into: *mut c_void = (&raw mut *value).cast();
    // SAFETY: the kernel writes at most `length` bytes of a plain struct of numbers.
    check(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, into, &raw mut length)
    })?;
    if (length as usize) < size_of::<T>() {
        // Linux before 5.4 knows a shorter struct.
        return Err(Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_chunks_come_back() {
        let umem = Umem::new(2048).unwrap();
        let [first, end] = [RX_FRAMES, RX_FRAMES + TX_FRAMES].map(|chunk| u64::from(chunk) * 2048);
        for at in [first, first + 2048, end - 2048] {
            assert!(umem.is_to_send(at) && umem.place(at, 2048).is_some());
        }
        // Of received frames, inside of a chunk, outside of the memory.
        for at in [0, first - 2048, first + 1, end - 1, end, u64::MAX, u64::MAX << 11] {
            assert!(!umem.is_to_send(at), "{at}");
        }
    }
}
