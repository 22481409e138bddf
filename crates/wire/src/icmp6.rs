//! ICMP for IPv6 (RFC 4443): echo and the errors that a router sends; neighbours in [`crate::ndp`].

use crate::checksum::{self, Pseudo};
use crate::{BuildError, build_error::prefix_of};
use crate::{ipv6, ipv6_extensions::Upper, protocol};
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header.
pub const LENGTH: usize = 8;
/// Most bytes of the refused packet that an error quotes, so that the answer stays within the
/// least MTU (RFC 4443 section 2.4 (c)).
pub const MOST_QUOTED: usize = ipv6::LEAST_MTU - ipv6::LENGTH - LENGTH;

/// Values of the type field.
pub mod kind {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Multicast listener query (RFC 2710, RFC 3810).
    pub const LISTENER_QUERY: u8 = 130;
    /// Multicast listener report, version 1 (RFC 2710).
    pub const LISTENER_REPORT: u8 = 131;
    /// Multicast listener done, version 1 (RFC 2710).
    pub const LISTENER_DONE: u8 = 132;
    /// Router solicitation (RFC 4861).
    pub const ROUTER_SOLICITATION: u8 = 133;
    /// Router advertisement (RFC 4861).
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    /// Neighbour solicitation (RFC 4861).
    pub const NEIGHBOR_SOLICITATION: u8 = 135;
    /// Neighbour advertisement (RFC 4861).
    pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;
    /// Redirect (RFC 4861).
    pub const REDIRECT: u8 = 137;
    /// Multicast listener report, version 2 (RFC 3810).
    pub const LISTENER_REPORT_2: u8 = 143;
}

causes! {
    /// Why an ICMPv6 message is refused.
    Icmp6Error {
        Truncated = "icmp6-truncated", "the message is shorter than an ICMPv6 header";
        BadChecksum = "icmp6-bad-checksum", "the ICMPv6 checksum is wrong";
    }
}

/// The ICMPv6 header as it lies in the packet.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// Type: a number of [`kind`].
    pub kind: u8,
    /// Code: what the type leaves open.
    pub code: u8,
    /// Checksum of pseudo-header and message.
    pub checksum: U16,
    /// Echo: identifier and sequence number; too big: MTU; parameter problem: pointer.
    pub word: U32,
}

pub use crate::icmp4::Echo;

/// A message that [`check`] has accepted.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a Header,
    message: &'a [u8],
}

impl<'a> View<'a> {
    /// The header.
    pub const fn header(&self) -> &'a Header {
        self.header
    }

    /// All of the message.
    pub const fn message(&self) -> &'a [u8] {
        self.message
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        &self.message[LENGTH..]
    }

    /// The fields of an echo request or reply; `None` for other types.
    pub fn echo(&self) -> Option<Echo<'a>> {
        let echo = matches!(self.header.kind, kind::ECHO_REQUEST | kind::ECHO_REPLY);
        let word = self.header.word.get();
        echo.then(|| Echo {
            identifier: (word >> 16) as u16,
            sequence: word as u16,
            data: self.payload(),
        })
    }

    /// The packet, cut, that an error is about; `None` when this is no error.
    pub fn quoted(&self) -> Option<&'a [u8]> {
        is_error(self.header.kind).then(|| self.payload())
    }

    /// The MTU field of "packet too big", in bytes.
    pub fn mtu(&self) -> Option<u32> {
        (self.header.kind == kind::PACKET_TOO_BIG).then(|| self.header.word.get())
    }
}

/// Checks a message between the addresses of `pseudo`. `bytes` must end where the IP packet ends.
///
/// # Errors
/// The header is cut, or the checksum wrong.
#[inline]
pub fn check<'a>(bytes: &'a [u8], pseudo: &Pseudo) -> Result<View<'a>, Icmp6Error> {
    let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| Icmp6Error::Truncated)?;
    if !checksum::is_valid(checksum::sum(bytes) + pseudo.sum(protocol::ICMP6, bytes.len())) {
        return Err(Icmp6Error::BadChecksum);
    }
    Ok(View { header, message: bytes })
}

