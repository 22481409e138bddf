//! `memif`: shared memory with another program, memif 2.0, in both roles.
//!
//! The control side (this file, `lobby`, `master`, `slave`) agrees with the peer on
//! memory and rings; then `rx` and `tx` copy frames between the rings and the pool.
//! A peer that lies loses its own frames, or the link, which then starts anew.

#[cfg(fuzzing)]
pub mod by_fuzzer;
mod doorbell;
mod lobby;
mod master;
pub mod messages;
mod region;
mod ring;
mod rx;
mod slave;
mod slots;
mod socket;
#[cfg(all(test, not(loom)))]
mod tests;
mod tx;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::UnixAddr;
use stoa_engine::{Port, PortEvent, Queues};

use crate::config::{MemifConfig, MemifRole};
use crate::error::OpenError;
use crate::link;

use lobby::Seat;
use messages::{Message, SECRET};
use region::REGION_MAX;
use ring::Link;
use slave::Layout;
use socket::{Channel, Ended, address};

/// What we call ourselves to peers.
const NAME: &str = "stoa";
/// Rings in each direction.
const QUEUES_MAX: u16 = 16;
/// Regions that a slave may share.
const REGIONS_MAX: u16 = 256;
/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a slave waits before it tries again.
const RETRY: Duration = Duration::from_millis(500);
/// What a peer is told while the operator wants no link.
const DISABLED: &str = "the interface is disabled";
/// Messages that are heard in one turn: a whole handshake.
const MESSAGES: usize = 512;

/// The configuration, checked.
#[derive(Clone)]
struct Settings {
    id: u32,
    secret: [u8; SECRET],
    log2_size: u8,
    buffer_size: u32,
    rx_queues: u16,
    tx_queues: u16,
    trust_memory: bool,
    mtu: u32,
}

impl Settings {
    /// Bytes of the longest frame that is received or sent.
    fn longest(&self) -> usize {
        link::longest(self.mtu)
    }
}

/// What a handshake leads to.
struct Established {
    queues: Queues,
    link: Arc<Link>,
    detail: String,
}

/// How the port finds peers.
enum Role {
    Master(Seat),
    Slave(UnixAddr),
}

enum Handshake {
    Master(master::Handshake),
    Slave(slave::Handshake),
}

enum State {
    /// No peer; a slave tries again at that time.
    Alone(Instant),
    /// In talks that began at that time.
    Talking(Handshake, Instant),
    /// Frames flow.
    Up(Channel, Arc<Link>),
}

/// A memif port.
pub struct Memif {
    mac: [u8; 6],
    settings: Settings,
    role: Role,
    state: State,
    /// Whether the operator wants the link.
    enabled: bool,
    /// The detail as long as nobody came.
    alone: String,
    detail: String,
    /// Frames left out by links that ended.
    left_out: u64,
}

/// Opens the port. A master listens from now on.
///
/// # Errors
/// A senseless configuration, or a socket that cannot be listened on.
pub fn open(config: &MemifConfig) -> Result<Memif, OpenError> {
    let settings = settings(config)?;
    let refuse = |reason: &str| OpenError::Config { field: "socket", reason: reason.into() };
    if matches!(config.socket.as_str(), "" | "@") {
        return Err(refuse("give a path, or a name after @"));
    }
    let at = address(&config.socket).map_err(|_| refuse("give a path of at most 107 bytes"))?;
    let role = match config.role {
        MemifRole::Master => Role::Master(Seat::take(&config.socket, config.id)?),
        MemifRole::Slave => Role::Slave(at),
    };
    let alone = match config.role {
        MemifRole::Master => format!("waits for a slave on {}, id {}", config.socket, config.id),
        MemifRole::Slave => format!("looks for a master on {}, id {}", config.socket, config.id),
    };
    let state = State::Alone(Instant::now());
    let (mac, detail) = (link::mac(config.mac), alone.clone());
    Ok(Memif { mac, settings, role, state, enabled: true, alone, detail, left_out: 0 })
}

fn settings(config: &MemifConfig) -> Result<Settings, OpenError> {
    let refuse = |field, reason: String| Err(OpenError::Config { field, reason });
    let mut secret = [0; SECRET];
    let given = config.secret.as_deref().unwrap_or_default().as_bytes();
    match secret.get_mut(..given.len()) {
        Some(place) => place.copy_from_slice(given),
        None => return refuse("secret", format!("{} bytes: give at most {SECRET}", given.len())),
    }
    let ring_size = if config.ring_size == 0 { 1024 } else { config.ring_size };
    if !ring_size.is_power_of_two() || !(64..=16_384).contains(&ring_size) {
        return refuse("ring-size", format!("{ring_size}: give a power of two, 64 to 16384"));
    }
    let buffer_size = if config.buffer_size == 0 { 2048 } else { config.buffer_size };
    if !buffer_size.is_multiple_of(64) || !(256..=65_536).contains(&buffer_size) {
        return refuse(
            "buffer-size",
            format!("{buffer_size}: give a multiple of 64, 256 to 65536"),
        );
    }
    let rx_queues = link::queues("rx-queues", config.rx_queues, QUEUES_MAX)?;
    let tx_queues = link::queues("tx-queues", config.tx_queues, QUEUES_MAX)?;
    let log2_size = ring_size.trailing_zeros() as u8;
    if Layout::new(tx_queues, rx_queues, log2_size, buffer_size).total > REGION_MAX {
        let reason = "more than 4 GiB in all: give smaller buffers, smaller rings or fewer queues";
        return refuse("buffer-size", reason.into());
    }
    let mtu = link::mtu(config.mtu, link::MTU)?;
    let (id, trust_memory) = (config.id, config.trust_memory);
    Ok(Settings { id, secret, log2_size, buffer_size, rx_queues, tx_queues, trust_memory, mtu })
}

