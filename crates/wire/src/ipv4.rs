//! The IPv4 header (RFC 791), checked as a router must (RFC 1812 section 5.2.2).

use crate::ipv4_options::{self, Options, PresentOptions};
use crate::{BuildError, build_error::length16, build_error::prefix_of};
use crate::{checksum, checksum::Pseudo};
use core::net::Ipv4Addr;
use core::ops::Range;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a header without options.
pub const LENGTH: usize = 20;
/// Bytes of the longest header.
pub const LONGEST: usize = 60;
/// Hops that packets have left when they begin (RFC 1700: 64).
pub const TIME_TO_LIVE: u8 = 64;
/// Bit of [`Header::flags_fragment`]: routers must not fragment this.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// Bit of [`Header::flags_fragment`]: this is not the last fragment.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// Bits of [`Header::flags_fragment`] that hold the offset, in units of 8 bytes.
pub const OFFSET_MASK: u16 = 0x1fff;

causes! {
    /// Why an IPv4 packet is refused.
    Ip4Error {
        Truncated = "ip4-truncated", "the packet is shorter than an IPv4 header";
        BadVersion = "ip4-bad-version", "the IP version is not 4";
        BadHeaderLength = "ip4-bad-header-length",
            "the IPv4 header length is below 20 bytes or beyond the packet";
        BadTotalLength = "ip4-bad-total-length",
            "the IPv4 total length is below the header's or beyond the packet";
        BadChecksum = "ip4-bad-checksum", "the IPv4 header checksum is wrong";
        BadOption = "ip4-bad-option", "an IPv4 option's length is wrong";
    }
}

/// The IPv4 header without options, as it lies in the packet.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// Version (high 4 bits) and header length in 32-bit words (low 4 bits).
    pub version_ihl: u8,
    /// Differentiated services code point (high 6 bits) and ECN (low 2 bits).
    pub dscp_ecn: u8,
    /// Bytes of header and payload.
    pub total_length: U16,
    /// Which packet a fragment is of.
    pub identification: U16,
    /// Flags and fragment offset: [`DONT_FRAGMENT`], [`MORE_FRAGMENTS`], [`OFFSET_MASK`].
    pub flags_fragment: U16,
    /// Hops left.
    pub time_to_live: u8,
    /// What the payload is: a number of [`crate::protocol`].
    pub protocol: u8,
    /// Checksum of the header.
    pub checksum: U16,
    /// The source address.
    pub source: [u8; 4],
    /// The destination address.
    pub destination: [u8; 4],
}

impl Header {
    /// Version field; 4 when right.
    #[inline]
    pub const fn version(&self) -> u8 {
        self.version_ihl >> 4
    }

    /// Header length field in bytes, 0..=60.
    #[inline]
    pub const fn header_length(&self) -> usize {
        (self.version_ihl & 0x0f) as usize * 4
    }

    /// Whether routers must not fragment this packet.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.flags_fragment.get() & DONT_FRAGMENT != 0
    }

    /// Whether more fragments follow.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.flags_fragment.get() & MORE_FRAGMENTS != 0
    }

    /// Where this fragment's payload begins in the whole, in bytes.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.flags_fragment.get() & OFFSET_MASK) * 8
    }

    /// Whether this is a part of a packet and not the whole.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.flags_fragment.get() & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// Takes one hop off the time to live and fixes the checksum (RFC 1812 section 5.3.1).
    ///
    /// A time to live of 0 stays 0: the caller has answered "time exceeded" before.
    #[inline]
    pub fn decrement_ttl(&mut self) {
        if self.time_to_live > 0 {
            self.time_to_live -= 1;
            self.checksum.set(checksum::ttl_decremented(self.checksum.get()));
        }
    }
}

/// A packet that [`check`] has accepted, cut to its total length.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a Header,
    packet: &'a [u8],
}

impl<'a> View<'a> {
    /// The fixed part of the header.
    #[inline]
    pub const fn header(&self) -> &'a Header {
        self.header
    }

    /// Header and payload, without what the link added behind.
    #[inline]
    pub const fn packet(&self) -> &'a [u8] {
        self.packet
    }

    /// The source address.
    #[inline]
    pub const fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.header.source)
    }

    /// The destination address.
    #[inline]
    pub const fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.header.destination)
    }

    /// Where the payload lies, counted from the header's first byte.
    #[inline]
    pub fn payload_range(&self) -> Range<usize> {
        self.header.header_length()..self.packet.len()
    }

    /// What the packet carries.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.packet[self.header.header_length()..]
    }

    /// The options, padding included: 0..=40 bytes.
    #[inline]
    pub fn option_bytes(&self) -> &'a [u8] {
        &self.packet[LENGTH..self.header.header_length()]
    }

    /// The options one by one.
    pub fn options(&self) -> Options<'a> {
        Options::new(self.option_bytes())
    }

    /// Which options are there that change what a router does: source routes among them.
    ///
    /// # Errors
    /// [`Ip4Error::BadOption`] when an option's length is wrong.
    pub fn inspect_options(&self) -> Result<PresentOptions, Ip4Error> {
        ipv4_options::inspect(self.option_bytes())
    }

    /// The addresses, for the checksum of what the packet carries.
    #[inline]
    pub const fn pseudo(&self) -> Pseudo {
        Pseudo::Ip4 { source: self.source(), destination: self.destination() }
    }
}

