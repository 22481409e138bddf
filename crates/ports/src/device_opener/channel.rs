//! The socket pair between the forwarder and the device opener: whole messages (SOCK_SEQPACKET), and descriptors beside
//! those of the opener (unix(7), SCM_RIGHTS).

use std::io::{self, Error, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recv,
    recvmsg, sendmsg, setsockopt, socketpair, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// Descriptors beside one message at most.
const DESCRIPTORS_MAX: usize = 4;

/// Both ends: the first one, for the forwarder, gives up after `deadline`.
pub(super) fn pair(deadline: Duration) -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = (AddressFamily::Unix, SockType::SeqPacket);
    let (ours, theirs) = socketpair(kind.0, kind.1, None, SockFlag::SOCK_CLOEXEC)?;
    let limit = TimeVal::milliseconds(deadline.as_millis() as i64);
    setsockopt(&ours, sockopt::ReceiveTimeout, &limit)?;
    setsockopt(&ours, sockopt::SendTimeout, &limit)?;
    Ok((ours, theirs))
}

/// Sends a message and its descriptors.
pub(super) fn send(socket: &OwnedFd, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
    let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&numbers)];
    let rights: &[_] = if numbers.is_empty() { &[] } else { &rights };
    let data = [IoSlice::new(bytes)];
    sendmsg::<()>(socket.as_raw_fd(), &data, rights, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

/// Waits for a message without taking descriptors, which the kernel then closes; `None`: the other end is closed.
/// A longer message fills `into`.
pub(super) fn receive_plain(socket: &OwnedFd, into: &mut [u8]) -> io::Result<Option<usize>> {
    match recv(socket.as_raw_fd(), into, MsgFlags::empty()).map_err(Error::from) {
        Ok(0) => Ok(None),
        Ok(length) => Ok(Some(length)),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits for a message with its descriptors; the error `UnexpectedEof` tells that the other end is closed.
pub(super) fn receive(socket: &OwnedFd, into: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = nix::cmsg_space!([RawFd; DESCRIPTORS_MAX]);
    let mut descriptors = Vec::new();
    let mut parts = [IoSliceMut::new(into)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let got = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
    for control in got.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = control {
            // SAFETY: the kernel just made these descriptors for us alone.
            descriptors.extend(numbers.iter().map(|fd| unsafe { OwnedFd::from_raw_fd(*fd) }));
        }
    }
    if got.bytes == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    if got.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC) {
        return Err(ErrorKind::InvalidData.into());
    }
    Ok((got.bytes, descriptors))
}