/// Whether messages of this type are errors (RFC 4443 section 2.1).
#[inline]
pub const fn is_error(kind: u8) -> bool {
    kind < 128
}

/// Where in an IPv6 packet the packet begins that an ICMPv6 error quotes, directly behind the header of the error.
/// `None`: it is no error, its header is cut, or it is a fragment, which quotes what nobody sees as a whole.
pub fn quoted_at(packet: &[u8]) -> Option<usize> {
    let upper = ipv6::check(packet).ok()?.upper().ok()?;
    let is_whole = upper.protocol == protocol::ICMP6 && upper.fragment.is_none();
    let kind = upper.payload.first_chunk::<LENGTH>().filter(|_| is_whole)?[0];
    is_error(kind).then_some(upper.offset + LENGTH)
}

/// Whether `error` about this packet may be sent (RFC 4443 section 2.4 (e)): the packet is no
/// ICMPv6 error or redirect, and comes from one host; it goes to one host, or the error is one of
/// the two that answer groups too.
///
/// `upper` is what the packet carries, or `None` when it is unknown. Whether it came as a
/// link-layer group or broadcast is for the caller: then only [`Error::answers_groups`] may.
pub fn may_answer(refused: &ipv6::View<'_>, upper: Option<&Upper<'_>>, error: Error) -> bool {
    let source = refused.source();
    if source.is_unspecified() || source.is_multicast() || source.is_loopback() {
        return false;
    }
    if refused.destination().is_multicast() && !error.answers_groups() {
        return false;
    }
    let Some(upper) = upper else { return true };
    if upper.protocol != protocol::ICMP6 {
        return true;
    }
    match upper.payload.first().filter(|_| upper.has_header()) {
        Some(kind) => !is_error(*kind) && *kind != kind::REDIRECT,
        // Without a type it counts as an error, so that no two nodes answer each other for ever. But what
        // is wrong with a fragment is reported: an error fits the least MTU, and is none.
        None => {
            let is_fragment = upper.fragment.is_some_and(|fragment| !fragment.is_atomic());
            is_fragment && matches!(error, Error::ParameterProblem { .. })
        }
    }
}

/// Why a destination is unreachable; the discriminant is the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Unreachable {
    /// No route.
    NoRoute = 0,
    /// A filter refuses the packet.
    Prohibited = 1,
    /// The packet would leave the scope of its source address.
    BeyondScope = 2,
    /// The host on the last link does not answer.
    Address = 3,
    /// No socket has the port.
    Port = 4,
    /// The source address fails a filter.
    SourcePolicy = 5,
    /// The route rejects.
    RejectRoute = 6,
}

/// What is wrong with a packet; the discriminant is the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Problem {
    /// A header field makes no sense.
    HeaderField = 0,
    /// The next header is unknown.
    NextHeader = 1,
    /// The option is unknown.
    Option = 2,
    /// The first fragment does not hold all headers (RFC 7112).
    FirstFragment = 3,
}

/// An error to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The destination cannot be reached.
    Unreachable(Unreachable),
    /// The packet is longer than the next link takes.
    PacketTooBig {
        /// MTU of the next link, in bytes.
        mtu: u32,
    },
    /// The hop limit reached 0 in transit.
    TimeExceeded,
    /// Fragments did not all arrive in time.
    ReassemblyTimeExceeded,
    /// A header makes no sense or is not known.
    ParameterProblem {
        /// What is wrong.
        problem: Problem,
        /// The byte of the packet that is wrong.
        pointer: u32,
    },
}

impl Error {
    /// Whether this error also answers a packet that went to a group.
    pub const fn answers_groups(self) -> bool {
        matches!(
            self,
            Self::PacketTooBig { .. } | Self::ParameterProblem { problem: Problem::Option, .. }
        )
    }

