//! SIP messages (RFC 3261) as far as an application level gateway has to read them, and to write them anew: addresses
//! and ports in `Via`, `Contact`, `Route`, `Record-Route` and the request URI, and the media that their body announces
//! ([`sdp`]).
//!
//! A message is a whole datagram. [`write`](fn@write::write) gives it other addresses and ports, and corrects
//! `Content-Length`.

mod method;
pub mod sdp;
mod uri;
pub mod write;

use core::net::Ipv4Addr;
use core::ops::Range;

pub use method::{Method, Sequence};
pub use uri::{End, Place};

/// Bytes of the longest message that is read, and written.
pub const LONGEST: usize = 2_048;
/// The port that a URI or `Via` without one means (RFC 3261 section 19.1.2).
pub const PORT: u16 = 5060;
/// Ends of a host that are read of a message.
pub const ENDS: usize = 4;

causes! {
    /// Why a message is not read.
    SipError {
        TooLong = "sip-too-long", "the SIP message has more than 2,048 bytes, or more than 4 media";
        Malformed = "sip-malformed", "the SIP message has no valid start line, header or session description";
    }
}

/// What a header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    Via,
    Contact,
    Route,
    RecordRoute,
    ContentLength,
    ContentType,
    ContentEncoding,
    Sequence,
    CallId,
    To,
    Expires,
    Other,
}

impl Header {
    /// Whether it names ends, at which somebody takes messages.
    pub(crate) fn has_ends(self) -> bool {
        matches!(self, Self::Via | Self::Contact | Self::Route | Self::RecordRoute)
    }
}

/// Names of headers, with their compact forms (RFC 3261 section 7.3.3), and what they are.
const NAMES: [(&[u8], &[u8], Header); 11] = [
    (b"via", b"v", Header::Via),
    (b"contact", b"m", Header::Contact),
    (b"route", b"", Header::Route),
    (b"record-route", b"", Header::RecordRoute),
    (b"content-length", b"l", Header::ContentLength),
    (b"content-type", b"c", Header::ContentType),
    (b"content-encoding", b"e", Header::ContentEncoding),
    (b"cseq", b"", Header::Sequence),
    (b"call-id", b"i", Header::CallId),
    (b"to", b"t", Header::To),
    (b"expires", b"", Header::Expires),
];

/// A line of the head, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// With its end.
    pub(crate) text: &'a [u8],
    /// What it is; `None`: the start line.
    pub(crate) header: Option<Header>,
    /// Where its value begins.
    pub(crate) value: usize,
}

impl<'a> Line<'a> {
    fn value(&self) -> &'a [u8] {
        trimmed(self.text.get(self.value..).unwrap_or(&[]))
    }
}

fn trimmed(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

/// The header of a line, and where its value begins; `None`: it has no name.
fn header(line: &[u8]) -> Option<(Header, usize)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = trimmed(&line[..colon]);
    if name.is_empty() || name.iter().any(|byte| byte.is_ascii_whitespace()) {
        return None;
    }
    let is = |of: &[u8]| name.eq_ignore_ascii_case(of);
    let known = NAMES.iter().find(|(long, short, _)| is(long) || is(short));
    Some((known.map_or(Header::Other, |(_, _, header)| *header), colon + 1))
}

/// The lines of a head, up to the empty one. A line that begins with a blank continues the one before (RFC 3261 section
/// 7.3.1).
#[derive(Clone, Debug)]
pub(crate) struct Lines<'a> {
    rest: &'a [u8],
    last: Option<Header>,
    is_first: bool,
}

