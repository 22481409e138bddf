//! A folder for sockets, logs and configuration files, gone when dropped.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{LabError, Result};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A private folder under the system's temporary folder. Short, because a Unix socket's path holds 107 bytes.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes the folder, readable by its owner only.
    ///
    /// # Errors
    /// When the temporary folder cannot be written.
    pub fn new() -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("stoa-{}-{number}", std::process::id()));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| LabError::system(format!("make folder {}", path.display()), error))?;
        Ok(Self { path })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the file `name` in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file in it and says where it is.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let file = self.file(name);
        std::fs::write(&file, content)
            .map_err(|error| LabError::system(format!("write {}", file.display()), error))?;
        Ok(file)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is a leftover in the temporary folder, not a reason to panic while unwinding.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_gone_when_dropped() {
        let scratch = Scratch::new().expect("made");
        let file = scratch.write("x", "y").expect("written");
        assert!(file.exists());
        let folder = scratch.path().to_owned();
        drop(scratch);
        assert!(!folder.exists());
    }
}
