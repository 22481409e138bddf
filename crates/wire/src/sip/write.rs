//! Messages with other addresses and ports.

use core::net::{IpAddr, Ipv4Addr};

use super::sdp::{self, MEDIA};
use super::uri::{self, End};
use super::{Header, Line, Message, PORT, Part};

/// A host that has other ends in a message than in the one that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host<'a> {
    /// Its address in the received message.
    pub from: Ipv4Addr,
    /// Its new one.
    pub to: Ipv4Addr,
    /// Its ports, each with its new one. Ends with other ports stay as they are.
    pub ports: &'a [(u16, u16)],
}

impl Host<'_> {
    fn port(&self, port: u16) -> Option<u16> {
        self.ports.iter().find(|(from, _)| *from == port).map(|(_, to)| *to)
    }

    /// What becomes of an end of this host.
    fn end(&self, end: End) -> Option<End> {
        match end {
            End::Host(address, port) if address == self.from => {
                let new = self.port(port.unwrap_or(PORT))?;
                // Without a port, as long as that is not another one.
                let port = if port.is_none() && new == PORT { None } else { Some(new) };
                Some(End::Host(self.to, port))
            }
            End::Parameter(address) if address == self.from => Some(End::Parameter(self.to)),
            End::Port(port) => self.port(port).map(End::Port),
            _ => None,
        }
    }

    /// Whether a value names this host.
    fn is_in(&self, value: &[u8], from: usize) -> bool {
        let is_own = |end| match end {
            End::Host(address, _) | End::Parameter(address) => address == self.from,
            End::Port(_) => false,
        };
        uri::ends(value, from).any(|place| is_own(place.end))
    }
}

/// The hosts that have other ends; `None`: it has the same ones.
///
/// Each has them only where a message names this host: other hosts, in networks with the same private addresses, may
/// have the same ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hosts<'a> {
    /// Who sends the message: the topmost `Via` of its requests, `Contact` and `Record-Route`.
    pub sender: Option<Host<'a>>,
    /// Who receives it: the request URI and `Route`, the topmost `Via` of responses, and what they repeat of its
    /// requests.
    pub receiver: Option<Host<'a>>,
}

impl<'a> Hosts<'a> {
    /// Those which a line of a header may name.
    fn of(&self, header: Header, is_request: bool) -> [Option<Host<'a>>; 2] {
        let Self { sender, receiver } = *self;
        match header {
            Header::Via if is_request => [sender, None],
            Header::Via | Header::Route => [receiver, None],
            Header::RecordRoute if is_request => [sender, None],
            Header::RecordRoute | Header::Contact => [sender, receiver],
            _ => [None; 2],
        }
    }
}

/// Where media listen in the new message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The address in the received message, and the new one.
    pub address: (Ipv4Addr, Ipv4Addr),
    /// The new port of each medium, and that of its RTCP; `None`: they stay.
    pub ports: [Option<(u16, u16)>; MEDIA],
}

/// Text that is being written; what does not fit is missing.
struct Out<'a> {
    bytes: &'a mut [u8],
    length: usize,
    is_full: bool,
}

impl Out<'_> {
    fn put(&mut self, text: &[u8]) {
        let end = self.length + text.len();
        match self.bytes.get_mut(self.length..end).filter(|_| !self.is_full) {
            Some(to) => {
                to.copy_from_slice(text);
                self.length = end;
            }
            None => self.is_full = true,
        }
    }
}

impl core::fmt::Write for Out<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

fn put_end(out: &mut Out<'_>, end: End) {
    use core::fmt::Write as _;
    // It fails never: what does not fit is noted.
    let _ = match end {
        End::Host(address, Some(port)) => write!(out, "{address}:{port}"),
        End::Host(address, None) | End::Parameter(address) => write!(out, "{address}"),
        End::Port(port) => write!(out, "{port}"),
    };
}

/// A line with other ends.
fn put_line(out: &mut Out<'_>, line: &[u8], from: usize, hosts: [Option<Host<'_>>; 2]) {
    put_ends(out, line, from, |end| match end {
        // It is in a `Via` only.
        End::Port(_) => None,
        end => hosts.iter().flatten().find_map(|host| host.end(end)),
    });
}

fn put_ends(out: &mut Out<'_>, line: &[u8], from: usize, new: impl Fn(End) -> Option<End>) {
    let mut done = 0;
    for place in uri::ends(line, from) {
        if let Some(new) = new(place.end) {
            out.put(line.get(done..place.text.start).unwrap_or(&[]));
            put_end(out, new);
            done = place.text.end;
        }
    }
    out.put(line.get(done..).unwrap_or(&[]));
}