impl<'a> Lines<'a> {
    fn of(head: &'a [u8]) -> Self {
        Self { rest: head, last: None, is_first: true }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let (text, rest) = self.rest.split_at(end.map_or(self.rest.len(), |end| end + 1));
        self.rest = rest;
        if core::mem::take(&mut self.is_first) {
            return Some(Line { text, header: None, value: 0 });
        }
        let continues = matches!(text.first(), Some(b' ' | b'\t'));
        let (found, value) = match header(text) {
            _ if continues => (self.last.unwrap_or(Header::Other), 0),
            Some(found) => found,
            None => (Header::Other, 0),
        };
        self.last = Some(found);
        Some(Line { text, header: Some(found), value })
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The start line and all headers, with the empty line behind them.
    head: &'a [u8],
    /// The body.
    pub body: &'a [u8],
    /// The status of a response; `None`: it is a request.
    pub status: Option<u16>,
    /// Whether the body is a session description.
    pub has_sdp: bool,
    /// The header `CSeq`: the request that it is, or that it answers.
    pub sequence: Sequence,
    /// The header `Call-ID`, the same in all messages of a call; empty: there is none.
    pub call_id: &'a [u8],
    /// The header `To`.
    to: &'a [u8],
    /// The header `Expires`, in seconds.
    expires: Option<u32>,
}

/// The version that start lines have, at their end or at their beginning.
const VERSION: &[u8] = b"SIP/2.0";

/// Whether a datagram is one of those that only keep an address translation alive (RFC 5626 section 3.5.1), or answers
/// one.
pub fn is_keep_alive(data: &[u8]) -> bool {
    data.iter().all(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

/// The number at the beginning of a text, if nothing but its end or a separator is behind it.
fn number(text: &[u8]) -> Option<u32> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_end = text.get(digits).is_none_or(|byte| b" \t;,\r\n".contains(byte));
    let text = core::str::from_utf8(text.get(..digits)?).ok()?;
    text.parse().ok().filter(|_| is_end)
}

/// The status of a response, or `None` for a request.
fn status(line: &[u8]) -> Result<Option<u16>, SipError> {
    let line = trimmed(line);
    if let Some(rest) = line.strip_prefix(VERSION) {
        let status = number(rest.strip_prefix(b" ").unwrap_or(&[]));
        let status = status.and_then(|it| u16::try_from(it).ok());
        return status.filter(|it| (100..700).contains(it)).map(Some).ok_or(SipError::Malformed);
    }
    let is_request = line.strip_suffix(VERSION).is_some_and(|rest| rest.ends_with(b" "));
    if is_request { Ok(None) } else { Err(SipError::Malformed) }
}

/// Reads a datagram as a message.
///
/// # Errors
/// See [`SipError`].
pub fn read(data: &[u8]) -> Result<Message<'_>, SipError> {
    // Before the start line, empty lines are passed over (RFC 3261 section 7.5): with those it would be another text.
    let first = data.iter().position(|byte| *byte == b'\n').ok_or(SipError::Malformed)?;
    let status = status(&data[..first])?;
    if data.len() > LONGEST {
        return Err(SipError::TooLong);
    }
    let head = head(data).ok_or(SipError::Malformed)?;
    let mut message = Message {
        head: &data[..head],
        body: &data[head..],
        status,
        has_sdp: false,
        sequence: Sequence::default(),
        call_id: &[],
        to: &[],
        expires: None,
    };
    let (mut is_plain, mut length) = (true, None);
    for line in message.lines().skip(1) {
        let (value, continues) = (line.value(), line.value == 0);
        match line.header {
            Some(Header::ContentLength) if continues => return Err(SipError::Malformed),
            _ if continues => {}
            Some(Header::ContentLength) => {
                length = Some(number(value).ok_or(SipError::Malformed)? as usize);
            }
            Some(Header::ContentType) => {
                let media = value.split(|byte| *byte == b';').next().unwrap_or(&[]);
                message.has_sdp = trimmed(media).eq_ignore_ascii_case(b"application/sdp");
            }
            Some(Header::ContentEncoding) => {
                is_plain = value.is_empty() || value.eq_ignore_ascii_case(b"identity");
            }
            Some(Header::Sequence) => message.sequence = method::sequence(value),
            Some(Header::CallId) => message.call_id = value,
            Some(Header::To) => message.to = value,
            Some(Header::Expires) => message.expires = number(value),
            _ => {}
        }
    }
    let name = data.split(|byte| *byte == b' ').next().unwrap_or(&[]);
    if status.is_none() && Method::of(name) != message.sequence.method {
        // Both name the same one (RFC 3261 section 8.1.1.5): what it means to its receiver is open.
        message.sequence.method = Method::Other;
    }
    // What is behind the body is ignored (RFC 3261 section 18.3).
    let length = length.unwrap_or(message.body.len());
    message.body = message.body.get(..length).ok_or(SipError::Malformed)?;
    message.has_sdp &= is_plain && !message.body.is_empty();
    Ok(message)
}

/// The bytes up to the body.
fn head(data: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = data.get(at..)?;
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        at += end + 1;
        if matches!(&rest[..end], b"" | b"\r") {
            return Some(at);
        }
    }
}

