//! The listening socket of masters: all ids of one socket share it. A peer waits here
//! from its connection until it has said which id it wants.

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
const GUESTS_MAX: usize = 32;
/// How long a peer may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(2);

/// The lobbies of this process, by socket. Only control threads open and close ports.
static LOBBIES: Mutex<BTreeMap<String, Weak<Lobby>>> = Mutex::new(BTreeMap::new());

/// A listening socket and those who wait.
struct Lobby {
    /// What we call ourselves.
    name: String,
    socket: OwnedFd,
    /// The file to remove at the end.
    path: Option<PathBuf>,
    epoll: Epoll,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    ids: Vec<u32>,
    guests: Vec<(Channel, Instant)>,
    arrived: Vec<Arrival>,
}

/// A peer that has said what it wants.
pub(crate) struct Arrival {
    pub(crate) channel: Channel,
    pub(crate) init: Init,
}

/// One id's place in a lobby.
pub(crate) struct Seat {
    lobby: Arc<Lobby>,
    id: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing here is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seat {
    /// Listens on `socket` for peers that want `id`.
    pub(crate) fn take(socket: &str, id: u32, name: &str) -> Result<Self, OpenError> {
        let mut lobbies = lock(&LOBBIES);
        lobbies.retain(|_, lobby| lobby.strong_count() > 0);
        let known = lobbies.get(socket).and_then(Weak::upgrade);
        let lobby = match known {
            Some(lobby) => lobby,
            None => {
                let lobby = Arc::new(Lobby::open(socket, name)?);
                lobbies.insert(socket.into(), Arc::downgrade(&lobby));
                lobby
            }
        };
        let mut inside = lock(&lobby.inside);
        if inside.ids.contains(&id) {
            return Err(OpenError::Busy { what: format!("memif id {id} of socket {socket}") });
        }
        inside.ids.push(id);
        drop(inside);
        Ok(Self { lobby, id })
    }

    /// Looks after the lobby and returns a peer that wants this id.
    pub(crate) fn next(&self) -> Option<Arrival> {
        let mut inside = lock(&self.lobby.inside);
        self.lobby.serve(&mut inside);
        let at = inside.arrived.iter().position(|arrival| arrival.init.id == self.id)?;
        Some(inside.arrived.swap_remove(at))
    }

    /// Readable when somebody comes or speaks.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.lobby.epoll.0.as_fd()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut inside = lock(&self.lobby.inside);
        inside.ids.retain(|id| *id != self.id);
        inside.arrived.retain(|arrival| arrival.init.id != self.id);
    }
}

impl Lobby {
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
                // A socket that nobody listens on is left from a process that died.
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
        Ok(Self { name: ours.into(), socket, path, epoll, inside: Mutex::default() })
    }

    /// Lets peers in, hears those who speak, and shows out those who do not.
    fn serve(&self, inside: &mut Inside) {
        for _ in 0..GUESTS_MAX {
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let Ok(fd) = accept4(self.socket.as_raw_fd(), flags) else { break };
            // SAFETY: the kernel just made this descriptor for us alone.
            let channel = Channel::new(unsafe { OwnedFd::from_raw_fd(fd) });
            let event = EpollEvent::new(EpollFlags::EPOLLIN, 1);
            if inside.guests.len() == GUESTS_MAX {
                channel.say_goodbye("too many peers wait");
            } else if channel.send(&hello(&self.name), None).is_ok()
                && self.epoll.add(channel.descriptor(), event).is_ok()
            {
                inside.guests.push((channel, Instant::now()));
            }
        }
        for (channel, since) in std::mem::take(&mut inside.guests) {
            let heard = channel.receive();
            if matches!(heard, Ok(None)) && since.elapsed() < PATIENCE {
                inside.guests.push((channel, since));
                continue;
            }
            // From here on the port watches the channel, or it is closed.
            let _ = self.epoll.delete(channel.descriptor());
            match self.admit(heard, inside) {
                Ok(init) => inside.arrived.push(Arrival { channel, init }),
                Err(Ended::Refused(reason)) => channel.say_goodbye(&reason),
                Err(_) => {}
            }
        }
    }

    fn admit(
        &self,
        heard: Result<Option<(Message, Option<OwnedFd>)>, Ended>,
        inside: &Inside,
    ) -> Result<Init, Ended> {
        match heard? {
            Some((Message::Init(init), None)) if !inside.ids.contains(&init.id) => {
                Err(Ended::refused(format!("nobody has id {} here", init.id)))
            }
            Some((Message::Init(init), None)) => {
                if inside.arrived.iter().any(|arrival| arrival.init.id == init.id) {
                    return Err(Ended::refused(format!("id {} is in use", init.id)));
                }
                Ok(init)
            }
            Some(_) => Err(Ended::refused("INIT was expected")),
            None => Err(Ended::refused("no INIT came in time")),
        }
    }
}

impl Drop for Lobby {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Somebody may have removed it before us.
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