/// The lines of `Via`: only the first value is that of the host which this message comes from or goes to. All others
/// are those of hosts that have relayed the request.
#[derive(Default)]
struct Via {
    /// Whether the first value has begun.
    has_begun: bool,
    /// Whether it has ended.
    is_over: bool,
    /// Whether it names the host: `rport` has no address.
    is_own: bool,
}

impl Via {
    fn put(&mut self, out: &mut Out<'_>, line: &Line<'_>, host: Option<Host<'_>>) {
        // A line that continues another one has no name.
        self.is_over |= self.has_begun && line.value > 0;
        self.has_begun = true;
        let Some(host) = host.filter(|_| !self.is_over) else { return out.put(line.text) };
        let comma = line.text.iter().position(|byte| *byte == b',');
        self.is_over = comma.is_some();
        let end = comma.unwrap_or(line.text.len());
        let (value, rest) = line.text.split_at_checked(end).unwrap_or((line.text, &[]));
        self.is_own |= host.is_in(value, line.value);
        put_ends(out, value, line.value, |end| host.end(end).filter(|_| self.is_own));
        out.put(rest);
    }
}

fn put_body(out: &mut Out<'_>, body: &[u8], session: &Session) {
    let (from, to) = session.address;
    let is_own = |text: &[u8]| sdp::address(text) == Some(IpAddr::V4(from));
    let (mut count, mut new) = (0, None);
    for line in sdp::lines(body) {
        match sdp::Line::of(line) {
            sdp::Line::Address { text, .. } => {
                let is_own = is_own(line.get(text.clone()).unwrap_or(&[]));
                put_part(out, line, text, is_own.then_some(to));
            }
            sdp::Line::Media(port) => {
                new = session.ports.get(count).copied().flatten();
                count += 1;
                put_part(out, line, port, new.map(|(port, _)| port));
            }
            sdp::Line::Rtcp(port, address) => {
                let (head, tail) = line.split_at_checked(port.end).unwrap_or((line, &[]));
                let is_own = is_own(line.get(address.clone()).unwrap_or(&[]));
                let [start, end] =
                    [address.start, address.end].map(|at| at.saturating_sub(port.end));
                put_part(out, head, port, new.map(|(_, rtcp)| rtcp));
                put_part(out, tail, start..end, is_own.then_some(to));
            }
            sdp::Line::Other => out.put(line),
        }
    }
}

/// A line with something else in place of a part of it.
fn put_part(out: &mut Out<'_>, line: &[u8], part: Part, new: Option<impl core::fmt::Display>) {
    use core::fmt::Write as _;
    // A part that is missing is not added.
    let Some(new) = new.filter(|_| !part.is_empty()) else { return out.put(line) };
    out.put(line.get(..part.start).unwrap_or(&[]));
    let _ = write!(out, "{new}");
    out.put(line.get(part.end..).unwrap_or(&[]));
}

/// Writes a message with other ends of hosts, and with another session. Returns its bytes; `None`: it does not fit.
pub fn write(
    message: &Message<'_>,
    hosts: &Hosts<'_>,
    session: Option<&Session>,
    bytes: &mut [u8],
) -> Option<usize> {
    use core::fmt::Write as _;
    let session = session.filter(|_| message.has_sdp);
    let mut out = Out { bytes, length: 0, is_full: false };
    let body = match session {
        None => message.body.len(),
        Some(session) => {
            // Its length is written before it.
            put_body(&mut out, message.body, session);
            core::mem::take(&mut out.length)
        }
    };
    let (is_request, mut via) = (message.status.is_none(), Via::default());
    for line in message.lines() {
        match line.header {
            None if is_request => put_line(&mut out, line.text, 0, [hosts.receiver, None]),
            Some(header) if header.has_ends() => {
                let hosts = hosts.of(header, is_request);
                match header {
                    Header::Via => via.put(&mut out, &line, hosts[0]),
                    _ => put_line(&mut out, line.text, line.value, hosts),
                }
            }
            Some(Header::ContentLength) if line.value > 0 => {
                out.put(&line.text[..line.value]);
                let _ = write!(out, " {body}\r\n");
            }
            _ => out.put(line.text),
        }
    }
    match session {
        None => out.put(message.body),
        Some(session) => put_body(&mut out, message.body, session),
    }
    (!out.is_full).then_some(out.length)
}
