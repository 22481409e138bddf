//! A netlink socket parsed by [`super::message`]: requests and replies, dumps, and notifications.

use std::future::poll_fn;
use std::io;

use nix::errno::Errno;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{AsyncSocket as _, SocketAddr, TokioSocket};

use super::message::{self, Message, Messages, kind};
use super::netns::run_in;

/// Size of one read: the kernel fills dumps up to 32 KiB.
pub const BUFFER_SIZE: usize = 64 << 10;

/// Multicast groups (linux/rtnetlink.h), as bits of `nl_groups`.
pub mod group {
    /// `RTNLGRP_LINK`
    pub const LINKS: u32 = 1;
    /// `RTNLGRP_NEIGH`
    pub const NEIGHBORS: u32 = 1 << 2;
    /// `RTNLGRP_IPV4_IFADDR` and `RTNLGRP_IPV6_IFADDR`
    pub const ADDRESSES: u32 = 1 << 4 | 1 << 8;
    /// `RTNLGRP_IPV4_ROUTE` and `RTNLGRP_IPV6_ROUTE`
    pub const ROUTES: u32 = 1 << 6 | 1 << 10;
    /// `RTNLGRP_IPV4_RULE` and `RTNLGRP_IPV6_RULE`
    pub const RULES: u32 = 1 << 7 | 1 << 18;
    /// `RTNLGRP_NEXTHOP`
    pub const NEXT_HOPS: u32 = 1 << 31;
}

/// A socket in one network namespace.
pub struct Socket {
    socket: TokioSocket,
    sequence: u32,
}

impl Socket {
    /// Opens a socket for these multicast groups with a receive buffer of that size.
    ///
    /// # Errors
    /// When the namespace cannot be entered, or the kernel refuses the socket.
    pub fn open(netns: &str, groups: u32, receive_buffer: usize) -> io::Result<Socket> {
        let runtime = tokio::runtime::Handle::current();
        let socket = run_in(netns, || {
            let _reactor = runtime.enter();
            let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
            // Above net.core.rmem_max this needs CAP_NET_ADMIN; without it the kernel limits the size.
            if setsockopt(socket.socket_ref(), RcvBufForce, &receive_buffer).is_err() {
                setsockopt(socket.socket_ref(), RcvBuf, &receive_buffer)?;
            }
            socket.socket_mut().bind(&SocketAddr::new(0, groups))?;
            Ok(socket)
        })?;
        Ok(Socket { socket, sequence: 0 })
    }

    /// Waits for data; returns its length.
    ///
    /// # Errors
    /// `ENOBUFS` when notifications were lost; see [`is_lost`].
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = buffer.len();
        poll_fn(|context| {
            let mut rest = &mut *buffer;
            self.socket.poll_recv(context, &mut rest).map_ok(|()| size - rest.len())
        })
        .await
    }

    /// Reads without waiting; returns the length, 0: nothing.
    ///
    /// # Errors
    /// As [`Socket::receive`].
    pub fn receive_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut rest = &mut *buffer;
        match self.socket.socket_ref().recv(&mut rest, 0) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            read => read,
        }
    }

    /// Sends a request; returns its sequence number.
    ///
    /// # Errors
    /// When the kernel does not accept it.
    fn send_request(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<u32> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        // NLM_F_REQUEST
        let request = message::request(kind, flags | 1, self.sequence, body);
        self.socket.socket_ref().send(&request, 0)?;
        Ok(self.sequence)
    }

    /// Requests one object and passes each reply to `handle`. The kernel replies before `send` returns, so
    /// this does not wait.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn get(
        &mut self,
        kind: u16,
        body: &[u8],
        mut handle: impl FnMut(Message<'_>),
    ) -> io::Result<()> {
        let sequence = self.send_request(kind, 0, body)?;
        self.read_replies(|message| match message.kind {
            _ if message.sequence != sequence => Ok(false),
            kind::ERROR => check_errno(message.error()).map(|()| true),
            _ => {
                handle(message);
                Ok(true)
            }
        })
    }

    /// Reads replies until `handle` returns true.
    fn read_replies(
        &mut self,
        mut handle: impl FnMut(Message<'_>) -> io::Result<bool>,
    ) -> io::Result<()> {
        let mut buffer = [0; 16 << 10];
        loop {
            let length = self.receive_now(&mut buffer)?;
            if length == 0 {
                return Err(io::Error::other("the kernel did not reply"));
            }
            for message in Messages::of(&buffer[..length]) {
                if handle(message.map_err(io::Error::other)?)? {
                    return Ok(());
                }
            }
        }
    }

    /// Executes a request and reads its acknowledgement, which the kernel sends before `send` returns.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn execute(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        // NLM_F_ACK
        let sequence = self.send_request(kind, flags | 4, body)?;
        self.read_replies(|message| match message.kind {
            kind::ERROR if message.sequence == sequence => {
                check_errno(message.error()).map(|()| true)
            }
            _ => Ok(false),
        })
    }

    /// Requests a dump; [`Socket::read_dump`] reads it.
    ///
    /// # Errors
    /// When the kernel does not accept the request.
    pub fn dump(&mut self, kind: u16, body: &[u8]) -> io::Result<Dump> {
        // NLM_F_DUMP
        Ok(Dump { sequence: self.send_request(kind, 0x300, body)?, is_consistent: true })
    }

    /// Reads a part of a dump and passes each message to `handle`. Returns whether there is more.
    ///
    /// # Errors
    /// Those of the kernel.
    pub async fn read_dump(
        &self,
        dump: &mut Dump,
        buffer: &mut [u8],
        mut handle: impl FnMut(Message<'_>),
    ) -> io::Result<bool> {
        let length = self.receive(buffer).await?;
        for message in Messages::of(&buffer[..length]) {
            let message = message.map_err(io::Error::other)?;
            if message.sequence != dump.sequence {
                continue;
            }
            dump.is_consistent &= !message.was_interrupted();
            match message.kind {
                kind::DONE => return Ok(false),
                kind::ERROR => return check_errno(message.error()).map(|()| false),
                _ => handle(message),
            }
        }
        Ok(true)
    }
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Socket").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

/// A dump in progress.
#[derive(Debug)]
pub struct Dump {
    sequence: u32,
    is_consistent: bool,
}

impl Dump {
    /// Whether the objects did not change during the dump; otherwise some may be missing.
    pub fn is_consistent(&self) -> bool {
        self.is_consistent
    }
}

fn check_errno(errno: i32) -> io::Result<()> {
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}

/// Whether notifications were lost, so that everything has to be read again.
pub fn is_lost(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ENOBUFS as i32)
}
