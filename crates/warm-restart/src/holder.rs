//! Who holds the descriptors of this process beyond its end: `stoa run`, systemd, or nobody.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use crate::descriptor_store::CHILD_ENVIRONMENT;
use crate::message::{self, Message, Received};

/// The socket of systemd.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// Who holds descriptors: a socket for the messages of systemd's file descriptor store.
#[derive(Debug)]
pub(crate) struct Holder {
    socket: Option<OwnedFd>,
}

/// The descriptors that an earlier process left, with their names.
pub(crate) type Inherited = Vec<(String, OwnedFd)>;

impl Holder {
    /// Nobody: state ends with this process.
    pub(crate) fn nobody() -> Self {
        Self { socket: None }
    }

    /// The supervisor of this process, if its environment says so, else systemd, if it started this process. Also
    /// returns what was held: descriptors with a name that `is_ours`.
    pub(crate) fn find(is_ours: impl Fn(&str) -> bool) -> (Self, Inherited) {
        let (holder, inherited) = if std::env::var_os(CHILD_ENVIRONMENT).is_some() {
            Self::supervisor()
        } else {
            (Self::systemd(), from_systemd(&is_ours))
        };
        let ours = inherited.into_iter().filter(|(name, _)| is_ours(name)).collect();
        (holder, ours)
    }

    /// The supervisor's socket is standard input. What it holds waits there since before this process started.
    fn supervisor() -> (Self, Inherited) {
        let socket = match std::io::stdin().as_fd().try_clone_to_owned() {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(
                    "no state survives a restart: standard input: {error}; restart Stoa with `stoa run` or systemd"
                );
                return (Self::nobody(), Vec::new());
            }
        };
        Self::child(socket)
    }

    /// A child with the socket of its supervisor.
    pub(crate) fn child(socket: OwnedFd) -> (Self, Inherited) {
        let mut inherited = Vec::new();
        loop {
            match message::receive(socket.as_fd()) {
                Ok(Received::Message(Message::Store(name), Some(file))) => {
                    inherited.push((name, file));
                }
                Ok(Received::Message(..) | Received::Unknown) => {}
                Ok(Received::Nothing) => return (Self { socket: Some(socket) }, inherited),
                Ok(Received::End) => return (Self::nobody(), inherited),
                Err(error) => {
                    tracing::warn!(
                        "no state survives a restart: the supervisor's socket: {error}; restart Stoa with `stoa \
                         run` or systemd"
                    );
                    return (Self::nobody(), inherited);
                }
            }
        }
    }

    pub(crate) fn systemd() -> Self {
        let Some(path) = std::env::var_os(NOTIFY_SOCKET) else { return Self::nobody() };
        let path = path.to_string_lossy();
        match connected(&path) {
            Ok(socket) => Self { socket: Some(socket) },
            Err(error) => {
                tracing::warn!(
                    "no state survives a restart: {NOTIFY_SOCKET}={path}: {error}; restart Stoa with `stoa run` \
                     or systemd"
                );
                Self::nobody()
            }
        }
    }

    /// Whether anybody holds descriptors.
    pub(crate) fn is_somebody(&self) -> bool {
        self.socket.is_some()
    }

    /// Has a descriptor held under a name. Once this returns, it survives this process.
    pub(crate) fn store(&self, name: &str, file: BorrowedFd<'_>) -> nix::Result<()> {
        let Some(socket) = &self.socket else { return Ok(()) };
        message::send(socket.as_fd(), &Message::Store(name.to_owned()), Some(file))
    }

    /// Releases what is held under a name.
    pub(crate) fn remove(&self, name: &str) -> nix::Result<()> {
        let Some(socket) = &self.socket else { return Ok(()) };
        message::send(socket.as_fd(), &Message::Remove(name.to_owned()), None)
    }
}

/// A datagram socket, connected to a path or to an abstract name after `@`.
fn connected(path: &str) -> nix::Result<OwnedFd> {
    let address = match path.strip_prefix('@') {
        Some(name) => UnixAddr::new_abstract(name.as_bytes()),
        None => UnixAddr::new(path),
    }?;
    let socket = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    connect(socket.as_raw_fd(), &address)?;
    Ok(socket)
}

/// What systemd's file descriptor store had for this process (sd_listen_fds(3)). A second call returns nothing.
pub(crate) fn from_systemd(is_ours: impl Fn(&str) -> bool) -> Inherited {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    let passed: Vec<(RawFd, String)> = match sd_notify::listen_fds_with_names() {
        Ok(passed) => passed.collect(),
        Err(error) => {
            tracing::warn!("state of the last run is lost: descriptors of systemd: {error}");
            return Vec::new();
        }
    };
    let ours = passed.into_iter().filter(|(_, name)| is_ours(name));
    // SAFETY: systemd opened these descriptors for this process (LISTEN_PID is its own), nobody else in it takes those
    // with such names, and `TAKEN` makes sure that they are taken once.
    ours.map(|(file, name)| (name, unsafe { OwnedFd::from_raw_fd(file) })).collect()
}
