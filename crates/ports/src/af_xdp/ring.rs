//! The four rings of an AF_XDP socket: memory that the kernel and we share, each ring with one
//! producer and one consumer (`Documentation/networking/af_xdp.rst`). The other side is the kernel,
//! and is trusted except for numbers that address memory.

use std::io::Result;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// What stands in a ring: a frame (`libc::xdp_desc`) or a chunk's address (`u64`).
///
/// # Safety
/// Any bytes are a valid value.
pub(super) unsafe trait Entry: Copy {}
// SAFETY: a number.
unsafe impl Entry for u64 {}
// SAFETY: three numbers without gaps.
unsafe impl Entry for libc::xdp_desc {}

/// A mapped ring and our place in it.
pub(super) struct Ring<T> {
    base: NonNull<u8>,
    length: NonZeroUsize,
    producer: NonNull<u8>,
    consumer: NonNull<u8>,
    flags: NonNull<u8>,
    entries: NonNull<u8>,
    size: u32,
    /// The own index; the shared copy is never read back.
    mine: u32,
    entry: PhantomData<T>,
}

// SAFETY: no thread owns a mapping, and this value alone unmaps its own. The ring behind it may be
// mapped once more by another value (`Socket::sent`): what both touch are the three words, as
// atomics. Entries are written by `set` alone, which needs the value for itself; of a ring mapped
// twice one value is shared for good, and is read for `taken` only. Kernel and producer hand
// entries to each other through the atomic indexes.
unsafe impl<T> Send for Ring<T> {}
// SAFETY: by a shared value the words are loaded as atomics, and entries are read (`get`), which
// the kernel does not write before `release`; that, as `set` and `offer`, needs the value for
// itself.
unsafe impl<T> Sync for Ring<T> {}

impl<T: Entry> Ring<T> {
    /// Maps a ring of `size` entries, a power of two, that was made before with that size.
    pub fn map(
        socket: &OwnedFd,
        page: i64,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> Result<Self> {
        let bytes = offsets.desc as usize + size as usize * size_of::<T>();
        let length = NonZeroUsize::new(bytes).ok_or(std::io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: a new shared mapping at an address that the kernel picks.
        let base = unsafe { mmap(None, length, access, flags, socket, page) }?.cast::<u8>();
        // SAFETY: the kernel gives the offset in the mapping, whose length covers the last entry.
        let at = |offset: u64| unsafe { base.add(offset as usize) };
        Ok(Self {
            base,
            length,
            producer: at(offsets.producer),
            consumer: at(offsets.consumer),
            flags: at(offsets.flags),
            entries: at(offsets.desc),
            size,
            mine: 0,
            entry: PhantomData,
        })
    }

    fn word(&self, at: NonNull<u8>) -> &AtomicU32 {
        // SAFETY: `at` is one of the three words in the mapping, aligned, and shared by atomics
        // only.
        unsafe { AtomicU32::from_ptr(at.as_ptr().cast()) }
    }

    fn entry(&self, ahead: u32) -> NonNull<T> {
        let at = self.mine.wrapping_add(ahead) & (self.size - 1);
        // SAFETY: `at` is less than `size`, and the mapping holds `size` entries from there on.
        unsafe { self.entries.cast::<T>().add(at as usize) }
    }

    /// Whether the kernel needs a system call to process this ring.
    #[inline]
    pub fn wants_call(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// As consumer: entries that wait.
    #[inline]
    pub fn waiting(&self) -> u32 {
        let theirs = self.word(self.producer).load(Ordering::Acquire);
        theirs.wrapping_sub(self.mine).min(self.size)
    }

    /// As consumer: the entry `ahead` of our place, one of those that wait.
    #[inline]
    pub fn get(&self, ahead: u32) -> T {
        // SAFETY: inside the ring; any bytes are a valid entry. A giver that wrote now would
        // break its own rule, and gets only a wrong number for it.
        unsafe { self.entry(ahead).read_volatile() }
    }

    /// As consumer: `count` entries are done with.
    #[inline]
    pub fn release(&mut self, count: u32) {
        self.mine = self.mine.wrapping_add(count);
        self.word(self.consumer).store(self.mine, Ordering::Release);
    }

    /// As producer: the taker's place.
    #[inline]
    pub fn taken(&self) -> u32 {
        self.word(self.consumer).load(Ordering::Acquire)
    }

    /// As producer: writes the entry `ahead` of our place, one of those that the consumer has left.
    #[inline]
    pub fn set(&mut self, ahead: u32, entry: T) {
        // SAFETY: inside the ring, and the consumer does not read there before `offer`.
        unsafe { self.entry(ahead).write(entry) };
    }

    /// As producer: shows `count` entries to the consumer.
    #[inline]
    pub fn offer(&mut self, count: u32) {
        self.mine = self.mine.wrapping_add(count);
        self.word(self.producer).store(self.mine, Ordering::Release);
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`; nothing of it is borrowed any more. A failure
        // would only leave the memory mapped.
        let _ = unsafe { munmap(self.base.cast(), self.length.get()) };
    }
}
