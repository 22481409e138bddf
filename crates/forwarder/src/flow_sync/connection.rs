//! A connection to the partner: the handshake, frames in both directions, a bounded queue, and when it is over. It
//! never waits.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use stoa_seal::{HELLO, Handshake, Opener, Protocol, Refusal, Sealer, frame_length};

use super::message::{self, Item, Malformed};
use crate::ipfix::socket;

/// What both ends speak.
const PROTOCOL: Protocol = Protocol { name: *b"stoasync", version: 4 };
/// Bytes that wait for the partner. While there are more, the walk over the tables does not go on.
pub const QUEUE: usize = 1 << 20;
/// Bytes that are read at a time, and how often in one call: a partner that sends without end waits for the rest of
/// what its thread does.
pub(super) const READ: usize = 64 << 10;
pub(super) const READS: usize = 16;
/// How long an end may take for its hello.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long an end may send nothing, or take nothing.
const SILENCE: Duration = Duration::from_secs(10);
/// How often an end says that it is there.
const ALIVE: Duration = Duration::from_secs(1);

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub enum End {
    /// The system says so.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The partner has closed it.
    #[error("the partner has closed the connection")]
    Closed,
    /// The partner has closed it before it has proven that it knows the secret.
    #[error("the partner has refused the connection: compare the secrets of both")]
    Refuses,
    /// The partner has another secret or version.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The partner sends what is none of the protocol.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// It has sent nothing for too long.
    #[error("the partner sends nothing")]
    Silent,
    /// It has taken nothing for too long.
    #[error("the partner takes nothing")]
    Stuck,
}

/// How far it is.
enum Phase {
    /// The system connects it.
    Connecting,
    /// The hello of the other end has not come.
    Hello(Handshake),
    /// Both ends have the keys.
    Open { sealer: Sealer, opener: Opener, is_proven: bool },
}

/// A connection.
pub struct Connection {
    stream: TcpStream,
    phase: Phase,
    /// Whether this end has begun it.
    connects: bool,
    secret: String,
    incoming: Vec<u8>,
    /// Sealed frames, of which the first bytes are sent.
    outgoing: Vec<u8>,
    sent: usize,
    begun: Instant,
    received: Instant,
    progress: Instant,
    alive: Instant,
}

impl Connection {
    /// Of a socket that this end has begun, or accepted.
    pub fn new(stream: TcpStream, connects: bool, secret: &str, now: Instant) -> Self {
        Self {
            stream,
            phase: Phase::Connecting,
            connects,
            secret: secret.to_owned(),
            incoming: Vec::new(),
            outgoing: Vec::new(),
            sent: 0,
            begun: now,
            received: now,
            progress: now,
            alive: now,
        }
    }

    /// Whether the other end has proven that it knows the secret.
    pub fn is_proven(&self) -> bool {
        matches!(self.phase, Phase::Open { is_proven: true, .. })
    }

    /// Whether the queue has room.
    pub fn has_room(&self) -> bool {
        self.queued() < QUEUE
    }

    /// Bytes that wait.
    pub fn queued(&self) -> usize {
        self.outgoing.len() - self.sent
    }

    /// Puts items into the queue as one frame, whether that has room or not. Nothing happens before both ends have
    /// keys.
    ///
    /// # Errors
    /// A frame cannot be sealed.
    pub fn send(&mut self, items: &[u8]) -> Result<(), End> {
        let Phase::Open { sealer, .. } = &mut self.phase else { return Ok(()) };
        if self.sent == self.outgoing.len() {
            // There was nothing that the partner could have taken.
            self.progress = Instant::now();
        }
        Ok(sealer.seal(items, &mut self.outgoing)?)
    }

