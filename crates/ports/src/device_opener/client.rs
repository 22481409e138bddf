//! The forwarder's end: one request at a time, each with a deadline.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::message::{ANSWER_MAX, Answer, Refusal, Request};
use super::operation::{Operation, Outcome};
use super::{Opened, channel};
use crate::error::OpenError;
use crate::netns;

/// How long the opener may take for a request. Cards that get an XDP program set up their queues anew, for seconds.
const DEADLINE: Duration = Duration::from_secs(20);

/// The device opener of this process.
struct Opener {
    socket: OwnedFd,
    process: Child,
    /// Of the last request.
    number: u32,
}

static OPENER: Mutex<Option<Opener>> = Mutex::new(None);

fn opener() -> MutexGuard<'static, Option<Opener>> {
    OPENER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins the process that opens devices in other namespaces for this one from now on. `program` is one that calls
/// [`super::serve`]; it gets the socket as its standard input.
///
/// # Errors
/// The system refuses a socket or the process.
pub fn start(program: &mut Command) -> io::Result<()> {
    let (socket, of_opener) = channel::pair(DEADLINE)?;
    let process = program.stdin(Stdio::from(of_opener)).stdout(Stdio::null()).spawn()?;
    *opener() = Some(Opener { socket, process, number: 0 });
    Ok(())
}

/// Ends the process that [`start`] began, and waits for its end.
pub fn end() {
    let Some(Opener { socket, mut process, .. }) = opener().take() else { return };
    drop(socket);
    let _ = process.wait();
}

/// Whether this process has a device opener, be it dead.
pub(super) fn is_started() -> bool {
    opener().is_some()
}

/// Has an operation performed in the namespace of that name.
pub(super) fn ask(netns: &str, operation: Operation) -> Opened<Outcome> {
    let mut opener = opener();
    let opener = opener.as_mut().ok_or_else(|| unavailable("was not started".to_owned()))?;
    let expected = operation.descriptors();
    let (answer, descriptors) = match opener.exchange(netns, operation) {
        Ok(answered) => answered,
        Err(error) => return Err(unavailable(opener.reason(&error))),
    };
    match answer.result {
        Ok(done) if descriptors.len() == expected => {
            Ok(Ok(Outcome { descriptors, value: done.value, text: done.text }))
        }
        Ok(_) => Err(unavailable("sent something else".to_owned())),
        Err(Refusal::Invalid) => Err(OpenError::Config {
            field: "netns",
            reason: format!(
                "the device opener refuses network namespace {netns:?}: name one of /run/netns"
            ),
        }),
        Err(Refusal::NotEntered(error)) => Err(netns::explain(netns, error)),
        Err(Refusal::Failed { errno: 0, text }) => Ok(Err(io::Error::other(text))),
        Err(Refusal::Failed { errno, .. }) => Ok(Err(io::Error::from_raw_os_error(errno))),
    }
}

fn unavailable(reason: String) -> OpenError {
    OpenError::NoOpener { reason }
}

impl Opener {
    fn exchange(
        &mut self,
        netns: &str,
        operation: Operation,
    ) -> io::Result<(Answer, Vec<OwnedFd>)> {
        self.number = self.number.wrapping_add(1);
        let request = Request { number: self.number, netns: netns.to_owned(), operation };
        channel::send(&self.socket, &request.encode(), &[])?;
        let mut bytes = [0; ANSWER_MAX];
        loop {
            let (length, descriptors) = channel::receive(&self.socket, &mut bytes)?;
            let answer = Answer::decode(&bytes[..length]).ok_or(ErrorKind::InvalidData)?;
            // An earlier request was given up; its descriptors are closed.
            if answer.number == self.number {
                return Ok((answer, descriptors));
            }
        }
    }

    /// What is wrong with the process.
    fn reason(&mut self, error: &io::Error) -> String {
        match (self.process.try_wait(), error.kind()) {
            (Ok(Some(status)), _) => format!("has ended ({status})"),
            (_, ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                "has ended".to_owned()
            }
            (_, ErrorKind::WouldBlock) => {
                format!("did not answer within {} s", DEADLINE.as_secs())
            }
            _ => format!("does not work: {error}"),
        }
    }
}
