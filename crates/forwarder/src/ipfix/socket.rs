//! Sockets to collectors that never wait.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};

use super::settings::CollectorSettings;

/// Bytes that Linux keeps of UDP until a card has taken them, if the machine's limit allows.
const UDP_BUFFER: usize = 1 << 20;

/// Milliseconds for which a collector may confirm nothing.
const SILENCE_MS: u32 = 30_000;

/// A connected UDP socket.
///
/// # Errors
/// There is no route, or no such source address.
pub(super) fn udp(to: &CollectorSettings) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(to.local())?;
    socket.set_nonblocking(true)?;
    // What the system refuses stays as it is.
    let _ = setsockopt(&socket, sockopt::SndBuf, &UDP_BUFFER);
    socket.connect(to.to)?;
    Ok(socket)
}

/// A TCP socket that never waits.
///
/// # Errors
/// The system has none.
pub(crate) fn stream(of: &SocketAddr) -> io::Result<OwnedFd> {
    let family = match of {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    Ok(socket(family, SockType::Stream, flags, None)?)
}

/// Begins a connection. [`is_connected`] says when there is one.
///
/// # Errors
/// There is no route, or no such source address.
pub(crate) fn begin(
    descriptor: OwnedFd,
    from: Option<SocketAddr>,
    to: SocketAddr,
) -> io::Result<TcpStream> {
    if let Some(from) = from {
        bind(descriptor.as_raw_fd(), &SockaddrStorage::from(from))?;
    }
    match connect(descriptor.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(descriptor)),
        Err(error) => Err(error.into()),
    }
}

/// Begins a connection to a collector.
///
/// # Errors
/// As [`begin`].
pub(super) fn tcp(to: &CollectorSettings) -> io::Result<TcpStream> {
    let descriptor = stream(&to.to)?;
    // A collector that has lost its power closes nothing.
    let _ = setsockopt(&descriptor, sockopt::TcpUserTimeout, &SILENCE_MS);
    begin(descriptor, to.source.map(|_| to.local()), to.to)
}

/// Whether a connection that was begun is there.
///
/// # Errors
/// Why it failed.
pub(crate) fn is_connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the peer has closed a connection. Collectors send nothing; what they send is discarded.
///
/// # Errors
/// The connection has failed.
pub(super) fn is_closed(mut stream: &TcpStream) -> io::Result<bool> {
    let mut discarded = [0; 512];
    match stream.read(&mut discarded) {
        Ok(length) => Ok(length == 0),
        Err(error) if is_busy(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes as much as there is room for.
///
/// # Errors
/// The connection has failed.
pub(crate) fn write(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match stream.write(bytes) {
        Err(error) if is_busy(&error) => Ok(0),
        written => written,
    }
}

/// An error that does not end by itself: neither is the socket full, nor has a collector refused a message.
pub(crate) fn is_lasting(error: &io::Error) -> bool {
    !is_busy(error) && error.kind() != io::ErrorKind::ConnectionRefused
}

/// There is no room, or nothing to read.
pub(crate) fn is_busy(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