    /// Connects, says hello, and sends what waits. `can_take`: whether this end takes items now. Calls `each` for each
    /// item that has come.
    ///
    /// # Errors
    /// The connection is over.
    pub fn service(
        &mut self,
        (now, tick): (Instant, u32),
        mut can_take: impl FnMut() -> bool,
        mut each: impl FnMut(Item),
    ) -> Result<(), End> {
        self.greet()?;
        if matches!(self.phase, Phase::Connecting) {
            return if now - self.begun > HANDSHAKE { Err(End::Silent) } else { Ok(()) };
        }
        for _ in 0..READS {
            self.open_frames((now, tick), &mut can_take, &mut each)?;
            if !can_take() {
                // The partner is not silent: nobody listens.
                self.received = now;
                break;
            }
            if !self.read(now)? {
                break;
            }
        }
        if !self.is_proven() && now - self.begun > HANDSHAKE || now - self.received > SILENCE {
            return Err(End::Silent);
        }
        if matches!(self.phase, Phase::Open { .. }) && now - self.alive >= ALIVE {
            self.alive = now;
            self.send_alive()?;
        }
        self.write(now)
    }

    fn send_alive(&mut self) -> Result<(), End> {
        let mut items = Vec::new();
        message::put_alive(&mut items);
        self.send(&items)
    }

    /// Says hello once the system has connected it.
    fn greet(&mut self) -> Result<(), End> {
        if matches!(self.phase, Phase::Connecting) && socket::is_connected(&self.stream)? {
            self.stream.set_nodelay(true)?;
            let handshake = Handshake::new(PROTOCOL);
            let handshake = handshake.ok_or_else(|| io::Error::other("no random numbers"))?;
            self.outgoing.extend_from_slice(handshake.hello());
            self.phase = Phase::Hello(handshake);
        }
        Ok(())
    }

    /// Reads what has come, at most [`READ`] bytes; whether there was something.
    fn read(&mut self, now: Instant) -> Result<bool, End> {
        let before = self.incoming.len();
        self.incoming.resize(before + READ, 0);
        let room = self.incoming.get_mut(before..).unwrap_or_default();
        let read = (&self.stream).read(room);
        self.incoming.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(self.closed()),
            Ok(_) => {
                self.received = now;
                Ok(true)
            }
            Err(error) if socket::is_busy(&error) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(self.closed()),
            Err(error) => Err(error.into()),
        }
    }

    /// The other end has closed it.
    fn closed(&self) -> End {
        match self.phase {
            Phase::Open { is_proven: false, .. } => End::Refuses,
            _ => End::Closed,
        }
    }

    /// Reads the hello and the whole frames that have come.
    fn open_frames(
        &mut self,
        (now, tick): (Instant, u32),
        can_take: &mut impl FnMut() -> bool,
        each: &mut impl FnMut(Item),
    ) -> Result<(), End> {
        let mut taken = 0;
        if matches!(self.phase, Phase::Hello(_))
            && let Some(hello) = self.incoming.first_chunk::<HELLO>()
        {
            taken = HELLO;
            if let Phase::Hello(handshake) = std::mem::replace(&mut self.phase, Phase::Connecting) {
                let (sealer, opener) = handshake.finish(hello, &self.secret, self.connects)?;
                self.phase = Phase::Open { sealer, opener, is_proven: false };
            }
            // The first frame proves that this end knows the secret.
            self.send_alive()?;
            self.alive = now;
        }
        if let Phase::Open { opener, is_proven, .. } = &mut self.phase {
            while can_take() {
                let rest = self.incoming.get_mut(taken..).unwrap_or_default();
                let Some(length) = frame_length(rest)? else { break };
                let Some(frame) = rest.get_mut(..length) else { break };
                let items = opener.open(frame)?;
                *is_proven = true;
                message::read(items, tick, &mut *each)?;
                taken += length;
            }
        }
        self.incoming.drain(..taken);
        Ok(())
    }

    /// Sends as much as the partner takes.
    fn write(&mut self, now: Instant) -> Result<(), End> {
        while let Some(rest) = self.outgoing.get(self.sent..).filter(|rest| !rest.is_empty()) {
            let count = socket::write(&self.stream, rest)?;
            if count == 0 {
                break;
            }
            self.sent += count;
            self.progress = now;
        }
        if self.sent == self.outgoing.len() {
            (self.sent, self.progress) = (0, now);
            self.outgoing.clear();
            self.outgoing.shrink_to(QUEUE);
        } else if self.sent >= QUEUE {
            self.outgoing.drain(..self.sent);
            self.sent = 0;
        }
        if now.saturating_duration_since(self.progress) > SILENCE {
            Err(End::Stuck)
        } else {
            Ok(())
        }
    }
}
