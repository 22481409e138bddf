//! Syslog destinations: a thread for each, that sends what it is given and is never waited for.
//!
//! A destination that is away loses nothing as long as what waits for it has room; then the newest is lost and counted.

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use stoa_api::v1;
use stoa_api::v1::syslog::Destination;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::record::Record;
use crate::rfc5424::{self, Sender};

/// Messages that wait for a destination.
const WAITING: usize = 1_024;
/// How long a stream may take what is written to it, and how long connecting may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// A destination that does not take messages is tried again after this.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a thread that pauses looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// All destinations of this process.
pub(crate) struct Syslog {
    sender: Sender,
    to: RwLock<Vec<Line>>,
}

/// One destination and the way to its thread.
struct Line {
    wanted: v1::Syslog,
    level: Level,
    messages: SyncSender<String>,
    /// Messages that found no room.
    lost: Arc<AtomicU64>,
}

/// The layer that gives events to the destinations.
pub(crate) struct Told(pub(crate) Arc<Syslog>);

impl<S: Subscriber> Layer<S> for Told {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.tell(event);
    }
}

impl Syslog {
    /// No destination yet, for messages of `program`.
    pub(crate) fn new(program: &str) -> Syslog {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let sender = Sender { host, program: program.to_owned(), pid: std::process::id() };
        Syslog { sender, to: RwLock::default() }
    }

    /// Sends to these destinations from now on. Those that stay keep their connection.
    pub(crate) fn follow(&self, wanted: &[v1::Syslog]) {
        let mut to = self.to.write().unwrap_or_else(PoisonError::into_inner);
        to.retain(|line| wanted.contains(&line.wanted));
        for one in wanted {
            if to.iter().all(|line| line.wanted != *one)
                && let Some(line) = Line::open(one)
            {
                to.push(line);
            }
        }
    }

    fn tell(&self, event: &Event<'_>) {
        let to = self.to.read().unwrap_or_else(PoisonError::into_inner);
        let level = *event.metadata().level();
        if to.iter().all(|line| level > line.level) {
            return;
        }
        let (record, now) = (Record::of(event), SystemTime::now());
        for line in to.iter().filter(|line| level <= line.level) {
            let facility = u8::try_from(line.wanted.facility).unwrap_or(3).min(23);
            let priority = facility * 8 + rfc5424::severity(level);
            let target = event.metadata().target();
            line.send(rfc5424::message(&self.sender, priority, now, target, &record));
        }
    }
}

impl Line {
    /// `None`: it names no place, or there is no thread for it.
    fn open(wanted: &v1::Syslog) -> Option<Line> {
        let place = Place::of(wanted.destination.as_ref()?)?;
        let (messages, waiting) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let missed = Arc::clone(&lost);
        let thread = std::thread::Builder::new().name("syslog".to_owned());
        thread.spawn(move || serve(&place, &waiting, &missed)).ok()?;
        let level = wanted.level.parse().unwrap_or(Level::INFO);
        Some(Line { wanted: wanted.clone(), level, messages, lost })
    }

    fn send(&self, message: String) {
        let missed = self.lost.swap(0, Ordering::Relaxed);
        let whole = match missed {
            0 => message,
            // At its end, so that its header stays what it is.
            missed => format!("{message} ({missed} messages before it were lost)"),
        };
        if let Err(TrySendError::Full(_)) = self.messages.try_send(whole) {
            self.lost.fetch_add(missed + 1, Ordering::Relaxed);
        }
    }
}

/// Where messages go.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    Unix(PathBuf),
    Udp(SocketAddr),
    Tcp(SocketAddr),
}

impl Place {
    fn of(destination: &Destination) -> Option<Place> {
        match destination {
            Destination::Unix(path) => Some(Place::Unix(PathBuf::from(path))),
            Destination::Udp(address) => address.parse().ok().map(Place::Udp),
            Destination::Tcp(address) => address.parse().ok().map(Place::Tcp),
        }
    }

    fn open(&self) -> std::io::Result<Open> {
        match self {
            Place::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_write_timeout(Some(PATIENCE))?;
                Ok(Open::Unix(socket))
            }
            Place::Udp(to) => {
                let any: &str = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any)?;
                socket.connect(to)?;
                Ok(Open::Udp(socket))
            }
            Place::Tcp(to) => {
                let stream = TcpStream::connect_timeout(to, PATIENCE)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(Open::Tcp(stream))
            }
        }
    }
}

/// A way that is open.
enum Open {
    Unix(UnixDatagram),
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Open {
    fn send(&mut self, message: &str) -> std::io::Result<()> {
        match self {
            Open::Unix(socket) => socket.send(message.as_bytes()).map(drop),
            Open::Udp(socket) => socket.send(message.as_bytes()).map(drop),
            // Octet counting: RFC 6587, section 3.4.1.
            Open::Tcp(stream) => {
                if is_closed(stream) {
                    return Err(std::io::ErrorKind::BrokenPipe.into());
                }
                write!(stream, "{} {message}", message.len())
            }
        }
    }
}

/// Whether the other side has gone: a first write to it would succeed, and what was written be lost.
fn is_closed(stream: &TcpStream) -> bool {
    // Receivers say nothing; what they say all the same is thrown away.
    let mut said = [0; 512];
    match recv(stream.as_raw_fd(), &mut said, MsgFlags::MSG_DONTWAIT) {
        Ok(length) => length == 0,
        Err(error) => error != Errno::EAGAIN && error != Errno::EINTR,
    }
}

/// Sends what comes, in its order, until the log lets go of the destination.
fn serve(place: &Place, messages: &Receiver<String>, lost: &Arc<AtomicU64>) {
    let mut open: Option<Open> = None;
    let mut tried: Option<Instant> = None;
    for message in messages {
        while open.as_mut().is_none_or(|way| way.send(&message).is_err()) {
            drop(open.take());
            while tried.is_some_and(|at| at.elapsed() < PAUSE) {
                // The log has its half of this as long as it wants the destination.
                if Arc::strong_count(lost) == 1 {
                    return;
                }
                std::thread::sleep(LOOK);
            }
            tried = Some(Instant::now());
            open = place.open().ok();
        }
    }
}

#[cfg(test)]
mod tests;
