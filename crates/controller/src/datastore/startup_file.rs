//! The startup file as it was last read or written.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// A longer text is not kept in memory.
const TEXT_LIMIT_BYTES: usize = 1 << 20;

/// What is known of the startup file, to notice that somebody else edited it.
#[derive(Clone, Debug)]
pub(super) struct StartupFile {
    /// Its text, unless that is long.
    text: Option<Arc<str>>,
    /// Length and hash of the text.
    digest: (usize, u64),
    stamp: Option<Stamp>,
}

/// What changes with every write of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &Path) -> Option<Stamp> {
        let data = fs::metadata(file).ok()?;
        Some(Stamp {
            inode: data.ino(),
            size: data.size(),
            modified: (data.mtime(), data.mtime_nsec()),
            changed: (data.ctime(), data.ctime_nsec()),
        })
    }
}

fn digest(text: &[u8]) -> (usize, u64) {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    (text.len(), hasher.finish())
}

impl StartupFile {
    /// A file with this text.
    pub fn new(file: &Path, text: &str) -> StartupFile {
        StartupFile::unwritten(text).written(file)
    }

    /// This text, before it is in the file.
    pub fn unwritten(text: &str) -> StartupFile {
        let kept = (text.len() <= TEXT_LIMIT_BYTES).then(|| Arc::from(text));
        StartupFile { text: kept, digest: digest(text.as_bytes()), stamp: None }
    }

    /// The same when the file has it.
    pub fn written(self, file: &Path) -> StartupFile {
        let stamp = Stamp::of(file).filter(|stamp| stamp.size == self.digest.0 as u64);
        StartupFile { stamp, ..self }
    }

    /// Whether both are of one write of the file.
    pub fn is_same_write(&self, other: &StartupFile) -> bool {
        self.digest == other.digest && self.stamp == other.stamp
    }

    /// Reads a file; `None` if it cannot be read.
    pub fn read(file: &Path) -> Option<(StartupFile, String)> {
        let before = Stamp::of(file);
        let text = fs::read_to_string(file).ok()?;
        let mut known = StartupFile::new(file, &text);
        known.stamp = known.stamp.filter(|after| before == Some(*after));
        Some((known, text))
    }

    /// Whether the file has this text.
    pub fn is(&self, text: &[u8]) -> bool {
        match &self.text {
            Some(own) => own.as_bytes() == text,
            None => digest(text) == self.digest,
        }
    }

    /// Whether nobody has written the file since, without reading it.
    pub fn is_untouched(&self, file: &Path) -> bool {
        self.stamp.is_some() && Stamp::of(file) == self.stamp
    }

    /// Its text; `None` if it was long and the file has changed.
    pub fn text(&self, file: &Path) -> Option<Arc<str>> {
        if let Some(text) = &self.text {
            return Some(Arc::clone(text));
        }
        let text = fs::read_to_string(file).ok()?;
        self.is(text.as_bytes()).then(|| text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_file_is_noticed_without_its_text() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stoa.json");
        for length in [10, TEXT_LIMIT_BYTES + 1] {
            let text = "a".repeat(length);
            fs::write(&file, &text).unwrap();
            let (known, read) = StartupFile::read(&file).unwrap();
            assert!(read == text && known.is(text.as_bytes()) && known.is_untouched(&file));
            assert_eq!(known.text.is_some(), length == 10);
            assert_eq!(known.text(&file).as_deref(), Some(text.as_str()));
            let other = "b".repeat(length + 1);
            fs::write(&file, &other).unwrap();
            assert!(!known.is(other.as_bytes()) && !known.is_untouched(&file));
            assert_eq!(known.text(&file).is_some(), length == 10);
        }
    }
}
