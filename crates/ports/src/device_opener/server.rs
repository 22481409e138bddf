//! The opener's end. Whoever sends requests may have taken the forwarder over: a request that is not valid is refused,
//! and does not end the process.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd, RawFd};

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

/// Answers requests until the other end is closed. `refused` is called for each invalid one.
///
/// # Errors
/// The system refuses to receive or to send.
pub fn serve(socket: &OwnedFd, mut refused: impl FnMut()) -> io::Result<()> {
    // One byte more than a request has: one that is too long is seen.
    let mut bytes = [0; REQUEST_MAX + 1];
    loop {
        let length = match channel::receive_plain(socket, &mut bytes) {
            Ok(Some(length)) => length,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = &bytes[..length];
        let (result, descriptors) = match Request::decode(bytes) {
            Some(request) => perform(&request),
            None => {
                refused();
                (Err(Refusal::Invalid), Vec::new())
            }
        };
        let answer = Answer { number: number(bytes), result };
        match channel::send(socket, &answer.encode(), &descriptors) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            done => done?,
        }
    }
}

fn perform(request: &Request) -> (Result<Done, Refusal>, Vec<OwnedFd>) {
    let performed = netns::enter(&request.netns, || request.operation.perform());
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
