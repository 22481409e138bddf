//! A ring in shared memory. The peer may write anything at any time: each value is
//! read once into private memory, checked, then used.
//!
//! ```text
//!   0 cookie u32 | 4 flags u16 | 6 head u16 | 64 tail u16 | 128 descriptors, 16 bytes each
//!   descriptor: flags u16 | region u16 | length u32 | offset u32 | metadata u32
//! ```
//! The slave offers slots (moves `head`), the master returns them (moves `tail`); this
//! holds for both directions, only what lies in the buffers differs.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

use super::doorbell::Doorbell;
use super::region::Region;
use crate::cursor::{Cursor, Side};

/// Descriptors that are worked on at once, at most.
pub const BATCH: usize = 256;
/// What a ring begins with.
pub(crate) const COOKIE: u32 = 0x03e3_1f20;
/// Bytes before the descriptors.
pub(crate) const HEADER: u64 = 128;
/// Bytes of a descriptor.
pub(crate) const DESCRIPTOR: u64 = 16;
/// Logarithm of the largest ring.
pub(crate) const LOG2_MAX: u8 = 14;
/// Descriptor flag: the frame goes on in the next descriptor.
pub(crate) const NEXT: u16 = 1;
/// Ring flag: the receiver needs no interrupts.
const MASK: u16 = 1;

const FLAGS_AT: usize = 4;
const HEAD_AT: usize = 6;
const TAIL_AT: usize = 64;

/// What the queues of a link share with its port.
pub(crate) struct Link {
    /// Why the link must end.
    pub(crate) broken: OnceLock<&'static str>,
    /// Frames that were malformed or too long.
    pub(crate) left_out: AtomicU64,
    /// Bytes of the longest frame.
    pub(crate) longest: usize,
}

impl Link {
    /// A link for frames of `longest` bytes at most.
    pub(crate) fn new(longest: usize) -> Arc<Self> {
        Arc::new(Self { broken: OnceLock::new(), left_out: AtomicU64::new(0), longest })
    }

    /// Marks the link as broken by the peer.
    #[cold]
    pub(crate) fn break_down(&self, reason: &'static str) {
        let _ = self.broken.set(reason);
    }

    /// Whether the link must end.
    #[inline(always)]
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }
}

/// A descriptor's fields, as read or to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) flags: u16,
    pub(crate) region: u16,
    pub(crate) length: u32,
    pub(crate) offset: u32,
}

/// Where a ring lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingLayout {
    pub(crate) region: u16,
    pub(crate) offset: u32,
    pub(crate) log2_size: u8,
}

/// Why a ring cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RingError {
    #[error("a ring of 2^{0} descriptors: 2^1 to 2^14 are possible")]
    Size(u8),
    #[error("a ring outside its region, or not on a multiple of 8 bytes")]
    RingLayout,
    #[error("a ring without its cookie")]
    Cookie,
}

/// One ring and the own end of it.
pub(crate) struct Ring {
    regions: Arc<[Region]>,
    base: NonNull<u8>,
    side: Side,
    cursor: Cursor,
    doorbell: Doorbell,
    pub(crate) link: Arc<Link>,
}

