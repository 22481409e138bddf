//! The protocol tables: which node gets the frames of an ethertype, and the packets for local
//! addresses of an IP protocol or a UDP port. To register a node, add one line here; the graph adds
//! the edges and refuses a number that is registered twice.

use std::net::IpAddr;

use stoa_engine::protocol::{NumberTable, ProtocolSpec};
use stoa_wire::ethernet::ethertype;
use stoa_wire::{bfd, protocol};

use crate::bfd::Peers;
use crate::ipsec;
use crate::ipsec::table::Ipsec;
use crate::nodes;
use crate::pcp::PcpInterfaces;
use crate::tunnel;
use crate::tunnel::table::Tunnels;

/// The table of ethertypes.
pub const ETHERTYPE: &str = "ethertype";
/// The table of protocols of IPv4 packets for local addresses.
pub const IP4_PROTOCOL: &str = "IPv4 protocol";
/// The table of protocols of IPv6 packets for local addresses.
pub const IP6_PROTOCOL: &str = "IPv6 protocol";
/// The table of destination ports of UDP packets for local addresses.
pub const UDP_PORT: &str = "UDP port";

/// A packet for a local address, not a fragment.
pub struct LocalPacket<'a> {
    /// All tunnels.
    pub tunnels: &'a Tunnels,
    /// The neighbours with a BFD session.
    pub peers: &'a Peers,
    /// The interfaces whose hosts may ask for mappings.
    pub pcp: &'a PcpInterfaces,
    /// All security associations.
    pub ipsec: &'a Ipsec,
    /// The receiving interface.
    pub interface: u32,
    /// Its VRF, as [`crate::attributes::Attributes::vrf`].
    pub vrf: u32,
    /// Source and destination.
    pub ends: (IpAddr, IpAddr),
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// The IP protocol.
    pub protocol: u8,
    /// What follows the IP header and its extensions.
    pub payload: &'a [u8],
}

