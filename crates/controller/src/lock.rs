//! The lock files that allow one Stoa on a socket, and one on a state folder. A lock ends with its process.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::libc::O_NOFOLLOW;

use crate::supervise::EXIT_TIMEOUT;
use crate::supervise::error::{Error, system};

/// Name of the lock file of a state folder, which `stoa run` holds, or a controller without one.
const OF_STATE: &str = "lock";
/// Name of the lock file of the process that writes to a state folder.
const OF_WRITER: &str = "writer.lock";
/// Longest time that a controller whose supervisor was killed takes to save and exit.
const WRITER_TIMEOUT: Duration = EXIT_TIMEOUT;
/// Mode of a lock file. Whoever can open it can lock it: another user would keep Stoa from starting.
const MODE: u32 = 0o640;
/// Interval of attempts to take the lock of a writer.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// A lock. Its file has the process id of the holder.
pub struct Lock {
    path: PathBuf,
    /// The folder, if it was created for this lock.
    created: Option<PathBuf>,
    _file: Flock<File>,
}

/// What became of a lock file.
enum Locked {
    Ours(Lock),
    /// Held by the process with that id.
    Others(String),
}

impl Lock {
    /// Takes the lock of a socket. Creates the folder of the socket if it is missing.
    ///
    /// # Errors
    /// When another Stoa holds it, or a system call fails.
    pub fn take(socket: &Path) -> Result<Lock, Error> {
        let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            let created = DirBuilder::new().recursive(true).mode(0o755).create(folder);
            created.map_err(system(format!("cannot create {}", folder.display())))?;
        }
        let path = of_socket(socket);
        match lock(&path).map_err(system(format!("cannot lock {}", path.display())))? {
            Locked::Ours(lock) => Ok(lock),
            Locked::Others(pid) => Err(Error::Runs { socket: socket.to_owned(), pid }),
        }
    }

    /// Takes the lock of a state folder, which is created if it is missing: two controllers with one state folder would
    /// commit over each other. `None`: this user cannot write there, so neither can the controller.
    ///
    /// # Errors
    /// When another Stoa uses the folder, or a system call fails.
    pub fn take_state(state: &Path) -> Result<Option<Lock>, Error> {
        let is_new = !state.exists();
        match lock_in(state, OF_STATE)? {
            Some(Locked::Ours(mut lock)) => {
                lock.created = is_new.then(|| state.to_owned());
                Ok(Some(lock))
            }
            Some(Locked::Others(pid)) => Err(Error::StateInUse { state: state.to_owned(), pid }),
            None => Ok(None),
        }
    }

    /// Takes the lock of the process that writes to a state folder. Waits for a controller whose supervisor was killed:
    /// it saves the last commits before it exits.
    ///
    /// # Errors
    /// When the other process does not exit in time, or a system call fails.
    pub fn take_writer(state: &Path) -> Result<Option<Lock>, Error> {
        let begun = Instant::now();
        loop {
            match lock_in(state, OF_WRITER)? {
                Some(Locked::Ours(lock)) => return Ok(Some(lock)),
                Some(Locked::Others(_)) if begun.elapsed() < WRITER_TIMEOUT => {
                    std::thread::sleep(RETRY_INTERVAL);
                }
                Some(Locked::Others(pid)) => {
                    return Err(Error::StateInUse { state: state.to_owned(), pid });
                }
                None => return Ok(None),
            }
        }
    }
}

/// Locks a file in a state folder, which is created if it is missing. `None`: this user cannot write there.
fn lock_in(state: &Path, name: &str) -> Result<Option<Locked>, Error> {
    let path = state.join(name);
    let created = DirBuilder::new().recursive(true).mode(0o700).create(state);
    match created.and_then(|()| lock(&path)) {
        Ok(locked) => Ok(Some(locked)),
        Err(error) => match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Ok(None),
            _ => Err(system(format!("cannot lock {}", path.display()))(error)),
        },
    }
}

/// Locks a file, which is created if it is missing.
fn lock(path: &Path) -> std::io::Result<Locked> {
    loop {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(MODE)
            // The folder of a socket may be one in which others can create links.
            .custom_flags(O_NOFOLLOW)
            .open(path)?;
        let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => file,
            Err((mut file, Errno::EWOULDBLOCK)) => {
                let mut pid = String::new();
                let _ = file.read_to_string(&mut pid);
                return Ok(Locked::Others(pid));
            }
            Err((_, errno)) => return Err(errno.into()),
        };
        // The previous holder may have removed the file between open and lock: then the next process would not
        // find this one.
        let locked = file.metadata()?.ino();
        if !std::fs::metadata(path).is_ok_and(|present| present.ino() == locked) {
            continue;
        }
        // A killed process of an earlier version leaves one that everybody can open.
        let _ = file.set_permissions(Permissions::from_mode(MODE));
        let pid = std::process::id().to_string();
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(pid.as_bytes())?;
        return Ok(Locked::Ours(Lock { path: path.to_owned(), created: None, _file: file }));
    }
}

