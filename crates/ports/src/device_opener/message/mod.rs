//! The messages of the device opener and their layout. Numbers are in host byte order: both ends are one program.
//!
//! ```text
//! request:  0 number (u32) | 4 operation | 5 its options | 6 length of the namespace's name | 7 of the device's name
//!           8 index of the device (u32)  | 12 the namespace's identity: device, inode (u64 each) | 28 the two names
//! answer:   0 number (u32) | 4 status    | 5 count of descriptors | 6 zero (u16)
//!           8 value or error number (u32) | 12 text
//! ```
//! A message has exactly one encoding. What an operation has no use for is zero or empty.

use super::operation::{Operation, SocketKind};
use crate::config::XdpAttach;
use crate::folders::is_safe;
use crate::netdevice::check_name;
use crate::netns::{Identity, NotEntered, Step};

/// Bytes of the fixed part of an answer.
const HEAD: usize = 12;
/// Bytes of the fixed part of a request.
const REQUEST_HEAD: usize = HEAD + 16;
/// Bytes of the longest request.
pub const REQUEST_MAX: usize = REQUEST_HEAD + 255 + libc::IFNAMSIZ - 1;
/// Bytes of the longest text of an answer.
const TEXT_MAX: usize = 1024;
/// Bytes of the longest answer.
pub const ANSWER_MAX: usize = HEAD + TEXT_MAX;

/// In the options of an XDP program, above the two bits that say where it is attached.
const IS_VIRTUAL: u8 = 1 << 2;
const FRAGMENTS: u8 = 1 << 3;

/// What the forwarder asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The answer has the same.
    pub number: u32,
    /// The name of a namespace in `/run/netns`, never a path.
    pub netns: String,
    /// Which namespace has that name, as the forwarder knows it.
    pub expected: Identity,
    /// What to do there.
    pub operation: Operation,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// That of the request.
    pub number: u32,
    /// What it led to.
    pub result: Result<Done, Refusal>,
}

/// A successful operation; its descriptors are beside the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// How many.
    pub descriptors: u8,
    /// See [`Operation`].
    pub value: u32,
    /// See [`Operation`].
    pub text: String,
}

/// Why a request was not fulfilled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is no valid request.
    Invalid,
    /// The namespace was not entered.
    NotEntered(NotEntered),
    /// The operation failed.
    Failed {
        /// The system's error number; 0: only the text is known.
        errno: i32,
        /// The error in words.
        text: String,
    },
}

