//! A netlink parser: messages and attributes of rtnetlink(7), without allocation.
//!
//! The bytes come from zebra over TCP or from the kernel, a million routes at a time: nothing is allocated
//! per route, and nothing is trusted ([decision
//! 33](../../../../docs/decisions/0033-our-own-netlink-reader.md)). Headers are in host byte order, addresses
//! in network byte order.

pub mod device;
pub mod next_hop;
pub mod route;
pub mod rule;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use device::{Address, Link, Neighbor};
pub use next_hop::NextHopObject;
pub use route::{NextHop, Prefix, Route};
pub use rule::{Rule, RuleAction, TOS};

/// Marks Stoa's routes and addresses (rtnetlink(7), rtm_protocol): a number that `/etc/iproute2/rt_protos`
/// does not assign.
pub const RTPROT_STOA: u8 = 83;

/// Size of the message header, `struct nlmsghdr`.
pub const HEADER_SIZE: usize = 16;

/// Message types (linux/rtnetlink.h, linux/netlink.h).
#[allow(missing_docs)]
pub mod kind {
    pub const ERROR: u16 = 2;
    pub const DONE: u16 = 3;
    pub const NEW_LINK: u16 = 16;
    pub const DEL_LINK: u16 = 17;
    pub const GET_LINK: u16 = 18;
    pub const NEW_ADDRESS: u16 = 20;
    pub const DEL_ADDRESS: u16 = 21;
    pub const GET_ADDRESS: u16 = 22;
    pub const NEW_ROUTE: u16 = 24;
    pub const DEL_ROUTE: u16 = 25;
    pub const GET_ROUTE: u16 = 26;
    pub const NEW_NEIGHBOR: u16 = 28;
    pub const DEL_NEIGHBOR: u16 = 29;
    pub const GET_NEIGHBOR: u16 = 30;
    pub const NEW_RULE: u16 = 32;
    pub const DEL_RULE: u16 = 33;
    pub const GET_RULE: u16 = 34;
    pub const NEW_NEXT_HOP: u16 = 104;
    pub const DEL_NEXT_HOP: u16 = 105;
    pub const GET_NEXT_HOP: u16 = 106;
}

/// Address families (linux/socket.h).
pub const FAMILY_ANY: u8 = 0;
/// IPv4.
pub const FAMILY_IP4: u8 = 2;
/// IPv6.
pub const FAMILY_IP6: u8 = 10;

/// Why a message cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It is malformed; messages before and after it may be valid.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// It is valid, but Stoa does not support what it describes.
    #[error("{0}")]
    Unsupported(&'static str),
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Message type, see [`kind`].
    pub kind: u16,
    /// Flags of netlink(7).
    pub flags: u16,
    /// Sequence number of the request it replies to.
    pub sequence: u32,
    /// What follows the header.
    pub body: &'a [u8],
}

impl Message<'_> {
    /// `NLM_F_REPLACE`: the notification replaces an object.
    pub fn replaces(&self) -> bool {
        self.flags & 0x100 != 0
    }

    /// `NLM_F_DUMP_INTR`: the dump was inconsistent and may be incomplete.
    pub fn was_interrupted(&self) -> bool {
        self.flags & 0x10 != 0
    }

    /// The error number of an `ERROR` message; 0: acknowledgement.
    pub fn error(&self) -> i32 {
        word(self.body, 0).map_or(0, |word| -word.cast_signed())
    }
}

/// The messages of a buffer, each aligned to 4 bytes. Ends after the first malformed one.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// The messages in these bytes.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, MessageError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let all = std::mem::take(&mut self.rest);
        let message = || {
            let length = word(all, 0)? as usize;
            let body = all.get(HEADER_SIZE..length)?;
            let (kind, flags) = (half(all, 4)?, half(all, 6)?);
            Some((Message { kind, flags, sequence: word(all, 8)?, body }, aligned(length)))
        };
        match message() {
            Some((message, end)) => {
                self.rest = all.get(end..).unwrap_or_default();
                Some(Ok(message))
            }
            None => {
                Some(Err(MessageError::Malformed("a message is longer or shorter than it says")))
            }
        }
    }
}

/// One attribute: type without flags, and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Type, the low 14 bits.
    pub kind: u16,
    /// Its value.
    pub value: &'a [u8],
}

/// The attributes at the end of a message. Ends after the first malformed one.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// The attributes in these bytes.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, MessageError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let all = std::mem::take(&mut self.rest);
        let attribute = || {
            let length = usize::from(half(all, 0)?);
            // NLA_F_NESTED and NLA_F_NET_BYTEORDER are not part of the type.
            let kind = half(all, 2)? & 0x3fff;
            Some((Attribute { kind, value: all.get(4..length)? }, aligned(length)))
        };
        match attribute() {
            Some((attribute, end)) => {
                self.rest = all.get(end..).unwrap_or_default();
                Some(Ok(attribute))
            }
            None => {
                Some(Err(MessageError::Malformed("an attribute is longer or shorter than it says")))
            }
        }
    }
}

impl<'a> Attribute<'a> {
    /// A 4-byte value.
    fn word(&self) -> Result<u32, MessageError> {
        match *self.value {
            [a, b, c, d] => Ok(u32::from_ne_bytes([a, b, c, d])),
            _ => Err(MessageError::Malformed("an attribute of 4 bytes has another length")),
        }
    }

    /// An address of this family.
    fn address(&self, family: u8) -> Result<IpAddr, MessageError> {
        match (family, self.value.len()) {
            (FAMILY_IP4, 4) | (FAMILY_IP6, 16) => {
                ip(self.value).ok_or(MessageError::Malformed("an address has a wrong length"))
            }
            _ => Err(MessageError::Malformed("an address is not of the family of its message")),
        }
    }

    /// A string, up to its NUL.
    fn text(&self) -> Result<&'a str, MessageError> {
        let end = self.value.iter().position(|byte| *byte == 0).unwrap_or(self.value.len());
        std::str::from_utf8(&self.value[..end])
            .map_err(|_| MessageError::Malformed("a string is not UTF-8"))
    }
}

/// Four bytes at an offset, in host byte order.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Two bytes at an offset, in host byte order.
fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// Rounds a length up to 4.
fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// An address of 4 or 16 bytes.
fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

/// A request: header and body.
pub fn request(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let length = HEADER_SIZE + body.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}

#[cfg(test)]
mod tests;
