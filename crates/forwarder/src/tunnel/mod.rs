//! Tunnel interfaces: IP in IP (RFC 2003, RFC 2473, RFC 4213) and GRE (RFC 2784, RFC 7676) from a
//! local address to another router. Outer and inner packets can be of either family.
//!
//! A tunnel has no neighbours: routes to it use an adjacency of the kind
//! [`Tunnel`](stoa_tables::adjacency::AdjacencyKind::Tunnel), whose next node is `tunnel-output`.
//! Packets from tunnels are found among those for local addresses ([`demux`]). Vectors may mix tunnels:
//! all lanes are looked up together ([`table`]), and each tunnel is one line ([`line`]).

pub(crate) mod congestion;
pub mod demux;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod demux_avx2;
pub(crate) mod encapsulate;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod encapsulate_avx2;
pub mod line;
pub(crate) mod outer;
pub mod table;
pub mod too_big;
pub mod tunnel_input;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod tunnel_input_avx2;
pub mod tunnel_output;
pub mod writer;

use std::net::IpAddr;

use stoa_ports::Encapsulation;

use crate::protocols::LocalPacket;

/// One tunnel as the control thread knows it.
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

/// The interface of the tunnel to which a packet belongs: the `arg` of `tunnel-input`.
pub fn of_packet(packet: &LocalPacket<'_>) -> Option<u32> {
    packet.tunnels.from(packet.vrf, packet.ends, packet.protocol)
}