// SAFETY: `base` points into a region that `regions` keeps mapped; the ring has one
// owner on our side, and all access to shared memory is atomic or by raw copies.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring as consumer or as producer, with its eventfd.
    pub(crate) fn new(
        regions: &Arc<[Region]>,
        place: RingLayout,
        side: Side,
        doorbell: OwnedFd,
        link: &Arc<Link>,
    ) -> Result<Self, RingError> {
        if !(1..=LOG2_MAX).contains(&place.log2_size) {
            return Err(RingError::Size(place.log2_size));
        }
        let size = 1_u16 << place.log2_size;
        let bytes = HEADER + DESCRIPTOR * u64::from(size);
        let region = regions.get(usize::from(place.region)).ok_or(RingError::RingLayout)?;
        let base = region.at(place.offset.into(), bytes).ok_or(RingError::RingLayout)?;
        if !(base.as_ptr() as usize).is_multiple_of(8) {
            return Err(RingError::RingLayout);
        }
        let cursor = Cursor::new(side, size, 0);
        let (regions, link) = (regions.clone(), link.clone());
        let doorbell = Doorbell::new(doorbell);
        let mut ring = Self { regions, base, side, cursor, doorbell, link };
        match side {
            Side::Producer => {
                // SAFETY: the first four bytes of the ring, checked to be in the
                // region and aligned above.
                let cookie = unsafe { AtomicU32::from_ptr(ring.base.as_ptr().cast()) };
                cookie.store(COOKIE, Ordering::Relaxed);
            }
            Side::Consumer => {
                // SAFETY: as above.
                let cookie = unsafe { AtomicU32::from_ptr(ring.base.as_ptr().cast()) };
                if cookie.load(Ordering::Relaxed) != COOKIE {
                    return Err(RingError::Cookie);
                }
                let tail = ring.word(TAIL_AT).load(Ordering::Relaxed);
                ring.cursor = Cursor::new(side, size, tail);
            }
        }
        Ok(ring)
    }

    /// One of the 16-bit words of the header; `at` is 4, 6 or 64.
    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU16 {
        // SAFETY: `at` is even and below HEADER, which `new` found inside the region;
        // base is a multiple of 8.
        unsafe { AtomicU16::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// Descriptors of the ring.
    pub(crate) fn size(&self) -> u16 {
        self.cursor.size()
    }

    /// Slots that we may work on; 0 after the link broke.
    #[inline(always)]
    pub(crate) fn ready(&self) -> u16 {
        let theirs = self.word(if self.side == Side::Producer { TAIL_AT } else { HEAD_AT });
        match self.cursor.ready(theirs) {
            Ok(ready) => ready,
            Err(_) => {
                self.link.break_down("a ring index of the peer jumped");
                0
            }
        }
    }

    /// The slot `ahead` of our index.
    #[inline(always)]
    pub(crate) fn slot(&self, ahead: u16) -> u16 {
        self.cursor.slot(ahead)
    }

    /// Hands slots to the peer, with all that was written into them.
    #[inline(always)]
    pub(crate) fn advance(&mut self, slots: u16) {
        // SAFETY: as in `word`; written out because the cursor is borrowed as well.
        let mine = unsafe {
            let at = if self.side == Side::Producer { HEAD_AT } else { TAIL_AT };
            AtomicU16::from_ptr(self.base.as_ptr().add(at).cast())
        };
        self.cursor.advance(slots, mine);
    }

    #[inline(always)]
    fn halves(&self, slot: u16) -> [&AtomicU64; 2] {
        let slot = usize::from(slot & (self.cursor.size() - 1));
        let at = HEADER as usize + DESCRIPTOR as usize * slot;
        // SAFETY: slot < size, so the descriptor lies inside the ring, which `new`
        // found inside the region on a multiple of 8 bytes.
        unsafe {
            let at = self.base.as_ptr().add(at);
            [AtomicU64::from_ptr(at.cast()), AtomicU64::from_ptr(at.add(8).cast())]
        }
    }

    /// Reads a descriptor, once.
    #[inline(always)]
    pub(crate) fn read(&self, slot: u16) -> Descriptor {
        let [first, second] = self.halves(slot).map(|half| half.load(Ordering::Relaxed));
        // Bytes in memory order, whatever the machine's byte order.
        let (first, second) = (first.to_ne_bytes(), second.to_ne_bytes());
        let [f0, f1, r0, r1, l0, l1, l2, l3] = first;
        let [o0, o1, o2, o3, ..] = second;
        Descriptor {
            flags: u16::from_ne_bytes([f0, f1]),
            region: u16::from_ne_bytes([r0, r1]),
            length: u32::from_ne_bytes([l0, l1, l2, l3]),
            offset: u32::from_ne_bytes([o0, o1, o2, o3]),
        }
    }

    /// Writes a descriptor.
    #[inline(always)]
    pub(crate) fn write(&self, slot: u16, descriptor: Descriptor) {
        let Descriptor { flags, region, length, offset } = descriptor;
        let ([f0, f1], [r0, r1]) = (flags.to_ne_bytes(), region.to_ne_bytes());
        let ([l0, l1, l2, l3], [o0, o1, o2, o3]) = (length.to_ne_bytes(), offset.to_ne_bytes());
        let [first, second] = self.halves(slot);
        first.store(u64::from_ne_bytes([f0, f1, r0, r1, l0, l1, l2, l3]), Ordering::Relaxed);
        second.store(u64::from_ne_bytes([o0, o1, o2, o3, 0, 0, 0, 0]), Ordering::Relaxed);
    }

    /// The address of the bytes that a descriptor names, when they exist.
    #[inline(always)]
    pub(crate) fn bytes(&self, region: u16, offset: u32, length: u32) -> Option<NonNull<u8>> {
        self.regions.get(usize::from(region))?.at(offset.into(), length.into())
    }

    /// The receiver's side: whether the sender must ring.
    pub(crate) fn enable_interrupts(&self, enabled: bool) {
        self.word(FLAGS_AT).store(if enabled { 0 } else { MASK }, Ordering::Relaxed);
        // The caller checks the ring once more; the sender moves its index and then
        // checks the flag. One of the two must see the other's store.
        fence(Ordering::SeqCst);
    }

    /// The sender's side: rings when the receiver has enabled interrupts.
    #[inline(always)]
    pub(crate) fn ring_doorbell(&mut self) {
        fence(Ordering::SeqCst);
        if self.word(FLAGS_AT).load(Ordering::Relaxed) & MASK == 0 {
            self.doorbell.ring();
        }
    }

    /// The receiver's side: clears the doorbell.
    pub(crate) fn quiet_doorbell(&self) {
        self.doorbell.quiet();
    }

    /// Readable when the sender rang.
    pub(crate) fn doorbell(&self) -> BorrowedFd<'_> {
        self.doorbell.descriptor()
    }
}
