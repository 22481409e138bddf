//! The listening socket of masters: all ids of one socket share it. A peer waits here
//! from its connection until its INIT names the id.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::socket::{Backlog, SockFlag, accept4, bind, listen};

use super::master::REGIONS_MAX;
use super::messages::{Hello, Init, Message, VERSION};
use super::ring::LOG2_MAX;
use super::socket::{Channel, Ended, address, seqpacket};
use crate::config::QUEUES_MAX;
use crate::error::OpenError;

/// Peers that may wait at once.
const PENDING_MAX: usize = 32;
/// How long a peer may take to send INIT.
const PATIENCE: Duration = Duration::from_secs(2);

/// The listeners of this process, by socket. Only control threads open and close ports.
static LISTENERS: Mutex<BTreeMap<String, Weak<Listener>>> = Mutex::new(BTreeMap::new());

/// A listening socket and the peers that wait.
struct Listener {
    /// Our name in HELLO.
    name: String,
    socket: OwnedFd,
    /// The file to remove at the end.
    path: Option<PathBuf>,
    epoll: Epoll,
    peers: Mutex<Peers>,
}

#[derive(Default)]
struct Peers {
    ids: Vec<u32>,
    pending: Vec<(Channel, Instant)>,
    accepted: Vec<Accepted>,
}

/// A peer that has sent INIT.
pub(crate) struct Accepted {
    pub(crate) channel: Channel,
    pub(crate) init: Init,
}

/// One id of a listener.
pub(crate) struct IdListener {
    listener: Arc<Listener>,
    id: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves nothing inconsistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl IdListener {
    /// Listens on `socket` for peers with `id`.
    pub(crate) fn take(socket: &str, id: u32, name: &str) -> Result<Self, OpenError> {
        let mut listeners = lock(&LISTENERS);
        listeners.retain(|_, listener| listener.strong_count() > 0);
        let known = listeners.get(socket).and_then(Weak::upgrade);
        let listener = match known {
            Some(listener) => listener,
            None => {
                let listener = Arc::new(Listener::open(socket, name)?);
                listeners.insert(socket.into(), Arc::downgrade(&listener));
                listener
            }
        };
        let mut peers = lock(&listener.peers);
        if peers.ids.contains(&id) {
            return Err(OpenError::Busy { what: format!("memif id {id} of socket {socket}") });
        }
        peers.ids.push(id);
        drop(peers);
        Ok(Self { listener, id })
    }

    /// Serves the listener and returns a peer with this id.
    pub(crate) fn next(&self) -> Option<Accepted> {
        let mut peers = lock(&self.listener.peers);
        self.listener.serve(&mut peers);
        let at = peers.accepted.iter().position(|accepted| accepted.init.id == self.id)?;
        Some(peers.accepted.swap_remove(at))
    }

    /// Readable when a peer connects or sends.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.listener.epoll.0.as_fd()
    }
}

impl Drop for IdListener {
    fn drop(&mut self) {
        let mut peers = lock(&self.listener.peers);
        peers.ids.retain(|id| *id != self.id);
        peers.accepted.retain(|accepted| accepted.init.id != self.id);
    }
}

impl Listener {
    fn open(name: &str, ours: &str) -> Result<Self, OpenError> {
        let system = |errno: Errno| OpenError::System {
            doing: "memif: listening on the socket",
            source: errno.into(),
        };
        let socket = seqpacket().map_err(system)?;
        let at = address(name).map_err(system)?;
        let path = (!name.starts_with('@')).then(|| PathBuf::from(name));
        match bind(socket.as_raw_fd(), &at) {
            Ok(()) => {}
            Err(Errno::EADDRINUSE) => {
                let busy = || OpenError::Busy { what: format!("socket {name}") };
                let path = path.as_ref().ok_or_else(busy)?;
                // A socket without a listener is left over from a process that died.
                let is_socket = std::fs::symlink_metadata(path)
                    .is_ok_and(|facts| facts.file_type().is_socket());
                if !is_socket || !matches!(Channel::connect(&at), Err(Errno::ECONNREFUSED)) {
                    return Err(busy());
                }
                let refused = |source| OpenError::File { path: path.clone(), source };
                std::fs::remove_file(path).map_err(refused)?;
                bind(socket.as_raw_fd(), &at).map_err(system)?;
            }
            Err(errno) => {
                let path = PathBuf::from(name);
                return Err(OpenError::File { path, source: errno.into() });
            }
        }
        listen(&socket, Backlog::new(16).map_err(system)?).map_err(system)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(system)?;
        epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, 0)).map_err(system)?;
        Ok(Self { name: ours.into(), socket, path, epoll, peers: Mutex::default() })
    }

    /// Accepts peers, reads their INIT, and disconnects those that send none in time.
    fn serve(&self, peers: &mut Peers) {
        for _ in 0..PENDING_MAX {
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let Ok(fd) = accept4(self.socket.as_raw_fd(), flags) else { break };
            // SAFETY: the kernel just made this descriptor for us alone.
            let channel = Channel::new(unsafe { OwnedFd::from_raw_fd(fd) });
            let event = EpollEvent::new(EpollFlags::EPOLLIN, 1);
            if peers.pending.len() == PENDING_MAX {
                channel.disconnect("too many peers wait");
            } else if channel.send(&hello(&self.name), None).is_ok()
                && self.epoll.add(channel.descriptor(), event).is_ok()
            {
                peers.pending.push((channel, Instant::now()));
            }
        }
        for (channel, since) in std::mem::take(&mut peers.pending) {
            let received = channel.receive();
            if matches!(received, Ok(None)) && since.elapsed() < PATIENCE {
                peers.pending.push((channel, since));
                continue;
            }
            // From here on the port polls the channel, or it is closed.
            let _ = self.epoll.delete(channel.descriptor());
            match self.admit(received, peers) {
                Ok(init) => peers.accepted.push(Accepted { channel, init }),
                Err(Ended::Refused(reason)) => channel.disconnect(&reason),
                Err(_) => {}
            }
        }
    }

    fn admit(
        &self,
        received: Result<Option<(Message, Option<OwnedFd>)>, Ended>,
        peers: &Peers,
    ) -> Result<Init, Ended> {
        match received? {
            Some((Message::Init(init), None)) if !peers.ids.contains(&init.id) => {
                Err(Ended::refused(format!("no interface has id {} here", init.id)))
            }
            Some((Message::Init(init), None)) => {
                if peers.accepted.iter().any(|accepted| accepted.init.id == init.id) {
                    return Err(Ended::refused(format!("id {} is in use", init.id)));
                }
                Ok(init)
            }
            Some(_) => Err(Ended::refused("INIT was expected")),
            None => Err(Ended::refused("no INIT came in time")),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // It may already be removed.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn hello(name: &str) -> Message {
    Message::Hello(Hello {
        name: name.into(),
        version_min: VERSION,
        version_max: VERSION,
        region_max: REGIONS_MAX - 1,
        m2s_max: QUEUES_MAX - 1,
        s2m_max: QUEUES_MAX - 1,
        log2_size_max: LOG2_MAX,
    })
}
