//! netlink in bytes: messages, attributes, and what stands in those of routes (rtnetlink(7)), read without memory of its own.
//!
//! The bytes come from zebra over TCP or from the kernel, a million routes at a time: nothing is allocated for a
//! route, and nothing is trusted ([decision 33](../../../../docs/decisions/0033-our-own-netlink-reader.md)).
//! Headers are in the byte order of the machine, addresses in that of the network.

pub mod device;
pub mod next_hop;
pub mod route;
pub mod rule;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use device::{Address, Link, Neighbor};
pub use next_hop::NextHopObject;
pub use route::{Prefix, Route, NextHop};
pub use rule::{Rule, RuleAction, TOS};

/// Bytes of the header of a message: `struct nlmsghdr`.
pub const HEADER_SIZE: usize = 16;

/// Types of messages (linux/rtnetlink.h, linux/netlink.h).
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

/// Why a message says nothing that we can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It is no such message: what was read before and comes after may be good.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// It is one, and Stoa has no such thing.
    #[error("{0}")]
    Unsupported(&'static str),
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// See [`kind`].
    pub kind: u16,
    /// Flags of netlink(7).
    pub flags: u16,
    /// The number of the request that it answers.
    pub sequence: u32,
    /// What stands behind the header.
    pub body: &'a [u8],
}

impl Message<'_> {
    /// `NLM_F_REPLACE`: a notification of what took the place of something.
    pub fn replaces(&self) -> bool {
        self.flags & 0x100 != 0
    }

    /// `NLM_F_DUMP_INTR`: the list changed while it was told, and may lack something.
    pub fn was_interrupted(&self) -> bool {
        self.flags & 0x10 != 0
    }

    /// The error number of an `ERROR` message; 0: done as asked.
    pub fn error(&self) -> i32 {
        word(self.body, 0).map_or(0, |word| -word.cast_signed())
    }
}

/// The messages of a buffer, one behind the other, aligned to 4 bytes. Ends after the first fault.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Of these bytes.
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
            None => Some(Err(MessageError::Malformed("a message is longer or shorter than it says"))),
        }
    }
}

/// One attribute: its type without the flags, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Its type, of the 14 low bits.
    pub kind: u16,
    /// Its value.
    pub value: &'a [u8],
}

/// The attributes at the end of a message. Ends after the first fault.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// Of these bytes.
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
            // NLA_F_NESTED and NLA_F_NET_BYTEORDER are no part of the type.
            let kind = half(all, 2)? & 0x3fff;
            Some((Attribute { kind, value: all.get(4..length)? }, aligned(length)))
        };
        match attribute() {
            Some((attribute, end)) => {
                self.rest = all.get(end..).unwrap_or_default();
                Some(Ok(attribute))
            }
            None => Some(Err(MessageError::Malformed("an attribute is longer or shorter than it says"))),
        }
    }
}

impl<'a> Attribute<'a> {
    /// A value of 4 bytes.
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

    /// A text, up to its zero.
    fn text(&self) -> Result<&'a str, MessageError> {
        let end = self.value.iter().position(|byte| *byte == 0).unwrap_or(self.value.len());
        std::str::from_utf8(&self.value[..end]).map_err(|_| MessageError::Malformed("a text is no UTF-8"))
    }
}

/// Four bytes at a place, in the machine's order.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Two bytes at a place, in the machine's order.
fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// Lengths are rounded up to 4.
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

/// A request: the header, and what stands behind it.
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
