//! The speaker's session: connects, exchanges OPEN, sends UPDATE messages and keepalives.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

use super::updates::{HEADER, MARKER};
use super::{Identity, Request, Shared};

const PORT: u16 = 179;
const OPEN: u8 = 1;
const UPDATE: u8 = 2;
const NOTIFICATION: u8 = 3;
const KEEPALIVE: u8 = 4;
/// AS_TRANS: the two-octet AS number field when the number needs four octets (RFC 6793).
const AS_TRANS: u16 = 23_456;
/// Interval between two connection attempts.
const PAUSE: Duration = Duration::from_millis(100);
/// How often the thread checks whether the session must end.
const PERIOD: Duration = Duration::from_millis(100);
/// Timeout of a connection attempt and of the OPEN exchange.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes per write.
const CHUNK: usize = 256 << 10;
/// Cease: administrative shutdown (RFC 4486).
const CEASE: [u8; 2] = [6, 2];

/// Runs one session after the other until stopped.
pub(super) fn run(identity: &Identity, shared: &Shared, requests: &Receiver<Request>) {
    let mut table: Vec<Arc<[u8]>> = Vec::new();
    while !shared.stop.load(Ordering::Relaxed) {
        let reason = match dial(identity).and_then(|stream| open(stream, identity)) {
            Ok(stream) => talk(&stream, identity, shared, requests, &mut table),
            Err(reason) => reason,
        };
        shared.update(|state| {
            state.established = None;
            state.reason = reason;
        });
        std::thread::sleep(PAUSE);
    }
}

fn dial(identity: &Identity) -> Result<TcpStream, String> {
    let family = if identity.own.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let made = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
    let (own, peer) = (SocketAddr::new(identity.own, 0), SocketAddr::new(identity.peer, PORT));
    let dialled = made.and_then(|socket| {
        // On Linux, the send timeout also limits connect(2).
        setsockopt(&socket, sockopt::SendTimeout, &TimeVal::new(1, 0))?;
        bind(std::os::fd::AsRawFd::as_raw_fd(&socket), &SockaddrStorage::from(own))?;
        connect(std::os::fd::AsRawFd::as_raw_fd(&socket), &SockaddrStorage::from(peer))?;
        Ok(TcpStream::from(socket))
    });
    dialled.map_err(|errno| format!("cannot connect {own} to {peer}: {errno}"))
}

/// Exchanges OPEN and the first KEEPALIVE.
fn open(mut stream: TcpStream, identity: &Identity) -> Result<TcpStream, String> {
    let failed = |error: std::io::Error| format!("the session did not open: {error}");
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    stream.write_all(&message(OPEN, &open_body(identity))).map_err(failed)?;
    let mut is_open = false;
    loop {
        let (kind, body) = read_message(&mut stream).map_err(failed)?;
        match kind {
            OPEN if !is_open => {
                is_open = true;
                stream.write_all(&message(KEEPALIVE, &[])).map_err(failed)?;
            }
            KEEPALIVE if is_open => return Ok(stream),
            NOTIFICATION => return Err(refusal(&body)),
            other => return Err(format!("the peer sent {other} instead of OPEN")),
        }
    }
}

/// Version, AS number, hold time, identifier, capabilities (RFC 4271, section 4.2; RFC 5492).
fn open_body(identity: &Identity) -> Vec<u8> {
    let mut capabilities = vec![1, 4, 0, 1, 0, 1, 1, 4, 0, 2, 0, 1, 65, 4];
    capabilities.extend(identity.asn.to_be_bytes());
    if identity.graceful_restart {
        // Restart time 120 s; both families with preserved forwarding state (RFC 4724, section 3).
        capabilities.extend([64, 10, 0, 120, 0, 1, 1, 0x80, 0, 2, 1, 0x80]);
    }
    let asn = u16::try_from(identity.asn).unwrap_or(AS_TRANS);
    let mut body = vec![4];
    body.extend(asn.to_be_bytes());
    body.extend(identity.hold_time.to_be_bytes());
    body.extend(identity.router_id.octets());
    // One optional parameter of type 2: capabilities.
    let length = capabilities.len() as u8;
    body.extend([length + 2, 2, length]);
    body.extend(capabilities);
    body
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (HEADER + body.len()) as u16;
    [&MARKER[..], &length.to_be_bytes(), &[kind], body].concat()
}

/// The next message: its type and its body.
fn read_message(stream: &mut impl Read) -> std::io::Result<(u8, Vec<u8>)> {
    let mut header = [0; HEADER];
    stream.read_exact(&mut header)?;
    let length = usize::from(u16::from_be_bytes([header[16], header[17]]));
    let Some(rest) = length.checked_sub(HEADER).filter(|_| header[..16] == MARKER) else {
        return Err(std::io::Error::new(ErrorKind::InvalidData, "this is no BGP message"));
    };
    let mut body = vec![0; rest];
    stream.read_exact(&mut body)?;
    Ok((header[18], body))
}

fn refusal(body: &[u8]) -> String {
    match body {
        [code, sub, ..] => format!("the peer ended the session: NOTIFICATION {code}/{sub}"),
        _ => "the peer ended the session".to_owned(),
    }
}

