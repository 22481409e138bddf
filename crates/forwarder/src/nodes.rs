//! The list of graph nodes, in the order in which packets pass them, and the port inputs. The
//! features between them are in [`crate::arcs`], the nodes of protocols in [`crate::protocols`].

use std::any::Any;
use std::sync::{Arc, LazyLock};

use stoa_engine::{GraphSpec, Node, NodeSpec};

use crate::acl::log::OfWorker;
use crate::arcs;
use crate::bfd::bfd_input;
use crate::ethernet;
use crate::flow::fragment_order;
use crate::host_interface::{host_interface_input, host_interface_output};
use crate::icmp::{icmp4_echo, icmp4_error, icmp6_echo, icmp6_error};
use crate::ip::reassembly::{ip4_reassembly, ip6_reassembly};
use crate::ip::{
    ip_demux, ip4_fragment, ip4_input, ip4_local, ip4_lookup, ip4_options, ip4_rewrite,
    ip6_fragment, ip6_input, ip6_local, ip6_lookup, ip6_rewrite, origin,
};
use crate::ipsec::{esp_decrypt, esp_encrypt};
use crate::login;
use crate::nat::NatWorker;
use crate::neighbor::{arp_input, nd_input, neighbor_resolve, neighbor_send};
use crate::output::interface_output;
use crate::pcp::pcp_input;
use crate::protocols;
use crate::punt::punt_input;
use crate::shared::Shared;
use crate::tunnel::{tunnel_input, tunnel_output};

/// The node that receives all frames of ports.
pub const ENTRY: &str = "ethernet-input";
/// The node that receives frames that Linux sends through a host interface.
pub const HOST_INTERFACE_ENTRY: &str = "host-interface-input";

/// Declares a node: name, description, its own edges, constructor.
pub(crate) const fn node(
    name: &'static str,
    description: &'static str,
    edges: &'static [&'static str],
    make: fn(&Arc<Shared>, usize) -> Box<dyn Node>,
) -> NodeSpec<Arc<Shared>> {
    NodeSpec { name, description, edges, make }
}

