//! BFD (RFC 5880, RFC 5881): neighbours that are asked many times a second whether they are there, so that the routes through one that is not
//! go elsewhere at once.
//!
//! Workers know whose packets are for a session; all else is done by the control thread.

pub mod session;

use std::collections::HashSet;
use std::net::IpAddr;

use stoa_wire::{bfd, protocol};

/// With whom there are sessions: interface and address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers(pub HashSet<(u32, IpAddr)>);

impl Peers {
    /// Whether this is a packet of a session: of a protocol, with a payload. One that has come over other routers is not
    /// (RFC 5881 section 5), and costs the budget of routing protocols nothing.
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
