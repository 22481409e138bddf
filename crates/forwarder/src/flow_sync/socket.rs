//! Sockets that never wait.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, listen, setsockopt,
    socket, sockopt,
};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4;

fn new(of: &SocketAddr) -> io::Result<std::os::fd::OwnedFd> {
    let family = match of {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    Ok(socket(family, SockType::Stream, flags, None)?)
}

/// Begins a connection from an address of this machine.
///
/// # Errors
/// There is no route, or no such address.
pub(super) fn begin(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let descriptor = new(&to)?;
    bind(descriptor.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(from.ip(), 0)))?;
    match connect(descriptor.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(descriptor)),
        Err(error) => Err(error.into()),
    }
}

/// Accepts connections to an address of this machine.
///
/// # Errors
/// There is no such address, or another program has the port.
pub(super) fn accept_at(local: SocketAddr) -> io::Result<TcpListener> {
    let descriptor = new(&local)?;
    // A connection of a process that was killed may still be closing.
    setsockopt(&descriptor, sockopt::ReuseAddr, &true)?;
    bind(descriptor.as_raw_fd(), &SockaddrStorage::from(local))?;
    listen(&descriptor, Backlog::new(BACKLOG)?)?;
    Ok(TcpListener::from(descriptor))
}
