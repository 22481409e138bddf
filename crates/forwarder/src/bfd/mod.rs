//! BFD (RFC 5880, RFC 5881): detects within milliseconds that a neighbour is unreachable, so that its routes
//! switch to another next hop at once.
//!
//! Workers only recognize the packets of a session; the control thread does the rest.

pub mod session;

use std::collections::HashSet;
use std::net::IpAddr;

use stoa_wire::{bfd, protocol};

/// The neighbours that have a session: interface and address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers(pub HashSet<(u32, IpAddr)>);

impl Peers {
    /// Whether a UDP packet belongs to a session. A packet that was forwarded by another router does not
    /// (RFC 5881 section 5), and must not use up the policer of the routing protocols.
    #[inline]
    pub fn is_session_packet(
        &self,
        interface: u32,
        source: IpAddr,
        (hop_limit, upper, payload): (u8, u8, &[u8]),
    ) -> bool {
        upper == protocol::UDP
            && !self.0.is_empty()
            && hop_limit == bfd::HOP_LIMIT
            && payload.get(2..4) == Some(&bfd::PORT.to_be_bytes())
            && self.0.contains(&(interface, source))
    }
}
