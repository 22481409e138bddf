//! The control channel: a Unix SOCK_SEQPACKET socket that carries 128-byte messages
//! and, with some of them, one file descriptor.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    connect, getsockopt, recvmsg, sendmsg, socket, sockopt,
};

use super::messages::{Message, MessageError, SIZE};

/// Why a link ended or did not come up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("the peer closed the link")]
    Closed,
    #[error("the peer ended the link: {0}")]
    Disconnected(String),
    #[error("control socket: {0}")]
    Socket(#[from] Errno),
    #[error("the peer sent {0}")]
    Message(#[from] MessageError),
    /// We end it and send the peer the reason.
    #[error("{0}")]
    Refused(String),
}

impl Ended {
    /// A reason of ours.
    pub(crate) fn refused(reason: impl std::fmt::Display) -> Self {
        Self::Refused(reason.to_string())
    }

    /// An unexpected message, or one with the wrong number of files.
    pub(crate) fn unexpected(message: &Message, file: Option<&OwnedFd>) -> Self {
        let kind = format!("{message:?}");
        let kind = kind.split([' ', '(']).next().unwrap_or_default();
        let with = if file.is_some() { "with" } else { "without" };
        Self::Refused(format!("unexpected {kind} {with} a file"))
    }
}

/// The address of a socket: a path, or an abstract name after `@`.
pub(crate) fn address(name: &str) -> nix::Result<UnixAddr> {
    match name.strip_prefix('@') {
        Some(name) => UnixAddr::new_abstract(name.as_bytes()),
        None => UnixAddr::new(name),
    }
}

/// A socket that never blocks.
pub(crate) fn seqpacket() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)
}

/// The process at the other end, as the kernel knows it: of a slave when it connected, of a master when it began to
/// listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Its process id; 0: it is in another PID namespace.
    pub(crate) process: i32,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { process, user, group } = self;
        write!(f, "process {process}, user {user}, group {group}")
    }
}

/// A connected control channel.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: OwnedFd,
}

impl Channel {
    /// A channel over a connected SOCK_SEQPACKET socket.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket }
    }

    /// Connects to a listening master.
    pub(crate) fn connect(address: &UnixAddr) -> nix::Result<Self> {
        let socket = seqpacket()?;
        connect(socket.as_raw_fd(), address)?;
        Ok(Self { socket })
    }

    /// Readable when a message or the end is there.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The process at the other end (`SO_PEERCRED`).
    pub(crate) fn peer(&self) -> nix::Result<Peer> {
        let peer = getsockopt(&self.socket, sockopt::PeerCredentials)?;
        Ok(Peer { process: peer.pid(), user: peer.uid(), group: peer.gid() })
    }

    /// Refuses a peer of another user than the required one.
    pub(crate) fn check_user(&self, required: Option<u32>) -> Result<(), Ended> {
        let Some(required) = required else { return Ok(()) };
        let peer = self.peer()?;
        if peer.user == required {
            return Ok(());
        }
        let refused = Ended::refused(format!("the peer ({peer}) is not of user {required}"));
        self.disconnect("this user is not permitted here");
        Err(refused)
    }

    /// Sends a message, with a descriptor when there is one. A peer that does not
    /// read until the socket is full loses the link.
    pub(crate) fn send(
        &self,
        message: &Message,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<(), Ended> {
        let bytes = message.encode();
        let files: Vec<RawFd> = file.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&files)];
        let rights: &[_] = if files.is_empty() { &[] } else { &rights };
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let data = [IoSlice::new(&bytes)];
        match sendmsg::<()>(self.socket.as_raw_fd(), &data, rights, flags, None) {
            Ok(_) => Ok(()),
            Err(Errno::EPIPE | Errno::ECONNRESET) => Err(Ended::Closed),
            Err(errno) => Err(Ended::Socket(errno)),
        }
    }

    /// Sends the peer a DISCONNECT; it may be gone already.
    pub(crate) fn disconnect(&self, reason: &str) {
        let _ = self.send(&Message::Disconnect { code: 0, reason: reason.into() }, None);
    }

    /// The next message and its descriptor; `None` when none waits. A disconnect is
    /// an error: the link ends.
    pub(crate) fn receive(&self) -> Result<Option<(Message, Option<OwnedFd>)>, Ended> {
        let mut bytes = [0; SIZE];
        let mut space = nix::cmsg_space!([RawFd; 4]);
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
        let mut files = Vec::new();
        let (length, flags) = {
            let mut into = [IoSliceMut::new(&mut bytes)];
            let fd = self.socket.as_raw_fd();
            let got = match recvmsg::<()>(fd, &mut into, Some(&mut space), flags) {
                Ok(got) => got,
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
                Err(Errno::ECONNRESET) => return Err(Ended::Closed),
                Err(errno) => return Err(Ended::Socket(errno)),
            };
            for control in got.cmsgs()? {
                if let ControlMessageOwned::ScmRights(rights) = control {
                    // SAFETY: the kernel just made these descriptors for us alone.
                    files.extend(rights.iter().map(|fd| unsafe { OwnedFd::from_raw_fd(*fd) }));
                }
            }
            (got.bytes, got.flags)
        };
        if length == 0 {
            return Err(Ended::Closed);
        }
        if flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC) || files.len() > 1 {
            return Err(Ended::refused("a message longer than 128 bytes or with too many files"));
        }
        match Message::decode(&bytes[..length])? {
            Message::Disconnect { reason, .. } => Err(Ended::Disconnected(reason)),
            message => Ok(Some((message, files.pop()))),
        }
    }
}
