//! The opener's end. Whoever sends requests may have taken the forwarder over: a request that is not valid is refused,
//! and does not end the process. An empty message does, like the end of the forwarder, and so do answers that nobody
//! reads.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::socket::{SockType, getsockopt, sockopt};

use super::channel;
use super::message::{Answer, Done, REQUEST_MAX, Refusal, Request, number};
use crate::netns;

/// The socket that [`super::start`] passed as the standard input. Closes all other descriptors that are not standard
/// ones: systemd's descriptors, which the forwarder has, are not for this process.
///
/// # Errors
/// The standard input is no such socket: somebody started the program by hand.
pub fn inherited_socket() -> io::Result<OwnedFd> {
    let open = std::fs::read_dir("/proc/self/fd")?.flatten();
    let open: Vec<RawFd> =
        open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|number| *number > 2) {
        // That of the folder is closed already.
        let _ = nix::unistd::close(descriptor);
    }
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    if getsockopt(&input, sockopt::SockType) != Ok(SockType::SeqPacket) {
        let reason = "the standard input is not the socket of a forwarder";
        return Err(io::Error::new(ErrorKind::InvalidInput, reason));
    }
    Ok(input)
}

/// Ends this process with the thread that started it: with the forwarder, whose main thread did. The end of its socket
/// does not suffice: a forwarder that was taken over can pass it on, also to the opener itself, in a message that the
/// opener has not read when it blocks.
///
/// # Errors
/// The process that made the socket is not the parent: it has ended already, or it is somebody else.
pub fn end_with_parent(socket: &OwnedFd) -> io::Result<()> {
    // Kept while the process gives up capabilities (prctl(2)).
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let forwarder = getsockopt(socket, sockopt::PeerCredentials)?.pid();
    if forwarder != nix::unistd::getppid().as_raw() {
        return Err(io::Error::other("the forwarder has ended"));
    }
    Ok(())
}

/// What [`serve`] reports; it goes on.
#[derive(Debug)]
pub enum Trouble {
    /// A request is not valid: the forwarder never makes such a one by itself.
    Invalid,
    /// The system has no memory for a request or an answer, which is lost.
    Lost(io::Error),
}

/// After an error that may pass: the process must not keep a processor busy.
const PAUSE: Duration = Duration::from_millis(10);

/// Answers requests until the other end is closed.
///
/// # Errors
/// The system refuses to receive or to send, for good; the other end does not read its answers.
pub fn serve(socket: &OwnedFd, mut report: impl FnMut(Trouble)) -> io::Result<()> {
    // One byte more than a request has: one that is too long is seen.
    let mut bytes = [0; REQUEST_MAX + 1];
    loop {
        let length = match channel::receive_plain(socket, &mut bytes) {
            Ok(Some(length)) => length,
            Ok(None) => return Ok(()),
            Err(error) => {
                go_on(error, &mut report)?;
                continue;
            }
        };
        let bytes = &bytes[..length];
        let (result, descriptors) = match Request::decode(bytes) {
            Some(request) => perform(&request),
            None => {
                report(Trouble::Invalid);
                (Err(Refusal::Invalid), Vec::new())
            }
        };
        let answer = Answer { number: number(bytes), result };
        match channel::send_now(socket, &answer.encode(), &descriptors) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(io::Error::other("the forwarder does not read its answers"));
            }
            Err(error) => go_on(error, &mut report)?,
        }
    }
}

/// Reports an error that may pass: no memory, or more descriptors under way than one user may have.
fn go_on(error: io::Error, report: &mut impl FnMut(Trouble)) -> io::Result<()> {
    match error.raw_os_error() {
        Some(libc::ENOMEM | libc::ENOBUFS | libc::ETOOMANYREFS) => {
            report(Trouble::Lost(error));
            std::thread::sleep(PAUSE);
            Ok(())
        }
        _ => Err(error),
    }
}

fn perform(request: &Request) -> (Result<Done, Refusal>, Vec<OwnedFd>) {
    let performed = netns::enter(&request.netns, request.expected, || request.operation.perform());
    match performed {
        Ok(Ok(outcome)) => {
            let descriptors = outcome.descriptors.len() as u8;
            let (value, text) = (outcome.value, outcome.text);
            (Ok(Done { descriptors, value, text }), outcome.descriptors)
        }
        Ok(Err(error)) => {
            let errno = error.raw_os_error().unwrap_or(0);
            (Err(Refusal::Failed { errno, text: error.to_string() }), Vec::new())
        }
        Err(error) => (Err(Refusal::NotEntered(error)), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel gives these errors when it has no memory, which no test can arrange.
    #[test]
    fn a_lack_of_memory_passes() {
        let mut lost = 0;
        let mut report = |trouble| lost += i32::from(matches!(trouble, Trouble::Lost(_)));
        for errno in [libc::ENOMEM, libc::ENOBUFS, libc::ETOOMANYREFS] {
            assert!(go_on(io::Error::from_raw_os_error(errno), &mut report).is_ok());
        }
        assert!(go_on(io::Error::from_raw_os_error(libc::ENOTCONN), &mut report).is_err());
        assert_eq!(lost, 3);
    }

    #[test]
    fn answers_that_nobody_reads_end_it() {
        let (ours, theirs) = channel::pair().unwrap();
        channel::give_up_after(&theirs, Duration::from_secs(20)).unwrap();
        let serves = std::thread::spawn(move || serve(&ours, |_| ()));
        // Until the opener's answers, which are longer, fill the other direction.
        while channel::send(&theirs, b"x", &[]).is_ok() {}
        drop(theirs);
        let error = serves.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("does not read"), "{error}");
    }
}