/// The number of a request, however wrong the rest is.
pub fn number(bytes: &[u8]) -> u32 {
    word(bytes, 0).unwrap_or(0)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Request {
    /// The request as a message.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, options, index, device) = match &self.operation {
            Operation::Socket(SocketKind::Packet) => (0, 0, 0, ""),
            Operation::Socket(SocketKind::Xdp) => (1, 0, 0, ""),
            Operation::Socket(SocketKind::Route) => (2, 0, 0, ""),
            Operation::Socket(SocketKind::Generic) => (3, 0, 0, ""),
            Operation::Tun => (4, 0, 0, ""),
            Operation::AttachXdp { index, attach, is_virtual, fragments } => {
                let place = match attach {
                    XdpAttach::Auto => 0,
                    XdpAttach::Native => 1,
                    XdpAttach::Generic => 2,
                };
                let is_virtual = if *is_virtual { IS_VIRTUAL } else { 0 };
                let fragments = if *fragments { FRAGMENTS } else { 0 };
                (5, place | is_virtual | fragments, *index, "")
            }
            Operation::DropBehindSockets { index } => (6, 0, *index, ""),
            Operation::Settings { device } => (7, 0, 0, device.as_str()),
        };
        let mut bytes = Vec::with_capacity(REQUEST_MAX);
        bytes.extend(self.number.to_ne_bytes());
        // Names that are too long make a message that no decoder takes.
        bytes.extend([kind, options, self.netns.len() as u8, device.len() as u8]);
        bytes.extend(index.to_ne_bytes());
        bytes.extend(self.expected.device.to_ne_bytes());
        bytes.extend(self.expected.inode.to_ne_bytes());
        bytes.extend(self.netns.as_bytes());
        bytes.extend(device.as_bytes());
        bytes
    }

    /// The request of a message that anybody may have written; `None`: it is not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let &[kind, options, netns_length, device_length] = bytes.get(4..8)?.first_chunk()?;
        let index = word(bytes, 8)?;
        let expected = Identity { device: long(bytes, HEAD)?, inode: long(bytes, HEAD + 8)? };
        let names = bytes.get(REQUEST_HEAD..)?;
        let (netns, device) = names.split_at_checked(netns_length.into())?;
        if device.len() != usize::from(device_length) {
            return None;
        }
        let (netns, device) = (std::str::from_utf8(netns).ok()?, std::str::from_utf8(device).ok()?);
        let operation = match kind {
            0 => Operation::Socket(SocketKind::Packet),
            1 => Operation::Socket(SocketKind::Xdp),
            2 => Operation::Socket(SocketKind::Route),
            3 => Operation::Socket(SocketKind::Generic),
            4 => Operation::Tun,
            5 => Operation::AttachXdp {
                index,
                attach: match options & !(IS_VIRTUAL | FRAGMENTS) {
                    0 => XdpAttach::Auto,
                    1 => XdpAttach::Native,
                    2 => XdpAttach::Generic,
                    _ => return None,
                },
                is_virtual: options & IS_VIRTUAL != 0,
                fragments: options & FRAGMENTS != 0,
            },
            6 => Operation::DropBehindSockets { index },
            7 => Operation::Settings { device: device.to_owned() },
            _ => return None,
        };
        let has_options = matches!(operation, Operation::AttachXdp { .. });
        let has_device = matches!(operation, Operation::Settings { .. });
        let has_index = has_options || matches!(operation, Operation::DropBehindSockets { .. });
        let is_whole = (has_options || options == 0)
            && (has_index == (index != 0))
            && if has_device { is_device(device) } else { device.is_empty() };
        let (number, netns) = (number(bytes), netns.to_owned());
        let request = Self { number, netns, expected, operation };
        (is_whole && is_safe(&request.netns)).then_some(request)
    }
}

/// Whether this may be the name of one device: in `/proc/sys/net` stand others beside them.
fn is_device(name: &str) -> bool {
    check_name(name).is_ok() && is_safe(name) && !["all", "default"].contains(&name)
}

impl Answer {
    /// The answer as a message.
    pub fn encode(&self) -> Vec<u8> {
        let (status, descriptors, value, text) = match &self.result {
            Ok(Done { descriptors, value, text }) => (0, *descriptors, *value, text.as_str()),
            Err(Refusal::Invalid) => (1, 0, 0, ""),
            Err(Refusal::NotEntered(NotEntered { step, errno })) => {
                let status = match step {
                    Step::Open => 2,
                    Step::Enter => 3,
                    Step::Thread => 4,
                    Step::Compare => 6,
                };
                (status, 0, errno.cast_unsigned(), "")
            }
            Err(Refusal::Failed { errno, text }) => (5, 0, errno.cast_unsigned(), text.as_str()),
        };
        let text = &text[..text.floor_char_boundary(TEXT_MAX)];
        let mut bytes = Vec::with_capacity(HEAD + text.len());
        bytes.extend(self.number.to_ne_bytes());
        bytes.extend([status, descriptors, 0, 0]);
        bytes.extend(value.to_ne_bytes());
        bytes.extend(text.as_bytes());
        bytes
    }

    /// The answer of a message; `None`: it is not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let &[status, descriptors, zero, null] = bytes.get(4..8)?.first_chunk()?;
        let value = word(bytes, 8)?;
        let text = std::str::from_utf8(bytes.get(HEAD..)?).ok()?.to_owned();
        let errno = value.cast_signed();
        let is_plain = descriptors == 0 && text.is_empty();
        let not_entered = |step| Err(Refusal::NotEntered(NotEntered { step, errno }));
        let result = match status {
            0 => Ok(Done { descriptors, value, text }),
            1 if is_plain && value == 0 => Err(Refusal::Invalid),
            2 if is_plain => not_entered(Step::Open),
            3 if is_plain => not_entered(Step::Enter),
            4 if is_plain => not_entered(Step::Thread),
            6 if is_plain => not_entered(Step::Compare),
            5 if descriptors == 0 => Err(Refusal::Failed { errno, text }),
            _ => return None,
        };
        let fits = bytes.len() <= ANSWER_MAX && [zero, null] == [0, 0];
        fits.then_some(Self { number: number(bytes), result })
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
