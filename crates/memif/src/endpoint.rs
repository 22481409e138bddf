//! The control side of an interface: it negotiates memory and rings with the peer, and reconnects
//! whenever a link ends.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::UnixAddr;

use crate::config::{Config, Role as ConfiguredRole, Settings};
use crate::error::OpenError;
use crate::listener::IdListener;
use crate::messages::Message;
use crate::ring::Link;
use crate::rx::Receiver;
use crate::socket::{Channel, Ended, address};
use crate::tx::Sender;
use crate::{master, slave};

/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a slave waits before it tries again.
const RETRY: Duration = Duration::from_millis(500);
/// The disconnect reason while the operator has the interface disabled.
const DISABLED: &str = "the interface is disabled";
/// Messages that one call processes at most: a whole handshake.
const MESSAGES: usize = 512;

/// The rings of a link that is up.
#[derive(Default)]
pub struct Rings {
    /// One for each queue towards us.
    pub receivers: Vec<Receiver>,
    /// One for each queue towards the peer.
    pub senders: Vec<Sender>,
}

/// What became of the link.
pub enum Event {
    /// It is up: frames flow.
    Up(Rings),
    /// It is down, for this reason; its rings carry no more frames.
    Down(String),
}

/// What a handshake leads to.
pub(crate) struct Established {
    pub(crate) rings: Rings,
    pub(crate) link: Arc<Link>,
    pub(crate) detail: String,
}

/// How the port finds peers.
pub(crate) enum Role {
    Master(IdListener),
    Slave(UnixAddr),
}

pub(crate) enum Handshake {
    Master(master::Handshake),
    Slave(slave::Handshake),
}

pub(crate) enum State {
    /// No peer; a slave tries again at that time.
    Alone(Instant),
    /// In a handshake that began at that time.
    Talking(Handshake, Instant),
    /// Frames flow.
    Up(Channel, Arc<Link>),
}

/// A shared-memory interface: its control side.
pub struct Memif {
    settings: Settings,
    role: Role,
    pub(crate) state: State,
    /// Whether the operator has enabled the interface.
    enabled: bool,
    /// The detail until a peer connects.
    alone: String,
    detail: String,
    /// Frames left out by links that ended.
    left_out: u64,
}

impl Handshake {
    fn channel(&self) -> &Channel {
        match self {
            Self::Master(handshake) => &handshake.channel,
            Self::Slave(handshake) => &handshake.channel,
        }
    }

    fn handle(
        &mut self,
        message: Message,
        file: Option<OwnedFd>,
    ) -> Result<Option<Established>, Ended> {
        match self {
            Self::Master(handshake) => handshake.handle(message, file),
            Self::Slave(handshake) => handshake.handle(message, file),
        }
    }

    fn into_channel(self) -> Channel {
        match self {
            Self::Master(handshake) => handshake.channel,
            Self::Slave(handshake) => handshake.channel,
        }
    }

    /// Processes the messages that have arrived.
    fn step(&mut self, since: Instant) -> Result<Option<Established>, Ended> {
        for _ in 0..MESSAGES {
            let Some((message, file)) = self.channel().receive()? else { break };
            if let Some(established) = self.handle(message, file)? {
                return Ok(Some(established));
            }
        }
        if since.elapsed() > PATIENCE {
            return Err(Ended::refused("the handshake took too long"));
        }
        Ok(None)
    }
}

