//! IPv6 extension headers (RFC 8200 section 4): the bounded walk to what a packet carries.

use crate::ipv6::{self, Ip6Error};
use crate::protocol;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Most extension headers that are walked; a packet with more is refused.
pub const MOST: usize = 8;
/// Most options, padding left out, that are read from one header (RFC 8504 section 5.3).
pub const MOST_OPTIONS: usize = 16;
/// Bytes of a fragment header.
pub const FRAGMENT_LENGTH: usize = 8;

/// The fragment header (RFC 8200 section 4.5) as it lies in the packet.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Fragment {
    /// What the whole's fragmentable part begins with.
    pub next_header: u8,
    /// Zero when sent, ignored when received.
    pub reserved: u8,
    /// Offset in units of 8 bytes (13 bits), 2 reserved bits, "more fragments" (1 bit).
    pub offset_more: U16,
    /// Which packet this is a part of.
    pub identification: U32,
}

impl Fragment {
    /// Makes one for `offset` bytes, a multiple of 8 up to 65,528; `None` when it is not.
    pub fn new(next_header: u8, offset: usize, more: bool, identification: u32) -> Option<Self> {
        let offset = u16::try_from(offset).ok().filter(|offset| offset.is_multiple_of(8))?;
        Some(Self {
            next_header,
            reserved: 0,
            offset_more: U16::new(offset | u16::from(more)),
            identification: U32::new(identification),
        })
    }

    /// Where this fragment's data begins in the whole, in bytes.
    #[inline]
    pub fn offset(&self) -> usize {
        usize::from(self.offset_more.get() & 0xfff8)
    }

    /// Whether more fragments follow.
    #[inline]
    pub fn more(&self) -> bool {
        self.offset_more.get() & 1 != 0
    }

    /// Whether this "fragment" is the whole packet (RFC 6946).
    #[inline]
    pub fn is_atomic(&self) -> bool {
        self.offset() == 0 && !self.more()
    }
}

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Which kind: a number of [`crate::protocol`].
    pub kind: u8,
    /// Where it begins, counted from the IPv6 header's first byte.
    pub offset: usize,
    /// All of it, from its next-header field on: at least 8 bytes.
    pub bytes: &'a [u8],
}

impl<'a> Extension<'a> {
    /// The options of a hop-by-hop or destination options header; nothing for other kinds.
    pub fn options(&self) -> Options<'a> {
        let has_options = matches!(self.kind, protocol::HOP_BY_HOP | protocol::DESTINATION_OPTIONS);
        let rest = if has_options { self.bytes.get(2..).unwrap_or(&[]) } else { &[] };
        Options { rest, count: 0 }
    }
}

/// What a packet carries behind its extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper<'a> {
    /// Which protocol: a number of [`crate::protocol`]; may be ESP or "nothing follows".
    pub protocol: u8,
    /// Where the field that names the protocol lies, counted from the IPv6 header's first byte:
    /// the pointer of a parameter problem (RFC 4443 section 3.4).
    pub named_at: usize,
    /// Where the protocol's header begins, counted from the IPv6 header's first byte.
    pub offset: usize,
    /// The bytes from there on. In a fragment that is not the first, data from the middle.
    pub payload: &'a [u8],
    /// The fragment header, when there is one.
    pub fragment: Option<&'a Fragment>,
    /// Whether there are hop-by-hop options, which a router may have to process.
    pub hop_by_hop: bool,
    /// Type and segments left of the last routing header, when there is one.
    pub routing: Option<(u8, u8)>,
}

impl Upper<'_> {
    /// Whether `payload` begins with the protocol's header: the packet is whole, or the first
    /// fragment.
    #[inline]
    pub fn has_header(&self) -> bool {
        self.fragment.is_none_or(|fragment| fragment.offset() == 0)
    }
}

/// Whether `next_header` names a header that the walk passes.
#[inline]
pub const fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AH
            | protocol::DESTINATION_OPTIONS
            | protocol::MOBILITY
            | protocol::HIP
            | protocol::SHIM6
    )
}

/// What a packet carries of which an ICMP error quotes the beginning, from its fixed header on (RFC 4443 section 3).
///
/// # Errors
/// It ends within its headers, or an extension header is out of place or one of too many.
pub fn quoted(packet: &[u8]) -> Result<Upper<'_>, Ip6Error> {
    let next = *packet.get(6).ok_or(Ip6Error::Truncated)?;
    Extensions::new(next, packet).upper()
}

/// The extension headers one by one; ends after the first that is wrong, and after a fragment
/// header that is not the first fragment's.
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    packet: &'a [u8],
    next: u8,
    named_at: usize,
    offset: usize,
    count: usize,
    stopped: bool,
}