/// Which packets of its number a node gets. The others go to Linux if the receiving interface has a
/// host interface, else they are refused.
#[derive(Clone, Copy)]
pub enum Share {
    /// Those that Linux does not get.
    WithoutHost,
    /// Those for which this is some value, whether there is a host interface or not. The value is the
    /// `arg` for the node.
    Of(fn(&LocalPacket<'_>) -> Option<u32>),
}

/// A node that is registered for a protocol or a port.
#[derive(Clone, Copy)]
struct Registration {
    number: u16,
    node: &'static str,
    share: Share,
}

const fn ip(protocol: u8, node: &'static str, share: Share) -> Registration {
    Registration { number: protocol as u16, node, share }
}

const fn udp(port: u16, node: &'static str, share: Share) -> Registration {
    Registration { number: port, node, share }
}

/// Frames. `ethernet-input` knows IPv4 and IPv6 without the table.
const ETHERTYPES: &[(u16, &str)] =
    &[(ethertype::IP4, "ip4-input"), (ethertype::IP6, "ip6-input"), (ethertype::ARP, "arp-input")];

/// IPv4 packets.
const IP4: &[Registration] = &[
    ip(protocol::ICMP4, "icmp4-echo", Share::WithoutHost),
    ip(protocol::IP4, "tunnel-input", Share::Of(tunnel::of_packet)),
    ip(protocol::IP6, "tunnel-input", Share::Of(tunnel::of_packet)),
    ip(protocol::GRE, "tunnel-input", Share::Of(tunnel::of_packet)),
    ip(protocol::ESP, "esp-decrypt", Share::Of(ipsec::of_packet)),
];

/// IPv6 packets. `ip-demux` sends neighbour discovery to its node before it uses the table.
const IP6: &[Registration] = &[
    ip(protocol::ICMP6, "icmp6-echo", Share::WithoutHost),
    ip(protocol::IP4, "tunnel-input", Share::Of(tunnel::of_packet)),
    ip(protocol::IP6, "tunnel-input", Share::Of(tunnel::of_packet)),
    ip(protocol::GRE, "tunnel-input", Share::Of(tunnel::of_packet)),
    ip(protocol::ESP, "esp-decrypt", Share::Of(ipsec::of_packet)),
];

/// UDP packets of both families.
const UDP: &[Registration] = &[
    udp(bfd::PORT, "bfd-input", Share::Of(crate::bfd::of_session)),
    udp(stoa_wire::esp::UDP_PORT, "esp-decrypt", Share::Of(ipsec::of_datagram)),
    udp(stoa_wire::pcp::PORT, "pcp-input", Share::Of(crate::pcp::of_client)),
];

/// The tables of IP packets, and the nodes that use them.
const TABLES: [(&str, &[Registration]); 3] =
    [(IP4_PROTOCOL, IP4), (IP6_PROTOCOL, IP6), (UDP_PORT, UDP)];

/// All tables, for the graph.
pub(crate) fn specs() -> Vec<ProtocolSpec> {
    let users = &["ethernet-input", "ethernet-dispatch"];
    let ethertypes = ProtocolSpec { name: ETHERTYPE, users, entries: ETHERTYPES.to_vec() };
    let of_ip = TABLES.map(|(name, registrations)| {
        let entries = registrations.iter().map(|it| (it.number, it.node)).collect();
        ProtocolSpec { name, users: &["ip-demux"], entries }
    });
    std::iter::once(ethertypes).chain(of_ip).collect()
}

/// The node that is registered for a number of a table, if any.
pub(crate) fn owner(table: &str, number: u16) -> Option<&'static str> {
    if table == ETHERTYPE {
        return ETHERTYPES.iter().find(|(other, _)| *other == number).map(|(_, node)| *node);
    }
    let registrations = TABLES.iter().find(|(name, _)| *name == table)?.1;
    registrations.iter().find(|it| it.number == number).map(|it| it.node)
}

/// The UDP ports of local addresses that nodes get.
pub(crate) fn udp_ports() -> impl Iterator<Item = u16> {
    UDP.iter().map(|it| it.number)
}

/// The edges of a node by ethertype.
///
/// # Panics
/// If the node does not use the table: an error found at start.
pub(crate) fn ethertypes(node: &str) -> NumberTable<u16> {
    NumberTable::new(edges(ETHERTYPE, node).iter().copied())
}

/// The edges of `ip-demux` and their shares, by the numbers of a table.
///
/// # Panics
/// If there is no such table: an error found at start.
pub(crate) fn of_ip(table: &str) -> NumberTable<(u16, Share)> {
    let registrations = TABLES.iter().find(|(name, _)| *name == table).map(|(_, all)| *all);
    let edges = edges(table, "ip-demux").iter().zip(registrations.unwrap_or_default());
    NumberTable::new(edges.map(|((number, edge), it)| (*number, (*edge, it.share))))
}

fn edges(table: &str, node: &str) -> &'static [(u16, u16)] {
    let edges = nodes::graph().protocol_edges(table, node);
    edges.unwrap_or_else(|| panic!("{node} does not use the table {table}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_to_their_nodes() {
        let edges_of = |user: &str| {
            let node = nodes::graph().nodes().iter().find(|node| node.name() == user);
            node.map(|node| node.edges()).unwrap()
        };
        for user in ["ethernet-input", "ethernet-dispatch"] {
            let table = ethertypes(user);
            for (number, node) in ETHERTYPES {
                assert_eq!(edges_of(user)[usize::from(table.get(*number).unwrap())], *node);
            }
            // The kernels use these edges without the table.
            assert_eq!([0x0800, 0x86dd].map(|number| table.get(number)), [Some(0), Some(1)]);
            assert_eq!(table.get(0x8847), None);
        }
        for (name, registrations) in TABLES {
            let table = of_ip(name);
            for it in registrations {
                let (edge, share) = table.get(it.number).unwrap();
                assert_eq!(edges_of("ip-demux")[usize::from(edge)], it.node, "{name}");
                assert_eq!(matches!(share, Share::Of(_)), matches!(it.share, Share::Of(_)));
            }
            assert!(table.get(251).is_none());
        }
    }
}