/// Checks an IPv4 packet as RFC 1812 section 5.2.2 lists; options are checked on request.
///
/// Bytes behind the total length are the link's padding.
///
/// # Errors
/// One cause per rule broken: length, version, header length, total length, checksum.
#[inline]
pub fn check(bytes: &[u8]) -> Result<View<'_>, Ip4Error> {
    let (fixed, _) = bytes.split_first_chunk::<LENGTH>().ok_or(Ip4Error::Truncated)?;
    let header = Header::ref_from_bytes(fixed).map_err(|_| Ip4Error::Truncated)?;
    let sum = if header.version_ihl == 0x45 {
        checksum::sum20(fixed)
    } else {
        if header.version() != 4 {
            return Err(Ip4Error::BadVersion);
        }
        let length = header.header_length();
        if length < LENGTH {
            return Err(Ip4Error::BadHeaderLength);
        }
        checksum::sum(bytes.get(..length).ok_or(Ip4Error::BadHeaderLength)?)
    };
    let total = usize::from(header.total_length.get());
    if total < header.header_length() {
        return Err(Ip4Error::BadTotalLength);
    }
    let packet = bytes.get(..total).ok_or(Ip4Error::BadTotalLength)?;
    if !checksum::is_valid(sum) {
        return Err(Ip4Error::BadChecksum);
    }
    Ok(View { header, packet })
}

/// Whether a router must not forward a packet from `source`: "this network", loopback, group,
/// reserved or broadcast (RFC 1812 section 5.3.7).
#[inline]
pub const fn is_martian_source(source: Ipv4Addr) -> bool {
    let first = source.octets()[0];
    first == 0 || first == 127 || first >= 224
}

/// Whether a router must not forward a unicast packet to `destination`: "this network",
/// loopback, or the reserved class E, broadcast included; groups are not martians.
#[inline]
pub const fn is_martian_destination(destination: Ipv4Addr) -> bool {
    let first = destination.octets()[0];
    first == 0 || first == 127 || first >= 240
}

/// The fields of a header to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builder<'a> {
    /// The source address.
    pub source: Ipv4Addr,
    /// The destination address.
    pub destination: Ipv4Addr,
    /// What the payload is: a number of [`crate::protocol`].
    pub protocol: u8,
    /// Hops left; [`TIME_TO_LIVE`] by default.
    pub time_to_live: u8,
    /// DSCP and ECN; 0 by default.
    pub dscp_ecn: u8,
    /// Which packet a fragment is of; 0 by default.
    pub identification: u16,
    /// [`DONT_FRAGMENT`], [`MORE_FRAGMENTS`], offset in units of 8 bytes; 0 by default.
    pub flags_fragment: u16,
    /// Options, padded to whole 32-bit words, at most 40 bytes; none by default.
    pub options: &'a [u8],
}

impl<'a> Builder<'a> {
    /// A header with the defaults named at each field.
    pub const fn new(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8) -> Self {
        Self {
            source,
            destination,
            protocol,
            time_to_live: TIME_TO_LIVE,
            dscp_ecn: 0,
            identification: 0,
            flags_fragment: 0,
            options: &[],
        }
    }

    /// The fields of the header of `view`.
    pub fn of(view: &View<'a>) -> Self {
        Self {
            source: view.source(),
            destination: view.destination(),
            protocol: view.header.protocol,
            time_to_live: view.header.time_to_live,
            dscp_ecn: view.header.dscp_ecn,
            identification: view.header.identification.get(),
            flags_fragment: view.header.flags_fragment.get(),
            options: view.option_bytes(),
        }
    }

    /// Writes the header, checksum included, for `payload_length` bytes; returns its length.
    ///
    /// # Errors
    /// The buffer is too short; options that are no whole words; a total length above 65,535 bytes.
    #[inline]
    pub fn build(&self, out: &mut [u8], payload_length: usize) -> Result<usize, BuildError> {
        let options = self.options.len();
        if !options.is_multiple_of(4) || options > LONGEST - LENGTH {
            return Err(BuildError::BadOptions { length: options });
        }
        let length = LENGTH + options;
        let total_length = length16(length.saturating_add(payload_length))?;
        let out = prefix_of(out, length)?;
        let header = Header {
            version_ihl: 0x40 | (length / 4) as u8,
            dscp_ecn: self.dscp_ecn,
            total_length: U16::new(total_length),
            identification: U16::new(self.identification),
            flags_fragment: U16::new(self.flags_fragment),
            time_to_live: self.time_to_live,
            protocol: self.protocol,
            checksum: U16::ZERO,
            source: self.source.octets(),
            destination: self.destination.octets(),
        };
        out[..LENGTH].copy_from_slice(header.as_bytes());
        out[LENGTH..].copy_from_slice(self.options);
        let checksum = checksum::ones_complement(out);
        out[10..12].copy_from_slice(&checksum.to_be_bytes());
        Ok(length)
    }
}

#[cfg(test)]
mod tests;
