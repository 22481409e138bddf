//! One connection of a daemon: its socket, the session on it, and the routes that came.

use std::future::pending;
use std::io::ErrorKind;
use std::pin::pin;
use std::time::{Duration, Instant};

use stoa_bgp::{SessionError, Family, LocalConfig, Rib, Session};
use tokio::net::TcpStream;
use tokio::time::sleep_until;

use super::reporter::Reporter;
use crate::learned::Event;

/// Bytes of one read.
const READ_SIZE: usize = 1 << 20;
/// Bytes of it that are looked at before what they say is told: some thousand routes, and any message fits.
const CHUNK_SIZE: usize = 1 << 16;
/// So long nothing comes when a daemon that has less than before has said all.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// Why a connection is over, and whose routes outlive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disconnect {
    pub reason: String,
    /// IPv4 routes stay for a while.
    pub retains4: bool,
    /// So do IPv6 routes.
    pub retains6: bool,
}

impl Disconnect {
    /// Without a word of the daemon, as when it is killed: whether it said something of graceful restart or not, packets go on.
    pub fn connection_lost(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), retains4: true, retains6: true }
    }

    /// By a notification of either side.
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
    /// Bytes that were read; before `consumed` they are done with.
    buffer: Vec<u8>,
    consumed: usize,
    /// What has to be sent.
    output: Vec<u8>,
    /// Whether its routes are being told.
    is_up: bool,
    is_complete: bool,
    /// When it counts as having said all, if nothing comes until then.
    settle_deadline: Option<Instant>,
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
            is_complete: false,
            settle_deadline: None,
        };
        connection.send();
        connection
    }

    /// Whether its routes are being told.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Whether the daemon has said an OPEN that we can agree to.
    pub fn is_negotiated(&self) -> bool {
        self.session.negotiated().is_some()
    }

    /// The next thing that happens on a connection; without one, never.
    pub async fn next_event(connection: &mut Option<Self>) -> Result<(), Disconnect> {
        match connection {
            Some(connection) => connection.next().await,
            None => pending().await,
        }
    }

    /// Waits until something came and reads it, or until something has to be sent. It may be dropped while it waits.
    ///
    /// # Errors
    /// When the connection is over, and why.
    async fn next(&mut self) -> Result<(), Disconnect> {
        let deadline = self.session.deadline();
        // What came counts before the time that has passed.
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
            () = until(self.settle_deadline) => Ok(()),
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

    /// Looks at one piece of what was read, and gives whether there was a whole message in it.
    ///
    /// # Errors
    /// When the session is over, and why.
    pub fn process_chunk(&mut self) -> Result<bool, Disconnect> {
        let chunk = &self.buffer[self.consumed..];
        let chunk = &chunk[..chunk.len().min(CHUNK_SIZE)];
        let read = self.session.receive(chunk, Instant::now(), &mut self.rib);
        self.send();
        let read = read.map_err(|ended| Disconnect::session_ended(&self.session, &ended))?;
        self.consumed += read;
        Ok(read > 0)
    }

    /// Looks at all that was read, piece by piece, and tells it.
    ///
    /// # Errors
    /// When the session is over, and why.
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
        let runs = self.rib.drain();
        if !runs.is_empty() {
            self.settle_deadline = None;
        }
        events.extend(reporter.events(runs));
        reporter.count(*self.session.counts(), self.rib.counts());
        if !self.is_complete && self.rib.is_complete() && self.has_converged(reporter) {
            self.is_complete = true;
            self.settle_deadline = None;
            reporter.complete(self.rib.prefixes());
            events.push(Event::Complete);
        }
        events
    }

    /// Whether the end that the daemon told is one. A daemon that was started anew tells it before its own neighbours have said anything, unless both
    /// sides restart gracefully: what it had before must not go for that.
    fn has_converged(&mut self, reporter: &Reporter) -> bool {
        let (now, previous_prefixes) = (self.rib.prefixes(), reporter.previous_prefixes());
        if now >= previous_prefixes {
            return true;
        }
        if now < previous_prefixes - previous_prefixes / 10 {
            self.settle_deadline = None;
            return false;
        }
        let settle_deadline = *self.settle_deadline.get_or_insert_with(|| Instant::now() + SETTLE_TIME);
        Instant::now() >= settle_deadline
    }

    /// How many prefixes it has said, if that was all.
    pub fn complete_prefixes(&self) -> Option<usize> {
        self.is_complete.then(|| self.rib.prefixes())
    }

    /// The table is busy: meanwhile the daemon hears that we live.
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

    /// Ends it with a Cease of that subcode (RFC 4486).
    pub fn cease(&mut self, subcode: u8) {
        self.session.cease(subcode);
        self.send();
    }

    /// Sends as much as there is room for; the rest waits. What cannot be sent at all is seen when it is read next.
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
    Disconnect::connection_lost(format!("the connection broke: {error}"))
}
