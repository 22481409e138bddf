//! The pool's buffers as DPDK knows them: a mempool of packet headers, one for each buffer, that
//! keeps no stock of its own.
//!
//! A driver that fills its ring takes buffers from the worker that calls it, and gives those that
//! were sent back to it. Threads of DPDK's own, and the control thread, go to the common stock.

use std::alloc::{Layout as Memory, alloc};
use std::ffi::{CString, c_int, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::Mutex;

use nix::sys::mman::{MmapAdvise, madvise};
use stoa_engine::pool::{Backing, JUMBO, SLOT};
use stoa_engine::{Pool, PoolCache};

use super::shim::{self, FIRST, Headers, Layout, MemoryHeader, STRIDE, Stock};

const HUGE: usize = 2 << 20;
const _: () = assert!(JUMBO == 5 * SLOT && JUMBO <= u16::MAX as usize);

/// The mempool of a pool; lives as long as the process.
pub(super) struct Mempool {
    stock: NonNull<Stock>,
    pool: &'static Pool,
}

// SAFETY: the stock is written by `of` alone, before it is published.
unsafe impl Send for Mempool {}
// SAFETY: as above; what its functions change belongs to the pool, which is shared, or to the
// calling thread.
unsafe impl Sync for Mempool {}

static MADE: Mutex<Vec<&'static Mempool>> = Mutex::new(Vec::new());

impl Mempool {
    /// The handle that the shim passes back.
    pub(super) fn stock(&self) -> *const Stock {
        self.stock.as_ptr()
    }

    /// The pool whose buffers it names.
    pub(super) fn pool(&self) -> &'static Pool {
        self.pool
    }
}

/// The mempool of `pool`, made on first use. DPDK has been started.
pub(super) fn of(pool: &'static Pool) -> Result<&'static Mempool, c_int> {
    let mut made = MADE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(one) = made.iter().find(|one| std::ptr::eq(one.pool, pool)) {
        return Ok(one);
    }
    let count = pool.count() as usize + pool.jumbo_count() as usize;
    let bytes = (count * STRIDE).next_multiple_of(HUGE);
    let memory = Memory::from_size_align(bytes, HUGE).map_err(|_| -libc::ENOMEM)?;
    // SAFETY: a pool has buffers, so the size is not zero.
    let first = NonNull::new(unsafe { alloc(memory) }).ok_or(-libc::ENOMEM)?;
    // SAFETY: advice on our own fresh memory, in whole huge pages; plain pages do as well.
    let _ = unsafe { madvise(first.cast(), bytes, MmapAdvise::MADV_HUGEPAGE) };
    let headers = Headers {
        // SAFETY: the first header lies behind the first line of that memory.
        first: unsafe { first.add(FIRST) }.as_ptr(),
        mempool: null_mut(),
        plain: pool.count(),
    };
    let owner = std::ptr::from_ref(pool).cast_mut().cast();
    let stock = Box::new(Stock { headers, lend, take_back, count: free, owner });
    let stock = NonNull::from(Box::leak(stock));
    let header = Box::leak(Box::new(MemoryHeader([0; 64])));
    // Without huge pages, register the memory in pages of the size that the mapping has.
    let page = if pool.backing() == Backing::Plain { 4096 } else { HUGE };
    let layout = Layout {
        base: pool.base().as_ptr(),
        mapped: pool.mapped(),
        page,
        slot: SLOT as u32,
        plain: pool.count(),
        jumbos: pool.jumbo_count(),
    };
    let name = CString::new(format!("stoa-{}", made.len())).map_err(|_| -libc::EINVAL)?;
    // SAFETY: all that is pointed to was leaked above or is a pool's, which lives as long as the
    // process; there is a header for each buffer, and the buffers lie as `layout` says.
    let result = unsafe { shim::stoa_dpdk_mempool(name.as_ptr(), &layout, stock.as_ptr(), header) };
    if result < 0 {
        return Err(result);
    }
    let mempool = Box::leak(Box::new(Mempool { stock, pool }));
    made.push(mempool);
    Ok(mempool)
}

/// The pool and the cache that the shim was given.
///
/// # Safety
/// `owner` is the pool of a mempool, `cache` null or the cache that the calling thread gave to the
/// shim by a mutable reference, which it does not use until the shim returns; the reference
/// is not used after that.
#[inline(always)]
unsafe fn of_shim<'a>(
    owner: *mut c_void,
    cache: *mut c_void,
) -> (&'static Pool, Option<&'a mut PoolCache>) {
    // SAFETY: as above; pools live as long as the process.
    unsafe { (&*owner.cast::<Pool>(), cache.cast::<PoolCache>().as_mut()) }
}

/// # Safety
/// Called by the shim with what it was given: see [`of_shim`]; `ids` has space for `count`.
unsafe extern "C" fn lend(
    owner: *mut c_void,
    cache: *mut c_void,
    ids: *mut u32,
    count: u32,
) -> c_int {
    // SAFETY: as above.
    let (pool, cache) = unsafe { of_shim(owner, cache) };
    // SAFETY: as above.
    let ids = unsafe { std::slice::from_raw_parts_mut(ids, count as usize) };
    let is_lent = match cache {
        Some(cache) => cache.lend(ids),
        None => pool.lend(ids),
    };
    is_lent.into()
}

/// # Safety
/// As [`lend`]; the driver owned the buffers that `ids` names and gave them up.
unsafe extern "C" fn take_back(
    owner: *mut c_void,
    cache: *mut c_void,
    ids: *const u32,
    count: u32,
) {
    // SAFETY: as above.
    let (pool, cache) = unsafe { of_shim(owner, cache) };
    // SAFETY: a header that is freed was lent with its buffer, and is freed once.
    unsafe {
        let ids = std::slice::from_raw_parts(ids, count as usize);
        match cache {
            Some(cache) => cache.take_back(ids),
            None => pool.take_back(ids),
        }
    }
}

/// # Safety
/// As [`lend`].
unsafe extern "C" fn free(owner: *mut c_void) -> u32 {
    // SAFETY: as in `lend`.
    let pool = unsafe { &*owner.cast::<Pool>() };
    pool.free() as u32
}
