//! One collector: its socket, its sequence numbers, and messages that wait for it. What finds no room is lost and
//! counted.
//!
//! Over UDP, templates are sent again at intervals; over TCP, each connection gets them once, before its first record
//! (RFC 7011 section 8). The sequence number of a message is written when it leaves: a new connection begins at 0.

use std::collections::VecDeque;
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use stoa_wire::ipfix::{Message, Template, set_sequence};

use super::settings::CollectorSettings;
use super::socket;

/// Bytes that wait for a connection, at most.
const QUEUE_BYTES: usize = 4 << 20;
/// Between attempts to connect.
const RETRY: Duration = Duration::from_secs(2);
/// Without an error, until one of UDP is over: the machine of a collector that is not there answers some messages only.
const RECOVERY: Duration = Duration::from_secs(10);
/// For a connection to be made.
const CONNECT: Duration = Duration::from_secs(5);

/// Records of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// All of them, which sequence numbers count.
    pub all: u32,
    /// Those of flows: events, refused packets and statistics are none.
    pub flows: u32,
}

/// What was sent and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sent, or given to a connection.
    pub messages: u64,
    /// Their records.
    pub records: u64,
    /// Those of flows.
    pub flows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that were lost.
    pub lost_messages: u64,
    /// Their records.
    pub lost_records: u64,
    /// Those of flows.
    pub lost_flows: u64,
    /// Connections that were made.
    pub connections: u64,
}

/// The way to a collector.
enum Link {
    /// There is none. When the last attempt was.
    None(Option<Instant>),
    Udp(UdpSocket),
    /// A connection that is being made.
    Connecting(TcpStream, Instant),
    Tcp(TcpStream),
}

/// A message that waits.
struct Waiting {
    bytes: Box<[u8]>,
    records: Records,
    /// Bytes that were written.
    written: usize,
}

/// A collector.
pub struct Collector {
    settings: CollectorSettings,
    link: Link,
    counts: Counts,
    error: String,
    /// When the last error was.
    failed: Option<Instant>,
    sequence: u32,
    queue: VecDeque<Waiting>,
    queued: usize,
    /// Whether it has all templates: what waits may need those of former settings.
    has_templates: bool,
}

impl Collector {
    /// One to which nothing was sent yet.
    pub fn new(settings: &CollectorSettings) -> Self {
        Self {
            settings: settings.clone(),
            link: Link::None(None),
            counts: Counts::default(),
            error: String::new(),
            failed: None,
            sequence: 0,
            queue: VecDeque::new(),
            queued: 0,
            has_templates: false,
        }
    }

    /// Its settings.
    pub fn settings(&self) -> &CollectorSettings {
        &self.settings
    }

    /// What was sent and lost.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The last error; "": there was none, or it is over.
    pub fn error(&self) -> &str {
        &self.error
    }

