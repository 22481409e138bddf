//! One Stoa on a socket: a lock beside it that ends with the process.

use std::fs::{DirBuilder, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::supervise::{Error, system};

/// The lock that one Stoa on a socket holds; the file holds its process id.
pub struct Lock {
    path: PathBuf,
    _file: Flock<File>,
}

impl Lock {
    /// Takes it, and makes the folder of the socket when it is missing.
    ///
    /// # Errors
    /// When another Stoa holds it, or the system refuses.
    pub fn take(socket: &Path) -> Result<Lock, Error> {
        let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
            made.map_err(system(format!("cannot make {}", folder.display())))?;
        }
        let mut path = socket.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let failed = || system(format!("cannot lock {}", path.display()));
        loop {
            let file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(failed())?;
            let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(file) => file,
                Err((mut file, Errno::EWOULDBLOCK)) => {
                    let mut pid = String::new();
                    let _ = file.read_to_string(&mut pid);
                    return Err(Error::Runs { socket: socket.to_owned(), pid });
                }
                Err((_, errno)) => return Err(failed()(errno.into())),
            };
            // The one before may have removed the file between open and lock:
            // then what is locked is not what the next one would find.
            let here = file.metadata().map_err(failed())?.ino();
            if !std::fs::metadata(&path).is_ok_and(|there| there.ino() == here) {
                continue;
            }
            let pid = std::process::id().to_string();
            file.set_len(0).map_err(failed())?;
            file.rewind().map_err(failed())?;
            file.write_all(pid.as_bytes()).map_err(failed())?;
            return Ok(Lock { path, _file: file });
        }
    }
}

/// The process id of the Stoa that holds the lock beside `socket`; `None`: there is none.
pub fn holder(socket: &Path) -> Option<String> {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    let mut file = File::open(PathBuf::from(path)).ok()?;
    let mut pid = String::new();
    file.read_to_string(&mut pid).ok()?;
    // A killed one leaves its file. Only where its number lives again is the lock tried, which
    // one that starts at that very moment would take for another's.
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
        // While the lock is still held: who waits for it sees that it is gone.
        let _ = std::fs::remove_file(&self.path);
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
        // As a killed one leaves it, and another process has its number now.
        let left = folder.path().join("deep/stoa.sock.lock");
        std::fs::write(&left, std::process::id().to_string()).unwrap();
        assert_eq!(holder(&socket), None);
        drop(Lock::take(&socket).unwrap());
    }
}
