//! The Port Control Protocol (PCP, RFC 6887): hosts ask their NAT for mappings.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |  version = 2  |R|   opcode    |   reserved    |   (result)    |
//! |                           lifetime                            |
//! |      client address (request) / epoch, reserved (response)    |
//! |                                                               |
//! |                                                               |
//! |                                                               |
//! |                    opcode data, then options                  |
//! ```

mod options;

pub use options::{Filter, Filters, MOST_FILTERS, Options};

use core::net::Ipv6Addr;

use crate::build_error::prefix_of;
use crate::{BuildError, nat_pmp};

/// The UDP port of servers (RFC 6887 section 19.5).
pub const PORT: u16 = 5351;
/// The UDP port of clients, which receive announcements (RFC 6887 section 19.5).
pub const CLIENT_PORT: u16 = 5350;
/// The version of RFC 6887.
pub const VERSION: u8 = 2;
/// Bytes of a message, at most (RFC 6887 section 7).
pub const LONGEST: usize = 1_100;
/// Bytes of a header.
pub const HEADER: usize = 24;
/// Bytes of the data of MAP.
pub const MAP: usize = 36;
/// Bytes of the data of PEER: those of MAP, and the remote end.
pub const PEER: usize = 56;

/// Bit of a response in the byte of the opcode.
const RESPONSE: u8 = 0x80;

/// Numbers of operations.
pub mod opcode {
    /// Announces that the server has lost its state, or asks for its epoch.
    pub const ANNOUNCE: u8 = 0;
    /// A mapping for anybody.
    pub const MAP: u8 = 1;
    /// A mapping towards one remote end.
    pub const PEER: u8 = 2;
}

/// Numbers of options. Those below 128 must be processed.
pub mod option {
    /// The mapping is for another host.
    pub const THIRD_PARTY: u8 = 1;
    /// The suggested external end, or none.
    pub const PREFER_FAILURE: u8 = 2;
    /// Only some remote ends may send.
    pub const FILTER: u8 = 3;
    /// The first number of those that may be ignored.
    pub const OPTIONAL: u8 = 128;
}

/// What a server answers (RFC 6887 section 7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ResultCode {
    /// The request is granted.
    Success = 0,
    /// The version is not that of the server.
    UnsupportedVersion = 1,
    /// The server does not serve this host, or not so.
    NotAuthorized = 2,
    /// The request is cut, too long, or no multiple of 4 bytes.
    MalformedRequest = 3,
    /// The operation is unknown.
    UnsupportedOpcode = 4,
    /// An option that must be processed is unknown.
    UnsupportedOption = 5,
    /// An option is cut, there too often, or not one of the operation.
    MalformedOption = 6,
    /// The server or its network fails.
    NetworkFailure = 7,
    /// The server has no room.
    NoResources = 8,
    /// The protocol is not translated.
    UnsupportedProtocol = 9,
    /// The host has as much as it may have.
    UserExceededQuota = 10,
    /// The suggested external end is not free.
    CannotProvideExternal = 11,
    /// The source of the packet is not the client that it names.
    AddressMismatch = 12,
    /// More filters than the server can have.
    ExcessiveRemotePeers = 13,
}

/// Seconds after which a refused client may ask the same again, if nothing but a change helps (RFC 6887 section 7.4).
const LONG_S: u32 = 1_800;
/// The same for a refusal that may soon be over.
const SHORT_S: u32 = 30;

impl ResultCode {
    /// All of them, each at the index of its number.
    pub const ALL: [Self; 14] = [
        Self::Success,
        Self::UnsupportedVersion,
        Self::NotAuthorized,
        Self::MalformedRequest,
        Self::UnsupportedOpcode,
        Self::UnsupportedOption,
        Self::MalformedOption,
        Self::NetworkFailure,
        Self::NoResources,
        Self::UnsupportedProtocol,
        Self::UserExceededQuota,
        Self::CannotProvideExternal,
        Self::AddressMismatch,
        Self::ExcessiveRemotePeers,
    ];

