//! The list of nodes, in the order of a packet's way, and the port inputs.

use std::sync::Arc;

use stoa_engine::NodeSpec;

use crate::ethernet::{self, cross_connect};
use crate::host_interface::{host_interface_input, host_interface_output};
use crate::icmp::{icmp4_echo, icmp4_error, icmp6_echo, icmp6_error};
use crate::ip::reassembly::{ip4_reassembly, ip6_reassembly};
use crate::ip::{
    ip4_fragment, ip4_input, ip4_local, ip4_lookup, ip4_options, ip4_rewrite, ip6_fragment,
    ip6_input, ip6_local, ip6_lookup, ip6_rewrite, policy, redirect, reverse_path,
};
use crate::neighbor::{arp_input, nd_input, neighbor_resolve, neighbor_send};
use crate::shared::Shared;
use crate::tunnel::{tunnel_input, tunnel_output};

/// The node that received frames go to.
pub const ENTRY: &str = "ethernet-input";
/// The node that frames of a host interface go to.
pub const HOST_INTERFACE_ENTRY: &str = "host-interface-input";

macro_rules! nodes {
    ($($name:literal $description:literal $edges:expr, $make:expr;)*) => {
        /// All nodes. `port-output` follows after the last.
        pub const NODES: &[NodeSpec<Arc<Shared>>] = &[$(NodeSpec {
            name: $name,
            description: $description,
            edges: $edges,
            make: $make,
        },)*];
    };
}

nodes! {
    "ethernet-input" "finds the interface by VLAN tags and MAC, and the protocol by ethertype"
        ethernet::EDGES, ethernet::make;
    "cross-connect" "sends frames by the interface at the other end, as they came"
        cross_connect::EDGES, cross_connect::make;
    "arp-input" "hands ARP to the control thread" arp_input::EDGES, arp_input::make;
    "ip4-input" "checks IPv4 packets and routes them" ip4_input::EDGES, ip4_input::make;
    "ip6-input" "checks IPv6 packets and routes them" ip6_input::EDGES, ip6_input::make;
    "ip4-reverse-path" "refuses IPv4 sources that are not reachable this way (uRPF)"
        reverse_path::EDGES4, reverse_path::make4;
    "ip6-reverse-path" "refuses IPv6 sources that are not reachable this way (uRPF)"
        reverse_path::EDGES6, reverse_path::make6;
    "ip4-policy" "routes IPv4 packets by rules that look at more than the destination"
        policy::EDGES4, policy::make4;
    "ip6-policy" "routes IPv6 packets by rules that look at more than the destination"
        policy::EDGES6, policy::make6;
    "ip4-redirect" "has senders of IPv4 packets told that there is a shorter way"
        redirect::EDGES4, redirect::make4;
    "ip6-redirect" "has senders of IPv6 packets told that there is a shorter way"
        redirect::EDGES6, redirect::make6;
    "ip4-local" "delivers IPv4 packets for our own addresses" ip4_local::EDGES, ip4_local::make;
    "ip6-local" "delivers IPv6 packets for our own addresses" ip6_local::EDGES, ip6_local::make;
    "ip4-reassembly" "puts fragments for our own addresses together"
        ip4_reassembly::EDGES, ip4_reassembly::make;
    "ip6-reassembly" "puts IPv6 fragments for our own addresses together"
        ip6_reassembly::EDGES, ip6_reassembly::make;
    "icmp4-echo" "answers pings" icmp4_echo::EDGES, icmp4_echo::make;
    "icmp6-echo" "answers IPv6 pings" icmp6_echo::EDGES, icmp6_echo::make;
    "nd-input" "hands neighbour discovery to the control thread" nd_input::EDGES, nd_input::make;
    "icmp4-error" "tells senders why their packet cannot go on" icmp4_error::EDGES, icmp4_error::make;
    "icmp6-error" "tells IPv6 senders why their packet cannot go on"
        icmp6_error::EDGES, icmp6_error::make;
    "neighbor-send" "sends packets that waited for a neighbour"
        neighbor_send::EDGES, neighbor_send::make;
    "ip4-lookup" "routes IPv4 packets of features and of our own" ip4_lookup::EDGES, ip4_lookup::make;
    "ip6-lookup" "routes IPv6 packets of features and of our own" ip6_lookup::EDGES, ip6_lookup::make;
    "ip4-options" "records route and time in IPv4 options" ip4_options::EDGES, ip4_options::make;
    "ip4-fragment" "cuts IPv4 packets that are larger than the MTU"
        ip4_fragment::EDGES, ip4_fragment::make;
    "ip6-fragment" "cuts our own IPv6 packets that are larger than the MTU"
        ip6_fragment::EDGES, ip6_fragment::make;
    "ip4-rewrite" "counts down the TTL and writes the link-layer header"
        ip4_rewrite::EDGES, ip4_rewrite::make;
    "ip6-rewrite" "counts down the hop limit and writes the link-layer header"
        ip6_rewrite::EDGES, ip6_rewrite::make;
    "tunnel-input" "takes packets out of those that came through a tunnel"
        tunnel_input::EDGES, tunnel_input::make;
    "tunnel-output" "puts packets into those that go through a tunnel"
        tunnel_output::EDGES, tunnel_output::make;
    "neighbor-resolve" "hands packets to unresolved neighbours to the control thread"
        neighbor_resolve::EDGES, neighbor_resolve::make;
    "host-interface-input" "sends what Linux says in a host interface by the interface that it host interfaces"
        host_interface_input::EDGES, host_interface_input::make;
    "host-interface-output" "gives packets for ourselves to Linux, within a budget"
        host_interface_output::EDGES, host_interface_output::make;
}

/// The nodes that a port input feeds. A host interface is a TAP device whose frames have a way of their own.
pub fn after_input(input: &str) -> &'static [&'static str] {
    if input == "tap-input" { &[ENTRY, HOST_INTERFACE_ENTRY] } else { &[ENTRY] }
}

/// The graph as the documentation shows it.
pub fn picture() -> String {
    let mut inputs: Vec<_> = stoa_ports::INPUTS.iter().map(|input| (*input, ENTRY)).collect();
    let others = stoa_ports::INPUTS.iter().flat_map(|input| {
        after_input(input).iter().filter(|node| **node != ENTRY).map(|node| (*input, *node))
    });
    inputs.extend(others);
    stoa_engine::picture::mermaid(NODES, &inputs)
}
