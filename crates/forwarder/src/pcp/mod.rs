//! PCP (RFC 6887) and NAT-PMP (RFC 6886): hosts ask for mappings of address translation.
//!
//! Workers only recognize the requests; the control thread answers (`control/nat/pcp`), and has the mappings that hosts
//! hold ([leases](crate::nat::mappings)).

pub mod lease;
pub mod pcp_input;

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::protocols::LocalPacket;

/// The interfaces whose hosts may ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PcpInterfaces(pub BTreeSet<u32>);

/// Some value if a UDP packet to the port of PCP is a request of a host that may ask. All others go where packets to
/// closed ports go, so that no host outside learns of the server.
pub fn of_client(packet: &LocalPacket<'_>) -> Option<u32> {
    let is_ip4 = matches!(packet.ends, (IpAddr::V4(_), IpAddr::V4(_)));
    (is_ip4 && packet.pcp.0.contains(&packet.interface)).then_some(0)
}
