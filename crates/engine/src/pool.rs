//! Packet memory: one mapping of equal slots, named by 32-bit ids.
//!
//! ```text
//! slot:  | headroom 128 | data 2,048 | tail 64 |  = 2,240 bytes = 35 cache lines
//! ```
//! The odd number of lines is on purpose: with a power of two the first lines of
//! all packets would fall into a few cache sets and evict each other.

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous};

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
    /// Reserved huge pages of 2 MiB.
    Huge,
    /// Pages that the kernel joins to huge ones when it can.
    Transparent,
    /// Plain pages.
    Plain,
}

/// Whether to ask for huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HugePages {
    /// Use reserved ones when enough are free, else ask the kernel to join pages.
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
        let (base, backing) = match pages {
            HugePages::Never => map(bytes, Backing::Plain),
            HugePages::Required => {
                map(bytes, Backing::Huge).map_err(|_| PoolError::NoHugePages { bytes })
            }
            HugePages::WhenThere => {
                map(bytes, Backing::Huge).or_else(|_| map(bytes, Backing::Transparent))
            }
        }?;
        let pool = Pool { base, count, backing, free: FreeStack::new(count) };
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

const HUGE: usize = 2 << 20;

fn map(bytes: usize, backing: Backing) -> Result<(NonNull<u8>, Backing), PoolError> {
    let refused = |source| PoolError::Memory { bytes, source };
    // Room to begin at a multiple of a huge page, which joined pages must.
    let spare = if backing == Backing::Transparent { HUGE } else { 0 };
    let length = NonZeroUsize::new(bytes + spare).ok_or(PoolError::Count(0))?;
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let flags = match backing {
        Backing::Huge => MapFlags::MAP_PRIVATE | MapFlags::MAP_HUGETLB | MapFlags::MAP_HUGE_2MB,
        Backing::Transparent | Backing::Plain => MapFlags::MAP_PRIVATE,
    };
    // SAFETY: new anonymous memory; nothing else lives at the address that the
    // kernel picks. It is never unmapped.
    let base: NonNull<u8> =
        unsafe { mmap_anonymous(None, length, access, flags) }.map_err(refused)?.cast();
    if backing == Backing::Huge {
        populate(base, bytes).map_err(refused)?;
    }
    let base = if spare > 0 {
        let skip = base.as_ptr().align_offset(HUGE);
        // SAFETY: `skip` < HUGE = `spare`, so that `bytes` follow inside the mapping.
        let aligned = unsafe { base.add(skip) };
        // SAFETY: the range lies in the mapping; advice changes no content. A kernel
        // that does not join pages leaves plain ones, which is as good as can be.
        let _ = unsafe { madvise(aligned.cast(), bytes, MmapAdvise::MADV_HUGEPAGE) };
        aligned
    } else {
        base
    };
    Ok((base, backing))
}

/// Takes the huge pages now: where a limit forbids them (a container's, say), the
/// first packet would be met by SIGBUS. Gives the mapping back when it fails.
fn populate(base: NonNull<u8>, bytes: usize) -> nix::Result<()> {
    // SAFETY: the range is the mapping that was just made; populating it changes no
    // content, and unmapping it ends what nobody has used yet.
    unsafe {
        let done = libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE);
        nix::errno::Errno::result(done).map(drop).inspect_err(|_| {
            libc::munmap(base.as_ptr().cast(), bytes);
        })
    }
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
        assert!(std::ptr::eq(self.pool, vector.pool()), "a vector of another pool");
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
        assert!(std::ptr::eq(self.pool, vector.pool()), "a vector of another pool");
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
