//! Options of requests (RFC 6887 sections 7.3 and 13).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |     code      |   reserved    |     length without padding    |
//! |                 data, padded to words of 4 bytes              |
//! ```

use core::net::Ipv6Addr;

use super::{ResultCode, opcode, option, word};

/// Remote ends of a mapping: a server must have room for one at least (RFC 6887 section 13.3).
pub const MOST_FILTERS: usize = 8;
/// Options of a request that are looked at.
const MOST_OPTIONS: usize = 64;
/// Bytes in front of the data.
const HEAD: usize = 4;
/// Bits of an IPv6 address in front of the IPv4 address that it stands for.
const MAPPED: u8 = 96;

/// Remote ends that may send to a mapping (RFC 6887 section 13.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Bits of the address that count; not 0.
    pub prefix_length: u8,
    /// Their port; 0: any.
    pub port: u16,
    /// Their address.
    pub address: Ipv6Addr,
}

impl Filter {
    const NONE: Self = Self { prefix_length: 0, port: 0, address: Ipv6Addr::UNSPECIFIED };

    /// The IPv4 prefix without its host bits, and its length; `None`: it is one of IPv6, or has a length in between.
    ///
    /// The length of an IPv4 prefix is that of the IPv6 address which stands for it; clients that count the bits of
    /// the IPv4 address mean the same.
    pub fn prefix4(&self) -> Option<(u32, u8)> {
        let address = self.address.to_ipv4_mapped()?.to_bits();
        let length = match self.prefix_length {
            length @ 1..=32 => length,
            length => length.checked_sub(MAPPED).filter(|length| *length <= 32)?,
        };
        let host_bits = u32::MAX.checked_shr(length.into()).unwrap_or(0);
        Some((address & !host_bits, length))
    }
}

/// The filters of a request, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filters {
    all: [Filter; MOST_FILTERS],
    count: usize,
    /// Whether those that the mapping has had before go.
    pub clears: bool,
}

impl Default for Filters {
    fn default() -> Self {
        Self { all: [Filter::NONE; MOST_FILTERS], count: 0, clears: false }
    }
}

impl Filters {
    /// All of them.
    pub fn as_slice(&self) -> &[Filter] {
        self.all.get(..self.count).unwrap_or(&self.all)
    }

    /// Adds one; one without bits removes all that are before it.
    fn push(&mut self, filter: Filter) {
        if filter.prefix_length == 0 {
            *self = Self { clears: true, ..Self::default() };
            return;
        }
        if let Some(place) = self.all.get_mut(self.count) {
            *place = filter;
        }
        // One more than there is room for is an error, unless others are removed.
        self.count += 1;
    }
}

/// The options of a request that the server processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The host for which the mapping is, in place of the client.
    pub third_party: Option<Ipv6Addr>,
    /// Whether the suggested external end is the only one that the client takes.
    pub prefers_failure: bool,
    /// Which remote ends may send; none: as before.
    pub filters: Filters,
}

/// An option and what is behind it; `None`: it is cut.
fn split(rest: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (head, behind) = rest.split_first_chunk::<HEAD>()?;
    let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let (data, rest) = behind.split_at_checked(length.next_multiple_of(HEAD))?;
    Some((head[0], data.get(..length)?, rest))
}

impl Options {
    /// Reads options, which are whole words.
    ///
    /// # Errors
    /// The result for the client.
    pub(super) fn parse(kind: u8, mut rest: &[u8]) -> Result<Self, ResultCode> {
        let mut options = Self::default();
        for _ in 0..=MOST_OPTIONS {
            if rest.is_empty() {
                let is_too_many = options.filters.count > MOST_FILTERS;
                let excessive = Err(ResultCode::ExcessiveRemotePeers);
                return if is_too_many { excessive } else { Ok(options) };
            }
            let Some((code, data, behind)) = split(rest) else { break };
            rest = behind;
            options.add(kind, code, data)?;
        }
        Err(ResultCode::MalformedOption)
    }

    fn add(&mut self, kind: u8, code: u8, data: &[u8]) -> Result<(), ResultCode> {
        let (is_map, is_peer) = (kind == opcode::MAP, kind == opcode::PEER);
        match (code, data.len()) {
            (option::OPTIONAL.., _) => return Ok(()),
            (option::THIRD_PARTY, 16) if is_map || is_peer => {
                let before = self.third_party.replace(Ipv6Addr::from(word::<16>(data, 0)));
                if before.is_none() {
                    return Ok(());
                }
            }
            (option::PREFER_FAILURE, 0) if is_map && !self.prefers_failure => {
                self.prefers_failure = true;
                return Ok(());
            }
            (option::FILTER, 20) if is_map => {
                let [_, prefix_length] = word(data, 0);
                if prefix_length <= 128 {
                    self.filters.push(Filter {
                        prefix_length,
                        port: u16::from_be_bytes(word(data, 2)),
                        address: Ipv6Addr::from(word::<16>(data, 4)),
                    });
                    return Ok(());
                }
            }
            (option::THIRD_PARTY | option::PREFER_FAILURE | option::FILTER, _) => {}
            _ => return Err(ResultCode::UnsupportedOption),
        }
        Err(ResultCode::MalformedOption)
    }
}

/// Copies the options that are not ignored; returns their bytes. `out` has room for all of them.
pub(super) fn copy_processed(out: &mut [u8], mut rest: &[u8]) -> usize {
    let mut length = 0;
    while let Some((code, data, behind)) = split(rest) {
        let bytes = HEAD + data.len().next_multiple_of(HEAD);
        let option = rest.get(..bytes).unwrap_or_default();
        if code < option::OPTIONAL
            && let Some(place) = out.get_mut(length..length + bytes)
        {
            place.copy_from_slice(option);
            length += bytes;
        }
        rest = behind;
    }
    length
}
