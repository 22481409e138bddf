//! The lab's addresses: next hops by peer, round and depth, each with a MAC address that tells which it is.

use std::net::Ipv4Addr;

/// How many next hops a peer has for prefixes within each other.
pub(super) const DEPTHS: u8 = 8;
/// Peers at most.
pub const PEERS_MAX: u8 = 8;

/// The router's address and the daemon's towards the peers.
pub(super) const OWN: Ipv4Addr = Ipv4Addr::new(198, 18, 5, 1);
/// Prefix length of that network.
pub(super) const PEERS_LENGTH: u8 = 24;
/// Prefix length of the networks that next hops are in.
pub(super) const HOPS_LENGTH: u8 = 20;
/// The router's address where test packets come in, and whoever sends them.
pub(super) const IN: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 64, 1), Ipv4Addr::new(198, 18, 64, 2)];
/// The router's MAC address where test packets come in.
pub(super) const IN_MAC: [u8; 6] = [2, 0xfe, 0, 0, 0, 1];
/// A network with a static route, for packets before there is any other.
pub(super) const WARM: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 19, 0, 0), 16);
/// The autonomous system of the daemon.
pub(super) const ASN: u32 = 65_001;

/// A port that test packets leave by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Out {
    /// Where all next hops are at first.
    First,
    /// Where those of the first peer are after it said its routes anew.
    Second,
}

impl Out {
    pub(super) const BOTH: [Self; 2] = [Self::First, Self::Second];

    /// Name of the interface and of its mirror.
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
    pub(super) fn own(self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, 16 + 16 * self.number(), 1)
    }
}

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    /// Whose it is, from 0.
    pub(super) peer: u8,
    /// Where it is.
    pub(super) out: Out,
    /// For prefixes that lie in so many others.
    pub(super) depth: u8,
}

impl Hop {
    /// All that a lab with so many peers has at a port.
    pub(super) fn all(out: Out, peers: u8) -> impl Iterator<Item = Self> {
        (0..peers).flat_map(move |peer| (0..DEPTHS).map(move |depth| Self { peer, out, depth }))
    }

    pub(super) fn address(self) -> Ipv4Addr {
        let [a, b, c, _] = self.out.own().octets();
        Ipv4Addr::new(a, b, c + self.peer, 10 + self.depth)
    }

    pub(super) fn mac(self) -> [u8; 6] {
        [2, 0, 0, self.out.number(), self.peer, self.depth]
    }
}

/// Address of a peer, from 0.
pub(super) fn peer_address(peer: u8) -> Ipv4Addr {
    let [a, b, c, _] = OWN.octets();
    Ipv4Addr::new(a, b, c, 11 + peer)
}

/// Autonomous system of a peer.
pub(super) fn peer_asn(peer: u8) -> u32 {
    65_101 + u32::from(peer)
}
