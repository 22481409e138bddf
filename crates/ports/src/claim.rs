//! One router for a device: who opens it holds an abstract Unix socket of its name, in the
//! device's network namespace. The kernel lets go of it with the process, however that ends.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nix::errno::Errno;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockopt, listen, socket,
};

use crate::error::OpenError;
use crate::netdevice::system;

/// A device that is ours while this lives.
#[derive(Debug)]
pub(crate) struct Claim {
    _socket: OwnedFd,
}

/// Namespace and device.
type Name = (u64, u64, String);

/// What this process holds: a port may be opened anew beside its former self.
static HELD: Mutex<BTreeMap<Name, Weak<Claim>>> = Mutex::new(BTreeMap::new());

/// Takes the device for this process, in the network namespace of the calling thread.
///
/// # Errors
/// Another router holds it.
pub(crate) fn take(device: &str) -> Result<Arc<Claim>, OpenError> {
    let namespace = std::fs::metadata("/proc/thread-self/ns/net");
    let namespace = namespace.map(|file| (file.dev(), file.ino())).unwrap_or_default();
    let name = (namespace.0, namespace.1, device.to_owned());
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.retain(|_, claim| claim.strong_count() > 0);
    if let Some(claim) = held.get(&name).and_then(Weak::upgrade) {
        return Ok(claim);
    }
    let refused = |errno: Errno| system("claim a network device")(errno.into());
    let address = UnixAddr::new_abstract(format!("stoa/device/{device}").as_bytes());
    let address = address.map_err(refused)?;
    let open = || {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        socket(AddressFamily::Unix, SockType::Stream, flags, None)
    };
    let own = open().map_err(refused)?;
    match bind(own.as_raw_fd(), &address) {
        Ok(()) => {}
        Err(Errno::EADDRINUSE) => {
            let asking = open().map_err(refused)?;
            let pid = connect(asking.as_raw_fd(), &address)
                .and_then(|()| getsockopt(&asking, PeerCredentials))
                .map_or_else(|_| String::new(), |other| format!(" (process {})", other.pid()));
            return Err(OpenError::Busy {
                what: format!("device {device} of another router{pid}"),
            });
        }
        Err(errno) => return Err(refused(errno)),
    }
    // Nobody is ever let in: who asks learns from the kernel which process listens.
    listen(&own, Backlog::MAXCONN).map_err(refused)?;
    let claim = Arc::new(Claim { _socket: own });
    held.insert(name, Arc::downgrade(&claim));
    Ok(claim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_one_router_and_that_one_is_named() {
        let device = format!("claim{}", std::process::id());
        let first = take(&device).unwrap();
        // Anew in the same process: a changed port is tried beside its former self.
        drop(take(&device).unwrap());
        // As another process would find it: what this one holds is forgotten, the socket is not.
        HELD.lock().unwrap().clear();
        let error = take(&device).unwrap_err();
        assert!(error.may_pass(), "{error}");
        let told = format!("device {device} of another router (process {})", std::process::id());
        assert!(error.to_string().starts_with(&told), "{error}");
        drop(first);
        take(&device).unwrap();
    }
}