/// All nodes but the features of [`arcs::all`].
const NODES: &[NodeSpec<Arc<Shared>>] = &[
    node(
        "ethernet-input",
        "classifies frames by VLAN tags, destination MAC address and ethertype",
        ethernet::EDGES,
        ethernet::make,
    ),
    node(
        "ethernet-dispatch",
        "classifies frames behind the features of their interface, as ethernet-input does",
        ethernet::EDGES,
        ethernet::make_dispatch,
    ),
    node("arp-input", "punts ARP packets to the control thread", arp_input::EDGES, arp_input::make),
    node(
        "ip4-input",
        "validates IPv4 packets and looks up their destination",
        ip4_input::EDGES,
        ip4_input::make,
    ),
    node(
        "ip6-input",
        "validates IPv6 packets and looks up their destination",
        ip6_input::EDGES,
        ip6_input::make,
    ),
    node(
        "ip4-local",
        "validates IPv4 packets for local addresses",
        ip4_local::EDGES,
        ip4_local::make,
    ),
    node(
        "ip6-local",
        "validates IPv6 packets for local addresses",
        ip6_local::EDGES,
        ip6_local::make,
    ),
    node(
        "ip-demux",
        "delivers packets for local addresses by IP protocol and UDP port",
        ip_demux::EDGES,
        ip_demux::make,
    ),
    node(
        "ip4-reassembly",
        "reassembles IPv4 fragments for local addresses",
        ip4_reassembly::EDGES,
        ip4_reassembly::make,
    ),
    node(
        "ip6-reassembly",
        "reassembles IPv6 fragments for local addresses",
        ip6_reassembly::EDGES,
        ip6_reassembly::make,
    ),
    node(
        "ip4-fragment-order",
        "has IPv4 fragments follow the first one of their packet to its flow",
        fragment_order::EDGES4,
        fragment_order::make4,
    ),
    node(
        "ip6-fragment-order",
        "has IPv6 fragments follow the first one of their packet to its flow",
        fragment_order::EDGES6,
        fragment_order::make6,
    ),
    node("icmp4-echo", "replies to ICMP echo requests", icmp4_echo::EDGES, icmp4_echo::make),
    node("icmp6-echo", "replies to ICMPv6 echo requests", icmp6_echo::EDGES, icmp6_echo::make),
    node(
        "nd-input",
        "punts neighbour discovery messages to the control thread",
        nd_input::EDGES,
        nd_input::make,
    ),
    node(
        "bfd-input",
        "punts packets of BFD sessions to the control thread",
        bfd_input::EDGES,
        bfd_input::make,
    ),
    node(
        "pcp-input",
        "punts requests for mappings (PCP, NAT-PMP) to the control thread",
        pcp_input::EDGES,
        pcp_input::make,
    ),
    node(
        "punt-input",
        "punts frames for protocols in the controller",
        punt_input::EDGES,
        punt_input::make,
    ),
    node(
        "ip4-login-redirect",
        "answers HTTP of hosts that have not logged in with the address of the portal",
        login::REDIRECT_EDGES4,
        login::make_redirect4,
    ),
    node(
        "ip6-login-redirect",
        "does the same over IPv6",
        login::REDIRECT_EDGES6,
        login::make_redirect6,
    ),
    node("icmp4-error", "generates ICMP errors", icmp4_error::EDGES, icmp4_error::make),
    node("icmp6-error", "generates ICMPv6 errors", icmp6_error::EDGES, icmp6_error::make),
    node(
        "neighbor-send",
        "sends packets that were queued for neighbour resolution",
        neighbor_send::EDGES,
        neighbor_send::make,
    ),
    node(
        "ip4-origin",
        "begins the path of IPv4 packets that the router itself sends",
        origin::EDGES,
        origin::make4,
    ),
    node(
        "ip6-origin",
        "begins the path of IPv6 packets that the router itself sends",
        origin::EDGES,
        origin::make6,
    ),
    node(
        "ip4-lookup",
        "looks up IPv4 packets from features and locally generated ones",
        ip4_lookup::EDGES,
        ip4_lookup::make,
    ),
    node(
        "ip6-lookup",
        "looks up IPv6 packets from features and locally generated ones",
        ip6_lookup::EDGES,
        ip6_lookup::make,
    ),
    node(
        "ip4-options",
        "processes the record-route and timestamp options of IPv4",
        ip4_options::EDGES,
        ip4_options::make,
    ),
    node(
        "ip4-fragment",
        "fragments IPv4 packets that are larger than the MTU",
        ip4_fragment::EDGES,
        ip4_fragment::make,
    ),
    node(
        "ip6-fragment",
        "fragments locally generated IPv6 packets that are larger than the MTU",
        ip6_fragment::EDGES,
        ip6_fragment::make,
    ),
    node(
        "ip4-rewrite",
        "decrements the TTL and writes the link-layer header",
        ip4_rewrite::EDGES,
        ip4_rewrite::make,
    ),
    node(
        "ip6-rewrite",
        "decrements the hop limit and writes the link-layer header",
        ip6_rewrite::EDGES,
        ip6_rewrite::make,
    ),
    node(
        "ip4-output-rewrite",
        "does the same as ip4-rewrite, behind the output features",
        ip4_rewrite::OUTPUT_EDGES,
        ip4_rewrite::make_output,
    ),
    node(
        "ip6-output-rewrite",
        "does the same as ip6-rewrite, behind the output features",
        ip6_rewrite::OUTPUT_EDGES,
        ip6_rewrite::make_output,
    ),
    node(
        "tunnel-input",
        "decapsulates packets from tunnels",
        tunnel_input::EDGES,
        tunnel_input::make,
    ),
    node(
        "tunnel-output",
        "encapsulates packets into tunnels",
        tunnel_output::EDGES,
        tunnel_output::make,
    ),
    node(
        "esp-encrypt",
        "encrypts packets into tunnels with ESP",
        esp_encrypt::EDGES,
        esp_encrypt::make,
    ),
    node(
        "esp-decrypt",
        "checks and decrypts ESP packets for local addresses",
        esp_decrypt::EDGES,
        esp_decrypt::make,
    ),
    node(
        "neighbor-resolve",
        "punts packets to unresolved neighbours to the control thread",
        neighbor_resolve::EDGES,
        neighbor_resolve::make,
    ),
    node(
        "host-interface-input",
        "sends frames from a host interface out of the paired interface",
        host_interface_input::EDGES,
        host_interface_input::make,
    ),
    node(
        "host-interface-output",
        "passes packets for local addresses to Linux, under the control-plane policer",
        host_interface_output::EDGES,
        host_interface_output::make,
    ),
    node(
        interface_output::NAME,
        "sends frames through the output features of their interface",
        interface_output::EDGES,
        interface_output::make,
    ),
];

/// The next nodes of a port input. Frames from a host interface, which is a TAP device, have their
/// own entry node.
pub fn after_input(input: &str) -> &'static [&'static str] {
    if input == "tap-input" { &[ENTRY, HOST_INTERFACE_ENTRY] } else { &[ENTRY] }
}

/// The graph: [`NODES`] with the features of [`arcs::all`] and the edges of the protocol tables.
pub fn graph() -> &'static GraphSpec<Arc<Shared>> {
    static GRAPH: LazyLock<GraphSpec<Arc<Shared>>> = LazyLock::new(|| {
        let graph = GraphSpec::new(NODES, arcs::all());
        let graph = graph.and_then(|graph| graph.with_protocols(protocols::specs()));
        let graph = graph.map(|graph| graph.with_local(local));
        graph.unwrap_or_else(|error| panic!("the list of nodes: {error}"))
    });
    &GRAPH
}

/// What the nodes of a worker share: its flows, its end of the log of access lists, and its part of translation.
fn local(shared: &Arc<Shared>, worker: usize) -> Box<dyn Any + Send> {
    Box::new(OfWorker {
        flows: shared.flows.tracker(worker),
        log: shared.acl_log.writer(),
        nat: NatWorker::new(&shared.flows, worker),
    })
}

/// The graph as a Mermaid diagram, for the documentation.
pub fn diagram() -> String {
    let mut inputs: Vec<_> = stoa_ports::INPUTS.iter().map(|input| (*input, ENTRY)).collect();
    let others = stoa_ports::INPUTS.iter().flat_map(|input| {
        after_input(input).iter().filter(|node| **node != ENTRY).map(|node| (*input, *node))
    });
    inputs.extend(others);
    stoa_engine::picture::mermaid(graph(), &inputs)
}
