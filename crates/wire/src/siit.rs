//! Translation between IPv4 and IPv6 packets (RFC 7915), and IPv4 addresses in IPv6 prefixes (RFC 6052): bytes in,
//! bytes out. Which addresses stand for each other is the caller's matter: it gives both of a packet, and a function
//! for those of packets that ICMP errors quote.

pub mod faults;
mod icmp;
mod mapping;
mod prefix;
#[cfg(test)]
mod tests;
mod to_ip4;
mod to_ip6;
mod upper;

pub use faults::is_host;
pub use icmp::as_icmp6;
pub use mapping::Mapping;
pub use prefix::Prefix;
pub use to_ip4::to_ip4;
pub use to_ip6::to_ip6;

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::{ipv4, ipv6};

/// By how much a header of IPv6 is longer.
pub const GROWTH: usize = ipv6::LENGTH - ipv4::LENGTH;
/// The longest IPv4 packet that routers may fragment (RFC 7915 section 5.1): as IPv6 packet it has the least MTU.
pub const FRAGMENTED: usize = ipv6::LEAST_MTU - GROWTH;

/// Why a packet that an ICMP error quotes has no translation.
fn of_quoted(refused: Refused) -> Refused {
    match refused {
        Refused::Malformed | Refused::TooLong => Refused::QuotedMalformed,
        other => other,
    }
}

/// Both addresses of a packet.
pub type Ends4 = (Ipv4Addr, Ipv4Addr);
/// Both addresses of a packet.
pub type Ends6 = (Ipv6Addr, Ipv6Addr);

/// Why a packet has no translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A header is cut or wrong.
    Malformed,
    /// An ICMP message that has no counterpart: it is dropped silently (RFC 7915 sections 4.2 and 5.2).
    Icmp,
    /// A fragment of an ICMP message (RFC 7915 section 1.2).
    IcmpFragment,
    /// A source route that has not reached its end, at this offset: the sender is answered (RFC 7915 sections 4.1 and
    /// 5.1).
    SourceRoute(usize),
    /// An extension header that IPv4 has no counterpart of, such as that of mobility or AH.
    Extension,
    /// UDP without a checksum: a fragment of IPv4 (RFC 7915 section 4.5), or of IPv6 (RFC 8200 section 8.1).
    NoChecksum,
    /// It is longer than the place for it, or than a packet can be.
    TooLong,
    /// An ICMP error about a packet whose addresses have no counterpart.
    Quoted,
    /// An ICMP error about a packet of which it quotes less than the IP header.
    QuotedTruncated,
    /// An ICMP error about a packet whose headers are wrong.
    QuotedMalformed,
}
