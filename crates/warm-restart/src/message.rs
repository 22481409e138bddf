//! The messages that pass descriptors: those of systemd's file descriptor store (sd_notify(3)), also with `stoa run`.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

/// Bytes of the longest message, and of the longest name (systemd's limit).
const BYTES_MAX: usize = 512;
const NAME_MAX: usize = 255;
/// Most descriptors that Linux passes with one message (SCM_MAX_FD).
const FILES_MAX: usize = 253;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Hold the descriptor of this message under a name.
    Store(String),
    /// Close the descriptors with this name.
    Remove(String),
}

impl Message {
    fn text(&self) -> String {
        match self {
            Self::Store(name) => format!("FDSTORE=1\nFDNAME={name}\n"),
            Self::Remove(name) => format!("FDSTOREREMOVE=1\nFDNAME={name}\n"),
        }
    }

    /// Reads a message; `None` for anything else.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let value = |key| text.lines().find_map(|line| line.strip_prefix(key));
        let name = value("FDNAME=").filter(|name| is_name(name))?.to_owned();
        if value("FDSTORE=") == Some("1") {
            Some(Self::Store(name))
        } else if value("FDSTOREREMOVE=") == Some("1") {
            Some(Self::Remove(name))
        } else {
            None
        }
    }
}

/// Whether systemd would accept the name, too.
pub(crate) fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_graphic() && byte != b':';
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// Sends a message, with a descriptor when there is one.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    message: &Message,
    file: Option<BorrowedFd<'_>>,
) -> nix::Result<()> {
    let text = message.text();
    let files: Vec<RawFd> = file.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&files)];
    let rights: &[_] = if files.is_empty() { &[] } else { &rights };
    let data = [IoSlice::new(text.as_bytes())];
    sendmsg::<()>(socket.as_raw_fd(), &data, rights, MsgFlags::MSG_NOSIGNAL, None).map(drop)
}

/// What a socket delivers.
#[derive(Debug)]
pub(crate) enum Received {
    /// A message and its descriptor.
    Message(Message, Option<OwnedFd>),
    /// Something else, which was discarded.
    Unknown,
    /// Nothing waits.
    Nothing,
    /// The other end is closed.
    End,
}

/// Takes the next message from a socket, without waiting.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> nix::Result<Received> {
    let mut bytes = [0; BYTES_MAX];
    // Room for all that a message can have: with less, the kernel installs what fits, and nobody would close it.
    let mut space = nix::cmsg_space!([RawFd; FILES_MAX]);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let mut files = Vec::new();
    let (length, flags) = {
        let mut into = [IoSliceMut::new(&mut bytes)];
        let got = match recvmsg::<()>(socket.as_raw_fd(), &mut into, Some(&mut space), flags) {
            Ok(got) => got,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(Received::Nothing),
            Err(Errno::ECONNRESET) => return Ok(Received::End),
            Err(errno) => return Err(errno),
        };
        // It fails when this process may not open so many descriptors: the message says nothing then.
        let Ok(controls) = got.cmsgs() else { return Ok(Received::Unknown) };
        for control in controls {
            if let ControlMessageOwned::ScmRights(rights) = control {
                // SAFETY: the kernel just made these descriptors for us alone.
                files.extend(rights.iter().map(|fd| unsafe { OwnedFd::from_raw_fd(*fd) }));
            }
        }
        (got.bytes, got.flags)
    };
    if length == 0 {
        return Ok(Received::End);
    }
    if flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC) || files.len() > 1 {
        return Ok(Received::Unknown);
    }
    let message = Message::parse(&bytes[..length]);
    Ok(message.map_or(Received::Unknown, |message| Received::Message(message, files.pop())))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nix::poll::{PollFd, PollFlags, poll};
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_carry_descriptors() {
        let kind = (AddressFamily::Unix, SockType::SeqPacket);
        let (near, far) = socketpair(kind.0, kind.1, None, SockFlag::SOCK_CLOEXEC).unwrap();
        assert!(matches!(receive(far.as_fd()), Ok(Received::Nothing)));
        let store = Message::Store("esp.1".to_owned());
        send(near.as_fd(), &store, Some(near.as_fd())).unwrap();
        send(near.as_fd(), &Message::Remove("esp.1".to_owned()), None).unwrap();
        nix::unistd::write(&near, b"READY=1\n").unwrap();
        nix::unistd::write(&near, &[b'x'; 1000]).unwrap();
        let first = receive(far.as_fd()).unwrap();
        assert!(matches!(&first, Received::Message(message, Some(_)) if *message == store));
        let second = receive(far.as_fd()).unwrap();
        assert!(matches!(second, Received::Message(Message::Remove(_), None)));
        assert!(matches!(receive(far.as_fd()), Ok(Received::Unknown)));
        assert!(matches!(receive(far.as_fd()), Ok(Received::Unknown)));
        drop((near, first));
        assert!(matches!(receive(far.as_fd()), Ok(Received::End)));
    }

    /// A pipe shows that all copies of its end are closed: reading ends.
    #[test]
    fn descriptors_of_an_unknown_message_are_closed() {
        let kind = (AddressFamily::Unix, SockType::SeqPacket);
        let (near, far) = socketpair(kind.0, kind.1, None, SockFlag::SOCK_CLOEXEC).unwrap();
        for number in [2, 5, FILES_MAX] {
            let (out, into) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
            let files = vec![into.as_raw_fd(); number];
            let text = Message::Store("esp.1".to_owned()).text();
            let data = [IoSlice::new(text.as_bytes())];
            let rights = [ControlMessage::ScmRights(&files)];
            sendmsg::<()>(near.as_raw_fd(), &data, &rights, MsgFlags::MSG_NOSIGNAL, None).unwrap();
            drop(into);
            let received = receive(far.as_fd());
            assert!(matches!(received, Ok(Received::Unknown)), "{number}: {received:?}");
            let mut ended = [PollFd::new(out.as_fd(), PollFlags::POLLIN)];
            // Another test may be starting a process, which has the descriptor for a moment.
            assert_eq!(poll(&mut ended, 10_000_u16), Ok(1), "{number} descriptors leak");
        }
        send(near.as_fd(), &Message::Remove("esp.1".to_owned()), None).unwrap();
        let next = receive(far.as_fd());
        assert!(matches!(next, Ok(Received::Message(..))), "the channel is still open: {next:?}");
    }

    #[test]
    fn names_are_those_that_systemd_accepts() {
        assert!(is_name("forwarder/esp-sequence.1"));
        let long = "x".repeat(256);
        for name in ["", "a:b", "a b", "a\nb", "ä", &long] {
            assert!(!is_name(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn messages_are_read_back(name in "[!-9;-~]{1,255}") {
            for message in [Message::Store(name.clone()), Message::Remove(name.clone())] {
                let text = message.text();
                prop_assert!(text.len() <= BYTES_MAX);
                prop_assert_eq!(Message::parse(text.as_bytes()), Some(message));
            }
        }

        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            let _ = Message::parse(&bytes);
        }
    }
}
