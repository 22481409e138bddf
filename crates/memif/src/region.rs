//! Shared memory: files that a slave makes and both ends map.
//!
//! A mapping of a file that becomes shorter kills the reader by SIGBUS. So a file
//! must be sealed against shrinking, and must not lie on reserved huge pages: the seal
//! leaves it free to punch holes, and a hole that finds no free huge page kills as
//! well. Only an operator who trusts the peer (a DPDK zero-copy client shares its huge
//! pages) may waive that.

use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::statfs::{HUGETLBFS_MAGIC, fstatfs};

/// Bytes of the largest region: descriptors reach no farther.
pub(crate) const REGION_MAX: u64 = 1 << 32;

/// Why memory cannot be shared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegionError {
    #[error("a region of {0} bytes: 1 to 4 GiB are possible")]
    Size(u64),
    #[error("a region of {announced} bytes in a file of {file}")]
    Short { announced: u64, file: u64 },
    #[error("a region whose file can shrink while mapped (no F_SEAL_SHRINK)")]
    Unsealed,
    #[error(
        "a region on huge pages, which can be taken from under us: share plain memory, or trust the peer"
    )]
    HugePages,
    #[error("shared memory: {0}")]
    System(#[from] nix::Error),
}

/// One mapped file.
pub(crate) struct Region {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is plain memory that belongs to no thread; all access to it
// is by raw copies and atomics, because the peer changes it at any time anyway.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Makes a sealed file of `size` bytes, all zero, and maps it.
    pub(crate) fn create(size: u64) -> Result<(Self, OwnedFd), RegionError> {
        if size == 0 || size > REGION_MAX {
            return Err(RegionError::Size(size));
        }
        let file =
            memfd_create(c"stoa-memif", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        nix::unistd::ftruncate(&file, size as i64)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        Ok((Self::map_whole(&file, size)?, file))
    }

    /// Maps the first `size` bytes of a peer's file.
    pub(crate) fn map(file: &OwnedFd, size: u64, trusted: bool) -> Result<Self, RegionError> {
        if size == 0 || size > REGION_MAX {
            return Err(RegionError::Size(size));
        }
        // Seal it ourselves where the peer forgot to; only the result counts.
        let _ = fcntl(file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK));
        let seals = fcntl(file, FcntlArg::F_GET_SEALS).unwrap_or(0);
        if !trusted && seals & SealFlag::F_SEAL_SHRINK.bits() == 0 {
            return Err(RegionError::Unsealed);
        }
        // A hole in plain memory is filled when it is touched; one in reserved pages is
        // filled only while some are free, and the peer can take them all.
        if !trusted && fstatfs(file)?.filesystem_type() == HUGETLBFS_MAGIC {
            return Err(RegionError::HugePages);
        }
        // After the seal: from here on the file cannot become shorter.
        let length = nix::sys::stat::fstat(file)?.st_size as u64;
        if length < size {
            return Err(RegionError::Short { announced: size, file: length });
        }
        Self::map_whole(file, size)
    }

    fn map_whole(file: &OwnedFd, size: u64) -> Result<Self, RegionError> {
        let length = usize::try_from(size).map_err(|_| RegionError::Size(size))?;
        let bytes = NonZeroUsize::new(length).ok_or(RegionError::Size(size))?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new shared mapping at an address that the kernel picks; it is
        // used by raw copies and atomics only and unmapped when the region drops.
        let base = unsafe { mmap(None, bytes, access, MapFlags::MAP_SHARED, file, 0) }?;
        Ok(Self { base: base.cast(), length })
    }

    /// Bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// The address of `length` bytes at `offset`, when all of them lie inside.
    #[inline(always)]
    pub(crate) fn at(&self, offset: u64, length: u64) -> Option<NonNull<u8>> {
        let end = offset.checked_add(length)?;
        if end > self.length as u64 {
            return None;
        }
        // SAFETY: offset <= end <= length of the mapping.
        Some(unsafe { self.base.add(offset as usize) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: base and length are of the mapping made in `map_whole`, and
        // every holder of an address into it keeps the region alive. It fails only
        // for a bad address.
        let _ = unsafe { munmap(self.base.cast(), self.length) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn file(size: i64, flags: MFdFlags) -> OwnedFd {
        let file = memfd_create(c"test", flags).unwrap();
        nix::unistd::ftruncate(&file, size).unwrap();
        file
    }

    #[test]
    fn spans_are_checked() {
        let (region, file) = Region::create(8192).unwrap();
        assert!(region.at(0, 8192).is_some());
        assert!(region.at(8192, 0).is_some());
        for (offset, length) in [(0, 8193), (8192, 1), (u64::MAX, 1), (1, u64::MAX)] {
            assert!(region.at(offset, length).is_none());
        }
        assert!(nix::unistd::ftruncate(&file, 4096).is_err(), "sealed");
        assert!(Region::map(&file, 8192, false).is_ok());
        assert!(matches!(Region::map(&file, 8193, false), Err(RegionError::Short { .. })));
    }

    #[test]
    fn files_that_can_shrink_are_refused() {
        let sealable = file(8192, MFdFlags::MFD_ALLOW_SEALING);
        assert!(Region::map(&sealable, 8192, false).is_ok(), "sealed by us");
        assert!(nix::unistd::ftruncate(&sealable, 0).is_err());
        let unsealable = file(8192, MFdFlags::empty());
        assert!(matches!(Region::map(&unsealable, 8192, false), Err(RegionError::Unsealed)));
        assert!(Region::map(&unsealable, 8192, true).is_ok(), "waived");
        let disk = OwnedFd::from(tempfile::tempfile().unwrap());
        assert!(Region::map(&disk, 1, false).is_err());
        assert!(matches!(Region::map(&sealable, 0, false), Err(RegionError::Size(0))));
        assert!(matches!(Region::map(&sealable, 1 << 40, false), Err(RegionError::Size(_))));
    }

    #[test]
    fn huge_pages_are_refused() {
        // No page has to be free: none is touched.
        let flags = MFdFlags::MFD_ALLOW_SEALING | MFdFlags::MFD_HUGETLB | MFdFlags::MFD_HUGE_2MB;
        let Ok(huge) = memfd_create(c"test", flags) else {
            return eprintln!("SKIPPED huge_pages_are_refused: this kernel has none");
        };
        nix::unistd::ftruncate(&huge, 2 << 20).unwrap();
        let refused = Region::map(&huge, 2 << 20, false);
        assert!(matches!(refused, Err(RegionError::HugePages)));
        let trusted = Region::map(&huge, 2 << 20, true);
        assert!(!matches!(trusted, Err(RegionError::HugePages)), "waived");
    }
}
