//! What an output of a router may take of its file system. By default that is the one of the state folder, where
//! commits, tokens and the audit log need space: who may configure a port must not be able to fill it.

use std::fs::File;
use std::io;

use nix::sys::statvfs::fstatvfs;

/// Most bytes of a file.
pub(super) const FILE_LIMIT: u64 = 1 << 30;
/// This part of the file system stays free.
const FREE_PART: u64 = 20;
/// Bytes after which the free space is determined again.
const STEP: u64 = 16 << 20;

/// The bytes that a file may still take.
pub(super) struct Space {
    left: u64,
    limit: u64,
    /// Bytes since the free space was determined last.
    unchecked: u64,
    free_part: u64,
}

impl Space {
    /// For a file of `limit` bytes at most, on a file system of which a 20th stays free.
    pub(super) fn new(limit: u64) -> Self {
        Self { left: limit, limit, unchecked: STEP, free_part: FREE_PART }
    }

    /// Takes the space of `bytes` more, before they are written to `file`.
    pub(super) fn take(&mut self, file: &File, bytes: usize) -> io::Result<()> {
        let bytes = bytes as u64;
        let Some(left) = self.left.checked_sub(bytes) else {
            let limit = self.limit;
            return Err(io::Error::other(format!(
                "the limit of {limit} bytes is reached: move the file away and configure the port anew"
            )));
        };
        self.unchecked = self.unchecked.saturating_add(bytes);
        if self.unchecked >= STEP {
            let facts = fstatvfs(file)?;
            // The width of these numbers depends on the machine.
            let (block, all) = (facts.fragment_size(), facts.blocks());
            let kept = u128::from(all) * u128::from(block) / u128::from(self.free_part);
            let free = u128::from(facts.blocks_available()) * u128::from(block);
            if free < kept + u128::from(bytes) {
                return Err(io::Error::other(
                    "less than 5 % of the file system would be left free: free space, and configure the port anew",
                ));
            }
            self.unchecked = 0;
        }
        self.left = left;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_takes_no_more_than_its_limit() {
        let file = tempfile::tempfile().unwrap();
        let mut space = Space { free_part: u64::MAX, ..Space::new(100) };
        space.take(&file, 60).unwrap();
        assert!(space.take(&file, 41).unwrap_err().to_string().contains("100 bytes"));
        space.take(&file, 40).unwrap();
        assert!(space.take(&file, 1).is_err());
    }

    #[test]
    fn a_part_of_the_file_system_stays_free() {
        let file = tempfile::tempfile().unwrap();
        // All of it would have to be free, with room for one byte more.
        let mut space = Space { free_part: 1, ..Space::new(FILE_LIMIT) };
        let error = space.take(&file, 1).unwrap_err().to_string();
        assert!(error.contains("left free"), "{error}");
    }

    #[test]
    fn the_free_space_is_determined_again() {
        let file = tempfile::tempfile().unwrap();
        let mut space = Space { free_part: u64::MAX, ..Space::new(FILE_LIMIT) };
        space.take(&file, 1).unwrap();
        space.free_part = 1;
        space.take(&file, STEP as usize - 1).unwrap();
        assert!(space.take(&file, 1).is_err(), "16 MiB after the last time");
    }
}