/// The lock file of a socket.
fn of_socket(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    PathBuf::from(path)
}

/// The process id of the Stoa that holds the lock of `socket`.
pub fn holder(socket: &Path) -> Option<String> {
    let mut file = File::open(of_socket(socket)).ok()?;
    let mut pid = String::new();
    file.read_to_string(&mut pid).ok()?;
    // A killed process leaves its file. The lock is only tried if a process has that id, since another Stoa that starts
    // at this moment would find the lock taken.
    if pid.is_empty() || !Path::new("/proc").join(&pid).exists() {
        return None;
    }
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Err((_, Errno::EWOULDBLOCK)) => Some(pid),
        _ => None,
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before the lock is released, so that a waiting process notices it.
        let _ = std::fs::remove_file(&self.path);
        // Stays if there is anything in it.
        if let Some(folder) = &self.created {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_socket_has_one_stoa() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("deep/stoa.sock");
        let lock = Lock::take(&socket).unwrap();
        match Lock::take(&socket) {
            Err(Error::Runs { pid, .. }) => assert_eq!(pid, std::process::id().to_string()),
            _ => panic!("two locks on one socket"),
        }
        assert_eq!(holder(&socket), Some(std::process::id().to_string()));
        drop(lock);
        assert_eq!(holder(&socket), None);
        // The file of a killed process whose id another process has now.
        let left = folder.path().join("deep/stoa.sock.lock");
        std::fs::write(&left, std::process::id().to_string()).unwrap();
        assert_eq!(holder(&socket), None);
        drop(Lock::take(&socket).unwrap());
    }

    /// Whether a file has no right that `mode` lacks.
    fn is_within(mode: u32, path: &Path) -> bool {
        std::fs::metadata(path).unwrap().mode() & 0o777 & !mode == 0
    }

    #[test]
    fn other_users_cannot_take_a_lock() {
        let folder = tempfile::tempdir().unwrap();
        let [socket, state] = ["stoa.sock", "stoa.state"].map(|name| folder.path().join(name));
        let file = of_socket(&socket);
        // The file of a killed process of an earlier version.
        std::fs::write(&file, "1").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let _locks = (
            Lock::take(&socket).unwrap(),
            Lock::take_state(&state).unwrap(),
            Lock::take_writer(&state).unwrap(),
        );
        for file in [file, state.join(OF_STATE), state.join(OF_WRITER)] {
            assert!(is_within(MODE, &file), "{}", file.display());
        }
    }

    #[test]
    fn the_file_of_a_lock_is_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let [socket, other] = ["stoa.sock", "other"].map(|name| folder.path().join(name));
        std::fs::write(&other, "of another program").unwrap();
        std::os::unix::fs::symlink(&other, of_socket(&socket)).unwrap();
        assert!(Lock::take(&socket).is_err());
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "of another program");
    }

    #[test]
    fn one_state_folder_has_one_stoa() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("deep/stoa.state");
        let lock = Lock::take_state(&state).unwrap();
        assert!(lock.is_some());
        let mode = std::fs::metadata(&state).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700, "it has keys");
        match Lock::take_state(&state) {
            Err(error @ Error::StateInUse { .. }) => {
                let text = error.to_string();
                let pid = format!("process {}", std::process::id());
                assert!(text.contains(&pid) && text.contains("--state"), "{text}");
            }
            _ => panic!("two locks on one state folder"),
        }
        drop(lock);
        assert!(!state.exists(), "nothing is left");
        std::fs::create_dir_all(&state).unwrap();
        // A killed process leaves its file, and no lock.
        std::fs::write(state.join(OF_STATE), "1").unwrap();
        assert!(Lock::take_state(&state).unwrap().is_some());
        let unwritable = Lock::take_state(Path::new("/proc/1/nowhere/stoa.state"));
        assert!(!matches!(unwritable, Ok(Some(_))));
    }

    #[test]
    fn a_writer_waits_for_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let before = Lock::take_writer(folder.path()).unwrap();
        let exits = std::thread::spawn(move || {
            std::thread::sleep(10 * RETRY_INTERVAL);
            drop(before);
        });
        let begun = Instant::now();
        assert!(Lock::take_writer(folder.path()).unwrap().is_some());
        assert!(begun.elapsed() >= 5 * RETRY_INTERVAL);
        exits.join().unwrap();
    }
}
