//! One router for a device: the process that opens it locks a file of its name. The kernel releases
//! the lock with the process, however that ends.
//!
//! The file is where only root can create one, and only its owner can open it: no other user can
//! keep a device from its router. Its name includes the device's network namespace.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Result, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::error::OpenError;
use crate::netdevice::system;
use crate::netns::{Identity, Namespace};

/// Where the files are, for the routers of one machine or container.
const PLACE: &str = "/run/stoa/devices";
/// Files that are opened at most, when one is deleted while it is being locked.
const TRIES: usize = 8;

/// Reserves a device while this value lives.
#[derive(Debug)]
pub(crate) struct DeviceLock {
    /// `None`: we may write no file there. Without root, which a device needs as a rule, routers
    /// cannot be distinguished.
    file: Option<(PathBuf, Flock<File>)>,
}

impl Drop for DeviceLock {
    fn drop(&mut self) {
        if let Some((path, _)) = &self.file {
            // Still locked. A file that stays is no obstacle.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Namespace and device.
type Name = (Identity, String);

/// What this process holds: a port may be opened anew beside its former self.
static HELD: Mutex<BTreeMap<Name, Weak<DeviceLock>>> = Mutex::new(BTreeMap::new());

/// Takes the device of that network namespace for this process, whatever has the namespace's name by now.
///
/// # Errors
/// Another router holds it.
pub(crate) fn take(
    namespace: &Namespace,
    device: &str,
) -> std::result::Result<Arc<DeviceLock>, OpenError> {
    take_in(Path::new(PLACE), namespace.identity(), device)
}

fn take_in(
    place: &Path,
    namespace: Identity,
    device: &str,
) -> std::result::Result<Arc<DeviceLock>, OpenError> {
    let name = (namespace, device.to_owned());
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.retain(|_, device_lock| device_lock.strong_count() > 0);
    if let Some(device_lock) = held.get(&name).and_then(Weak::upgrade) {
        return Ok(device_lock);
    }
    let path = place.join(format!("{}-{device}", namespace.inode));
    let file = match lock(place, &path) {
        Ok(Locked::Ours(file)) => Some((path, file)),
        Ok(Locked::Others(pid)) => {
            let pid = if pid.is_empty() { pid } else { format!(" (process {pid})") };
            let what = format!("device {device} of another router{pid}");
            return Err(OpenError::Busy { what });
        }
        Err(error) if may_not(error.kind()) => None,
        Err(error) => return Err(system("lock a network device")(error)),
    };
    let device_lock = Arc::new(DeviceLock { file });
    held.insert(name, Arc::downgrade(&device_lock));
    Ok(device_lock)
}

fn may_not(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotFound
    )
}

enum Locked {
    Ours(Flock<File>),
    /// By the process of that number, if it has written it yet.
    Others(String),
}

fn lock(place: &Path, path: &Path) -> Result<Locked> {
    DirBuilder::new().recursive(true).mode(0o755).create(place)?;
    for _ in 0..TRIES {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).open(path)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut file) => {
                // The previous holder may have deleted the file meanwhile: then the lock protects nothing.
                let is_there = std::fs::metadata(path).is_ok_and(|now| {
                    file.metadata()
                        .is_ok_and(|ours| (ours.dev(), ours.ino()) == (now.dev(), now.ino()))
                });
                if is_there {
                    file.set_len(0)?;
                    write!(*file, "{}", std::process::id())?;
                    return Ok(Locked::Ours(file));
                }
            }
            Err((other, Errno::EWOULDBLOCK)) => {
                file = other;
                let mut pid = String::new();
                // For people only.
                let _ = file.read_to_string(&mut pid);
                return Ok(Locked::Others(pid));
            }
            Err((_, errno)) => return Err(errno.into()),
        }
    }
    Err(ErrorKind::ResourceBusy.into())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const NAMESPACE: Identity = Identity { device: 0, inode: 1 };

    #[test]
    fn a_device_has_one_router_and_that_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("devices");
        let device = format!("claim{}", std::process::id());
        let first = take_in(&place, NAMESPACE, &device).unwrap();
        // Anew in the same process: a changed port is tried beside its former self.
        drop(take_in(&place, NAMESPACE, &device).unwrap());
        // As another process would find it: what this one holds is forgotten, the lock is not.
        HELD.lock().unwrap().clear();
        let error = take_in(&place, NAMESPACE, &device).unwrap_err();
        assert!(error.may_pass(), "{error}");
        let expected =
            format!("device {device} of another router (process {})", std::process::id());
        assert!(error.to_string().starts_with(&expected), "{error}");
        drop(first);
        drop(take_in(&place, NAMESPACE, &device).unwrap());
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0, "nothing is left");
    }

    /// An abstract socket has no permissions: the first process had the device.
    #[test]
    fn nobody_else_can_take_a_device() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("devices");
        let device = format!("open{}", std::process::id());
        let address = format!("stoa/device/{device}");
        let address = nix::sys::socket::UnixAddr::new_abstract(address.as_bytes()).unwrap();
        let squatter = nix::sys::socket::socket(
            nix::sys::socket::AddressFamily::Unix,
            nix::sys::socket::SockType::Stream,
            nix::sys::socket::SockFlag::SOCK_CLOEXEC,
            None,
        )
        .unwrap();
        nix::sys::socket::bind(std::os::fd::AsRawFd::as_raw_fd(&squatter), &address).unwrap();
        let device_lock = take_in(&place, NAMESPACE, &device).unwrap();
        // Nor by the file: only its owner may open it, and no other user may create one.
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        let file = std::fs::read_dir(&place).unwrap().next().unwrap().unwrap().path();
        assert_eq!((mode(&file), mode(&place) & 0o022), (0o600, 0));
        assert!(device_lock.file.is_some());
    }
}
