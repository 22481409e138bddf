//! The forwarder's end: one request at a time, each with a deadline.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::message::{ANSWER_MAX, Answer, Refusal, Request};
use super::operation::{Operation, Outcome};
use super::{Opened, channel};
use crate::error::OpenError;
use crate::netns::{self, Identity};

/// How long the opener may take for a request.
const DEADLINE: Duration = Duration::from_secs(20);
/// The same for an XDP program. Cards set up their queues anew, for seconds each; one answer that comes too late would
/// be followed by others, since the port tries again.
const ATTACH_DEADLINE: Duration = Duration::from_secs(120);

/// The device opener of this process.
struct Opener {
    socket: OwnedFd,
    process: Child,
    /// Of the last request.
    number: u32,
    /// Whether [`newly_ended`] has reported the end of the process.
    has_ended: bool,
}

/// What was made of the device opener of this process.
enum State {
    /// It has none, and enters namespaces by itself.
    None,
    Started(Opener),
    /// Why it has none. It gives up the right to enter namespaces by itself.
    Failed(String),
}

static OPENER: Mutex<State> = Mutex::new(State::None);

fn opener() -> MutexGuard<'static, State> {
    OPENER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins the process that opens devices in other namespaces for this one from now on. `program` is one that calls
/// [`super::serve`]; it gets the socket as its standard input. If the program calls [`super::end_with_parent`], it ends
/// with the calling thread.
///
/// # Errors
/// The system refuses a socket or the process. Devices in other namespaces are not opened from then on.
pub fn start(program: &mut Command) -> io::Result<()> {
    let started = spawn(program);
    let (state, done) = match started {
        Ok(started) => (State::Started(started), Ok(())),
        Err(error) => (State::Failed(format!("was not started ({error})")), Err(error)),
    };
    *opener() = state;
    done
}

fn spawn(program: &mut Command) -> io::Result<Opener> {
    let (socket, of_opener) = channel::pair()?;
    let process = program.stdin(Stdio::from(of_opener)).stdout(Stdio::null()).spawn()?;
    Ok(Opener { socket, process, number: 0, has_ended: false })
}

/// Ends the process that [`start`] began, and waits for its end.
pub fn end() {
    let state = std::mem::replace(&mut *opener(), State::None);
    let State::Started(Opener { socket, mut process, .. }) = state else { return };
    drop(socket);
    let _ = process.wait();
}

/// How the process that [`start`] began has ended, once. To be called from time to time; never waits.
pub fn newly_ended() -> Option<ExitStatus> {
    let mut state = OPENER.try_lock().ok()?;
    let State::Started(opener) = &mut *state else { return None };
    let status = if opener.has_ended { None } else { opener.process.try_wait().ok()? };
    opener.has_ended |= status.is_some();
    status
}

/// Whether this process leaves namespaces to a device opener, be that dead or never started.
pub(super) fn is_in_charge() -> bool {
    !matches!(*opener(), State::None)
}

/// Has an operation performed in the namespace of that name, if it is the expected one.
pub(super) fn ask(netns: &str, expected: Identity, operation: Operation) -> Opened<Outcome> {
    let mut opener = opener();
    let opener = match &mut *opener {
        State::Started(opener) => opener,
        State::Failed(reason) => return Err(unavailable(reason.clone())),
        State::None => return Err(unavailable("was not started".to_owned())),
    };
    let count = operation.descriptors();
    let deadline = deadline(&operation);
    let (answer, descriptors) = match opener.exchange((netns, expected), operation, deadline) {
        Ok(answered) => answered,
        Err(error) => return Err(unavailable(opener.reason(&error, deadline))),
    };
    match answer.result {
        Ok(done) if descriptors.len() == count => {
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

/// How long that may take.
fn deadline(operation: &Operation) -> Duration {
    if matches!(operation, Operation::AttachXdp { .. }) { ATTACH_DEADLINE } else { DEADLINE }
}

fn unavailable(reason: String) -> OpenError {
    OpenError::NoOpener { reason }
}

impl Opener {
    fn exchange(
        &mut self,
        (netns, expected): (&str, Identity),
        operation: Operation,
        deadline: Duration,
    ) -> io::Result<(Answer, Vec<OwnedFd>)> {
        self.number = self.number.wrapping_add(1);
        let (number, netns) = (self.number, netns.to_owned());
        let request = Request { number, netns, expected, operation };
        channel::give_up_after(&self.socket, deadline)?;
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
    fn reason(&mut self, error: &io::Error, deadline: Duration) -> String {
        match (self.process.try_wait(), error.kind()) {
            (Ok(Some(status)), _) => format!("has ended ({status})"),
            (_, ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                "has ended".to_owned()
            }
            (_, ErrorKind::WouldBlock) => {
                format!("did not answer within {} s", deadline.as_secs())
            }
            _ => format!("does not work: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{getsockopt, sockopt};

    use super::*;
    use crate::config::XdpAttach;
    use crate::device_opener::SocketKind;
    use crate::device_opener::message::{Done, REQUEST_MAX};

    /// An opener that has answered already; returns the seconds that the client would have waited.
    fn waits(operation: Operation) -> i64 {
        let (socket, of_opener) = channel::pair().unwrap();
        let done = Done { descriptors: 0, ..Done::default() };
        let answer = Answer { number: 1, result: Ok(done) }.encode();
        channel::send(&of_opener, &answer, &[]).unwrap();
        let process = Command::new("/bin/true").spawn().unwrap();
        let mut opener = Opener { socket, process, number: 0, has_ended: false };
        let deadline = deadline(&operation);
        let expected = Identity { device: 4, inode: 7 };
        opener.exchange(("blue", expected), operation, deadline).unwrap();
        let mut request = [0; REQUEST_MAX];
        let length = channel::receive_plain(&of_opener, &mut request).unwrap().unwrap();
        let request = Request::decode(&request[..length]).unwrap();
        assert_eq!((request.netns.as_str(), request.expected), ("blue", expected));
        opener.process.wait().unwrap();
        getsockopt(&opener.socket, sockopt::ReceiveTimeout).unwrap().tv_sec()
    }

    #[test]
    fn an_xdp_program_may_take_longer() {
        let attach = XdpAttach::Auto;
        let slow = Operation::AttachXdp { index: 1, attach, is_virtual: false, fragments: false };
        assert_eq!(waits(Operation::Socket(SocketKind::Packet)), 20);
        assert_eq!(waits(slow), 120);
    }
}
