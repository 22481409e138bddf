//! Opens capture files: for tools anywhere, for a router in one folder only, without following links there.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, getegid, geteuid, unlinkat};

use crate::error::OpenError;
use crate::folders::NULL_DEVICE;

/// Owner and group of the router may read what its ports have sent.
const OUTPUT_MODE: Mode = Mode::from_bits_truncate(0o640);
/// Never waits for the writer of a pipe.
const READ: OFlag = OFlag::O_RDONLY.union(OFlag::O_NONBLOCK).union(OFlag::O_CLOEXEC);

/// Opens a file to read. In a folder, a link is refused.
pub(super) fn input(path: &Path, folder: Option<&Path>) -> Result<File, OpenError> {
    let refused = |source| OpenError::File { path: path.to_owned(), source };
    match folder {
        None => {
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(READ.bits()).open(path).map_err(refused)
        }
        Some(folder) => {
            let folder = Folder::open(folder)?;
            let flags = READ | OFlag::O_NOFOLLOW;
            let file = openat(&folder.0, name(path)?, flags, Mode::empty());
            file.map(File::from).map_err(|errno| refused(explained(errno)))
        }
    }
}

/// Creates a file to write. In a folder, it is a new file: an earlier one of this user is removed, anything else is
/// refused.
pub(super) fn output(path: &Path, folder: Option<&Path>) -> Result<File, OpenError> {
    let refused = |source| OpenError::File { path: path.to_owned(), source };
    if path == Path::new(NULL_DEVICE) {
        return OpenOptions::new().write(true).open(path).map_err(refused);
    }
    let Some(folder) = folder else { return File::create(path).map_err(refused) };
    let folder = Folder::open(folder)?;
    folder.check()?;
    let name = name(path)?;
    match fstatat(&folder.0, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(facts) if is_own_file(&facts) => {
            unlinkat(&folder.0, name, UnlinkatFlags::NoRemoveDir)
                .map_err(|errno| refused(errno.into()))?;
        }
        Ok(_) => {
            let reason =
                "exists and is not a plain file of this user: remove it, or use another name";
            return Err(OpenError::BadFile { path: path.to_owned(), reason: reason.into() });
        }
        Err(Errno::ENOENT) => {}
        Err(errno) => return Err(refused(errno.into())),
    }
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = openat(&folder.0, name, flags, OUTPUT_MODE);
    file.map(File::from).map_err(|errno| refused(errno.into()))
}

fn name(path: &Path) -> Result<&Path, OpenError> {
    let reason = || "has no name of a file: name one".into();
    let name = path.file_name().map(Path::new);
    name.ok_or_else(|| OpenError::BadFile { path: path.to_owned(), reason: reason() })
}

fn explained(errno: Errno) -> io::Error {
    match errno {
        Errno::ELOOP => io::Error::other("it is a symbolic link: use the file itself"),
        errno => errno.into(),
    }
}

/// Whether it is a plain file of this user with one name.
fn is_own_file(facts: &FileStat) -> bool {
    let kind = SFlag::from_bits_truncate(facts.st_mode) & SFlag::S_IFMT;
    kind == SFlag::S_IFREG && facts.st_uid == geteuid().as_raw() && facts.st_nlink == 1
}

/// An open folder and its path: what happens in it later does not depend on the path again.
struct Folder(OwnedFd, PathBuf);

impl Folder {
    fn open(path: &Path) -> Result<Self, OpenError> {
        // Not O_PATH, which the forwarder may not have.
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let opened = open(path, flags, Mode::empty());
        let opened = opened.map_err(|errno| match errno {
            Errno::ENOENT => OpenError::BadFile {
                path: path.to_owned(),
                reason: format!(
                    "the folder of capture files does not exist: run `install -d -m 0750 {}` as the user of the router, \
                     or start Stoa with --pcap-folder FOLDER",
                    path.display()
                ),
            },
            errno => OpenError::File { path: path.to_owned(), source: errno.into() },
        })?;
        Ok(Self(opened, path.to_owned()))
    }

    /// Checks that nobody else may create files in it.
    fn check(&self) -> Result<(), OpenError> {
        let Self(folder, path) = self;
        let facts = fstat(folder.as_fd())
            .map_err(|errno| OpenError::File { path: path.clone(), source: errno.into() })?;
        let bad = |reason: String| Err(OpenError::BadFile { path: path.clone(), reason });
        let (own, mode) = (geteuid().as_raw(), facts.st_mode & 0o777);
        if facts.st_uid != own && facts.st_uid != 0 {
            let fix = format!("run `chown {own} {}`", path.display());
            return bad(format!("the folder belongs to the user {}: {fix}", facts.st_uid));
        }
        let is_of_group = mode & 0o020 != 0 && facts.st_gid != getegid().as_raw();
        if mode & 0o002 != 0 || is_of_group {
            let fix = format!("run `chmod go-w {}`", path.display());
            return bad(format!("others may write to the folder (mode {mode:04o}): {fix}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn folder(mode: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(folder.path(), mode).unwrap();
        folder
    }

    #[test]
    fn a_missing_folder_has_a_fix() {
        let folder = folder(0o700);
        let missing = folder.path().join("missing");
        let file = missing.join("a.pcap");
        for error in [output(&file, Some(&missing)).err(), input(&file, Some(&missing)).err()] {
            let error = error.unwrap().to_string();
            let fix = format!("run `install -d -m 0750 {}`", missing.display());
            assert!(error.contains("does not exist") && error.contains(&fix), "{error}");
        }
    }

    #[test]
    fn an_output_is_a_new_file() {
        let folder = folder(0o700);
        let (path, kept) = (folder.path().join("out.pcap"), folder.path().join("kept"));
        let create = || output(&path, Some(folder.path()));
        std::fs::write(&kept, "precious").unwrap();
        // An earlier output of this user is replaced, and a second name of it keeps its content.
        drop(create().unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777 & !0o640, 0);
        drop(create().unwrap());
        std::fs::remove_file(&path).unwrap();
        std::fs::hard_link(&kept, &path).unwrap();
        assert!(create().unwrap_err().to_string().contains("not a plain file of this user"));
        std::fs::remove_file(&path).unwrap();
        symlink(&kept, &path).unwrap();
        assert!(create().is_err(), "a link is not followed");
        assert!(input(&path, Some(folder.path())).unwrap_err().to_string().contains("link"));
        assert!(input(&path, None).is_ok(), "a tool may follow it");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(create().is_err());
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "precious");
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let folder = folder(0o777);
        let path = folder.path().join("out.pcap");
        let error = output(&path, Some(folder.path())).unwrap_err().to_string();
        assert!(error.contains("mode 0777") && error.contains("chmod go-w"), "{error}");
        assert!(!path.exists());
    }

    #[test]
    fn the_null_device_is_an_output() {
        let folder = folder(0o700);
        let outputs: Vec<_> =
            (0..2).map(|_| output(Path::new(NULL_DEVICE), Some(folder.path()))).collect();
        assert!(outputs.iter().all(Result::is_ok));
    }
}
