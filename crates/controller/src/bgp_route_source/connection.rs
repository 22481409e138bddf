//! One connection of a daemon: its socket, session and RIB.

use std::future::pending;
use std::io::ErrorKind;
use std::pin::pin;
use std::time::Instant;

use stoa_bgp::{Family, LocalConfig, Rib, Session, SessionError};
use tokio::net::TcpStream;
use tokio::time::sleep_until;

use super::reporter::Reporter;
use crate::learned::Event;

/// Size of one read.
const READ_SIZE: usize = 1 << 20;
/// Bytes processed before the resulting routes are sent: some thousand routes, and at least one message.
const CHUNK_SIZE: usize = 1 << 16;

/// Why a connection ended, and which routes are retained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disconnect {
    pub reason: String,
    /// Whether IPv4 routes are retained.
    pub retains4: bool,
    /// Whether IPv6 routes are retained.
    pub retains6: bool,
}

impl Disconnect {
    /// Without a NOTIFICATION, as when the daemon is killed: routes are retained with or without graceful
    /// restart.
    pub fn connection_lost(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), retains4: true, retains6: true }
    }

    /// By a NOTIFICATION of either end.
    fn session_ended(session: &Session, ended: &SessionError) -> Self {
        let keeps = |family| session.retains_routes(ended, family);
        let (retains4, retains6) = (keeps(Family::Ip4), keeps(Family::Ip6));
        Self { reason: ended.to_string(), retains4, retains6 }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    session: Session,
    rib: Rib,
    /// Received bytes; those before `consumed` are processed.
    buffer: Vec<u8>,
    consumed: usize,
    /// Bytes to send.
    output: Vec<u8>,
    /// Whether the session is established and its routes are sent to the table.
    is_up: bool,
    /// Families whose End-of-RIB the table knows.
    ended: Vec<Family>,
}

impl Connection {
    pub fn new(stream: TcpStream, local: LocalConfig, rib: Rib) -> Self {
        let mut connection = Self {
            stream,
            session: Session::new(local, Instant::now()),
            rib,
            buffer: Vec::new(),
            consumed: 0,
            output: Vec::new(),
            is_up: false,
            ended: Vec::new(),
        };
        connection.send();
        connection
    }

    /// Its socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether the session is established and its routes are sent to the table.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Whether both OPEN messages were accepted.
    pub fn is_negotiated(&self) -> bool {
        self.session.negotiated().is_some()
    }

    /// Waits for the next event of a connection; forever if there is none.
    pub async fn next_event(connection: &mut Option<Self>) -> Result<(), Disconnect> {
        match connection {
            Some(connection) => connection.next().await,
            None => pending().await,
        }
    }

    /// Waits for data, for space to send, or for a timer. Cancel-safe.
    ///
    /// # Errors
    /// The reason when the connection has ended.
    async fn next(&mut self) -> Result<(), Disconnect> {
        let deadline = self.session.deadline();
        // Received data counts before the elapsed time.
        tokio::select! {
            biased;
            ready = self.stream.readable() => {
                ready.map_err(|error| connection_error(&error))?;
                self.read()
            }
            ready = self.stream.writable(), if !self.output.is_empty() => {
                ready.map_err(|error| connection_error(&error))?;
                self.send();
                Ok(())
            }
            () = until(deadline) => {
                let ticked = self.session.tick(Instant::now());
                self.send();
                ticked.map_err(|ended| Disconnect::session_ended(&self.session, &ended))
            }
        }
    }

    fn read(&mut self) -> Result<(), Disconnect> {
        self.buffer.drain(..self.consumed);
        self.consumed = 0;
        self.buffer.reserve(READ_SIZE);
        match self.stream.try_read_buf(&mut self.buffer) {
            Ok(0) => Err(Disconnect::connection_lost("the daemon has closed the connection")),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(connection_error(&error)),
        }
    }

    /// Processes one chunk; returns whether it contained a complete message.
    ///
    /// # Errors
    /// The reason when the session has ended.
    pub fn process_chunk(&mut self) -> Result<bool, Disconnect> {
        let chunk = &self.buffer[self.consumed..];
        let chunk = &chunk[..chunk.len().min(CHUNK_SIZE)];
        let read = self.session.receive(chunk, Instant::now(), &mut self.rib);
        self.send();
        let read = read.map_err(|ended| Disconnect::session_ended(&self.session, &ended))?;
        self.consumed += read;
        Ok(read > 0)
    }

    /// Processes all received data chunk by chunk, and sends the routes to the table.
    ///
    /// # Errors
    /// The reason when the session has ended.
    pub async fn process(&mut self, reporter: &mut Reporter) -> Result<(), Disconnect> {
        loop {
            let process_chunk = self.process_chunk();
            let events = self.events(reporter);
            if !events.is_empty() {
                self.keep_alive(reporter.send(events)).await;
            }
            if !process_chunk? {
                return Ok(());
            }
        }
    }

    fn events(&mut self, reporter: &mut Reporter) -> Vec<Event> {
        let mut events = Vec::new();
        if !self.is_up && self.session.is_established() {
            self.is_up = true;
            events.push(Event::Up);
            if let Some(negotiated) = self.session.negotiated() {
                events.extend(reporter.up(negotiated));
            }
        }
        if !self.is_up {
            return events;
        }
        events.extend(reporter.events(self.rib.drain()));
        reporter.count(*self.session.counts(), self.rib.counts());
        let mut is_new = |family| {
            let is_new = self.rib.has_ended(family) && !self.ended.contains(&family);
            self.ended.extend(is_new.then_some(family));
            is_new
        };
        let (ip4, ip6) = (is_new(Family::Ip4), is_new(Family::Ip6));
        if ip4 || ip6 {
            events.push(Event::EndOfRib { ip4, ip6 });
        }
        events
    }

    /// Sends keepalives while the table is busy.
    async fn keep_alive(&mut self, sending: impl Future<Output = ()>) {
        let mut sending = pin!(sending);
        loop {
            tokio::select! {
                () = &mut sending => return,
                () = until(self.session.keepalive_due()) => {
                    self.session.send_due_keepalive(Instant::now());
                    self.send();
                }
            }
        }
    }

    /// Ends the session with a Cease of that subcode (RFC 4486).
    pub fn cease(&mut self, subcode: u8) {
        self.session.cease(subcode);
        self.send();
    }

    /// Sends as much as the socket accepts; the rest waits. The next read reports errors.
    fn send(&mut self) {
        self.output.append(&mut self.session.take_output());
        if let Ok(sent) = self.stream.try_write(&self.output) {
            self.output.drain(..sent);
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => pending().await,
    }
}

fn connection_error(error: &std::io::Error) -> Disconnect {
    Disconnect::connection_lost(format!("connection error: {error}"))
}
