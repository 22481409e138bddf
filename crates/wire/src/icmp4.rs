//! ICMP for IPv4 (RFC 792, RFC 1812 section 4.3): echo and the errors that a router sends.

use crate::{BuildError, build_error::prefix_of};
use crate::{checksum, ipv4, protocol};
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the header.
pub const LENGTH: usize = 8;
/// Most bytes of the refused packet that an error quotes, so that the answer stays within 576
/// bytes (RFC 1812 section 4.3.2.3).
pub const MOST_QUOTED: usize = 576 - ipv4::LENGTH - LENGTH;

/// Values of the type field.
pub mod kind {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Source quench (deprecated: RFC 6633).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;
}

causes! {
    /// Why an ICMP message is refused.
    Icmp4Error {
        Truncated = "icmp4-truncated", "the message is shorter than an ICMP header";
        BadChecksum = "icmp4-bad-checksum", "the ICMP checksum is wrong";
    }
}

/// The ICMP header as it lies in the packet.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// Type: a number of [`kind`].
    pub kind: u8,
    /// Code: what the type leaves open.
    pub code: u8,
    /// Checksum of the message.
    pub checksum: U16,
    /// Echo: identifier; parameter problem: pointer in the high byte; else 0.
    pub high: U16,
    /// Echo: sequence number; fragmentation needed: MTU of the next hop; else 0.
    pub low: U16,
}

/// Identifier, sequence number and data of an echo request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Which of the sender's series.
    pub identifier: u16,
    /// Sequence number.
    pub sequence: u16,
    /// What the reply repeats.
    pub data: &'a [u8],
}

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
        echo.then(|| Echo {
            identifier: self.header.high.get(),
            sequence: self.header.low.get(),
            data: self.payload(),
        })
    }

    /// The packet, cut, that an error is about; `None` when this is no error.
    pub fn quoted(&self) -> Option<&'a [u8]> {
        is_error(self.header.kind).then(|| self.payload())
    }

    /// The next hop's MTU, in bytes, of "fragmentation needed" (RFC 1191 section 4); 0 from
    /// routers that do not report it.
    pub fn next_hop_mtu(&self) -> Option<u16> {
        let needed = (self.header.kind, self.header.code) == (kind::UNREACHABLE, 4);
        needed.then(|| self.header.low.get())
    }
}

/// Checks a message. `bytes` must end where the IP packet ends.
///
/// # Errors
/// The header is cut, or the checksum wrong.
#[inline]
pub fn check(bytes: &[u8]) -> Result<View<'_>, Icmp4Error> {
    let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| Icmp4Error::Truncated)?;
    if !checksum::is_valid(checksum::sum(bytes)) {
        return Err(Icmp4Error::BadChecksum);
    }
    Ok(View { header, message: bytes })
}

/// Whether messages of this type are errors, about which no error is ever sent
/// (RFC 1812 section 4.3.2.7).
#[inline]
pub const fn is_error(kind: u8) -> bool {
    matches!(
        kind,
        kind::UNREACHABLE
            | kind::SOURCE_QUENCH
            | kind::REDIRECT
            | kind::TIME_EXCEEDED
            | kind::PARAMETER_PROBLEM
    )
}

/// Whether an error about this packet may be sent (RFC 1812 section 4.3.2.7): it is no ICMP
/// error, no later fragment, goes to one host and comes from one host.
///
/// Whether it came as a link-layer broadcast, or went to a directed broadcast address, is for
/// the caller, which has the link's configuration.
pub fn may_answer(refused: &ipv4::View<'_>) -> bool {
    let header = refused.header();
    let (source, destination) = (refused.source(), refused.destination());
    if header.fragment_offset() != 0
        || ipv4::is_martian_source(source)
        || destination.is_multicast()
        || destination.is_broadcast()
    {
        return false;
    }
    // An unreadable type counts as an error, so that no two nodes answer each other for ever.
    header.protocol != protocol::ICMP4
        || refused.payload().first().is_some_and(|kind| !is_error(*kind))
}

/// Why a destination is unreachable; the discriminant is the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Unreachable {
    /// No route.
    Network = 0,
    /// The host on the last link does not answer.
    Host = 1,
    /// This host does not support the protocol.
    Protocol = 2,
    /// No socket has the port.
    Port = 3,
    /// The source route cannot be followed.
    SourceRoute = 5,
    /// The network is not known.
    NetworkUnknown = 6,
    /// The host is not known.
    HostUnknown = 7,
    /// The network is prohibited by an administrator.
    NetworkProhibited = 9,
    /// The host is prohibited by an administrator.
    HostProhibited = 10,
    /// A filter refuses the packet.
    Prohibited = 13,
}

