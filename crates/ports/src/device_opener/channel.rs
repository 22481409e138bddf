//! The socket pair between the forwarder and the device opener: whole messages (SOCK_SEQPACKET), and descriptors beside
//! those of the opener (unix(7), SCM_RIGHTS).

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, recv, recvmsg, sendmsg,
    setsockopt, socketpair, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// Descriptors beside one message at most.
const DESCRIPTORS_MAX: usize = 4;

/// Both ends.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = (AddressFamily::Unix, SockType::SeqPacket);
    Ok(socketpair(kind.0, kind.1, None, SockFlag::SOCK_CLOEXEC)?)
}

/// Has this end give up to send or to receive after `deadline`, by the error `WouldBlock`.
pub(super) fn give_up_after(socket: &OwnedFd, deadline: Duration) -> io::Result<()> {
    let limit = TimeVal::milliseconds(deadline.as_millis() as i64);
    setsockopt(socket, sockopt::ReceiveTimeout, &limit)?;
    Ok(setsockopt(socket, sockopt::SendTimeout, &limit)?)
}

/// Calls again what a signal interrupted.
fn uninterrupted<T>(mut call: impl FnMut() -> nix::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            done => return Ok(done?),
        }
    }
}

/// Sends a message and its descriptors, by this end's deadline.
pub(super) fn send(socket: &OwnedFd, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
    send_with(MsgFlags::empty(), socket, bytes, descriptors)
}

/// Sends a message and its descriptors at once; the error `WouldBlock` tells that the other end does not read.
pub(super) fn send_now(socket: &OwnedFd, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
    send_with(MsgFlags::MSG_DONTWAIT, socket, bytes, descriptors)
}

fn send_with(
    flags: MsgFlags,
    socket: &OwnedFd,
    bytes: &[u8],
    descriptors: &[OwnedFd],
) -> io::Result<()> {
    let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&numbers)];
    let rights: &[_] = if numbers.is_empty() { &[] } else { &rights };
    let data = [IoSlice::new(bytes)];
    let flags = flags | MsgFlags::MSG_NOSIGNAL;
    uninterrupted(|| sendmsg::<()>(socket.as_raw_fd(), &data, rights, flags, None)).map(drop)
}

/// Waits for a message without taking descriptors, which the kernel then closes; `None`: the other end is closed, or
/// the message is empty. A longer message fills `into`.
pub(super) fn receive_plain(socket: &OwnedFd, into: &mut [u8]) -> io::Result<Option<usize>> {
    match uninterrupted(|| recv(socket.as_raw_fd(), into, MsgFlags::empty())) {
        Ok(0) => Ok(None),
        Ok(length) => Ok(Some(length)),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits for a message with its descriptors; the error `UnexpectedEof` tells that the other end is closed, and EMFILE
/// that this process may not have so many descriptors.
pub(super) fn receive(socket: &OwnedFd, into: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = nix::cmsg_space!([RawFd; DESCRIPTORS_MAX]);
    let mut parts = [IoSliceMut::new(into)];
    let (length, flags) = uninterrupted(|| {
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let got = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
        Ok((got.bytes, got.flags))
    })?;
    // SAFETY: the kernel just made these descriptors for us alone, and nobody else reads them from the message.
    let descriptors: Vec<OwnedFd> =
        numbers(&space).map(|number| unsafe { OwnedFd::from_raw_fd(number) }).collect();
    if length == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    if flags.contains(MsgFlags::MSG_CTRUNC) {
        return Err(Errno::EMFILE.into());
    }
    if flags.contains(MsgFlags::MSG_TRUNC) {
        return Err(ErrorKind::InvalidData.into());
    }
    Ok((length, descriptors))
}

/// The descriptors in the control message that the kernel wrote to `space`, which was zero. nix does not tell those of
/// a message that was cut off (MSG_CTRUNC), and they would stay open. There is one control message at most: nothing
/// else was asked for (unix(7)).
fn numbers(space: &[u8]) -> impl Iterator<Item = RawFd> {
    let word = |at: usize| space.get(at..).and_then(|from| from.first_chunk().copied());
    let head = size_of::<libc::cmsghdr>();
    let length = space.first_chunk().map_or(0, |bytes| usize::from_ne_bytes(*bytes));
    let kind = [head - 8, head - 4].map(|at| word(at).map_or(0, i32::from_ne_bytes));
    let is_rights = kind == [libc::SOL_SOCKET, libc::SCM_RIGHTS];
    let end = if is_rights { length.min(space.len()) } else { 0 };
    let found = space.get(head..end).unwrap_or_default();
    found.chunks_exact(size_of::<RawFd>()).map(|bytes| {
        let mut number = [0; size_of::<RawFd>()];
        number.copy_from_slice(bytes);
        RawFd::from_ne_bytes(number)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI32, Ordering};

    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

    use super::*;

    /// Runs this test in a process of its own; whether this is that process.
    fn is_alone(test: &str) -> bool {
        const ALONE: &str = "STOA_TEST_CHANNEL";
        if std::env::var_os(ALONE).is_some() {
            return true;
        }
        let name = format!("device_opener::channel::tests::{test}");
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", &name]).env(ALONE, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        false
    }

    fn open() -> usize {
        std::fs::read_dir("/proc/self/fd").unwrap().count()
    }

    /// The limit of descriptors is one for the whole process.
    #[test]
    fn descriptors_beyond_the_limit_do_not_leak() {
        if !is_alone("descriptors_beyond_the_limit_do_not_leak") {
            return;
        }
        let (ours, theirs) = pair().unwrap();
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let files = [file(), file(), file()];
        let before = open();
        let limit = |most: u64| {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: 1024 };
            // SAFETY: the limit lives through the call.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
        };
        send(&theirs, b"x", &files).unwrap();
        send(&theirs, b"y", &files).unwrap();
        // Room for one more: the highest number is that of the last file, as nothing was closed before.
        limit(files[2].as_raw_fd() as u64 + 2);
        let cut_off = receive(&ours, &mut [0; 8]);
        limit(1024);
        assert_eq!(cut_off.unwrap_err().raw_os_error(), Some(libc::EMFILE));
        assert_eq!(open(), before);
        let (length, descriptors) = receive(&ours, &mut [0; 8]).unwrap();
        assert_eq!((length, descriptors.len(), open()), (1, 3, before + 3));
    }

    static HANDLED: AtomicI32 = AtomicI32::new(0);

    extern "C" fn handle(_: libc::c_int) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn a_signal_does_not_end_the_wait() {
        if !is_alone("a_signal_does_not_end_the_wait") {
            return;
        }
        let action = SigAction::new(SigHandler::Handler(handle), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler only counts.
        unsafe { sigaction(Signal::SIGUSR1, &action) }.unwrap();
        let (ours, theirs) = pair().unwrap();
        give_up_after(&ours, Duration::from_secs(60)).unwrap();
        let (tell, thread) = std::sync::mpsc::channel();
        let waits = std::thread::spawn(move || {
            tell.send(nix::unistd::gettid().as_raw()).unwrap();
            receive(&ours, &mut [0; 8]).map(|(length, _)| length)
        });
        let thread = thread.recv().unwrap();
        // Most of these come while it waits.
        for sent in 1..=50 {
            // SAFETY: takes no pointers.
            unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, libc::SIGUSR1) };
            while HANDLED.load(Ordering::Relaxed) < sent && !waits.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        send(&theirs, b"x", &[]).unwrap();
        assert_eq!(waits.join().unwrap().unwrap(), 1);
    }
}