/// Sends the table, then the requests, until the session ends. Returns the reason.
fn talk(
    stream: &TcpStream,
    identity: &Identity,
    shared: &Shared,
    requests: &Receiver<Request>,
    table: &mut Vec<Arc<[u8]>>,
) -> String {
    let is_over = AtomicBool::new(false);
    shared.update(|state| {
        state.established = Some(Instant::now());
        state.sessions += 1;
    });
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let reason = listen(stream, shared, &is_over);
            is_over.store(true, Ordering::Relaxed);
            reason
        });
        let done = speak(stream, identity, shared, requests, table, &is_over);
        is_over.store(true, Ordering::Relaxed);
        // The receiver knows the reason of the peer; the writer only sees a closed connection.
        match (receiver.join(), done) {
            (Ok(Some(reason)), _) => reason,
            (_, Err(error)) => format!("the session ended: {error}"),
            _ => "the speaker ended the session".to_owned(),
        }
    })
}

/// Receives messages until the session ends. Returns the reason when the peer ended it.
fn listen(stream: &TcpStream, shared: &Shared, is_over: &AtomicBool) -> Option<String> {
    let mut stream = SessionReader { stream, is_over };
    loop {
        match read_message(&mut stream) {
            Ok((NOTIFICATION, body)) => return Some(refusal(&body)),
            Ok((UPDATE, _)) => _ = shared.updates_received.fetch_add(1, Ordering::Relaxed),
            Ok(_) => {}
            Err(_) if is_over.load(Ordering::Relaxed) => return None,
            Err(error) => return Some(format!("the peer is gone: {error}")),
        }
    }
}

/// Reads as long as the session lives; a silent peer is no error.
struct SessionReader<'a> {
    stream: &'a TcpStream,
    is_over: &'a AtomicBool,
}

impl Read for SessionReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Err(error) if is_timeout(&error) && !self.is_over.load(Ordering::Relaxed) => {}
                other => return other,
            }
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn speak(
    stream: &TcpStream,
    identity: &Identity,
    shared: &Shared,
    requests: &Receiver<Request>,
    table: &mut Vec<Arc<[u8]>>,
    is_over: &AtomicBool,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PERIOD))?;
    stream.set_write_timeout(Some(PERIOD))?;
    let writer = SessionWriter { stream, shared, is_over };
    for messages in table.iter() {
        writer.write(messages)?;
    }
    let every = Duration::from_secs((identity.hold_time / 3).max(1).into());
    let mut last = Instant::now();
    while !writer.is_to_end() {
        let messages = match requests.recv_timeout(PERIOD.min(every)) {
            Ok(Request::Announce(messages)) => messages,
            Ok(Request::Replace(messages)) => {
                table.clear();
                messages
            }
            Err(RecvTimeoutError::Timeout) => {
                if last.elapsed() >= every {
                    writer.write(&message(KEEPALIVE, &[]))?;
                    last = Instant::now();
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        // Store the messages first: if the session ends during the write, the next session sends them.
        table.push(Arc::clone(&messages));
        let outcome = writer.write(&messages);
        shared.update(|state| {
            state.requests_sent += 1;
            state.sent_time = Some(Instant::now());
        });
        outcome?;
        last = Instant::now();
    }
    if shared.stop.load(Ordering::Relaxed) {
        writer.write(&message(NOTIFICATION, &CEASE))?;
        stream.shutdown(std::net::Shutdown::Write)?;
    }
    Ok(())
}

/// Writes as long as the session lives; a peer that does not read is no error.
struct SessionWriter<'a> {
    stream: &'a TcpStream,
    shared: &'a Shared,
    is_over: &'a AtomicBool,
}

impl SessionWriter<'_> {
    fn is_to_end(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || self.shared.stop.load(Ordering::Relaxed)
    }

    fn write(&self, messages: &[u8]) -> std::io::Result<()> {
        let (mut rest, mut stream) = (messages, self.stream);
        let begun = Instant::now();
        while !rest.is_empty() {
            match stream.write(&rest[..rest.len().min(CHUNK)]) {
                Ok(taken) => rest = &rest[taken..],
                // When the speaker stops, its NOTIFICATION has one second.
                Err(error) if is_timeout(&error) => {
                    if self.is_to_end() && begun.elapsed() > Duration::from_secs(1) {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_message_identifies_the_speaker() {
        let identity = Identity {
            own: [192, 0, 2, 1].into(),
            peer: [192, 0, 2, 2].into(),
            asn: 70_000,
            router_id: [192, 0, 2, 1].into(),
            hold_time: 90,
            graceful_restart: true,
        };
        let body = open_body(&identity);
        assert_eq!(&body[..10], [4, 0x5b, 0xa0, 0, 90, 192, 0, 2, 1, body.len() as u8 - 10]);
        let all = message(OPEN, &body);
        let (kind, read) = read_message(&mut all.as_slice()).unwrap();
        assert_eq!((kind, read), (OPEN, body));
    }

    #[test]
    fn rejects_malformed_messages() {
        for bytes in [&[0; 19][..], &[0xff; 16], &[[0xff; 16].as_slice(), &[0, 18, 4]].concat()] {
            assert!(read_message(&mut &*bytes).is_err(), "{bytes:?}");
        }
    }
}