/// An error to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The destination cannot be reached.
    Unreachable(Unreachable),
    /// The packet is longer than the next link takes and must not be fragmented (RFC 1191).
    FragmentationNeeded {
        /// MTU of the next hop, in bytes.
        mtu: u16,
    },
    /// The time to live reached 0 in transit.
    TimeExceeded,
    /// Fragments did not all arrive in time.
    ReassemblyTimeExceeded,
    /// The better first hop on the host's own link (RFC 1812 section 5.2.7.2).
    Redirect {
        /// The better router, or the destination itself.
        gateway: core::net::Ipv4Addr,
    },
    /// The header makes no sense.
    ParameterProblem {
        /// The byte of the packet that is wrong.
        pointer: u8,
    },
}

impl Error {
    /// Type, code, and the two halves of the word behind the checksum.
    const fn fields(self) -> (u8, u8, u16, u16) {
        match self {
            Self::Unreachable(reason) => (kind::UNREACHABLE, reason as u8, 0, 0),
            Self::FragmentationNeeded { mtu } => (kind::UNREACHABLE, 4, 0, mtu),
            Self::TimeExceeded => (kind::TIME_EXCEEDED, 0, 0, 0),
            Self::ReassemblyTimeExceeded => (kind::TIME_EXCEEDED, 1, 0, 0),
            Self::Redirect { gateway } => {
                let [a, b, c, d] = gateway.octets();
                // Code 1: for the host; the network's mask is unknown.
                let halves = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                (kind::REDIRECT, 1, halves.0, halves.1)
            }
            Self::ParameterProblem { pointer } => {
                (kind::PARAMETER_PROBLEM, 0, (pointer as u16) << 8, 0)
            }
        }
    }
}

fn build(
    out: &mut [u8],
    (kind, code, high, low): (u8, u8, u16, u16),
    payload: &[u8],
) -> Result<usize, BuildError> {
    let length = LENGTH + payload.len();
    let out = prefix_of(out, length)?;
    let header =
        Header { kind, code, checksum: U16::ZERO, high: U16::new(high), low: U16::new(low) };
    out[..LENGTH].copy_from_slice(header.as_bytes());
    out[LENGTH..].copy_from_slice(payload);
    let checksum = checksum::ones_complement(out);
    out[2..4].copy_from_slice(&checksum.to_be_bytes());
    Ok(length)
}

/// Writes `error` about the packet `refused` (from its IPv4 header on), of which at most
/// [`MOST_QUOTED`] bytes are quoted; returns the message's length.
///
/// Call [`may_answer`] first, and quote the packet as it arrived.
///
/// # Errors
/// [`BuildError::NoSpace`]; 556 bytes are always enough.
pub fn build_error(out: &mut [u8], error: Error, refused: &[u8]) -> Result<usize, BuildError> {
    let quoted = refused.get(..MOST_QUOTED).unwrap_or(refused);
    build(out, error.fields(), quoted)
}

/// Writes an echo request; returns the message's length.
///
/// # Errors
/// [`BuildError::NoSpace`].
pub fn build_echo_request(out: &mut [u8], echo: &Echo<'_>) -> Result<usize, BuildError> {
    build(out, (kind::ECHO_REQUEST, 0, echo.identifier, echo.sequence), echo.data)
}

/// Writes an echo reply; returns the message's length.
///
/// # Errors
/// [`BuildError::NoSpace`].
pub fn build_echo_reply(out: &mut [u8], echo: &Echo<'_>) -> Result<usize, BuildError> {
    build(out, (kind::ECHO_REPLY, 0, echo.identifier, echo.sequence), echo.data)
}

/// Turns the echo request in `message` into its reply, checksum included; `false` and no change
/// when it is none. The caller swaps the addresses.
pub fn reply_in_place(message: &mut [u8]) -> bool {
    let Ok((header, _)) = Header::mut_from_prefix(message) else { return false };
    if header.kind != kind::ECHO_REQUEST {
        return false;
    }
    let code = u16::from(header.code);
    let (old, new) = (u16::from(header.kind) << 8 | code, u16::from(kind::ECHO_REPLY) << 8 | code);
    header.kind = kind::ECHO_REPLY;
    let checksum = checksum::update16(header.checksum.get(), old, new);
    header.checksum.set(checksum);
    if checksum == 0 {
        // A reply of nothing but zeroes needs 0xffff, which an incremental update cannot produce.
        let checksum = checksum::ones_complement(message);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
    true
}

#[cfg(test)]
mod tests;
