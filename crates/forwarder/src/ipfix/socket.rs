//! Sockets to collectors that never wait.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

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

/// Begins a connection. [`is_connected`] says when there is one.
///
/// # Errors
/// There is no route, or no such source address.
pub(super) fn tcp(to: &CollectorSettings) -> io::Result<TcpStream> {
    let family = match to.to {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let descriptor = socket(family, SockType::Stream, flags, None)?;
    // A collector that has lost its power closes nothing.
    let _ = setsockopt(&descriptor, sockopt::TcpUserTimeout, &SILENCE_MS);
    if to.source.is_some() {
        bind(descriptor.as_raw_fd(), &SockaddrStorage::from(to.local()))?;
    }
    match connect(descriptor.as_raw_fd(), &SockaddrStorage::from(to.to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(descriptor)),
        Err(error) => Err(error.into()),
    }
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
