//! Packet memory: one mapping of equal slots, named by 32-bit ids, and jumbo buffers
//! that are runs of slots at its end.
//!
//! ```text
//! slot:  | headroom 128 | data 2,048 | tail 64 |  = 2,240 bytes = 35 cache lines
//! pool:  | slot 0 | slot 1 | ... | slot count-1 | jumbo: 5 slots | jumbo: 5 slots | ... |
//!          id 0     id 1                          id count         id count + 5
//! ```
//! The odd number of lines is on purpose: with a power of two the first lines of
//! all packets would fall into a few cache sets and evict each other. A jumbo buffer is
//! named by its first slot, so that an id maps to an address alike for all; only
//! how much lies behind it differs (decision 11).

mod cache;
mod memory;
mod relocate;
#[cfg(all(test, not(loom), not(miri)))]
mod tests;

pub use cache::PoolCache;

use std::ptr::NonNull;

use crate::free_stack::FreeStack;
use crate::numa::{self, NumaNode};
use crate::packet::Packet;

/// Bytes of one buffer, headroom included.
pub const SLOT: usize = 2240;
/// Bytes before the data of a fresh packet: space for encapsulation.
pub const HEADROOM: usize = 128;
/// The longest frame that a plain buffer holds, in bytes without FCS.
pub const FRAME_MAX: usize = SLOT - HEADROOM;
/// Slots of a jumbo buffer.
const JUMBO_SLOTS: u32 = 5;
/// Bytes of a jumbo buffer, headroom included.
pub const JUMBO: usize = SLOT * JUMBO_SLOTS as usize;
/// The longest frame that a jumbo buffer holds, in bytes without FCS.
pub const JUMBO_FRAME_MAX: usize = JUMBO - HEADROOM;
/// Jumbo buffers of a pool. Unused ones take address space, not memory.
pub const JUMBOS: u32 = 1024;

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

/// Whether to use huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HugePages {
    /// Use reserved ones when enough are free, else let the kernel join pages.
    #[default]
    IfAvailable,
    /// Plain pages always.
    Never,
    /// Fail without them.
    Required,
}

/// Why a pool could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// Not even one vector would fit, or ids would not fit into 32 bits.
    #[error("{0} buffers requested: configure a number between 512 and 16,777,216")]
    Count(u32),
    /// Huge pages were required and are not there.
    #[error("no {bytes} bytes of free 2 MiB huge pages{}", huge_pages_fix(*.node))]
    NoHugePages {
        /// What the pool needs.
        bytes: usize,
        /// Where; `None`: anywhere.
        node: Option<NumaNode>,
    },
    /// The system refused the memory.
    #[error("no packet memory of {bytes} bytes: {source}; configure fewer buffers")]
    Memory {
        /// What the pool needs.
        bytes: usize,
        /// The system's answer.
        source: nix::Error,
    },
}

fn huge_pages_fix(node: Option<NumaNode>) -> String {
    match node {
        None => ": raise vm.nr_hugepages or do not require them".to_owned(),
        Some(node) => format!(
            " on NUMA node {node}: raise \
             /sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages or do not \
             require them"
        ),
    }
}

/// The buffers of one process, or of one of its NUMA nodes. Made once, lives as long as the process.
pub struct Pool {
    base: NonNull<u8>,
    /// Where its memory lies; `None`: wherever the kernel puts it.
    node: Option<NumaNode>,
    count: u32,
    /// Ids in all, those inside jumbo buffers included.
    end: u32,
    backing: Backing,
    /// The requested kind.
    pages: HugePages,
    free: FreeStack,
    /// Jumbo buffers by number, from 0.
    free_jumbos: FreeStack,
}

// SAFETY: the pool hands each slot to one owner at a time (a lane of a vector or
// a `Packet`); the stack passes ids with release/acquire. `base` never moves.
unsafe impl Send for Pool {}
// SAFETY: as above; all methods that take `&self` touch only atomics and ids.
unsafe impl Sync for Pool {}