impl<'a> Extensions<'a> {
    /// Walks `packet`, an IPv6 packet from its fixed header on whose next-header field is `next`.
    #[inline]
    pub(crate) const fn new(next: u8, packet: &'a [u8]) -> Self {
        Self { packet, next, named_at: 6, offset: ipv6::LENGTH, count: 0, stopped: false }
    }

    /// Walks what is left and finds what the packet carries.
    ///
    /// # Errors
    /// An extension header is longer than the packet, out of place, or one of too many.
    pub fn upper(mut self) -> Result<Upper<'a>, Ip6Error> {
        let (mut fragment, mut hop_by_hop, mut routing) = (None, false, None);
        for extension in self.by_ref() {
            let Extension { kind, bytes, .. } = extension?;
            match kind {
                protocol::FRAGMENT => fragment = Fragment::ref_from_bytes(bytes).ok(),
                protocol::HOP_BY_HOP => hop_by_hop = true,
                protocol::ROUTING => routing = Some((bytes[2], bytes[3])),
                _ => {}
            }
        }
        Ok(Upper {
            protocol: self.next,
            named_at: self.named_at,
            offset: self.offset,
            payload: self.packet.get(self.offset..).unwrap_or(&[]),
            fragment,
            hop_by_hop,
            routing,
        })
    }

    fn step(&mut self) -> Result<Extension<'a>, Ip6Error> {
        if self.next == protocol::HOP_BY_HOP && self.count > 0 {
            return Err(Ip6Error::HopByHopNotFirst);
        }
        if self.count == MOST {
            return Err(Ip6Error::TooManyExtensions);
        }
        let rest = self.packet.get(self.offset..).unwrap_or(&[]);
        let [next, length, ..] = *rest else { return Err(Ip6Error::ExtensionTruncated) };
        let length = match self.next {
            protocol::FRAGMENT => FRAGMENT_LENGTH,
            // RFC 4302 section 2.2 counts in 32-bit words, but for two of them.
            protocol::AH => (usize::from(length) + 2) * 4,
            _ => (usize::from(length) + 1) * 8,
        };
        // An authentication header of length 0 would be 8 bytes, so none is ever shorter.
        let bytes = rest.get(..length).ok_or(Ip6Error::ExtensionTruncated)?;
        let extension = Extension { kind: self.next, offset: self.offset, bytes };
        if self.next == protocol::FRAGMENT {
            let fragment = Fragment::ref_from_bytes(bytes);
            self.stopped = fragment.is_ok_and(|fragment| fragment.offset() != 0);
        }
        self.named_at = self.offset;
        self.next = next;
        self.offset += length;
        self.count += 1;
        Ok(extension)
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, Ip6Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.stopped || !is_extension(self.next) {
            return None;
        }
        let step = self.step();
        self.stopped |= step.is_err();
        Some(step)
    }
}

/// What a node must do with an option that it does not know (RFC 8200 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfUnknown {
    /// Skip the option and go on.
    Skip,
    /// Drop the packet.
    Drop,
    /// Drop the packet and answer "parameter problem", code 2.
    Answer,
    /// Drop the packet and answer the same, unless the destination is a group.
    AnswerUnicast,
}

/// One option of a hop-by-hop or destination options header; padding is not handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip6Option<'a> {
    /// Option type; 5 is router alert (RFC 2711).
    pub kind: u8,
    /// What follows type and length.
    pub data: &'a [u8],
}

impl Ip6Option<'_> {
    /// What to do when this option is not known.
    pub const fn if_unknown(&self) -> IfUnknown {
        match self.kind >> 6 {
            0 => IfUnknown::Skip,
            1 => IfUnknown::Drop,
            2 => IfUnknown::Answer,
            _ => IfUnknown::AnswerUnicast,
        }
    }
}

/// The options one by one; ends after the first that is wrong.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
    count: usize,
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Ip6Option<'a>, Ip6Error>;

    fn next(&mut self) -> Option<Self::Item> {
        // Each iteration takes at least one byte of at most 2,046.
        while let [kind, behind @ ..] = self.rest {
            if *kind == 0 {
                self.rest = behind;
                continue;
            }
            let data = behind.split_first().and_then(|(length, data)| {
                let length = usize::from(*length);
                Some((data.get(..length)?, data.get(length..)?))
            });
            let Some((data, rest)) = data else {
                self.rest = &[];
                return Some(Err(Ip6Error::BadOption));
            };
            self.rest = rest;
            if *kind == 1 {
                continue;
            }
            if self.count == MOST_OPTIONS {
                self.rest = &[];
                return Some(Err(Ip6Error::TooManyOptions));
            }
            self.count += 1;
            return Some(Ok(Ip6Option { kind: *kind, data }));
        }
        None
    }
}

#[cfg(test)]
mod tests;