impl Memif {
    /// Opens the interface. A master listens from now on.
    ///
    /// # Errors
    /// An invalid configuration, or a socket that cannot be listened on.
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        let settings = config.check()?;
        let refuse = |reason: &str| OpenError::Config { field: "socket", reason: reason.into() };
        if matches!(config.socket.as_str(), "" | "@") {
            return Err(refuse("give a path, or a name after @"));
        }
        let at = address(&config.socket).map_err(|_| refuse("give a path of at most 107 bytes"))?;
        let (role, does) = match config.role {
            ConfiguredRole::Master => {
                let seat = IdListener::take(&config.socket, config.id, &settings.name)?;
                (Role::Master(seat), "waits for a slave")
            }
            ConfiguredRole::Slave => (Role::Slave(at), "waits for a master"),
        };
        let alone = format!("{does} on {}, id {}", config.socket, config.id);
        let (state, detail) = (State::Alone(Instant::now()), alone.clone());
        Ok(Self { settings, role, state, enabled: true, alone, detail, left_out: 0 })
    }

    /// One that is in a handshake already.
    #[cfg(fuzzing)]
    pub(crate) fn talking(role: Role, settings: Settings, state: State) -> Self {
        let (alone, detail) = (String::new(), String::new());
        Self { settings, role, state, enabled: true, alone, detail, left_out: 0 }
    }

    /// Begins a handshake with a peer, when there is one.
    fn find_peer(&mut self, again: Instant) -> Result<Option<Handshake>, Ended> {
        match &self.role {
            Role::Master(seat) => match seat.next() {
                Some(accepted) => {
                    accepted.channel.check_user(self.settings.peer_user)?;
                    Ok(Some(Handshake::Master(master::Handshake::begin(accepted, &self.settings)?)))
                }
                None => Ok(None),
            },
            Role::Slave(_) if Instant::now() < again => Ok(None),
            Role::Slave(at) => {
                let channel = Channel::connect(at)?;
                channel.check_user(self.settings.peer_user)?;
                Ok(Some(Handshake::Slave(slave::Handshake::begin(channel, &self.settings))))
            }
        }
    }

    /// Looks after a link that is up.
    fn check_link(&self, channel: &Channel, link: &Link) -> Result<(), Ended> {
        if let Some(reason) = link.broken.get() {
            return Err(Ended::refused(reason));
        }
        if let Some((message, file)) = channel.receive()? {
            return Err(Ended::unexpected(&message, file.as_ref()));
        }
        Ok(())
    }

    /// Disconnects a peer that connects now.
    fn refuse_late_peers(&self, reason: &str) {
        if let Role::Master(seat) = &self.role
            && let Some(late) = seat.next()
        {
            late.channel.disconnect(reason);
        }
    }

    /// Gives up the link, because the operator set the interface down.
    fn rest(&mut self, state: State) -> (State, Option<Event>) {
        self.refuse_late_peers(DISABLED);
        let event = match state {
            State::Alone(again) => return (State::Alone(again), None),
            State::Talking(handshake, _) => {
                handshake.channel().disconnect(DISABLED);
                None
            }
            State::Up(channel, link) => {
                channel.disconnect(DISABLED);
                link.break_down(DISABLED);
                self.left_out += link.left_out.load(Ordering::Relaxed);
                Some(Event::Down(DISABLED.into()))
            }
        };
        (State::Alone(Instant::now()), event)
    }

    /// Goes one step; returns the new state, and an event when the link changed.
    fn step(&mut self, state: State) -> (State, Option<Event>) {
        if !self.enabled {
            return self.rest(state);
        }
        if !matches!(state, State::Alone(_)) {
            // One peer for each id: a later one is refused.
            self.refuse_late_peers("the id is in use");
        }
        let later = || State::Alone(Instant::now() + RETRY);
        match state {
            State::Alone(again) => match self.find_peer(again) {
                Ok(None) => (State::Alone(again), None),
                Ok(Some(handshake)) => self.step(State::Talking(handshake, Instant::now())),
                Err(Ended::Socket(Errno::ECONNREFUSED | Errno::ENOENT)) => {
                    self.detail = self.alone.clone();
                    (later(), None)
                }
                Err(ended) => {
                    self.detail = format!("{}; last: {ended}", self.alone);
                    (later(), None)
                }
            },
            State::Talking(mut handshake, since) => match handshake.step(since) {
                Ok(None) => (State::Talking(handshake, since), None),
                Ok(Some(established)) => {
                    let Established { rings, link, detail } = established;
                    let channel = handshake.into_channel();
                    self.detail = match channel.peer() {
                        Ok(peer) => format!("{detail}; peer: {peer}"),
                        Err(_) => detail,
                    };
                    let state = State::Up(channel, link);
                    (state, Some(Event::Up(rings)))
                }
                Err(ended) => {
                    self.part(handshake.channel(), &ended);
                    (later(), None)
                }
            },
            State::Up(channel, link) => match self.check_link(&channel, &link) {
                Ok(()) => (State::Up(channel, link), None),
                Err(ended) => {
                    self.part(&channel, &ended);
                    link.break_down("the link ended");
                    self.left_out += link.left_out.load(Ordering::Relaxed);
                    (later(), Some(Event::Down(ended.to_string())))
                }
            },
        }
    }

    fn part(&mut self, channel: &Channel, ended: &Ended) {
        if let Ended::Refused(reason) = ended {
            channel.disconnect(reason);
        }
        self.detail = format!("{}; last: {ended}", self.alone);
    }
}

impl Memif {
    /// What becomes readable when there is something for [`service`](Self::service) to do. They
    /// change with each call of it. A slave without a master has none: try again every half second.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let seat = match &self.role {
            Role::Master(seat) => Some(seat.descriptor()),
            Role::Slave(_) => None,
        };
        let channel = match &self.state {
            State::Alone(_) => None,
            State::Talking(handshake, _) => Some(handshake.channel().descriptor()),
            State::Up(channel, _) => Some(channel.descriptor()),
        };
        seat.into_iter().chain(channel).collect()
    }

    /// Continues the handshakes with peers, and reports when the link comes up or goes down. Never
    /// waits.
    pub fn service(&mut self) -> Option<Event> {
        let state = std::mem::replace(&mut self.state, State::Alone(Instant::now()));
        let (state, event) = self.step(state);
        self.state = state;
        event
    }

    /// Enables or disables the link; while disabled, peers are refused with that reason.
    pub fn set_enabled(&mut self, enabled: bool) {
        if std::mem::replace(&mut self.enabled, enabled) != enabled {
            self.detail = if enabled { self.alone.clone() } else { DISABLED.into() };
        }
    }

    /// Frames that were malformed or too long, since the interface was opened.
    pub fn left_out(&self) -> u64 {
        let now = match &self.state {
            State::Up(_, link) => link.left_out.load(Ordering::Relaxed),
            _ => 0,
        };
        self.left_out + now
    }

    /// Its present state as text.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl Drop for Memif {
    fn drop(&mut self) {
        if let State::Up(channel, link) = &self.state {
            channel.disconnect("the interface was closed");
            // Rings that others still hold end with it.
            link.break_down("the interface was closed");
        }
    }
}
