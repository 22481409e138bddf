//! Classifies IP packets to the router's own addresses by who can send them: hosts on the link, peers of sessions, or
//! anybody. Routing protocols survive any other traffic, and those of the link survive what strangers send.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_wire::icmp6::kind;
use stoa_wire::protocol;

use super::Class;

/// EIGRP (RFC 7868).
const EIGRP: u8 = 88;
/// PIM (RFC 7761).
const PIM: u8 = 103;
/// BGP (RFC 4271).
const BGP: u16 = 179;
/// LDP, over TCP and UDP (RFC 5036).
const LDP: u16 = 646;
/// BFD over several hops (RFC 5883).
const MULTIHOP_BFD: u16 = 4784;
/// RIP (RFC 2453), RIPng (RFC 2080), and BFD: single hop, echo, multihop, on a bundle (RFC 5881,
/// RFC 5883, RFC 7130).
const UDP_PORTS: [u16; 6] = [520, 521, 3784, 3785, MULTIHOP_BFD, 6784];
/// The first source port of BFD (RFC 5881 4, RFC 5883 5).
const FIRST_BFD_SOURCE: u16 = 49_152;
/// The TTL of packets that no router has forwarded (RFC 5082).
const UNFORWARDED: u8 = 255;
/// An echo request in ICMP (RFC 792).
const ECHO_REQUEST: u8 = 8;
/// Flags of TCP: synchronize, acknowledge.
const SYN: u8 = 2;
const ACK: u8 = 16;

/// An IP packet, as far as its class depends on it. Its IP header is validated, the rest is not.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    source: IpAddr,
    destination: IpAddr,
    hop_limit: u8,
    upper: u8,
    /// Empty in fragments: only the first one has ports.
    payload: &'a [u8],
    is_fragment: bool,
}

/// What a packet that a program of the router sends shows about its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The program has or opens a session with it.
    Session,
    /// If it is a peer already, the session is in use. To a stranger it may be any answer: he chooses its
    /// destination port.
    Use,
}

/// What a packet is for.
enum Kind {
    /// A routing protocol by datagrams.
    Routing,
    /// A session of a routing protocol over TCP.
    Session,
    Vrrp,
    /// ICMPv6 messages between neighbours.
    Link,
    Echo,
    Icmp,
    Other,
}

