//! Files that are whole or not there, whenever the power goes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Refusal;

/// Who may read what holds secrets.
const OWNER_ONLY: u32 = 0o600;

/// A file that is written and synced, but not in its place yet.
#[derive(Debug)]
#[must_use]
pub(super) struct Fresh {
    fresh: PathBuf,
    place: PathBuf,
    is_placed: bool,
}

impl Fresh {
    /// Writes `bytes` beside `place`, with the rights of what stands there, else for the owner alone.
    pub fn write(place: &Path, bytes: &[u8]) -> Result<Fresh, Refusal> {
        let refused = |error: io::Error| {
            Refusal::Disk(format!("{} cannot be written: {error}", place.display()))
        };
        // A link stays a link.
        let place_itself = fs::canonicalize(place).unwrap_or_else(|_| place.to_owned());
        let mut fresh = place_itself.as_os_str().to_owned();
        fresh.push(".new");
        let fresh = Fresh { fresh: fresh.into(), place: place_itself, is_placed: false };
        let _ = fs::remove_file(&fresh.fresh);
        let before = fs::metadata(&fresh.place).ok();
        let mode = before.as_ref().map_or(OWNER_ONLY, |data| data.permissions().mode());
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(mode & 0o777)
            .open(&fresh.fresh)
            .map_err(refused)?;
        if let Some(before) = before {
            // Whose it was, as far as we may; the rights whatever the mask is.
            let _ = std::os::unix::fs::fchown(&file, Some(before.uid()), Some(before.gid()));
            file.set_permissions(fs::Permissions::from_mode(mode & 0o777)).map_err(refused)?;
        }
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(refused)?;
        Ok(fresh)
    }

    /// Puts it into its place; what stood there before is gone.
    pub fn place(mut self) -> io::Result<()> {
        fs::rename(&self.fresh, &self.place)?;
        self.is_placed = true;
        sync_folder(&self.place)
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.is_placed {
            let _ = fs::remove_file(&self.fresh);
        }
    }
}

/// Makes the folder for what is kept, for the owner alone.
pub(super) fn make(folder: &Path) -> Result<(), Refusal> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| Refusal::Disk(format!("{} cannot be made: {error}", folder.display())))
}

/// Removes a file for good.
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
    fn a_file_is_the_old_one_until_the_new_one_is_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("stoa.json");
        fs::write(&place, "old").unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o640)).unwrap();
        let link = folder.path().join("link.json");
        std::os::unix::fs::symlink(&place, &link).unwrap();
        let fresh = Fresh::write(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&place).unwrap(), "old");
        drop(fresh);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left");
        Fresh::write(&link, b"new").unwrap().place().unwrap();
        assert_eq!(fs::read_to_string(&place).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_rename_that_fails_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("stoa.json");
        fs::write(&place, "old").unwrap();
        let fresh = Fresh::write(&place, b"new").unwrap();
        // A folder of another mount cannot be had in a test; a file that is gone fails alike.
        fs::remove_file(folder.path().join("stoa.json.new")).unwrap();
        assert_eq!(fresh.place().unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(fs::read_to_string(&place).unwrap(), "old");
        // What stands there cannot be replaced by a file.
        let fresh = Fresh::write(&place, b"new").unwrap();
        fs::remove_file(&place).unwrap();
        fs::create_dir_all(place.join("full")).unwrap();
        assert!(fresh.place().is_err());
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn what_cannot_be_written_is_told() {
        let refused = Fresh::write(Path::new("/proc/no/such/file"), b"new").unwrap_err();
        assert!(refused.to_string().contains("/proc/no/such/file cannot be written"), "{refused}");
    }
}
