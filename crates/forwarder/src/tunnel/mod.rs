//! Tunnels: interfaces whose packets travel inside other packets, from one of our addresses to
//! another router's: IP in IP (RFC 2003, RFC 2473, RFC 4213) and GRE (RFC 2784, RFC 7676). Outer
//! and inner packets may be of either family.
//!
//! A tunnel has no neighbours: what is routed to it meets an adjacency of the kind
//! [`Tunnel`](stoa_tables::adjacency::AdjacencyKind::Tunnel), which leads to `tunnel-output`.

mod congestion;
pub mod tunnel_input;
pub mod tunnel_output;

use std::collections::HashMap;
use std::net::IpAddr;

use stoa_ports::Encapsulation;
use stoa_wire::{gre, ipv4, ipv6, protocol};

/// One tunnel as workers know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its interface.
    pub interface: u32,
    /// Our address: the source of outer packets.
    pub local: IpAddr,
    /// The other end, of the same family.
    pub remote: IpAddr,
    /// What stands between the two headers.
    pub encapsulation: Encapsulation,
    /// TTL or hop limit of outer packets.
    pub hop_limit: u8,
    /// The VRF of outer and inner packets, as an interface's line has it.
    pub vrf: u32,
}

impl Tunnel {
    /// Bytes that the tunnel puts before a packet.
    pub fn header_length(&self) -> usize {
        let outer = if self.local.is_ipv4() { ipv4::LENGTH } else { ipv6::LENGTH };
        outer + if self.encapsulation == Encapsulation::Gre { gre::LENGTH } else { 0 }
    }

    /// What the outer header names as its payload.
    fn protocol(&self, inner_is_ip4: bool) -> u8 {
        match (self.encapsulation, inner_is_ip4) {
            (Encapsulation::Gre, _) => protocol::GRE,
            (Encapsulation::Ip, true) => protocol::IP4,
            (Encapsulation::Ip, false) => protocol::IP6,
        }
    }
}

/// Where an outer packet belongs: the VRF, the sender, our address, what is between the headers.
type Ends = (u32, IpAddr, IpAddr, Encapsulation);

/// All tunnels.
#[derive(Clone, Debug, Default)]
pub struct Tunnels {
    by_interface: HashMap<u32, Tunnel>,
    by_ends: HashMap<Ends, u32>,
}

impl Tunnels {
    /// Puts a tunnel in; one with the same ends must not be there.
    pub fn insert(&mut self, tunnel: Tunnel) {
        let ends = (tunnel.vrf, tunnel.remote, tunnel.local, tunnel.encapsulation);
        self.by_ends.insert(ends, tunnel.interface);
        self.by_interface.insert(tunnel.interface, tunnel);
    }

    /// The tunnel of an interface.
    pub fn of(&self, interface: u32) -> Option<&Tunnel> {
        self.by_interface.get(&interface)
    }

    /// The interface of the tunnel that brings packets of this `protocol` from `source` to our
    /// address `destination` in a VRF.
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