impl<'a> Packet<'a> {
    /// Reads an IPv4 or IPv6 packet; `None` if it is shorter than its header.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => Self::read4(bytes),
            6 => Self::read6(bytes),
            _ => None,
        }
    }

    fn read4(bytes: &'a [u8]) -> Option<Self> {
        let header = bytes.first_chunk::<20>()?;
        let address = |at: usize| Some(Ipv4Addr::from(*header[at..].first_chunk::<4>()?).into());
        // More fragments, or an offset.
        let is_fragment = (header[6] & 0x3f, header[7]) != (0, 0);
        let payload = bytes.get(usize::from(header[0] & 0xf) * 4..).unwrap_or_default();
        Some(Self {
            source: address(12)?,
            destination: address(16)?,
            hop_limit: header[8],
            upper: header[9],
            payload: if is_fragment { &[] } else { payload },
            is_fragment,
        })
    }

    /// Of extension headers, only one is read: hop-by-hop options, as in MLD, or a fragment header.
    fn read6(bytes: &'a [u8]) -> Option<Self> {
        let header = bytes.first_chunk::<40>()?;
        let address = |at: usize| Some(Ipv6Addr::from(*header[at..].first_chunk::<16>()?).into());
        let is_fragment = header[6] == protocol::FRAGMENT;
        let (upper, offset) = match (header[6], bytes.get(40..42)) {
            (protocol::FRAGMENT, Some(extension)) => (extension[0], bytes.len()),
            (protocol::HOP_BY_HOP, Some(extension)) => {
                (extension[0], 48 + usize::from(extension[1]) * 8)
            }
            (upper, _) => (upper, 40),
        };
        Some(Self {
            source: address(8)?,
            destination: address(24)?,
            hop_limit: header[7],
            upper,
            payload: bytes.get(offset..).unwrap_or_default(),
            is_fragment,
        })
    }

    fn port(&self, at: usize) -> u16 {
        let bytes = self.payload.get(at..at + 2);
        bytes.map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn kind(&self) -> Kind {
        match self.upper {
            protocol::OSPF | protocol::IGMP | PIM | EIGRP => Kind::Routing,
            protocol::VRRP => Kind::Vrrp,
            // Either side may have opened the connection.
            protocol::TCP
                if [self.port(0), self.port(2)].iter().any(|it| [BGP, LDP].contains(it)) =>
            {
                Kind::Session
            }
            // The destination port decides: BFD has source ports of a range of its own.
            protocol::UDP if self.port(2) == LDP || UDP_PORTS.contains(&self.port(2)) => {
                Kind::Routing
            }
            protocol::ICMP4 if self.payload.first() == Some(&ECHO_REQUEST) => Kind::Echo,
            protocol::ICMP6 => match self.payload.first() {
                Some(&kind::ECHO_REQUEST) => Kind::Echo,
                Some(&(kind::LISTENER_QUERY..=kind::REDIRECT | kind::LISTENER_REPORT_2)) => {
                    Kind::Link
                }
                _ if self.is_fragment => Kind::Other,
                _ => Kind::Icmp,
            },
            protocol::ICMP4 if !self.is_fragment => Kind::Icmp,
            _ => Kind::Other,
        }
    }

    /// Whether only a host on the link can have sent it: routers do not forward such a packet, or it would
    /// have a lower TTL.
    fn is_of_link(&self) -> bool {
        let is_of_group = match self.destination {
            IpAddr::V4(ip) => ip.octets().starts_with(&[224, 0, 0]) || ip.is_broadcast(),
            IpAddr::V6(ip) => ip.octets()[0] == 0xff && ip.octets()[1] & 0xf <= 2,
        };
        let is_from_link = matches!(self.source, IpAddr::V6(ip) if ip.is_unicast_link_local());
        is_of_group || is_from_link || self.hop_limit == UNFORWARDED
    }

    /// The class. `is_peer`: whether a routing daemon has a session with an address.
    pub fn class(&self, is_peer: impl FnOnce(IpAddr) -> bool) -> Class {
        match self.kind() {
            Kind::Echo => Class::Echo,
            Kind::Icmp => Class::Icmp,
            Kind::Other if self.is_fragment => Class::Fragment,
            Kind::Other => Class::Host,
            // RFC 9568 5.1.1.3.
            Kind::Vrrp if self.hop_limit == UNFORWARDED => Class::Vrrp,
            Kind::Link if !self.is_of_link() => Class::Icmp,
            Kind::Link => Class::Routing,
            Kind::Routing if self.is_of_link() => Class::Routing,
            // RFC 5082. A whole table comes by a session: it must not delay hellos.
            Kind::Session if self.is_of_link() => Class::RoutingPeer,
            Kind::Routing | Kind::Session | Kind::Vrrp => match is_peer(self.source) {
                true => Class::RoutingPeer,
                false => Class::RoutingOther,
            },
        }
    }

    /// The destination, if this packet that a program of the router sends shows something about a session with
    /// it. What answers a stranger shows none: to accept or refuse a connection, data of a program that is no
    /// routing daemon to whatever port he chose, or the answer to a request of PIM or RIP.
    pub fn shown_peer(&self) -> Option<(IpAddr, Shown)> {
        let shown = match self.upper {
            protocol::OSPF | EIGRP => Shown::Session,
            protocol::TCP => self.shown_by_segment()?,
            protocol::UDP => self.shown_by_datagram()?,
            _ => return None,
        };
        let is_unicast = match self.destination {
            IpAddr::V4(ip) => !ip.is_multicast() && !ip.is_broadcast(),
            IpAddr::V6(ip) => !ip.is_multicast(),
        };
        is_unicast.then_some((self.destination, shown))
    }

    /// A daemon opens a connection, or sends data: as the server, or as the client of one that it has opened.
    fn shown_by_segment(&self) -> Option<Shown> {
        let [from, to] = [0, 2].map(|at| [BGP, LDP].contains(&self.port(at)));
        let (offset, flags) = (self.payload.get(12)? >> 4, self.payload.get(13)?);
        let has_data = self.payload.len() > usize::from(offset) * 4;
        match flags & (SYN | ACK) == SYN {
            true if to => Some(Shown::Session),
            false if from && has_data => Some(Shown::Session),
            false if to && has_data => Some(Shown::Use),
            _ => None,
        }
    }

    /// The source port is that of the protocol, too: a datagram with a spoofed source makes other programs
    /// answer to any port.
    fn shown_by_datagram(&self) -> Option<Shown> {
        let is_of_daemon = match self.port(2) {
            LDP => self.port(0) == LDP,
            MULTIHOP_BFD => self.port(0) >= FIRST_BFD_SOURCE,
            _ => false,
        };
        is_of_daemon.then_some(Shown::Session)
    }
}

#[cfg(test)]
mod tests;
