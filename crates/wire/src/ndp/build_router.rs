//! The router advertisement (RFC 4861 section 4.2) as a router sends it, with the options for
//! names (RFC 8106).

use core::net::Ipv6Addr;

use zerocopy::IntoBytes;
use zerocopy::network_endian::{U16, U32};

use super::RouterAdvertisement;
use crate::checksum::Pseudo;
use crate::ethernet::Mac;
use crate::icmp6::{kind, seal};
use crate::ndp_options::kind as option_kind;
use crate::ndp_options::{self, Prefix};
use crate::{BuildError, build_error::prefix_of};

/// Bits of [`RouterAdvertisement::flags`].
pub mod router_flag {
    /// Hosts get addresses by DHCPv6.
    pub const MANAGED: u8 = 0x80;
    /// Hosts get other settings by DHCPv6.
    pub const OTHER: u8 = 0x40;
    /// Before other default routers (RFC 4191 section 2.1).
    pub const HIGH: u8 = 0x08;
    /// After other default routers.
    pub const LOW: u8 = 0x18;
}

/// Bits of [`Prefix::flags`].
pub mod prefix_flag {
    /// The prefix is on the link.
    pub const ON_LINK: u8 = 0x80;
    /// Hosts make addresses of it (RFC 4862).
    pub const AUTONOMOUS: u8 = 0x40;
}

/// Longest DNS name in a message, in bytes (RFC 1035 section 2.3.4).
const NAME: usize = 255;
/// Longest label of a DNS name, in bytes.
const LABEL: usize = 63;
/// Type, length, reserved and lifetime of an option with names or name servers.
const NAMES_HEAD: usize = 8;
/// An option's length field counts units of 8 bytes up to this.
const UNITS: usize = 255;

/// A prefix to advertise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvertisedPrefix {
    /// The prefix, without host bits.
    pub prefix: Ipv6Addr,
    /// Its bits, at most 128.
    pub length: u8,
    /// Bits of [`prefix_flag`].
    pub flags: u8,
    /// Seconds; `u32::MAX` for ever.
    pub valid_s: u32,
    /// Seconds; `u32::MAX` for ever.
    pub preferred_s: u32,
}

/// The prefix by which a NAT64 reaches IPv4 (PREF64, RFC 8781 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nat64Prefix {
    /// Its first address.
    pub prefix: Ipv6Addr,
    /// 96, 64, 56, 48, 40 or 32.
    pub length: u8,
    /// Seconds in units of 8, at most 65,528.
    pub lifetime_s: u16,
}

impl Nat64Prefix {
    /// The lengths by their code.
    const LENGTHS: [u8; 6] = [96, 64, 56, 48, 40, 32];

    /// Whether a prefix can have this length (RFC 6052 section 2.2).
    pub fn is_length(length: u32) -> bool {
        Self::LENGTHS.iter().any(|it| u32::from(*it) == length)
    }

    /// The option; `None`: its length is none of the six.
    fn option(&self) -> Option<[u8; 16]> {
        let code = Self::LENGTHS.iter().position(|it| *it == self.length)? as u16;
        let mut option = [0; 16];
        option[..2].copy_from_slice(&[option_kind::NAT64_PREFIX, 2]);
        option[2..4].copy_from_slice(&(self.lifetime_s & !7 | code).to_be_bytes());
        option[4..].copy_from_slice(&self.prefix.octets()[..12]);
        Some(option)
    }
}

/// The options of a router advertisement.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdvertisementOptions<'a> {
    /// The sender's link-layer address.
    pub mac: Option<Mac>,
    /// The link's MTU in bytes; 0: not advertised.
    pub mtu: u32,
    /// Prefixes of the link.
    pub prefixes: &'a [AdvertisedPrefix],
    /// Recursive name servers, and for how many seconds they are good.
    pub name_servers: (&'a [Ipv6Addr], u32),
    /// Domains to search, and for how many seconds they are good.
    pub search: (&'a [&'a str], u32),
    /// Prefixes of NAT64.
    pub nat64: &'a [Nat64Prefix],
    /// The URI of the API of a captive portal (RFC 8910); "": there is none.
    pub captive_portal: &'a str,
}

/// Whether a text is a domain name that an advertisement can contain: labels of 1 to 63 bytes, 255 in
/// all, the dot at the end left out or not.
pub fn is_name(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| (1..=LABEL).contains(&label.len()) && label.is_ascii();
    text.len() + 2 <= NAME && text.split('.').all(is_label)
}