impl<'a> Message<'a> {
    pub(crate) fn lines(&self) -> Lines<'a> {
        Lines::of(self.head)
    }

    /// The bytes of the head.
    #[cfg(test)]
    pub(crate) fn head(&self) -> &'a [u8] {
        self.head
    }

    /// The ends of a host that the message names in `Via`, `Contact`, `Route` and `Record-Route`: their ports, each
    /// once; at most [`ENDS`].
    pub fn ends_of(&self, address: Ipv4Addr) -> impl Iterator<Item = u16> + use<> {
        let mut found = PortsOf::new(address);
        for line in self.lines().filter(|line| line.header.is_some_and(Header::has_ends)) {
            found.read(line.text, line.value);
        }
        found.all()
    }

    /// The ends at which a host that sends this request takes messages: their ports, each once; at most [`ENDS`]. They
    /// are in its own `Via`, the topmost one, and in `Contact` if nobody has relayed the request.
    ///
    /// All other text may be somebody else's: answers repeat `Via`, `Record-Route` and, of a registrar, `Contact`,
    /// and proxies relay both. Who could choose such text for a host would choose ports of this host.
    pub fn announced(&self, address: Ipv4Addr) -> impl Iterator<Item = u16> + use<> {
        let mut found = PortsOf::new(address);
        let of = |header: Header| self.lines().filter(move |line| line.header == Some(header));
        let first = of(Header::Via).next().filter(|_| self.status.is_none());
        if let Some(via) = first {
            let mut values = via.text.split(|byte| *byte == b',');
            found.read(values.next().unwrap_or(&[]), via.value);
            let is_relayed = values.next().is_some() || of(Header::Via).nth(1).is_some();
            for line in of(Header::Contact).filter(|_| !is_relayed) {
                found.read(line.text, line.value);
            }
        }
        found.all()
    }

    /// Whether a registrar answers with all that it has bound of an [address-of-record](Self::address_of_record): what
    /// it does not list is bound no more (RFC 3261 section 10.3).
    pub fn lists_bindings(&self) -> bool {
        self.sequence.method == Method::Register
            && self.status.is_some_and(|it| (200..300).contains(&it))
    }

    /// The URI in `To`: of a registration, the address-of-record. Empty: there is none.
    pub fn address_of_record(&self) -> &'a [u8] {
        let uri = match self.to.iter().position(|byte| *byte == b'<') {
            Some(at) => self.to.get(at + 1..).unwrap_or(&[]).split(|byte| *byte == b'>').next(),
            None => self.to.split(|byte| *byte == b';').next(),
        };
        trimmed(uri.unwrap_or(&[]))
    }

    /// For how long a registrar has bound an end of a host, in seconds: by the parameter `expires` of its `Contact`, or
    /// by the header (RFC 3261 section 10.3). `None`: this is no answer that binds it.
    pub fn bound(&self, address: Ipv4Addr, port: u16) -> Option<u32> {
        if !self.lists_bindings() {
            return None;
        }
        let contacts = self.lines().filter(|line| line.header == Some(Header::Contact));
        for line in contacts {
            for Place { end, text } in uri::ends(line.text, line.value) {
                if end.port_of(address) == Some(port) {
                    let of_contact = expires(line.text.get(text.end..).unwrap_or(&[]));
                    return of_contact.or(self.expires);
                }
            }
        }
        None
    }
}

/// Ports of a host, each once; at most [`ENDS`].
struct PortsOf {
    address: Ipv4Addr,
    all: [u16; ENDS],
    count: usize,
}

impl PortsOf {
    fn new(address: Ipv4Addr) -> Self {
        Self { address, all: [0; ENDS], count: 0 }
    }

    /// Adds those in a line, from a place on.
    fn read(&mut self, line: &[u8], from: usize) {
        for Place { end, .. } in uri::ends(line, from) {
            let Some(port) = end.port_of(self.address) else { continue };
            let is_known = self.all.iter().take(self.count).any(|it| *it == port);
            if let Some(free) = self.all.get_mut(self.count).filter(|_| !is_known) {
                *free = port;
                self.count += 1;
            }
        }
    }

    fn all(self) -> impl Iterator<Item = u16> {
        self.all.into_iter().take(self.count)
    }
}

/// The parameter `expires` behind a URI, up to the next one.
fn expires(text: &[u8]) -> Option<u32> {
    let uri = text.split(|byte| *byte == b',').next()?;
    let parameters = uri.split(|byte| *byte == b';').skip(1);
    let mut values = parameters.filter_map(|it| {
        let (name, value) = it.split_at(it.iter().position(|byte| *byte == b'=')?);
        trimmed(name).eq_ignore_ascii_case(b"expires").then(|| &value[1..])
    });
    number(trimmed(values.next()?))
}

/// Where a part of a text is.
pub(crate) type Part = Range<usize>;

#[cfg(test)]
mod tests;
