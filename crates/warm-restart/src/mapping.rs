//! Sealed memory (memfd), mapped as words that are only accessed atomically.

use std::ffi::CString;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl, posix_fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::header::Unusable;

/// Bytes of the largest region.
pub(crate) const BYTES_MAX: u64 = 1 << 36;
/// The largest page of Linux.
const PAGE: usize = 64 << 10;

/// Sealed memory of so many bytes, all zero, to which `size` gives its size.
pub(crate) fn sealed(
    name: &str,
    bytes: u64,
    size: impl FnOnce(&OwnedFd) -> nix::Result<()>,
) -> nix::Result<OwnedFd> {
    let name = CString::new(name).map_err(|_| Errno::EINVAL)?;
    if bytes > BYTES_MAX {
        return Err(Errno::ENOMEM);
    }
    // No program may be executed from it; systems before Linux 6.3 do not know this seal.
    let sealed = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let no_exec = MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL);
    let file = match memfd_create(name.as_c_str(), sealed | no_exec) {
        Err(Errno::EINVAL) => memfd_create(name.as_c_str(), sealed),
        other => other,
    }?;
    size(&file)?;
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file)
}

/// The size of the memory of an earlier process, if it is such memory: from here on it does not change.
pub(crate) fn sealed_bytes(file: impl AsFd) -> Result<u64, Unusable> {
    // A mapping of a file that can be shortened kills the reader by SIGBUS. Only a memfd has seals.
    let seals = fcntl(&file, FcntlArg::F_GET_SEALS).map_err(|_| Unusable::Unsealed)?;
    let fixed = (SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW).bits();
    if seals & fixed != fixed {
        return Err(Unusable::Unsealed);
    }
    Ok(u64::try_from(nix::sys::stat::fstat(&file)?.st_size).unwrap_or(0))
}

/// Maps memory, from `offset` on, in place of that of some cells: whatever these contain is lost, and from now on they
/// have what is in the memory. They begin and end at a multiple of a page. Whoever has allocated them must not get them
/// back.
pub(crate) fn map_in_place(cells: &[AtomicU32], file: impl AsFd, offset: u64) -> nix::Result<()> {
    let bytes = size_of_val(cells);
    let (Some(length), true) =
        (NonZeroUsize::new(bytes), (cells.as_ptr().addr() | bytes).is_multiple_of(PAGE))
    else {
        return if bytes == 0 { Ok(()) } else { Err(Errno::EINVAL) };
    };
    let place = NonZeroUsize::new(cells.as_ptr().addr());
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let flags = MapFlags::MAP_SHARED | MapFlags::MAP_FIXED;
    // SAFETY: these pages hold the cells and nothing else, as cells begin and end with them. They stay readable and
    // writable memory at the same addresses, of a file that cannot become shorter, and any bits are a valid
    // `AtomicU32`. Others see the new values as they would see stores.
    unsafe { mmap(place, length, access, flags, file, offset as i64) }?;
    Ok(())
}

/// Mapped memory. Dropping it unmaps it; the memory lives on as long as somebody has a descriptor.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to no thread, and it is accessed as atomic words only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Makes sealed memory of `words` words, all zero. The system reserves all of it now, so that no write fails later
    /// for lack of memory.
    pub(crate) fn create(name: &str, words: usize) -> nix::Result<(Self, OwnedFd)> {
        let bytes = words.checked_mul(8).ok_or(Errno::EINVAL)? as u64;
        let file = sealed(name, bytes, |file| posix_fallocate(file, 0, bytes as i64))?;
        Ok((Self::map(&file, words)?, file))
    }

    /// Maps the memory of an earlier process, if it is such memory.
    pub(crate) fn of(file: impl AsFd) -> Result<Self, Unusable> {
        let bytes = sealed_bytes(&file)?;
        if bytes == 0 || bytes % 8 != 0 || bytes > BYTES_MAX {
            return Err(Unusable::NoRegion);
        }
        Ok(Self::map(file, (bytes / 8) as usize)?)
    }

    fn map(file: impl AsFd, words: usize) -> nix::Result<Self> {
        let bytes = NonZeroUsize::new(words * 8).ok_or(Errno::EINVAL)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // Present from the start: a write of a worker causes no page fault.
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: a new shared mapping at an address that the kernel picks, of a file that cannot become shorter. It is
        // accessed as atomic words only and unmapped when this value drops.
        let base = unsafe { mmap(None, bytes, access, flags, file, 0) }?;
        Ok(Self { base: base.cast(), words })
    }

    /// The memory. Other processes may write to it, too.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `base` is the page-aligned start of a mapping of `words` words, which lives as long as `self`. Any
        // bits are a valid `AtomicU64`, and all accesses are atomic, also those of other processes.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and length are of the mapping made in `map`; no reference to it outlives `self`. It fails only
        // for a bad address.
        let _ = unsafe { munmap(self.base.cast(), self.words * 8) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn memory_is_shared_and_keeps_its_size() {
        let (first, file) = Mapping::create("test", 1024).unwrap();
        let second = Mapping::of(&file).unwrap();
        assert_eq!(second.words().len(), 1024);
        first.words()[1023].store(7, Relaxed);
        assert_eq!(second.words()[1023].load(Relaxed), 7);
        assert!(nix::unistd::ftruncate(&file, 8).is_err(), "sealed");
        assert!(nix::unistd::ftruncate(&file, 16384).is_err(), "sealed");
        let mode = nix::sys::stat::fstat(&file).unwrap().st_mode;
        assert_eq!(mode & 0o111, 0, "not executable");
    }

    #[test]
    fn other_files_are_refused() {
        let refused = |file: OwnedFd| Mapping::of(&file).unwrap_err().to_string();
        assert_eq!(refused(tempfile::tempfile().unwrap().into()), "it is not sealed memory");
        assert_eq!(
            refused(std::fs::File::open("/dev/null").unwrap().into()),
            "it is not sealed memory"
        );
        let bare = |size| {
            let file = memfd_create(c"test", MFdFlags::MFD_ALLOW_SEALING).unwrap();
            nix::unistd::ftruncate(&file, size).unwrap();
            file
        };
        assert_eq!(refused(bare(64)), "it is not sealed memory");
        let sealed = |size| {
            let file = bare(size);
            let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
            fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).unwrap();
            file
        };
        assert!(Mapping::of(sealed(64)).is_ok());
        for size in [0, 1, 63] {
            assert_eq!(refused(sealed(size)), "it is not a region");
        }
    }

    #[test]
    fn too_much_memory_is_refused() {
        assert!(Mapping::create("test", usize::MAX / 4).is_err());
        assert!(Mapping::create("test", 1 << 34).is_err());
    }
}
