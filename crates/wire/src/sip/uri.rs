//! Addresses and ports in `Via` headers and URIs.

use core::net::Ipv4Addr;

use super::{PORT, Part};

/// An IPv4 address, with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As `host:port`, or `host` without a port.
    Host(Ipv4Addr, Option<u16>),
    /// As the value of a parameter, such as `received` (RFC 3261 section 18.2.1).
    Parameter(Ipv4Addr),
    /// The parameter `rport` (RFC 3581).
    Port(u16),
}

impl End {
    /// The port at which a host is reached, if this is one of its ends.
    pub fn port_of(self, address: Ipv4Addr) -> Option<u16> {
        match self {
            Self::Host(of, port) if of == address => Some(port.unwrap_or(PORT)),
            _ => None,
        }
    }
}

/// An end, and where it is in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The end.
    pub end: End,
    /// Its bytes.
    pub text: Part,
}

/// The ends in a line, from a place on. Quoted text is passed over.
pub(super) fn ends(line: &[u8], from: usize) -> impl Iterator<Item = Place> + Clone {
    Ends { line, at: from, is_quoted: false }
}

#[derive(Clone)]
struct Ends<'a> {
    line: &'a [u8],
    at: usize,
    is_quoted: bool,
}

/// What is in front of an address.
fn begins(before: Option<u8>) -> bool {
    before.is_none_or(|byte| b" \t@:=,<;/".contains(&byte))
}

/// What is behind it.
fn ends_with(behind: Option<&u8>) -> bool {
    behind.is_none_or(|byte| b" \t:;>,?\r\n".contains(byte))
}

/// The IPv4 address at the beginning of a text, and its bytes.
fn address(text: &[u8]) -> Option<(Ipv4Addr, usize)> {
    let is_part = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
    let length = text.iter().take(16).take_while(is_part).count();
    let address = core::str::from_utf8(text.get(..length)?).ok()?.parse().ok()?;
    ends_with(text.get(length)).then_some((address, length))
}

/// The port at the beginning of a text, and its bytes.
fn port(text: &[u8]) -> Option<(u16, usize)> {
    let length = text.iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
    let port = core::str::from_utf8(text.get(..length)?).ok()?.parse().ok()?;
    (ends_with(text.get(length)) && port != 0).then_some((port, length))
}

impl Ends<'_> {
    fn here(&self) -> Option<Place> {
        let (at, rest) = (self.at, self.line.get(self.at..)?);
        let before = at.checked_sub(1).and_then(|at| self.line.get(at)).copied();
        if rest.get(..6).is_some_and(|name| name.eq_ignore_ascii_case(b"rport=")) {
            let (port, length) = port(&rest[6..]).filter(|_| before == Some(b';'))?;
            return Some(Place { end: End::Port(port), text: at + 6..at + 6 + length });
        }
        if !begins(before) {
            return None;
        }
        let (address, length) = address(rest)?;
        let end = at + length;
        if before == Some(b'=') {
            return Some(Place { end: End::Parameter(address), text: at..end });
        }
        let behind = self.line.get(end..).and_then(|rest| rest.strip_prefix(b":"));
        match behind.map(port) {
            None => Some(Place { end: End::Host(address, None), text: at..end }),
            Some(Some((port, length))) => {
                let text = at..end + 1 + length;
                Some(Place { end: End::Host(address, Some(port)), text })
            }
            // No port: nothing that may be changed.
            Some(None) => None,
        }
    }
}

impl Iterator for Ends<'_> {
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
        while let Some(byte) = self.line.get(self.at) {
            match byte {
                b'\\' if self.is_quoted => self.at += 1,
                b'"' => self.is_quoted = !self.is_quoted,
                _ if self.is_quoted => {}
                b'0'..=b'9' | b'r' | b'R' => {
                    if let Some(place) = self.here() {
                        self.at = place.text.end;
                        return Some(place);
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
        None
    }
}
