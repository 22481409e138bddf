//! Runs code in another network namespace, on a short-lived thread; sockets opened there stay there.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::linux::fs::MetadataExt as _;
use std::path::Path;

use nix::sched::{CloneFlags, setns};
use tokio::net::TcpStream;

/// Directory of named namespaces.
pub const DIRECTORY: &str = "/run/netns";

/// Calls `run` in the network namespace of that name, as `ip netns` lists it; "" is the controller's own.
///
/// # Errors
/// When the namespace cannot be entered, and those of `run`.
pub fn run_in<T: Send>(netns: &str, run: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    if netns.is_empty() {
        return run();
    }
    let file =
        File::open(Path::new(DIRECTORY).join(netns)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let reason =
                    format!("there is no network namespace {netns:?}: ip netns add {netns}");
                io::Error::new(error.kind(), reason)
            }
            _ => error,
        })?;
    // Only this thread changes its namespace.
    std::thread::scope(|scope| {
        let run_in =
            std::thread::Builder::new().name("netns".into()).spawn_scoped(scope, || {
                setns(file, CloneFlags::CLONE_NEWNET)?;
                run()
            })?;
        run_in.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Identifies a network namespace, so that a new one of the same name is recognized; `None`: it does not
/// exist.
pub fn identity(netns: &str) -> Option<(u64, u64)> {
    let path = match netns {
        "" => Path::new("/proc/self/ns/net").to_owned(),
        name => Path::new(DIRECTORY).join(name),
    };
    let data = std::fs::metadata(path).ok()?;
    Some((data.st_dev(), data.st_ino()))
}

/// Whether a connection comes from this machine: loopback addresses are unreachable from elsewhere.
pub fn is_local(stream: &TcpStream, from: SocketAddr) -> bool {
    let local = stream.local_addr().map(|local| local.ip());
    from.ip().is_loopback() || local.is_ok_and(|local| local.is_loopback() || local == from.ip())
}
