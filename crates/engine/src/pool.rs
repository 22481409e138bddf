//! Packet memory: one mapping of equal slots, named by 32-bit ids.
//!
//! ```text
//! slot:  | headroom 128 | data 2,048 | tail 64 |  = 2,240 bytes = 35 cache lines
//! ```
//! The odd number of lines is on purpose: with a power of two the first lines of
//! all packets would fall into a few cache sets and evict each other.

use std::ffi::CString;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};

use crate::free_stack::FreeStack;
use crate::packet::Packet;
use crate::vector::Vector;

/// Bytes of one buffer, headroom included.
pub const SLOT: usize = 2240;
/// Bytes before the data of a fresh packet: room for encapsulation.
pub const HEADROOM: usize = 128;
/// The longest frame that one buffer holds, in bytes without FCS.
pub const FRAME_MAX: usize = SLOT - HEADROOM;
/// Ids that a worker keeps for itself.
const CACHE: usize = 1024;
/// Ids that move between a worker's cache and the common stock at once.
const BATCH: usize = 256;

const _: () = assert!(SLOT.is_multiple_of(64) && (SLOT / 64) % 2 == 1);

/// How packet memory is backed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// 2 MiB huge pages.
    Huge,
    /// Plain pages.
    Plain,
}

/// Whether to ask for huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HugePages {
    /// Use them when the machine has enough of them free.
    #[default]
    WhenThere,
    /// Plain pages always.
    Never,
    /// Fail without them.
    Required,
}

/// Why a pool could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// Not even one vector would fit, or ids would not fit into 32 bits.
    #[error("{0} buffers asked for: give a number between 512 and 16,777,216")]
    Count(u32),
    /// Huge pages were required and are not there.
    #[error(
        "no {bytes} bytes of free 2 MiB huge pages: raise vm.nr_hugepages or do not require them"
    )]
    NoHugePages {
        /// What the pool needs.
        bytes: usize,
    },
    /// The system refused the memory.
    #[error("no packet memory of {bytes} bytes: {source}; ask for fewer buffers")]
    Memory {
        /// What the pool needs.
        bytes: usize,
        /// The system's answer.
        source: nix::Error,
    },
}

/// The buffers of one process. Made once, lives as long as the process.
pub struct Pool {
    base: NonNull<u8>,
    count: u32,
    backing: Backing,
    memory: OwnedFd,
    free: FreeStack,
}

// SAFETY: the pool hands each slot to one owner at a time (a lane of a vector or
// a `Packet`); the stack passes ids with release/acquire. `base` never moves.
unsafe impl Send for Pool {}
// SAFETY: as above; all methods that take `&self` touch only atomics and ids.
unsafe impl Sync for Pool {}

impl Pool {
    /// Maps `count` buffers (512 to 16,777,216) that live until the process ends.
    pub fn leak(count: u32, pages: HugePages) -> Result<&'static Pool, PoolError> {
        if !(512..=1 << 24).contains(&count) {
            return Err(PoolError::Count(count));
        }
        let bytes = (count as usize * SLOT).next_multiple_of(2 << 20);
        let (base, memory, backing) = match pages {
            HugePages::Never => map(bytes, Backing::Plain),
            HugePages::Required => {
                map(bytes, Backing::Huge).map_err(|_| PoolError::NoHugePages { bytes })
            }
            HugePages::WhenThere => {
                map(bytes, Backing::Huge).or_else(|_| map(bytes, Backing::Plain))
            }
        }?;
        let pool = Pool { base, count, backing, memory, free: FreeStack::new(count) };
        let ids: Vec<u32> = (0..count).collect();
        pool.free.give(&ids);
        Ok(Box::leak(Box::new(pool)))
    }

    /// Buffers in all.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Buffers in the common stock; what workers cache is not in it.
    pub fn free(&self) -> u64 {
        self.free.len()
    }

    /// How the memory is backed.
    pub fn backing(&self) -> Backing {
        self.backing
    }

    /// The memory as a file, for drivers that share it with a peer or the kernel.
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// The first byte of slot `id`.
    ///
    /// # Panics
    /// When `id` is not a buffer of this pool: an error of the caller, never of a packet.
    #[inline(always)]
    pub fn slot(&self, id: u32) -> NonNull<u8> {
        assert!(id < self.count);
        // SAFETY: id < count, and the mapping holds count slots.
        unsafe { self.base.add(id as usize * SLOT) }
    }

    /// The first byte of slot 0, for kernels that compute addresses in lanes.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// A fresh packet from the common stock, for threads without a cache.
    pub fn packet(&'static self) -> Option<Packet> {
        let mut id = [0];
        (self.free.take(&mut id) == 1).then(|| Packet::fresh(self, id[0]))
    }

    /// Puts owned ids back.
    pub(crate) fn give_back(&self, ids: &[u32]) {
        self.free.give(ids);
    }
}

