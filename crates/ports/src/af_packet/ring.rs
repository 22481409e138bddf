//! The receive ring: frames that the kernel writes into memory that we share with it
//! (packet(7), TPACKET_V2). A frame is received as soon as its slot is marked: no block timer.

use std::io::Result;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::sys;
use crate::offload::{VNET_HEADER, VnetHeader};

/// Bytes of a slot, of which some 80 are the kernel's own: a frame of an Ethernet link with
/// tags fits; what is longer comes by the socket's queue.
const SLOT: usize = 2048;
/// Bytes that the kernel allocates at once.
const BLOCK: usize = 64 << 10;
/// Slots of a ring: 4 ms at 1 Mpps.
pub(super) const SLOTS: usize = 4096;

/// A ring and our place in it.
pub(super) struct Ring {
    base: NonNull<u8>,
    head: usize,
    /// Keeps the kernel's side alive as long as the memory is mapped.
    _socket: Arc<OwnedFd>,
}

// SAFETY: the mapping belongs to this value alone on our side; what the kernel and we hand to
// each other goes through the atomic status words.
unsafe impl Send for Ring {}

/// What lies in a slot.
pub(super) struct Frame<'a> {
    /// From the destination address on, without the tag that was taken off.
    pub bytes: &'a [u8],
    /// The kernel's offload header.
    pub header: VnetHeader,
    /// The tag that was taken off.
    pub tag: Option<[u8; 4]>,
}

/// The next slot's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing yet.
    Empty,
    /// A frame.
    Frame,
    /// A frame that was too long: the socket's queue has it whole.
    Queued,
}

impl Ring {
    /// Makes the ring of a socket that is not bound yet.
    pub fn new(socket: &Arc<OwnedFd>) -> Result<Self> {
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: (SLOTS * SLOT / BLOCK) as u32,
            tp_frame_size: SLOT as u32,
            tp_frame_nr: SLOTS as u32,
        };
        // enum tpacket_versions: TPACKET_V1, TPACKET_V2, TPACKET_V3.
        sys::set(socket, libc::PACKET_VERSION, &1i32)?;
        sys::set(socket, libc::PACKET_COPY_THRESH, &1i32)?;
        sys::set(socket, libc::PACKET_RX_RING, &request)?;
        let length = NonZeroUsize::new(SLOTS * SLOT).ok_or(std::io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new shared mapping at an address that the kernel picks.
        let base = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, socket, 0) }?;
        Ok(Self { base: base.cast(), head: 0, _socket: socket.clone() })
    }

    fn slot(&self, ahead: usize) -> NonNull<u8> {
        // SAFETY: the mapping has SLOTS slots of SLOT bytes; the index is less than SLOTS.
        unsafe { self.base.add((self.head + ahead) % SLOTS * SLOT) }
    }

    fn status(&self, ahead: usize) -> &AtomicU32 {
        // SAFETY: tp_status is the first word of a slot, aligned, and shared by atomics only.
        unsafe { AtomicU32::from_ptr(self.slot(ahead).as_ptr().cast()) }
    }

    /// The state of the slot `ahead` of our place.
    #[inline]
    pub fn next(&self, ahead: usize) -> Next {
        let status = self.status(ahead).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            Next::Empty
        } else if status & libc::TP_STATUS_COPY != 0 {
            Next::Queued
        } else {
            Next::Frame
        }
    }

    /// Frames that wait in a row, up to `most`; the first slot that is not a frame ends it.
    #[inline]
    pub fn ready(&self, most: usize) -> usize {
        let most = most.min(SLOTS);
        (0..most).find(|ahead| self.next(*ahead) != Next::Frame).unwrap_or(most)
    }

    /// The frame at our place, which [`Self::next`] called [`Next::Frame`]; `None`: it was cut,
    /// because the socket's queue had no space for it.
    #[inline]
    pub fn frame(&self) -> Option<Frame<'_>> {
        let start = self.slot(0);
        // SAFETY: the slot is ours until `release`, and begins with a tpacket2_hdr.
        let head = unsafe { start.cast::<libc::tpacket2_hdr>().read() };
        let (from, length) = (usize::from(head.tp_mac), head.tp_snaplen as usize);
        let whole = head.tp_len == head.tp_snaplen && length <= SLOT;
        if !whole || from < size_of::<libc::tpacket2_hdr>() + VNET_HEADER || from + length > SLOT {
            return None;
        }
        // SAFETY: `from - VNET_HEADER..from + length` lies inside the slot, which is ours.
        let (header, bytes) = unsafe {
            let header = start.add(from - VNET_HEADER).cast::<[u8; VNET_HEADER]>().as_ref();
            (header, std::slice::from_raw_parts(start.add(from).as_ptr(), length))
        };
        Some(Frame {
            bytes,
            header: VnetHeader::parse(header),
            tag: sys::tag(head.tp_status, head.tp_vlan_tci, head.tp_vlan_tpid),
        })
    }

    /// Prefetches the header of the slot `ahead` of our place.
    #[inline]
    pub fn prefetch(&self, ahead: usize) {
        let line = self.slot(ahead).as_ptr().wrapping_add(64);
        stoa_engine::vector::prefetch(line);
    }

    /// Gives the slot at our place back to the kernel and goes on.
    #[inline]
    pub fn release(&mut self) {
        self.status(0).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.head = (self.head + 1) % SLOTS;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`; no frame of it is borrowed any more. A failure
        // would only leave the memory mapped.
        let _ = unsafe { munmap(self.base.cast(), SLOTS * SLOT) };
    }
}