impl Handshake {
    fn channel(&self) -> &Channel {
        match self {
            Self::Master(handshake) => &handshake.channel,
            Self::Slave(handshake) => &handshake.channel,
        }
    }

    fn hear(
        &mut self,
        message: Message,
        file: Option<OwnedFd>,
    ) -> Result<Option<Established>, Ended> {
        match self {
            Self::Master(handshake) => handshake.hear(message, file),
            Self::Slave(handshake) => handshake.hear(message, file),
        }
    }

    fn into_channel(self) -> Channel {
        match self {
            Self::Master(handshake) => handshake.channel,
            Self::Slave(handshake) => handshake.channel,
        }
    }

    /// Hears what has come.
    fn step(&mut self, since: Instant) -> Result<Option<Established>, Ended> {
        for _ in 0..MESSAGES {
            let Some((message, file)) = self.channel().receive()? else { break };
            if let Some(established) = self.hear(message, file)? {
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
    /// A port that is in talks already.
    #[cfg(fuzzing)]
    fn talking(role: Role, settings: Settings, state: State) -> Self {
        let (mac, alone, detail) = (link::mac(None), String::new(), String::new());
        Self { mac, settings, role, state, enabled: true, alone, detail, left_out: 0 }
    }

    /// Begins talks with a peer, when there is one.
    fn find_peer(&mut self, again: Instant) -> Result<Option<Handshake>, Ended> {
        match &self.role {
            Role::Master(seat) => match seat.next() {
                Some(arrival) => {
                    Ok(Some(Handshake::Master(master::Handshake::begin(arrival, &self.settings)?)))
                }
                None => Ok(None),
            },
            Role::Slave(_) if Instant::now() < again => Ok(None),
            Role::Slave(at) => {
                let channel = Channel::connect(at)?;
                Ok(Some(Handshake::Slave(slave::Handshake::begin(channel, &self.settings))))
            }
        }
    }

    /// Looks after a link that is up.
    fn look_after(&self, channel: &Channel, link: &Link) -> Result<(), Ended> {
        if let Some(why) = link.broken.get() {
            return Err(Ended::refused(why));
        }
        if let Some((message, file)) = channel.receive()? {
            return Err(Ended::unexpected(&message, file.as_ref()));
        }
        Ok(())
    }

    /// Sends whoever comes away.
    fn turn_away(&self, why: &str) {
        if let Role::Master(seat) = &self.role
            && let Some(late) = seat.next()
        {
            late.channel.say_goodbye(why);
        }
    }

    /// Gives up the link, because the operator set the interface down.
    fn rest(&mut self, state: State) -> (State, Option<PortEvent>) {
        self.turn_away(DISABLED);
        let event = match state {
            State::Alone(again) => return (State::Alone(again), None),
            State::Talking(handshake, _) => {
                handshake.channel().say_goodbye(DISABLED);
                None
            }
            State::Up(channel, link) => {
                channel.say_goodbye(DISABLED);
                self.left_out += link.left_out.load(Ordering::Relaxed);
                Some(PortEvent::Down(DISABLED.into()))
            }
        };
        (State::Alone(Instant::now()), event)
    }

    /// Goes one step; returns the new state and, when the link changed, what to tell.
    fn step(&mut self, state: State) -> (State, Option<PortEvent>) {
        if !self.enabled {
            return self.rest(state);
        }
        if !matches!(state, State::Alone(_)) {
            // One peer for each id: whoever comes now comes too late.
            self.turn_away("the id is in use");
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
                    let Established { queues, link, detail } = established;
                    self.detail = detail;
                    let state = State::Up(handshake.into_channel(), link);
                    (state, Some(PortEvent::Up(queues)))
                }
                Err(ended) => {
                    self.part(handshake.channel(), &ended);
                    (later(), None)
                }
            },
            State::Up(channel, link) => match self.look_after(&channel, &link) {
                Ok(()) => (State::Up(channel, link), None),
                Err(ended) => {
                    self.part(&channel, &ended);
                    self.left_out += link.left_out.load(Ordering::Relaxed);
                    (later(), Some(PortEvent::Down(ended.to_string())))
                }
            },
        }
    }

    fn part(&mut self, channel: &Channel, ended: &Ended) {
        if let Ended::Refused(reason) = ended {
            channel.say_goodbye(reason);
        }
        self.detail = format!("{}; last: {ended}", self.alone);
    }
}

impl Port for Memif {
    fn driver(&self) -> &'static str {
        "memif"
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn mtu(&self) -> u32 {
        self.settings.mtu
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
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

    fn service(&mut self) -> Vec<PortEvent> {
        let state = std::mem::replace(&mut self.state, State::Alone(Instant::now()));
        let (state, event) = self.step(state);
        self.state = state;
        event.into_iter().collect()
    }

    fn set_enabled(&mut self, enabled: bool) {
        if std::mem::replace(&mut self.enabled, enabled) != enabled {
            self.detail = if enabled { self.alone.clone() } else { DISABLED.into() };
        }
    }

    fn missed(&self) -> u64 {
        let now = match &self.state {
            State::Up(_, link) => link.left_out.load(Ordering::Relaxed),
            _ => 0,
        };
        self.left_out + now
    }

    fn detail(&self) -> String {
        self.detail.clone()
    }
}

impl Drop for Memif {
    fn drop(&mut self) {
        if let State::Up(channel, _) = &self.state {
            channel.say_goodbye("the port was closed");
        }
    }
}
