//! Atomic file replacement: after a crash a file has its old or its new contents.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::refusal::Refusal;

/// Mode of files with secrets.
const OWNER_ONLY: u32 = 0o600;

/// A file that is written and synced under a temporary name.
#[derive(Debug)]
#[must_use]
pub(super) struct NewFile {
    temporary: PathBuf,
    target: PathBuf,
    is_renamed: bool,
    /// The wider mode of the file before, if its new content is secret.
    wider: Option<u32>,
}

impl NewFile {
    /// Writes `bytes` to a temporary file beside `target`, with the owner and mode of the present file if there is one,
    /// else with mode 0600. A configuration with secrets always gets mode 0600.
    pub fn write(target: &Path, bytes: &[u8]) -> Result<NewFile, Refusal> {
        let refused = |error: io::Error| {
            Refusal::Disk(format!("{} cannot be written: {error}", target.display()))
        };
        // Resolved, so that a symbolic link is kept.
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        let mut temporary = target.as_os_str().to_owned();
        temporary.push(".new");
        let mut new =
            NewFile { temporary: temporary.into(), target, is_renamed: false, wider: None };
        let _ = fs::remove_file(&new.temporary);
        let before = fs::metadata(&new.target).ok();
        let mut mode = before.as_ref().map_or(OWNER_ONLY, |data| data.permissions().mode() & 0o777);
        if mode & !OWNER_ONLY != 0 && has_secrets(bytes) {
            new.wider = Some(mode);
            mode = OWNER_ONLY;
        }
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&new.temporary)
            .map_err(refused)?;
        if let Some(before) = before {
            // The owner if permitted; the mode independent of the umask.
            let _ = std::os::unix::fs::fchown(&file, Some(before.uid()), Some(before.gid()));
            file.set_permissions(fs::Permissions::from_mode(mode)).map_err(refused)?;
        }
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(refused)?;
        Ok(new)
    }

    /// What to say about a mode that changed. [`Self::rename`] logs it unless it is taken.
    pub fn take_note(&mut self) -> Option<String> {
        let (mode, file) = (self.wider.take()?, self.target.display());
        Some(format!(
            "{file} contains secrets: it has mode 0600 now, so that only its owner can read it; before, it had mode \
             {mode:04o}"
        ))
    }

    /// Renames it to its target, which it replaces.
    pub fn rename(mut self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.target)?;
        self.is_renamed = true;
        if let Some(note) = self.take_note() {
            tracing::warn!("{note}");
        }
        sync_folder(&self.target)
    }
}

/// Whether these are the bytes of a configuration with secrets.
fn has_secrets(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(stoa_yang::secrets::is_in_json)
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_renamed {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Creates the state folder, or one below it, with mode 0700.
pub(super) fn create_folder(folder: &Path) -> Result<(), Refusal> {
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created
        .map_err(|error| Refusal::Disk(format!("{} cannot be created: {error}", folder.display())))
}

/// The mode of a folder in which others than its owner may create and replace files.
pub(super) fn open_to_others(folder: &Path) -> Option<u32> {
    let mode = fs::metadata(folder).ok()?.permissions().mode() & 0o7777;
    (mode & 0o022 != 0).then_some(mode)
}

/// Removes a file and syncs its folder.
pub(super) fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Ok(()) => sync_folder(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn sync_folder(file: &Path) -> io::Result<()> {
    match file.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_old_contents_until_the_rename() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("stoa.json");
        fs::write(&target, "old").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
        let link = folder.path().join("link.json");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let new = NewFile::write(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        drop(new);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            2,
            "the temporary file is removed"
        );
        NewFile::write(&link, b"new").unwrap().rename().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_file_with_secrets_becomes_private() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("stoa.json");
        let mode = || fs::metadata(&target).unwrap().permissions().mode() & 0o777;
        fs::write(&target, "{}").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o644)).unwrap();
        let mut new = NewFile::write(&target, br#"{"memif": {"secret": "word"}}"#).unwrap();
        let note = new.take_note().unwrap();
        assert!(note.contains("mode 0600 now") && note.contains("mode 0644"), "{note}");
        assert!(new.take_note().is_none());
        new.rename().unwrap();
        assert_eq!(mode(), OWNER_ONLY);
        NewFile::write(&target, b"{}").unwrap().rename().unwrap();
        assert_eq!(mode(), OWNER_ONLY, "it is not widened again");
        assert_eq!(stoa_yang::secrets::exposed(&target, r#"{"secret": 1}"#), None);
        fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(
            stoa_yang::secrets::exposed(&target, r#"{"secret": 1}"#).unwrap().contains("mode 0640")
        );
        assert_eq!(stoa_yang::secrets::exposed(&target, "{}"), None);
    }

    #[test]
    fn a_rename_that_fails_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("stoa.json");
        fs::write(&target, "old").unwrap();
        let new = NewFile::write(&target, b"new").unwrap();
        // A missing file stands in for any failure of rename().
        fs::remove_file(folder.path().join("stoa.json.new")).unwrap();
        assert_eq!(new.rename().unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        // A folder cannot be replaced by a file.
        let new = NewFile::write(&target, b"new").unwrap();
        fs::remove_file(&target).unwrap();
        fs::create_dir_all(target.join("full")).unwrap();
        assert!(new.rename().is_err());
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn a_write_error_names_the_file() {
        let refused = NewFile::write(Path::new("/proc/no/such/file"), b"new").unwrap_err();
        assert!(refused.to_string().contains("/proc/no/such/file cannot be written"), "{refused}");
    }
}
