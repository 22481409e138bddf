//! The mapping behind a pool: huge pages for the plain buffers when there are enough,
//! and untouched plain pages behind them for the jumbo buffers.

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous};

use super::{Backing, HugePages, PoolError};
use crate::numa::{self, MappingPolicy, NumaNode};

const HUGE: usize = 2 << 20;

/// Maps `bytes`, of which the first `plain` lie on huge pages as `pages` selects, on `node`.
pub(super) fn map(
    plain: usize,
    bytes: usize,
    pages: HugePages,
    node: Option<NumaNode>,
) -> Result<(NonNull<u8>, Backing), PoolError> {
    let (plain, bytes) = (plain.next_multiple_of(HUGE), mapped((plain, bytes)));
    let anonymous = || anonymous(bytes, node);
    let reserved = |base| reserve(base, plain, node).map(|()| (base, Backing::Huge));
    match pages {
        HugePages::Never => Ok((anonymous()?, Backing::Plain)),
        HugePages::Required => {
            reserved(anonymous()?).map_err(|_| PoolError::NoHugePages { bytes: plain, node })
        }
        HugePages::IfAvailable => {
            if let Ok(made) = reserved(anonymous()?) {
                return Ok(made);
            }
            let base = anonymous()?;
            // SAFETY: the range lies in the mapping; advice changes no content. A kernel
            // that does not join pages leaves plain ones, which is as good as can be.
            let _ = unsafe { madvise(base.cast(), plain, MmapAdvise::MADV_HUGEPAGE) };
            Ok((base, Backing::Transparent))
        }
    }
}

/// Bytes of a mapping for so many plain ones and so many in all: whole huge pages.
pub(super) fn mapped((plain, bytes): (usize, usize)) -> usize {
    bytes.next_multiple_of(HUGE).max(plain.next_multiple_of(HUGE))
}

/// Gives the memory of a mapping made by [`map`] back to the system: it reads as zeros from now on
/// and takes memory again when it is written to. The mapping itself stays, so that an id that
/// is still in use always names memory of the pool.
pub(super) fn give_back(base: NonNull<u8>, (plain, bytes): (usize, usize)) {
    let (plain, bytes) = (plain.next_multiple_of(HUGE), mapped((plain, bytes)));
    // Huge and plain pages lie in mappings of their own.
    for (from, to) in [(0, plain), (plain, bytes)] {
        // SAFETY: the range lies in the mapping that `map` made, and the pool guarantees that no
        // buffer of it has an owner: no content is lost. A kernel that does not do it for huge
        // pages (before 5.18) leaves all as it is.
        let _ = unsafe { madvise(base.add(from).cast(), to - from, MmapAdvise::MADV_DONTNEED) };
    }
}

/// A mapping of `bytes` that begins at a multiple of a huge page, on `node` while that has memory.
/// Never unmapped.
fn anonymous(bytes: usize, node: Option<NumaNode>) -> Result<NonNull<u8>, PoolError> {
    let refused = |source| PoolError::Memory { bytes, source };
    let length = NonZeroUsize::new(bytes + HUGE).ok_or(PoolError::Count(0))?;
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: new anonymous memory; nothing else lives at the address that the
    // kernel picks.
    let base: NonNull<u8> = unsafe { mmap_anonymous(None, length, access, MapFlags::MAP_PRIVATE) }
        .map_err(refused)?
        .cast();
    let skip = base.as_ptr().align_offset(HUGE);
    // SAFETY: `skip` < HUGE, so that `bytes` follow inside the mapping.
    let base = unsafe { base.add(skip) };
    if let Some(node) = node {
        // Advice: memory of another node is slower, and as good otherwise.
        let _ = numa::place(base, bytes, node, MappingPolicy::Preferred);
    }
    Ok(base)
}

/// Puts reserved huge pages of `node` in place of the first `bytes` at `base`, and takes them now:
/// where a limit forbids them (a container's, say), the first packet would be met by
/// SIGBUS. After an error the range must not be used.
fn reserve(base: NonNull<u8>, bytes: usize, node: Option<NumaNode>) -> nix::Result<()> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE
        | libc::MAP_ANONYMOUS
        | libc::MAP_FIXED
        | libc::MAP_HUGETLB
        | libc::MAP_HUGE_2MB;
    // SAFETY: the range is the beginning of a mapping that `anonymous` just made and that
    // is unused so far, so that replacing it loses nothing, and unmapping it affects no user.
    unsafe {
        let at = libc::mmap(base.as_ptr().cast(), bytes, access, flags, -1, 0);
        if at == libc::MAP_FAILED {
            return Err(nix::errno::Errno::last());
        }
        if let Some(node) = node {
            // Transparent huge pages of this node are better than reserved ones of another. Where
            // the kernel refuses policies, the pages may be those of any node.
            let _ = numa::place(base, bytes, node, MappingPolicy::Bind);
        }
        populate(base, bytes).inspect_err(|_| {
            libc::munmap(at, bytes);
        })
    }
}

/// Takes the reserved huge pages of a mapping made by [`map`] again, after [`give_back`]. Without it, a
/// packet would be met by SIGBUS when others have taken the pages meanwhile. On an error, the mapping has
/// none of them.
pub(super) fn take_again(base: NonNull<u8>, plain: usize) -> nix::Result<()> {
    let plain = plain.next_multiple_of(HUGE);
    populate(base, plain).inspect_err(|_| give_back(base, (plain, plain)))
}

/// Takes a page for each address of a range of a mapping, content unchanged.
fn populate(base: NonNull<u8>, bytes: usize) -> nix::Result<()> {
    // SAFETY: the callers' ranges lie in their mappings; this changes no content, and what cannot be
    // populated is an error, not a signal.
    let done = unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) };
    nix::errno::Errno::result(done).map(drop)
}
