//! Sockets that never wait.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use nix::sys::socket::{Backlog, SockaddrStorage, bind, listen, setsockopt, sockopt};

use crate::ipfix::socket;

/// Connections that wait to be accepted: those that may come within a step of the thread.
const BACKLOG: i32 = 128;

/// Begins a connection from an address of this machine.
///
/// # Errors
/// There is no route, or no such address.
pub(super) fn begin(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    socket::begin(socket::stream(&to)?, Some(SocketAddr::new(from.ip(), 0)), to)
}

/// Accepts connections to an address of this machine.
///
/// # Errors
/// There is no such address, or another program has the port.
pub(super) fn accept_at(local: SocketAddr) -> io::Result<TcpListener> {
    let descriptor = socket::stream(&local)?;
    // A connection of a process that was killed may still be closing.
    setsockopt(&descriptor, sockopt::ReuseAddr, &true)?;
    bind(descriptor.as_raw_fd(), &SockaddrStorage::from(local))?;
    listen(&descriptor, Backlog::new(BACKLOG)?)?;
    Ok(TcpListener::from(descriptor))
}