    /// Bytes that wait.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// The state of its connection, for operators.
    pub fn state(&self) -> &'static str {
        match &self.link {
            Link::None(None) => "starting",
            Link::None(Some(_)) => "failed",
            Link::Udp(_) => "sending",
            Link::Connecting(..) => "connecting",
            Link::Tcp(_) => "connected",
        }
    }

    /// Templates are to be sent again, if that is over UDP.
    pub fn renew_templates(&mut self) {
        if matches!(self.link, Link::Udp(_)) {
            self.has_templates = false;
        }
    }

    /// Connects, if that is due, notices whether the collector has gone, and sends what waits.
    pub fn service(&mut self, now: Instant) {
        match &self.link {
            Link::None(tried) => {
                if tried.is_none_or(|tried| now.duration_since(tried) >= RETRY) {
                    self.open(now);
                }
            }
            Link::Connecting(stream, since) => {
                let is_late = now.duration_since(*since) >= CONNECT;
                match socket::is_connected(stream) {
                    Ok(true) => self.connected(now),
                    Ok(false) if is_late => self.fail(&io::ErrorKind::TimedOut.into(), now),
                    Ok(false) => {}
                    Err(error) => self.fail(&error, now),
                }
            }
            Link::Tcp(stream) => match socket::is_closed(stream) {
                Ok(false) => self.pump(now),
                Ok(true) => {
                    self.fail(&io::Error::other("the collector has closed the connection"), now)
                }
                Err(error) => self.fail(&error, now),
            },
            Link::Udp(_) => {}
        }
    }

    fn open(&mut self, now: Instant) {
        let opened = match self.settings.is_tcp {
            true => socket::tcp(&self.settings).map(|it| Link::Connecting(it, now)),
            false => socket::udp(&self.settings).map(Link::Udp),
        };
        match opened {
            Ok(link) => (self.link, self.has_templates) = (link, false),
            Err(error) => self.fail(&error, now),
        }
    }

    fn connected(&mut self, now: Instant) {
        if let Link::Connecting(stream, _) = std::mem::replace(&mut self.link, Link::None(None)) {
            self.link = Link::Tcp(stream);
            (self.sequence, self.has_templates) = (0, false);
            self.counts.connections += 1;
            self.recover();
            self.pump(now);
        }
    }

    /// There is no connection any more. What waits stays; a message of which a part was sent is lost.
    #[cold]
    fn fail(&mut self, error: &io::Error, now: Instant) {
        self.note_error(error, now);
        self.link = Link::None(Some(now));
        if self.queue.front().is_some_and(|first| first.written > 0) {
            self.lose_first();
        }
        // Templates of the former connection; a new one begins with its own.
        let is_template = |it: &Waiting| it.records.all == 0;
        let templates = self.queue.iter().filter(|it| is_template(it)).map(|it| it.bytes.len());
        self.queued -= templates.sum::<usize>();
        self.queue.retain(|it| !is_template(it));
    }

    /// Keeps an error, and writes the first one to the log.
    fn note_error(&mut self, error: &io::Error, now: Instant) {
        let former = std::mem::replace(&mut self.error, error.to_string());
        self.failed = Some(now);
        if former.is_empty() {
            let (collector, address) = (&*self.settings.name, self.settings.to);
            tracing::warn!(collector, %address, %error, "IPFIX collector cannot be reached");
        }
    }

    /// The last error is over.
    fn recover(&mut self) {
        self.failed = None;
        if !std::mem::take(&mut self.error).is_empty() {
            let (collector, address) = (&*self.settings.name, self.settings.to);
            tracing::info!(collector, %address, "IPFIX collector is reached again");
        }
    }

    fn lose_first(&mut self) {
        if let Some(first) = self.queue.pop_front() {
            self.queued -= first.bytes.len();
            self.lose(first.records);
        }
    }

    fn lose(&mut self, records: Records) {
        self.counts.lost_messages += 1;
        self.counts.lost_records += u64::from(records.all);
        self.counts.lost_flows += u64::from(records.flows);
    }

    /// Sends a finished message with these records, or has it wait.
    pub fn send(&mut self, message: &mut [u8], records: Records, now: Instant) {
        match &self.link {
            Link::Udp(_) => {
                self.send_udp(message, records, now);
            }
            _ if !self.settings.is_tcp => self.lose(records),
            _ if self.queued + message.len() > QUEUE_BYTES => self.lose(records),
            _ => {
                self.queued += message.len();
                self.queue.push_back(Waiting { bytes: (&*message).into(), records, written: 0 });
                self.pump(now);
            }
        }
    }

    /// Sends all templates, if the collector has them not. A connection that has messages waiting gets them before
    /// those.
    pub fn send_templates(
        &mut self,
        all: &[Template],
        message: &mut Message,
        (time, domain, now): (u32, u32, Instant),
    ) {
        let (Link::Udp(_) | Link::Tcp(_)) = self.link else { return };
        if std::mem::replace(&mut self.has_templates, true) {
            return;
        }
        let mut finished = Vec::new();
        message.clear();
        for template in all {
            if !message.template(template) {
                finished.push(Box::<[u8]>::from(&*message.finish(time, 0, domain)));
                message.clear();
                message.template(template);
            }
        }
        finished.push(Box::from(&*message.finish(time, 0, domain)));
        message.clear();
        for mut bytes in finished.into_iter().rev() {
            if self.settings.is_tcp {
                self.queued += bytes.len();
                let place = usize::from(self.queue.front().is_some_and(|first| first.written > 0));
                let records = Records::default();
                self.queue.insert(place, Waiting { bytes, records, written: 0 });
            } else {
                self.has_templates &= self.send_udp(&mut bytes, Records::default(), now);
            }
        }
    }

    /// Whether the system has taken a message.
    fn send_udp(&mut self, message: &mut [u8], records: Records, now: Instant) -> bool {
        let Link::Udp(socket) = &self.link else { return false };
        set_sequence(message, self.sequence);
        // The first error may be about the message before: nobody listens there.
        let mut of_former = None;
        let sent = socket.send(message).or_else(|error| {
            of_former = Some(error).filter(|it| !socket::is_busy(it));
            socket.send(message)
        });
        if let Some(error) = &of_former {
            self.note_error(error, now);
        }
        if let Err(error) = sent {
            self.lose(records);
            if socket::is_lasting(&error) {
                // The source address may have gone: a new socket is tried later.
                self.link = Link::None(Some(now));
            }
            self.note_error(&error, now);
            return false;
        }
        self.count(message.len(), records);
        if self.failed.is_some_and(|at| now.duration_since(at) >= RECOVERY) {
            self.recover();
        }
        true
    }

    fn count(&mut self, bytes: usize, records: Records) {
        self.sequence = self.sequence.wrapping_add(records.all);
        self.counts.messages += 1;
        self.counts.records += u64::from(records.all);
        self.counts.flows += u64::from(records.flows);
        self.counts.bytes += bytes as u64;
    }

    /// Writes what waits, as far as there is room.
    fn pump(&mut self, now: Instant) {
        // The templates of a new connection come first.
        if !self.has_templates {
            return;
        }
        while let (Link::Tcp(stream), Some(first)) = (&self.link, self.queue.front_mut()) {
            if first.written == 0 {
                set_sequence(&mut first.bytes, self.sequence);
            }
            let (length, records) = (first.bytes.len(), first.records);
            match socket::write(stream, first.bytes.get(first.written..).unwrap_or_default()) {
                Ok(0) => return,
                Ok(written) => first.written += written,
                Err(error) => return self.fail(&error, now),
            }
            if first.written >= length {
                self.queue.pop_front();
                self.queued -= length;
                self.count(length, records);
            }
        }
    }

    /// Whether nothing waits.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests;
