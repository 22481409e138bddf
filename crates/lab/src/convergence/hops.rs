//! The lab's addresses: next hops by peer, round and depth, each identified by its MAC address. Both families have
//! the same layout.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Next hops of a peer, for nested prefixes.
pub(super) const DEPTHS: u8 = 8;
/// The most peers.
pub const PEERS_MAX: u8 = 8;

/// The router's and the daemon's IPv4 address towards the peers.
pub(super) const OWN: Ipv4Addr = Ipv4Addr::new(198, 18, 5, 1);
/// The same for IPv6.
pub(super) const OWN_SIX: Ipv6Addr = own_six(5);
/// The addresses of the router and of the sender where test packets enter.
pub(super) const IN: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 64, 1), Ipv4Addr::new(198, 18, 64, 2)];
/// The same for IPv6.
pub(super) const IN_SIX: [Ipv6Addr; 2] =
    [own_six(64), Ipv6Addr::new(0x2001, 0xdb8, 64, 0, 0, 0, 0, 2)];
/// The router's MAC address where test packets enter.
pub(super) const IN_MAC: [u8; 6] = [2, 0xfe, 0, 0, 0, 1];
/// The autonomous system of the daemon.
pub(super) const ASN: u32 = 65_001;

/// The router's address in the lab's IPv6 network of this number.
const fn own_six(network: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, network, 0, 0, 0, 0, 1)
}

/// Prefix length of the network of the peers.
pub(super) fn peers_length(six: bool) -> u8 {
    if six { 64 } else { 24 }
}

/// Prefix length of the networks that next hops are in.
pub(super) fn hops_length(six: bool) -> u8 {
    if six { 64 } else { 20 }
}

/// A network with a static route for warm-up packets: an address in it and its length.
pub(super) fn warm(six: bool) -> (IpAddr, u8) {
    if six {
        (Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 0).into(), 48)
    } else {
        (Ipv4Addr::new(198, 19, 0, 0).into(), 16)
    }
}

/// The router's address towards the peers.
pub(super) fn own(six: bool) -> IpAddr {
    if six { OWN_SIX.into() } else { OWN.into() }
}

/// The router's address where test packets enter.
pub(super) fn own_in(six: bool) -> IpAddr {
    if six { IN_SIX[0].into() } else { IN[0].into() }
}

/// A port that test packets leave on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutPort {
    /// The port of all next hops at first.
    First,
    /// The port of the first peer's next hops after it announced its routes again.
    Second,
}

impl OutPort {
    pub(super) const BOTH: [Self; 2] = [Self::First, Self::Second];

    /// Name of the interface and of its host interface.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::First => "out",
            Self::Second => "out2",
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::First => 0,
            Self::Second => 1,
        }
    }

    /// The router's address there.
    pub(super) fn own(self, six: bool) -> IpAddr {
        if six {
            own_six(16 + 16 * u16::from(self.number())).into()
        } else {
            Ipv4Addr::new(198, 18, 16 + 16 * self.number(), 1).into()
        }
    }

    /// An unused address of that network.
    pub(super) fn spare(self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, 31 + 16 * self.number(), 254)
    }
}

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    /// Its peer, from 0.
    pub(super) peer: u8,
    /// Its port.
    pub(super) out: OutPort,
    /// Nesting depth of its prefixes.
    pub(super) depth: u8,
}

impl Hop {
    /// All next hops of this many peers at a port.
    pub(super) fn all(out: OutPort, peers: u8) -> impl Iterator<Item = Self> {
        (0..peers).flat_map(move |peer| (0..DEPTHS).map(move |depth| Self { peer, out, depth }))
    }

    pub(super) fn address(self, six: bool) -> IpAddr {
        match self.out.own(six) {
            IpAddr::V4(own) => {
                let [a, b, c, _] = own.octets();
                Ipv4Addr::new(a, b, c + self.peer, 10 + self.depth).into()
            }
            IpAddr::V6(own) => {
                let [a, b, c, ..] = own.segments();
                let (peer, depth) = (u16::from(self.peer), u16::from(self.depth));
                Ipv6Addr::new(a, b, c, 0, 0, 0, 1 + peer, 10 + depth).into()
            }
        }
    }

    pub(super) fn mac(self) -> [u8; 6] {
        [2, 0, 0, self.out.number(), self.peer, self.depth]
    }
}

/// Address of a peer, from 0.
pub(super) fn peer_address(peer: u8, six: bool) -> IpAddr {
    if six {
        let [a, b, c, ..] = OWN_SIX.segments();
        Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 11 + u16::from(peer)).into()
    } else {
        peer_id(peer).into()
    }
}

/// BGP identifier of a peer, which is its IPv4 address.
pub(super) fn peer_id(peer: u8) -> Ipv4Addr {
    let [a, b, c, _] = OWN.octets();
    Ipv4Addr::new(a, b, c, 11 + peer)
}

/// Autonomous system of a peer.
pub(super) fn peer_asn(peer: u8) -> u32 {
    65_101 + u32::from(peer)
}
