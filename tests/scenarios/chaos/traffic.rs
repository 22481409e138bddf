//! Continuous traffic: numbered datagrams, and byte streams whose content is checked.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stoa_lab::{Host, LabError, Result, wait_until};

/// Interval between two datagrams of a flow.
const PERIOD: Duration = Duration::from_millis(2);
/// Receive timeout, after which a thread checks whether to stop.
const POLL: Duration = Duration::from_millis(100);
/// Size of the duplicate detection window.
const WINDOW: usize = 1 << 16;

/// Counters of a flow.
#[derive(Default)]
pub struct Counts {
    /// Datagrams, or bytes of a stream, sent.
    pub sent: AtomicU64,
    /// Datagrams, or bytes of a stream, received.
    pub received: AtomicU64,
    /// Datagrams that arrived after a later one.
    pub late: AtomicU64,
    /// Duplicate or corrupt datagrams or blocks: must stay 0.
    pub wrong: AtomicU64,
    /// Connections of a stream.
    pub connections: AtomicU64,
}

/// One direction of traffic between two hosts. Dropping it ends it.
pub struct Flow {
    /// The hosts and the protocol.
    pub name: String,
    /// Counters.
    pub counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> LabError {
    move |error| LabError::system(what, error)
}

impl Flow {
    fn new(name: String) -> Self {
        let (counts, stop) = Default::default();
        Self { name, counts, stop, threads: Vec::new() }
    }

    /// Starts a thread of this flow.
    fn spawn(&mut self, work: impl FnOnce(&Counts, &AtomicBool) + Send + 'static) {
        let (counts, stop) = (self.counts.clone(), self.stop.clone());
        self.threads.push(std::thread::spawn(move || work(&counts, &stop)));
    }

    /// Numbered datagrams from one host to the other.
    ///
    /// # Errors
    /// When a socket cannot be opened.
    pub fn datagrams(from: &Host, to: &Host, six: bool) -> Result<Self> {
        let family = if six { 6 } else { 4 };
        let mut flow = Self::new(format!("{} to {}, UDP/IPv{family}", from.label(), to.label()));
        let bind = |host: &Host| -> Result<UdpSocket> {
            let address = SocketAddr::new(host.address(six)?, 0);
            // An IPv6 address is tentative until its link is ready.
            wait_until("an address to bind to", Duration::from_secs(10), || {
                let socket = host.namespace().enter(|| UdpSocket::bind(address));
                match socket.map_err(|error| error.to_string())? {
                    Ok(socket) => Ok(socket),
                    Err(error) => Err(error.to_string()),
                }
            })
        };
        let (sender, receiver) = (bind(from)?, bind(to)?);
        let target = receiver.local_addr().map_err(system("look at a socket"))?;
        receiver.set_read_timeout(Some(POLL)).map_err(system("set a timeout"))?;
        flow.spawn(move |counts, stop| {
            let mut number = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                // Sending fails while the link is down.
                if sender.send_to(&datagram(number), target).is_ok() {
                    counts.sent.fetch_add(1, Ordering::Relaxed);
                }
                number += 1;
                std::thread::sleep(PERIOD);
            }
        });
        flow.spawn(move |counts, stop| receive_datagrams(&receiver, counts, stop));
        Ok(flow)
    }

    /// A TCP stream from one host to the other, opened again whenever it breaks.
    ///
    /// # Errors
    /// When a socket cannot be opened.
    pub fn stream(from: &Host, to: &Host) -> Result<Self> {
        let mut flow = Self::new(format!("{} to {}, TCP", from.label(), to.label()));
        let address = SocketAddr::new(to.address(false)?, 0);
        let listener = to.namespace().enter(|| TcpListener::bind(address))?;
        let listener = listener.map_err(system("listen"))?;
        listener.set_nonblocking(true).map_err(system("set a socket"))?;
        let target = listener.local_addr().map_err(system("look at a socket"))?;
        let namespace = from.namespace().handle()?;
        flow.spawn(move |counts, stop| {
            if let Err(error) = namespace.pass() {
                return eprintln!("no stream: {error}");
            }
            while !stop.load(Ordering::Relaxed) {
                send_stream(target, counts, stop);
                std::thread::sleep(POLL);
            }
        });
        flow.spawn(move |counts, stop| {
            while !stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => receive_stream(stream, counts, stop),
                    Err(_) => std::thread::sleep(POLL),
                }
            }
        });
        Ok(flow)
    }

    /// Datagrams, or bytes of a stream, received.
    pub fn received(&self) -> u64 {
        self.counts.received.load(Ordering::Relaxed)
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic was printed already.
            let _ = thread.join();
        }
    }
}

/// The datagram with this number: 64 to 255 bytes.
fn datagram(number: u64) -> Vec<u8> {
    let length = 64 + (number % 192) as usize;
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize(length, number as u8);
    bytes
}

fn receive_datagrams(socket: &UdpSocket, counts: &Counts, stop: &AtomicBool) {
    let mut buffer = [0; 2048];
    let mut seen = vec![u64::MAX; WINDOW];
    let mut highest = 0;
    while !stop.load(Ordering::Relaxed) {
        let Ok(length) = socket.recv(&mut buffer) else { continue };
        let Some(head) = buffer[..length].first_chunk() else { continue };
        let number = u64::from_be_bytes(*head);
        let slot = &mut seen[number as usize % WINDOW];
        if buffer[..length] != datagram(number) || *slot == number {
            counts.wrong.fetch_add(1, Ordering::Relaxed);
        }
        *slot = number;
        if number < highest {
            counts.late.fetch_add(1, Ordering::Relaxed);
        }
        highest = highest.max(number);
        counts.received.fetch_add(1, Ordering::Relaxed);
    }
}

/// The byte at an offset of a stream.
fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Writes 4,096 bytes every 2 ms until the connection breaks.
fn send_stream(target: SocketAddr, counts: &Counts, stop: &AtomicBool) {
    let Ok(mut stream) = TcpStream::connect_timeout(&target, Duration::from_secs(1)) else {
        return;
    };
    counts.connections.fetch_add(1, Ordering::Relaxed);
    // Reconnect after 3 s without progress: TCP waits minutes between two retransmissions.
    let _ = stream.set_write_timeout(Some(Duration::from_secs(3)));
    let mut offset = 0;
    while !stop.load(Ordering::Relaxed) {
        let piece: Vec<u8> = (offset..offset + 4096).map(byte).collect();
        if stream.write_all(&piece).is_err() {
            return;
        }
        offset += 4096;
        counts.sent.fetch_add(4096, Ordering::Relaxed);
        std::thread::sleep(PERIOD);
    }
}

/// Reads until the connection ends, breaks or is idle for 4 s.
fn receive_stream(mut stream: TcpStream, counts: &Counts, stop: &AtomicBool) {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_read_timeout(Some(POLL));
    let (mut buffer, mut offset) = ([0; 16_384], 0);
    let mut last_receive = Instant::now();
    while !stop.load(Ordering::Relaxed) && last_receive.elapsed() < Duration::from_secs(4) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                last_receive = Instant::now();
                let expected = (offset..).map(byte);
                let is_intact = buffer[..length].iter().copied().zip(expected).all(|(a, b)| a == b);
                counts.wrong.fetch_add(u64::from(!is_intact), Ordering::Relaxed);
                offset += length as u64;
                counts.received.fetch_add(length as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
