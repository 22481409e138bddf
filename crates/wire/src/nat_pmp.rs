//! NAT-PMP (RFC 6886): the protocol before PCP, with the same port. Hosts ask for the external address, and for
//! mappings of TCP and UDP ports.

use core::net::Ipv4Addr;

use crate::BuildError;
use crate::build_error::prefix_of;
use crate::protocol::{TCP, UDP};

/// The version in a message.
pub const VERSION: u8 = 0;
/// Bytes of a response, at most.
pub const LONGEST: usize = 16;

/// Bytes of a request for a mapping.
const MAP: usize = 12;
/// Bit of a response in the byte of the opcode.
const RESPONSE: u8 = 0x80;

/// What a server answers (RFC 6886 section 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ResultCode {
    /// The request is granted.
    Success = 0,
    /// The version is not 0.
    UnsupportedVersion = 1,
    /// The server does not serve this host.
    Refused = 2,
    /// The NAT has no external address.
    NetworkFailure = 3,
    /// There is no room.
    OutOfResources = 4,
    /// The operation is unknown.
    UnsupportedOpcode = 5,
}

impl ResultCode {
    /// All of them, each at the index of its number.
    pub const ALL: [Self; 6] = [
        Self::Success,
        Self::UnsupportedVersion,
        Self::Refused,
        Self::NetworkFailure,
        Self::OutOfResources,
        Self::UnsupportedOpcode,
    ];

    /// The name, as results of PCP have theirs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::UnsupportedVersion => "UNSUPP_VERSION",
            Self::Refused => "NOT_AUTHORIZED",
            Self::NetworkFailure => "NETWORK_FAILURE",
            Self::OutOfResources => "OUT_OF_RESOURCES",
            Self::UnsupportedOpcode => "UNSUPP_OPCODE",
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The external address.
    Address,
    /// A mapping.
    Map {
        /// TCP or UDP.
        protocol: u8,
        /// Port of the client; 0, with no lifetime: all its ports.
        internal_port: u16,
        /// Suggested external port; 0: any.
        external_port: u16,
        /// Seconds for which the client wants it; 0: it ends now.
        lifetime_s: u32,
    },
}

/// Why a message is no request that can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatPmpError {
    /// It is a response, or cut: nobody is answered.
    Ignored,
    /// It is refused with this result.
    Refused(ResultCode),
}

/// Reads a request (RFC 6886 sections 3.2 and 3.3).
///
/// # Errors
/// [`NatPmpError`].
pub fn parse(message: &[u8]) -> Result<Request, NatPmpError> {
    let [version, kind, ..] = *message else { return Err(NatPmpError::Ignored) };
    if kind & RESPONSE != 0 {
        return Err(NatPmpError::Ignored);
    }
    if version != VERSION {
        return Err(NatPmpError::Refused(ResultCode::UnsupportedVersion));
    }
    let protocol = match kind {
        0 => return Ok(Request::Address),
        1 => UDP,
        2 => TCP,
        _ => return Err(NatPmpError::Refused(ResultCode::UnsupportedOpcode)),
    };
    let Some([_, _, _, _, a, b, c, d, lifetime @ ..]) = message.first_chunk::<MAP>() else {
        return Err(NatPmpError::Ignored);
    };
    Ok(Request::Map {
        protocol,
        internal_port: u16::from_be_bytes([*a, *b]),
        external_port: u16::from_be_bytes([*c, *d]),
        lifetime_s: u32::from_be_bytes(*lifetime),
    })
}

/// What a response has behind its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The external address.
    Address(Ipv4Addr),
    /// A mapping: internal port, external port, and seconds.
    Map(u16, u16, u32),
    /// Nothing: the request was refused before it was read.
    Nothing,
}

/// Writes a response to a request with this opcode; the number of bytes. `epoch_s`: seconds since the server has lost
/// its state (RFC 6886 section 3.6).
///
/// # Errors
/// [`BuildError::NoSpace`]: less than [`LONGEST`] bytes.
pub fn build_response(
    out: &mut [u8],
    opcode: u8,
    (result, epoch_s): (ResultCode, u32),
    answer: &Answer,
) -> Result<usize, BuildError> {
    let length = match answer {
        Answer::Nothing => 8,
        Answer::Address(_) => 12,
        Answer::Map(..) => LONGEST,
    };
    let out = prefix_of(out, length)?;
    (out[0], out[1]) = (VERSION, opcode | RESPONSE);
    out[2..4].copy_from_slice(&(result as u16).to_be_bytes());
    out[4..8].copy_from_slice(&epoch_s.to_be_bytes());
    match answer {
        Answer::Nothing => {}
        Answer::Address(address) => out[8..12].copy_from_slice(&address.octets()),
        Answer::Map(internal, external, lifetime_s) => {
            out[8..10].copy_from_slice(&internal.to_be_bytes());
            out[10..12].copy_from_slice(&external.to_be_bytes());
            out[12..16].copy_from_slice(&lifetime_s.to_be_bytes());
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_are_read() {
        assert_eq!(parse(&[0, 0]), Ok(Request::Address));
        let map = [0, 2, 0, 0, 0, 80, 0x1f, 0x90, 0, 0, 0x1c, 0x20];
        let expected = Request::Map {
            protocol: TCP,
            internal_port: 80,
            external_port: 8_080,
            lifetime_s: 7_200,
        };
        assert_eq!(parse(&map), Ok(expected));
        assert_eq!(parse(&map[..11]), Err(NatPmpError::Ignored));
        assert_eq!(parse(&[0]), Err(NatPmpError::Ignored));
        assert_eq!(parse(&[0, 0x82]), Err(NatPmpError::Ignored));
        let refused = NatPmpError::Refused;
        assert_eq!(parse(&[1, 0]), Err(refused(ResultCode::UnsupportedVersion)));
        assert_eq!(parse(&[0, 3]), Err(refused(ResultCode::UnsupportedOpcode)));
    }

    #[test]
    fn responses_are_written() {
        let mut out = [0xff; LONGEST];
        let done = (ResultCode::Success, 5);
        let address = Answer::Address(Ipv4Addr::new(192, 0, 2, 1));
        let length = build_response(&mut out, 0, done, &address).unwrap();
        assert_eq!(out[..length], [0, 0x80, 0, 0, 0, 0, 0, 5, 192, 0, 2, 1]);
        let length = build_response(&mut out, 1, done, &Answer::Map(80, 8_080, 9)).unwrap();
        assert_eq!(out[..length], [0, 0x81, 0, 0, 0, 0, 0, 5, 0, 80, 0x1f, 0x90, 0, 0, 0, 9]);
        let refused = (ResultCode::UnsupportedOpcode, 5);
        let length = build_response(&mut out, 9, refused, &Answer::Nothing).unwrap();
        assert_eq!(out[..length], [0, 0x89, 0, 5, 0, 0, 0, 5]);
        assert!(build_response(&mut [0; 11], 0, done, &address).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_are_answered_twice(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Err(NatPmpError::Ignored) = parse(&bytes) {
                return Ok(());
            }
            let mut out = [0; LONGEST];
            let done = (ResultCode::Success, 5);
            let length = build_response(&mut out, bytes[1], done, &Answer::Nothing).unwrap();
            prop_assert_eq!(parse(&out[..length]), Err(NatPmpError::Ignored));
        }
    }
}
