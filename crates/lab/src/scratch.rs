//! A folder for sockets, logs and configuration files, deleted when dropped.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{LabError, Result};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A private folder in the system's temporary folder. Its path is short, because a Unix socket's path is limited to
/// 107 bytes.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Creates the folder, readable by its owner only.
    ///
    /// # Errors
    ///
    /// The temporary folder is not writable.
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

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the file `name` in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file in it and returns its path.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let file = self.file(name);
        std::fs::write(&file, content)
            .map_err(|error| LabError::system(format!("write {}", file.display()), error))?;
        Ok(file)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Do not panic while unwinding: the rest stays in the temporary folder.
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