/// Where the next option goes.
struct OptionWriter<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl OptionWriter<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), BuildError> {
        let end = self.at + bytes.len();
        prefix_of(self.out, end)?;
        self.out[self.at..end].copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    /// A name as DNS writes it (RFC 1035 section 3.1).
    fn put_name(&mut self, name: &str) -> Result<(), BuildError> {
        if !is_name(name) {
            return Err(BuildError::TooLong { length: name.len(), limit: NAME - 2 });
        }
        for label in name.strip_suffix('.').unwrap_or(name).split('.') {
            self.put(&[label.len() as u8])?;
            self.put(label.as_bytes())?;
        }
        self.put(&[0])
    }

    /// Fills the option that begins at `start` up to a whole number of units and writes its length.
    fn close(&mut self, start: usize) -> Result<(), BuildError> {
        while !(self.at - start).is_multiple_of(8) {
            self.put(&[0])?;
        }
        let units = (self.at - start) / 8;
        if units > UNITS {
            return Err(BuildError::TooLong { length: self.at - start, limit: UNITS * 8 });
        }
        self.out[start + 1] = units as u8;
        Ok(())
    }
}

/// Writes a router advertisement between the addresses of `pseudo`; returns its length. `fixed`
/// need not have type, code and checksum. Send it with hop limit 255 from a link-local address.
///
/// # Errors
/// [`BuildError::NoSpace`]; [`BuildError::TooLong`] for a name that is none, or for more names or
/// servers than an option can hold.
pub fn build_router_advertisement(
    out: &mut [u8],
    pseudo: &Pseudo,
    fixed: &RouterAdvertisement,
    options: &AdvertisementOptions<'_>,
) -> Result<usize, BuildError> {
    let mut writer = OptionWriter { out, at: 0 };
    let fixed = RouterAdvertisement {
        kind: kind::ROUTER_ADVERTISEMENT,
        code: 0,
        checksum: U16::ZERO,
        ..*fixed
    };
    writer.put(fixed.as_bytes())?;
    if let Some(mac) = options.mac {
        writer.put(&ndp_options::link_layer(option_kind::SOURCE_LINK_LAYER, mac))?;
    }
    if options.mtu != 0 {
        writer.put(&[option_kind::MTU, 1, 0, 0])?;
        writer.put(&options.mtu.to_be_bytes())?;
    }
    for prefix in options.prefixes {
        let option = Prefix {
            kind: option_kind::PREFIX,
            length: 4,
            prefix_length: prefix.length,
            flags: prefix.flags,
            valid_lifetime: U32::new(prefix.valid_s),
            preferred_lifetime: U32::new(prefix.preferred_s),
            reserved: U32::ZERO,
            prefix: prefix.prefix.octets(),
        };
        writer.put(option.as_bytes())?;
    }
    let (servers, lifetime) = options.name_servers;
    if !servers.is_empty() {
        let start = writer.at;
        writer.put(&[option_kind::NAME_SERVERS, 0, 0, 0])?;
        writer.put(&lifetime.to_be_bytes())?;
        servers.iter().try_for_each(|server| writer.put(&server.octets()))?;
        writer.close(start)?;
    }
    let (names, lifetime) = options.search;
    if !names.is_empty() {
        let start = writer.at;
        writer.put(&[option_kind::SEARCH, 0, 0, 0])?;
        writer.put(&lifetime.to_be_bytes())?;
        names.iter().try_for_each(|name| writer.put_name(name))?;
        writer.close(start)?;
    }
    for prefix in options.nat64 {
        let wrong = BuildError::TooLong { length: prefix.length.into(), limit: 96 };
        writer.put(&prefix.option().ok_or(wrong)?)?;
    }
    if !options.captive_portal.is_empty() {
        // RFC 8910 section 2.3: without an end, and padded with zeros.
        let start = writer.at;
        writer.put(&[option_kind::CAPTIVE_PORTAL, 0])?;
        writer.put(options.captive_portal.as_bytes())?;
        writer.close(start)?;
    }
    let length = writer.at;
    seal(&mut writer.out[..length], pseudo);
    Ok(length)
}

/// The lifetime and what follows it, of the data of an option with names or name servers
/// ([`crate::ndp_options::NdpOption::Other`]); `None`: it is too short to be one.
pub fn names_of(data: &[u8]) -> Option<(u32, &[u8])> {
    let (head, rest) = data.split_first_chunk::<{ NAMES_HEAD - 2 }>()?;
    Some((u32::from_be_bytes([head[2], head[3], head[4], head[5]]), rest))
}

#[cfg(test)]
mod tests;
