//! One connection of a daemon: its socket, the session on it, and the routes that came.

use std::future::pending;
use std::io::ErrorKind;
use std::pin::pin;
use std::time::{Duration, Instant};

use stoa_bgp::{Ended, Family, Local, Rib, Session};
use tokio::net::TcpStream;
use tokio::time::sleep_until;

use super::told::Told;
use crate::learned::Event;

/// Bytes of one read.
const READ: usize = 1 << 20;
/// Bytes of it that are looked at before what they say is told: some thousand routes, and any message fits.
const PIECE: usize = 1 << 16;
/// So long nothing comes when a daemon that has less than before has said all.
const QUIET: Duration = Duration::from_secs(2);

/// Why a connection is over, and whose routes outlive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Over {
    pub reason: String,
    /// IPv4 routes stay for a while.
    pub keeps4: bool,
    /// So do IPv6 routes.
    pub keeps6: bool,
}

impl Over {
    /// Without a word of the daemon, as when it is killed: whether it said something of graceful restart or not, packets go on.
    pub fn without_a_word(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), keeps4: true, keeps6: true }
    }

    /// By a notification of either side.
    fn said(session: &Session, ended: &Ended) -> Self {
        let keeps = |family| session.outlives(ended, family);
        let (keeps4, keeps6) = (keeps(Family::Ip4), keeps(Family::Ip6));
        Self { reason: ended.to_string(), keeps4, keeps6 }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    session: Session,
    rib: Rib,
    /// Bytes that were read; before `at` they are done with.
    buffer: Vec<u8>,
    at: usize,
    /// What has to be sent.
    output: Vec<u8>,
    /// Whether its routes are being told.
    is_up: bool,
    is_complete: bool,
    /// When it counts as having said all, if nothing comes until then.
    quiet: Option<Instant>,
}

impl Connection {
    pub fn new(stream: TcpStream, local: Local, rib: Rib) -> Self {
        let mut connection = Self {
            stream,
            session: Session::new(local, Instant::now()),
            rib,
            buffer: Vec::new(),
            at: 0,
            output: Vec::new(),
            is_up: false,
            is_complete: false,
            quiet: None,
        };
        connection.send();
        connection
    }

    /// Whether its routes are being told.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Whether the daemon has said an OPEN that we can agree to.
    pub fn is_agreed(&self) -> bool {
        self.session.terms().is_some()
    }

    /// The next thing that happens on a connection; without one, never.
    pub async fn next_of(connection: &mut Option<Self>) -> Result<(), Over> {
        match connection {
            Some(connection) => connection.next().await,
            None => pending().await,
        }
    }

    /// Waits until something came and reads it, or until something has to be sent. It may be dropped while it waits.
    ///
    /// # Errors
    /// When the connection is over, and why.
    async fn next(&mut self) -> Result<(), Over> {
        let deadline = self.session.deadline();
        // What came counts before the time that has passed.
        tokio::select! {
            biased;
            ready = self.stream.readable() => {
                ready.map_err(|error| broke(&error))?;
                self.read()
            }
            ready = self.stream.writable(), if !self.output.is_empty() => {
                ready.map_err(|error| broke(&error))?;
                self.send();
                Ok(())
            }
            () = until(self.quiet) => Ok(()),
            () = until(deadline) => {
                let ticked = self.session.tick(Instant::now());
                self.send();
                ticked.map_err(|ended| Over::said(&self.session, &ended))
            }
        }
    }

    fn read(&mut self) -> Result<(), Over> {
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.reserve(READ);
        match self.stream.try_read_buf(&mut self.buffer) {
            Ok(0) => Err(Over::without_a_word("the daemon has closed the connection")),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(broke(&error)),
        }
    }

    /// Looks at one piece of what was read, and gives whether there was a whole message in it.
    ///
    /// # Errors
    /// When the session is over, and why.
    pub fn step(&mut self) -> Result<bool, Over> {
        let piece = &self.buffer[self.at..];
        let piece = &piece[..piece.len().min(PIECE)];
        let read = self.session.receive(piece, Instant::now(), &mut self.rib);
        self.send();
        let read = read.map_err(|ended| Over::said(&self.session, &ended))?;
        self.at += read;
        Ok(read > 0)
    }

    /// Looks at all that was read, piece by piece, and tells it.
    ///
    /// # Errors
    /// When the session is over, and why.
    pub async fn tell(&mut self, told: &mut Told) -> Result<(), Over> {
        loop {
            let step = self.step();
            let events = self.events(told);
            if !events.is_empty() {
                self.keep_alive(told.tell(events)).await;
            }
            if !step? {
                return Ok(());
            }
        }
    }

    fn events(&mut self, told: &mut Told) -> Vec<Event> {
        let mut events = Vec::new();
        if !self.is_up && self.session.is_established() {
            self.is_up = true;
            events.push(Event::Up);
            if let Some(terms) = self.session.terms() {
                events.extend(told.up(terms));
            }
        }
        if !self.is_up {
            return events;
        }
        let runs = self.rib.drain();
        if !runs.is_empty() {
            self.quiet = None;
        }
        events.extend(told.events(runs));
        told.count(*self.session.counts(), self.rib.counts());
        if !self.is_complete && self.rib.is_complete() && self.has_said_all(told) {
            self.is_complete = true;
            self.quiet = None;
            told.complete(self.rib.prefixes());
            events.push(Event::Complete);
        }
        events
    }

    /// Whether the end that the daemon told is one. A daemon that was started anew tells it before its own neighbours have said anything, unless both
    /// sides restart gracefully: what it had before must not go for that.
    fn has_said_all(&mut self, told: &Told) -> bool {
        let (now, before) = (self.rib.prefixes(), told.before());
        if now >= before {
            return true;
        }
        if now < before - before / 10 {
            self.quiet = None;
            return false;
        }
        let quiet = *self.quiet.get_or_insert_with(|| Instant::now() + QUIET);
        Instant::now() >= quiet
    }

    /// How many prefixes it has said, if that was all.
    pub fn said(&self) -> Option<usize> {
        self.is_complete.then(|| self.rib.prefixes())
    }

    /// The table is busy: meanwhile the daemon hears that we live.
    async fn keep_alive(&mut self, telling: impl Future<Output = ()>) {
        let mut telling = pin!(telling);
        loop {
            tokio::select! {
                () = &mut telling => return,
                () = until(self.session.keepalive_at()) => {
                    self.session.say_alive(Instant::now());
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

fn broke(error: &std::io::Error) -> Over {
    Over::without_a_word(format!("the connection broke: {error}"))
}
