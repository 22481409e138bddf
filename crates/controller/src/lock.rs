//! The lock file that allows one Stoa on a socket. The lock ends with the process.

use std::fs::{DirBuilder, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::supervise::error::{Error, system};

/// The lock of a socket. Its file has the process id of the holder.
pub struct Lock {
    path: PathBuf,
    _file: Flock<File>,
}

impl Lock {
    /// Takes the lock. Creates the folder of the socket if it is missing.
    ///
    /// # Errors
    /// When another Stoa holds it, or a system call fails.
    pub fn take(socket: &Path) -> Result<Lock, Error> {
        let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            let created = DirBuilder::new().recursive(true).mode(0o755).create(folder);
            created.map_err(system(format!("cannot create {}", folder.display())))?;
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
            // The previous holder may have removed the file between open and lock: then the next process would not
            // find this one.
            let locked = file.metadata().map_err(failed())?.ino();
            if !std::fs::metadata(&path).is_ok_and(|present| present.ino() == locked) {
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

/// The process id of the Stoa that holds the lock of `socket`.
pub fn holder(socket: &Path) -> Option<String> {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    let mut file = File::open(PathBuf::from(path)).ok()?;
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
}
