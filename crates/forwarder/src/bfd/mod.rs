//! BFD (RFC 5880, RFC 5881): detects within milliseconds that a neighbour is unreachable, so that its routes
//! switch to another next hop at once.
//!
//! Workers only recognize the packets of a session; the control thread does the rest.

pub mod bfd_input;
pub mod session;

use std::collections::HashSet;
use std::net::IpAddr;

use stoa_wire::bfd;

use crate::protocols::LocalPacket;

/// The neighbours that have a session: interface and address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers(pub HashSet<(u32, IpAddr)>);

/// Some value if a UDP packet to the port of BFD belongs to a session. A packet that was forwarded by another
/// router does not (RFC 5881 section 5), and must not use up the policer of BFD.
pub fn of_session(packet: &LocalPacket<'_>) -> Option<u32> {
    let peers = &packet.peers.0;
    let is_of =
        packet.hop_limit == bfd::HOP_LIMIT && peers.contains(&(packet.interface, packet.ends.0));
    is_of.then_some(0)
}
