//! Syslog destinations. Each has a queue and a thread that sends, so that logging never blocks.
//!
//! Messages to an unreachable destination wait in its queue. When the queue is full, new messages are dropped and
//! counted.

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

/// Length of the queue of a destination, in messages.
const QUEUE_LENGTH: usize = 1_024;
/// Limit for a write, and for the connection to be established.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between attempts to connect.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which a waiting thread checks whether its destination was removed.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// All destinations of this process.
pub(crate) struct Syslog {
    sender: Sender,
    destinations: RwLock<Vec<DestinationQueue>>,
}

/// A destination and the queue of its thread.
struct DestinationQueue {
    configured: v1::Syslog,
    level: Level,
    messages: SyncSender<String>,
    /// Messages dropped since the last one that was queued.
    lost: Arc<AtomicU64>,
}

/// The layer that sends events to the destinations.
pub(crate) struct SyslogLayer(pub(crate) Arc<Syslog>);

impl<S: Subscriber> Layer<S> for SyslogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.send(event);
    }
}

impl Syslog {
    /// Without destinations, for messages of `program`.
    pub(crate) fn new(program: &str) -> Syslog {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let sender = Sender { host, program: program.to_owned(), pid: std::process::id() };
        Syslog { sender, destinations: RwLock::default() }
    }

    /// Sends to these destinations from now on. Unchanged ones keep their connection.
    pub(crate) fn follow(&self, desired: &[v1::Syslog]) {
        let mut destinations = self.destinations.write().unwrap_or_else(PoisonError::into_inner);
        destinations.retain(|queue| desired.contains(&queue.configured));
        for one in desired {
            if destinations.iter().all(|queue| queue.configured != *one)
                && let Some(queue) = DestinationQueue::open(one)
            {
                destinations.push(queue);
            }
        }
    }

    fn send(&self, event: &Event<'_>) {
        let destinations = self.destinations.read().unwrap_or_else(PoisonError::into_inner);
        let level = *event.metadata().level();
        if destinations.iter().all(|queue| level > queue.level) {
            return;
        }
        let (record, now) = (Record::of(event), SystemTime::now());
        for queue in destinations.iter().filter(|queue| level <= queue.level) {
            let facility = u8::try_from(queue.configured.facility).unwrap_or(3).min(23);
            let priority = facility * 8 + rfc5424::severity(level);
            let target = event.metadata().target();
            queue.send(rfc5424::message(&self.sender, priority, now, target, &record));
        }
    }
}

impl DestinationQueue {
    /// `None`: the address is invalid, or the thread cannot be started.
    fn open(configured: &v1::Syslog) -> Option<DestinationQueue> {
        let address = Address::of(configured.destination.as_ref()?)?;
        let (messages, waiting) = sync_channel(QUEUE_LENGTH);
        let lost = Arc::new(AtomicU64::new(0));
        let missed = Arc::clone(&lost);
        let thread = std::thread::Builder::new().name("syslog".to_owned());
        thread.spawn(move || serve(&address, &waiting, &missed)).ok()?;
        let level = configured.level.parse().unwrap_or(Level::INFO);
        Some(DestinationQueue { configured: configured.clone(), level, messages, lost })
    }

    fn send(&self, message: String) {
        let missed = self.lost.swap(0, Ordering::Relaxed);
        let whole = match missed {
            0 => message,
            // Appended, so that the header stays intact.
            missed => format!("{message} ({missed} messages before it were lost)"),
        };
        if let Err(TrySendError::Full(_)) = self.messages.try_send(whole) {
            self.lost.fetch_add(missed + 1, Ordering::Relaxed);
        }
    }
}

/// The address of a destination.
#[derive(Clone, Debug, PartialEq)]
enum Address {
    Unix(PathBuf),
    Udp(SocketAddr),
    Tcp(SocketAddr),
}

impl Address {
    fn of(destination: &Destination) -> Option<Address> {
        match destination {
            Destination::Unix(path) => Some(Address::Unix(PathBuf::from(path))),
            Destination::Udp(address) => address.parse().ok().map(Address::Udp),
            Destination::Tcp(address) => address.parse().ok().map(Address::Tcp),
        }
    }

    fn open(&self) -> std::io::Result<Socket> {
        match self {
            Address::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_write_timeout(Some(TIMEOUT))?;
                Ok(Socket::Unix(socket))
            }
            Address::Udp(to) => {
                let any: &str = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any)?;
                socket.connect(to)?;
                Ok(Socket::Udp(socket))
            }
            Address::Tcp(to) => {
                let stream = TcpStream::connect_timeout(to, TIMEOUT)?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                Ok(Socket::Tcp(stream))
            }
        }
    }
}

/// An open socket.
enum Socket {
    Unix(UnixDatagram),
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Socket {
    fn send(&mut self, message: &str) -> std::io::Result<()> {
        match self {
            Socket::Unix(socket) => socket.send(message.as_bytes()).map(drop),
            Socket::Udp(socket) => socket.send(message.as_bytes()).map(drop),
            // Octet counting: RFC 6587, section 3.4.1.
            Socket::Tcp(stream) => {
                if is_closed(stream) {
                    return Err(std::io::ErrorKind::BrokenPipe.into());
                }
                write!(stream, "{} {message}", message.len())
            }
        }
    }
}

/// Whether the peer closed the connection: the first write after that would succeed and be lost.
fn is_closed(stream: &TcpStream) -> bool {
    // Receivers send no data; any data is discarded.
    let mut discarded = [0; 512];
    match recv(stream.as_raw_fd(), &mut discarded, MsgFlags::MSG_DONTWAIT) {
        Ok(length) => length == 0,
        Err(error) => error != Errno::EAGAIN && error != Errno::EINTR,
    }
}

/// Sends the queued messages in order until the destination is removed.
fn serve(address: &Address, messages: &Receiver<String>, lost: &Arc<AtomicU64>) {
    let mut socket: Option<Socket> = None;
    let mut tried: Option<Instant> = None;
    for message in messages {
        while socket.as_mut().is_none_or(|socket| socket.send(&message).is_err()) {
            drop(socket.take());
            while tried.is_some_and(|at| at.elapsed() < RETRY_INTERVAL) {
                // The queue has the other reference until the destination is removed.
                if Arc::strong_count(lost) == 1 {
                    return;
                }
                std::thread::sleep(CHECK_INTERVAL);
            }
            tried = Some(Instant::now());
            socket = address.open().ok();
        }
    }
}

#[cfg(test)]
mod tests;
