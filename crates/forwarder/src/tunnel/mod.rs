//! Tunnel interfaces: IP in IP (RFC 2003, RFC 2473, RFC 4213) and GRE (RFC 2784, RFC 7676) from a
//! local address to another router. Outer and inner packets can be of either family.
//!
//! A tunnel has no neighbours: routes to it use an adjacency of the kind
//! [`Tunnel`](stoa_tables::adjacency::AdjacencyKind::Tunnel), whose next node is `tunnel-output`.

mod congestion;
pub mod tunnel_input;
pub mod tunnel_output;

use std::collections::HashMap;
use std::net::IpAddr;

use stoa_ports::Encapsulation;
use stoa_wire::{gre, ipv4, ipv6, protocol};

/// One tunnel in the form for workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its interface.
    pub interface: u32,
    /// The local address: the source of outer packets.
    pub local: IpAddr,
    /// The remote endpoint, of the same family.
    pub remote: IpAddr,
    /// The encapsulation between the two IP headers.
    pub encapsulation: Encapsulation,
    /// TTL or hop limit of outer packets.
    pub hop_limit: u8,
    /// The VRF of outer and inner packets, as [`crate::attributes::Attributes::vrf`].
    pub vrf: u32,
}

impl Tunnel {
    /// Bytes of encapsulation.
    pub fn header_length(&self) -> usize {
        let outer = if self.local.is_ipv4() { ipv4::LENGTH } else { ipv6::LENGTH };
        outer + if self.encapsulation == Encapsulation::Gre { gre::LENGTH } else { 0 }
    }

    /// The protocol number in the outer header.
    fn protocol(&self, inner_is_ip4: bool) -> u8 {
        match (self.encapsulation, inner_is_ip4) {
            (Encapsulation::Gre, _) => protocol::GRE,
            (Encapsulation::Ip, true) => protocol::IP4,
            (Encapsulation::Ip, false) => protocol::IP6,
        }
    }
}

/// The key of received packets: VRF, remote and local address, encapsulation.
type Ends = (u32, IpAddr, IpAddr, Encapsulation);

/// All tunnels.
#[derive(Clone, Debug, Default)]
pub struct Tunnels {
    by_interface: HashMap<u32, Tunnel>,
    by_ends: HashMap<Ends, u32>,
}

impl Tunnels {
    /// Adds a tunnel; its endpoints must be unique.
    pub fn insert(&mut self, tunnel: Tunnel) {
        let ends = (tunnel.vrf, tunnel.remote, tunnel.local, tunnel.encapsulation);
        self.by_ends.insert(ends, tunnel.interface);
        self.by_interface.insert(tunnel.interface, tunnel);
    }

    /// The tunnel of an interface.
    pub fn of(&self, interface: u32) -> Option<&Tunnel> {
        self.by_interface.get(&interface)
    }

    /// The interface of the tunnel of packets with this `protocol` from `source` to the local address
    /// `destination` in a VRF.
    #[inline]
    pub fn from(
        &self,
        vrf: u32,
        (source, destination): (IpAddr, IpAddr),
        protocol: u8,
    ) -> Option<u32> {
        let encapsulation = match protocol {
            protocol::IP4 | protocol::IP6 => Encapsulation::Ip,
            protocol::GRE => Encapsulation::Gre,
            _ => return None,
        };
        self.by_ends.get(&(vrf, source, destination, encapsulation)).copied()
    }
}