    /// Type, code, and the word behind the checksum.
    const fn fields(self) -> (u8, u8, u32) {
        match self {
            Self::Unreachable(reason) => (kind::UNREACHABLE, reason as u8, 0),
            Self::PacketTooBig { mtu } => (kind::PACKET_TOO_BIG, 0, mtu),
            Self::TimeExceeded => (kind::TIME_EXCEEDED, 0, 0),
            Self::ReassemblyTimeExceeded => (kind::TIME_EXCEEDED, 1, 0),
            Self::ParameterProblem { problem, pointer } => {
                (kind::PARAMETER_PROBLEM, problem as u8, pointer)
            }
        }
    }
}

fn build(
    out: &mut [u8],
    pseudo: &Pseudo,
    (kind, code, word): (u8, u8, u32),
    payload: &[u8],
) -> Result<usize, BuildError> {
    let length = LENGTH + payload.len();
    let out = prefix_of(out, length)?;
    let header = Header { kind, code, checksum: U16::ZERO, word: U32::new(word) };
    out[..LENGTH].copy_from_slice(header.as_bytes());
    out[LENGTH..].copy_from_slice(payload);
    seal(out, pseudo);
    Ok(length)
}

/// Writes the checksum of `message`, whose checksum field holds 0.
pub(crate) fn seal(message: &mut [u8], pseudo: &Pseudo) {
    let sum = checksum::sum(message) + pseudo.sum(protocol::ICMP6, message.len());
    message[2..4].copy_from_slice(&checksum::finish(sum).to_be_bytes());
}

/// Writes `error` about the packet `refused` (from its IPv6 header on), of which at most
/// [`MOST_QUOTED`] bytes are quoted; returns the message's length.
///
/// `pseudo` has the addresses of the answer. Call [`may_answer`] first, and quote the packet as
/// it arrived.
///
/// # Errors
/// [`BuildError::NoSpace`]; 1,240 bytes are always enough.
pub fn build_error(
    out: &mut [u8],
    pseudo: &Pseudo,
    error: Error,
    refused: &[u8],
) -> Result<usize, BuildError> {
    let quoted = refused.get(..MOST_QUOTED).unwrap_or(refused);
    build(out, pseudo, error.fields(), quoted)
}

const fn echo_word(echo: &Echo<'_>) -> u32 {
    (echo.identifier as u32) << 16 | echo.sequence as u32
}

/// Writes an echo request; returns the message's length.
///
/// # Errors
/// [`BuildError::NoSpace`].
pub fn build_echo_request(
    out: &mut [u8],
    pseudo: &Pseudo,
    echo: &Echo<'_>,
) -> Result<usize, BuildError> {
    build(out, pseudo, (kind::ECHO_REQUEST, 0, echo_word(echo)), echo.data)
}

/// Writes an echo reply; returns the message's length.
///
/// # Errors
/// [`BuildError::NoSpace`].
pub fn build_echo_reply(
    out: &mut [u8],
    pseudo: &Pseudo,
    echo: &Echo<'_>,
) -> Result<usize, BuildError> {
    build(out, pseudo, (kind::ECHO_REPLY, 0, echo_word(echo)), echo.data)
}

/// Turns the echo request in `message` into its reply, checksum included; `false` and no change
/// when it is none.
///
/// The caller swaps the addresses, which leaves the checksum as it is. A request to a group is
/// answered from another address: use [`build_echo_reply`] for it.
pub fn reply_in_place(message: &mut [u8]) -> bool {
    let Ok((header, _)) = Header::mut_from_prefix(message) else { return false };
    if header.kind != kind::ECHO_REQUEST {
        return false;
    }
    let code = u16::from(header.code);
    let (old, new) = (u16::from(header.kind) << 8 | code, u16::from(kind::ECHO_REPLY) << 8 | code);
    header.kind = kind::ECHO_REPLY;
    header.checksum.set(checksum::update16(header.checksum.get(), old, new));
    true
}

#[cfg(test)]
mod tests;