    /// The name in RFC 6887.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::UnsupportedVersion => "UNSUPP_VERSION",
            Self::NotAuthorized => "NOT_AUTHORIZED",
            Self::MalformedRequest => "MALFORMED_REQUEST",
            Self::UnsupportedOpcode => "UNSUPP_OPCODE",
            Self::UnsupportedOption => "UNSUPP_OPTION",
            Self::MalformedOption => "MALFORMED_OPTION",
            Self::NetworkFailure => "NETWORK_FAILURE",
            Self::NoResources => "NO_RESOURCES",
            Self::UnsupportedProtocol => "UNSUPP_PROTOCOL",
            Self::UserExceededQuota => "USER_EX_QUOTA",
            Self::CannotProvideExternal => "CANNOT_PROVIDE_EXTERNAL",
            Self::AddressMismatch => "ADDRESS_MISMATCH",
            Self::ExcessiveRemotePeers => "EXCESSIVE_REMOTE_PEERS",
        }
    }

    /// Seconds for which a client that was refused need not ask the same again.
    pub fn error_lifetime_s(self) -> u32 {
        match self {
            Self::NetworkFailure
            | Self::NoResources
            | Self::UserExceededQuota
            | Self::CannotProvideExternal => SHORT_S,
            _ => LONG_S,
        }
    }
}

/// Why a message is no request that can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PcpError {
    /// It is a response, or has no opcode: nobody is answered.
    Ignored,
    /// It is refused with this result.
    Refused(ResultCode),
}

/// The data of MAP (RFC 6887 section 11.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// Chosen by the client: only who knows it changes the mapping.
    pub nonce: [u8; 12],
    /// An upper-layer protocol; 0: all.
    pub protocol: u8,
    /// Port of the client; 0: all.
    pub internal_port: u16,
    /// The external port: suggested by a request, where 0 is any.
    pub external_port: u16,
    /// The external address: suggested by a request, where ::ffff:0:0 is any.
    pub external: Ipv6Addr,
}

/// The data of PEER (RFC 6887 section 12.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// As that of MAP.
    pub map: Map,
    /// Port of the remote end.
    pub remote_port: u16,
    /// Address of the remote end.
    pub remote: Ipv6Addr,
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The epoch of the server.
    Announce,
    /// A mapping for anybody.
    Map(Map),
    /// A mapping towards one remote end.
    Peer(Peer),
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Seconds for which the client wants the mapping; 0: it ends now.
    pub lifetime_s: u32,
    /// The client's address, as it knows it.
    pub client: Ipv6Addr,
    /// What it asks for.
    pub operation: Operation,
    /// Its options.
    pub options: Options,
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// The version of a message for the port of servers: that of PCP, of NAT-PMP, or another one.
pub fn version(message: &[u8]) -> Option<u8> {
    message.first().copied()
}

/// Reads a request (RFC 6887 section 8.3).
///
/// # Errors
/// [`PcpError::Ignored`] for a response; [`PcpError::Refused`] with the result for the client.
pub fn parse(message: &[u8]) -> Result<Request, PcpError> {
    let refused = |result| Err(PcpError::Refused(result));
    let [version, kind, ..] = *message else { return Err(PcpError::Ignored) };
    if kind & RESPONSE != 0 {
        return Err(PcpError::Ignored);
    }
    if version != VERSION {
        return refused(ResultCode::UnsupportedVersion);
    }
    if message.len() < HEADER || message.len() > LONGEST || !message.len().is_multiple_of(4) {
        return refused(ResultCode::MalformedRequest);
    }
    let data = message.get(HEADER..).unwrap_or_default();
    let Some(length) = data_length(kind) else {
        return refused(ResultCode::UnsupportedOpcode);
    };
    let Some((data, options)) = data.split_at_checked(length) else {
        return refused(ResultCode::MalformedRequest);
    };
    let operation = match kind {
        opcode::MAP => Operation::Map(map_of(data)),
        opcode::PEER => Operation::Peer(Peer {
            map: map_of(data),
            remote_port: u16::from_be_bytes(word(data, MAP)),
            remote: Ipv6Addr::from(word::<16>(data, MAP + 4)),
        }),
        _ => Operation::Announce,
    };
    let options = match Options::parse(kind, options) {
        Ok(options) => options,
        Err(result) => return refused(result),
    };
    Ok(Request {
        lifetime_s: u32::from_be_bytes(word(message, 4)),
        client: Ipv6Addr::from(word::<16>(message, 8)),
        operation,
        options,
    })
}