impl Pool {
    /// Maps `count` buffers (512 to 16,777,216) that live until the process ends.
    pub fn leak(count: u32, pages: HugePages) -> Result<&'static Pool, PoolError> {
        Self::leak_on(None, count, pages)
    }

    /// The same on a NUMA node. Reserved huge pages are those of the node; without them, memory
    /// comes from other nodes only when the node has none.
    pub fn leak_on(
        node: Option<NumaNode>,
        count: u32,
        pages: HugePages,
    ) -> Result<&'static Pool, PoolError> {
        if !(512..=1 << 24).contains(&count) {
            return Err(PoolError::Count(count));
        }
        let end = count + JUMBOS * JUMBO_SLOTS;
        // The lists of free ids lie there as well.
        let _placed = numa::prefer(node);
        let (base, backing) = memory::map(count as usize * SLOT, end as usize * SLOT, pages, node)?;
        let (free, free_jumbos) = (FreeStack::new(count), FreeStack::new(JUMBOS));
        // The first on top: what is used little stays in few pages.
        free.give(&(0..count).collect::<Vec<_>>());
        free_jumbos.give(&(0..JUMBOS).collect::<Vec<_>>());
        let pool = Pool { base, node, count, end, backing, pages, free, free_jumbos };
        Ok(Box::leak(Box::new(pool)))
    }

    /// Pools of so many buffers, each on another node. `known` are all pools that were made before, whose
    /// users are gone, and those that are made now, also when another one of them fails. A known pool that
    /// is what is requested is used again; the memory of the others goes back to the system first, so that
    /// huge pages are free again. Only their addresses and their lists of free ids stay.
    pub fn leak_after(
        known: &mut Vec<&'static Pool>,
        requested: &[(Option<NumaNode>, u32)],
        pages: HugePages,
    ) -> Result<Vec<&'static Pool>, PoolError> {
        let is_requested = |pool: &Pool, one| (pool.node, pool.count) == one && pool.pages == pages;
        for pool in &*known {
            if !requested.iter().any(|one| is_requested(pool, *one)) && pool.is_whole() {
                memory::give_back(pool.base, pool.bytes());
            }
        }
        let pool = |one: &(Option<NumaNode>, u32)| {
            let mut again = known.iter().filter(|pool| is_requested(pool, *one));
            if let Some(pool) = again.find(|pool| pool.has_memory()) {
                return Ok(*pool);
            }
            Self::leak_on(one.0, one.1, pages).inspect(|pool| known.push(*pool))
        };
        requested.iter().map(pool).collect()
    }

    /// Whether the pool can be used again: whether reserved huge pages that it has given back are free.
    fn has_memory(&self) -> bool {
        self.backing != Backing::Huge || memory::take_again(self.base, self.bytes().0).is_ok()
    }

    /// Whether all buffers are free.
    fn is_whole(&self) -> bool {
        self.free() == u64::from(self.count) && self.jumbo_free() == self.jumbo_count().into()
    }

    fn bytes(&self) -> (usize, usize) {
        (self.count as usize * SLOT, self.end as usize * SLOT)
    }

    /// Plain buffers in all. Ids from here on name jumbo buffers, so that this is also
    /// what vector kernels compare ids with that know plain buffers only.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Plain buffers in the common stock; what workers cache is not in it.
    pub fn free(&self) -> u64 {
        self.free.len()
    }

    /// Jumbo buffers in all.
    pub fn jumbo_count(&self) -> u32 {
        (self.end - self.count) / JUMBO_SLOTS
    }

    /// Free jumbo buffers: workers cache none of them.
    pub fn jumbo_free(&self) -> u64 {
        self.free_jumbos.len()
    }

    /// Bytes of the buffer `id`, headroom included: [`SLOT`] or [`JUMBO`].
    #[inline(always)]
    pub fn capacity(&self, id: u32) -> usize {
        if id < self.count { SLOT } else { JUMBO }
    }

    /// The NUMA node of the memory; `None`: the kernel has placed it.
    pub fn node(&self) -> Option<NumaNode> {
        self.node
    }

    /// The buffer `id` among the buffers of the pools of all nodes: traces know a packet by it.
    pub fn global_id(&self, id: u32) -> u64 {
        let pool = self.node.map_or(0, |node| u64::from(node.0) + 1);
        pool << 32 | u64::from(id)
    }

    /// How the memory is backed.
    pub fn backing(&self) -> Backing {
        self.backing
    }

    /// The first byte of the buffer `id`.
    ///
    /// # Panics
    /// When `id` is not a buffer of this pool: an error of the caller, never of a packet.
    #[inline(always)]
    pub fn slot(&self, id: u32) -> NonNull<u8> {
        assert!(id < self.end);
        // SAFETY: id < end, and the mapping holds so many slots.
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

    /// A fresh packet in a jumbo buffer; `None`: all of them are in use.
    pub fn jumbo_packet(&'static self) -> Option<Packet> {
        self.take_jumbo().map(|id| Packet::fresh(self, id))
    }

    /// The id of a jumbo buffer, which the caller then owns.
    pub(crate) fn take_jumbo(&self) -> Option<u32> {
        let mut number = [0];
        let got = self.free_jumbos.take(&mut number) == 1;
        got.then(|| self.count + number[0] * JUMBO_SLOTS)
    }

    /// Takes free plain buffers out of the common stock for a device, one for each place of `ids`
    /// or none at all (`false`). The caller owns them. For threads without a cache.
    #[must_use]
    pub fn lend(&self, ids: &mut [u32]) -> bool {
        let got = self.free.take(ids);
        if got < ids.len() {
            self.free.give(&ids[..got]);
        }
        got == ids.len()
    }

    /// Takes back what was lent, plain or jumbo buffers.
    ///
    /// # Safety
    /// The ids are of this pool, and the caller owned each of them once.
    pub unsafe fn take_back(&self, ids: &[u32]) {
        self.give_back(ids);
    }

    /// Bytes of the mapping from [`Self::base`] on that may be registered with a device: all buffers, in whole
    /// huge pages.
    pub fn mapped(&self) -> usize {
        memory::mapped(self.bytes())
    }

    /// Puts owned ids back, each to its stock.
    pub(crate) fn give_back(&self, ids: &[u32]) {
        if ids.iter().fold(0, |most, id| most.max(*id)) < self.count {
            return self.free.give(ids);
        }
        for id in ids {
            match id.checked_sub(self.count) {
                None => self.free.give(&[*id]),
                Some(beyond) => self.free_jumbos.give(&[beyond / JUMBO_SLOTS]),
            }
        }
    }
}