fn map(bytes: usize, backing: Backing) -> Result<(NonNull<u8>, OwnedFd, Backing), PoolError> {
    let flags = match backing {
        Backing::Huge => MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_HUGETLB | MFdFlags::MFD_HUGE_2MB,
        Backing::Plain => MFdFlags::MFD_CLOEXEC,
    };
    let refused = |source| PoolError::Memory { bytes, source };
    let name = CString::new("stoa-packets").unwrap_or_default();
    let memory = memfd_create(name.as_c_str(), flags).map_err(refused)?;
    nix::unistd::ftruncate(&memory, bytes as i64).map_err(refused)?;
    let length = NonZeroUsize::new(bytes).ok_or(PoolError::Count(0))?;
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new shared mapping of a file that only this process has; nothing
    // else lives at the address that the kernel picks. It is never unmapped.
    let base = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, &memory, 0) };
    Ok((base.map_err(refused)?.cast(), memory, backing))
}

/// A worker's own stock of free buffers.
pub struct PoolCache {
    pool: &'static Pool,
    ids: Box<[u32; CACHE]>,
    len: usize,
    /// How often a packet was wanted and no buffer was free.
    pub exhausted: u64,
}

impl PoolCache {
    /// An empty cache of `pool`.
    pub fn new(pool: &'static Pool) -> Self {
        Self { pool, ids: Box::new([0; CACHE]), len: 0, exhausted: 0 }
    }

    /// The pool behind it.
    pub fn pool(&self) -> &'static Pool {
        self.pool
    }

    /// Ids held now.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no id is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends up to `want` fresh lanes (offset [`HEADROOM`], length 0) to `vector`;
    /// returns how many. Fewer: the vector is full or buffers ran out.
    #[inline]
    pub fn fill(&mut self, vector: &mut Vector, want: usize) -> usize {
        let want = want.min(vector.room());
        if self.len < want {
            self.refill(want);
        }
        let n = want.min(self.len);
        if n < want {
            self.exhausted += 1;
        }
        self.len -= n;
        vector.append_fresh(&self.ids[self.len..self.len + n]);
        n
    }

    /// A fresh packet, or `None` when buffers ran out.
    pub fn packet(&mut self) -> Option<Packet> {
        if self.len == 0 {
            self.refill(1);
        }
        if self.len == 0 {
            self.exhausted += 1;
            return None;
        }
        self.len -= 1;
        Some(Packet::fresh(self.pool, self.ids[self.len]))
    }

    /// Frees the buffers of all lanes from `from` on and cuts the vector there.
    #[inline]
    pub fn free_from(&mut self, vector: &mut Vector, from: usize) {
        let ids = vector.cut(from);
        if ids.is_empty() {
            return;
        }
        // A zero-copy port may have taken lanes; then ids have to be picked.
        if ids.iter().all(|id| *id != crate::vector::NONE) {
            self.give(ids);
        } else {
            for id in ids {
                if *id != crate::vector::NONE {
                    self.give(std::slice::from_ref(id));
                }
            }
        }
    }

    /// Takes back ids that the caller owns.
    pub(crate) fn give(&mut self, ids: &[u32]) {
        if self.len + ids.len() > CACHE {
            let keep = CACHE / 2;
            if self.len > keep {
                self.pool.give_back(&self.ids[keep..self.len]);
                self.len = keep;
            }
        }
        self.ids[self.len..self.len + ids.len()].copy_from_slice(ids);
        self.len += ids.len();
    }

    #[cold]
    fn refill(&mut self, want: usize) {
        let room = (CACHE - self.len).min(want.max(BATCH));
        self.len += self.pool.free.take(&mut self.ids[self.len..self.len + room]);
    }
}

impl Drop for PoolCache {
    fn drop(&mut self) {
        self.pool.give_back(&self.ids[..self.len]);
    }
}