/// Bytes of the data of an operation; `None`: it is unknown.
fn data_length(opcode: u8) -> Option<usize> {
    match opcode {
        opcode::ANNOUNCE => Some(0),
        opcode::MAP => Some(MAP),
        opcode::PEER => Some(PEER),
        _ => None,
    }
}

fn map_of(data: &[u8]) -> Map {
    Map {
        nonce: word(data, 0),
        protocol: data.get(12).copied().unwrap_or(0),
        internal_port: u16::from_be_bytes(word(data, 16)),
        external_port: u16::from_be_bytes(word(data, 18)),
        external: Ipv6Addr::from(word::<16>(data, 20)),
    }
}

/// What a response says beside its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The result.
    pub result: ResultCode,
    /// Seconds: of the mapping, or for which the same request fails again.
    pub lifetime_s: u32,
    /// Seconds since the server has lost its state (RFC 6887 section 8.5).
    pub epoch_s: u32,
}

/// Writes the response to a request: its data and options, with another header. The number of bytes. `external`: the
/// external port and address of a request that is granted. Then options are left out that the server has ignored (RFC
/// 6887 section 7.3); a request that is refused comes back as it is.
///
/// # Errors
/// [`BuildError::NoSpace`]: less than [`LONGEST`] bytes, or than the padded request.
pub fn build_response(
    out: &mut [u8],
    request: &[u8],
    answer: &Answer,
    external: Option<(u16, Ipv6Addr)>,
) -> Result<usize, BuildError> {
    let request = request.get(..LONGEST).unwrap_or(request);
    let length = request.len().next_multiple_of(4).max(HEADER);
    let out = prefix_of(out, length)?;
    out.fill(0);
    let kind = request.get(1).copied().unwrap_or(0);
    let body = request.get(HEADER..).unwrap_or_default();
    let length = match data_length(kind).and_then(|length| body.split_at_checked(length)) {
        Some((data, options)) if answer.result == ResultCode::Success => {
            out[HEADER..HEADER + data.len()].copy_from_slice(data);
            let from = HEADER + data.len();
            from + options::copy_processed(&mut out[from..], options)
        }
        _ => {
            out[HEADER..HEADER + body.len()].copy_from_slice(body);
            length
        }
    };
    (out[0], out[1], out[3]) = (VERSION, kind | RESPONSE, answer.result as u8);
    out[4..8].copy_from_slice(&answer.lifetime_s.to_be_bytes());
    out[8..12].copy_from_slice(&answer.epoch_s.to_be_bytes());
    if let (Some((port, address)), Some(data)) = (external, out.get_mut(HEADER..HEADER + MAP)) {
        data[13..16].fill(0);
        data[18..20].copy_from_slice(&port.to_be_bytes());
        data[20..36].copy_from_slice(&address.octets());
    }
    Ok(length)
}

/// Writes the announcement of a server that has lost its state (RFC 6887 section 14.1). The number of bytes.
///
/// # Errors
/// [`BuildError::NoSpace`]: less than [`HEADER`] bytes.
pub fn build_announcement(out: &mut [u8], epoch_s: u32) -> Result<usize, BuildError> {
    let answer = Answer { result: ResultCode::Success, lifetime_s: 0, epoch_s };
    build_response(out, &[VERSION, opcode::ANNOUNCE], &answer, None)
}

// Both protocols have one port, and clients ask in the newer one first.
const _: () = assert!(nat_pmp::VERSION != VERSION);

#[cfg(test)]
mod tests;
