//! Names of nodes, edges and drop reasons in traces, and what the data of packets starts with there.

use stoa_engine::graph::OUTPUT;
use stoa_wire::ethernet::ethertype;
use stoa_wire::text::Start;

use crate::drops;
use crate::nodes;

/// The name of a node, of `port-output`, or of an input, by counter index.
pub(super) fn node_name(at: u16) -> &'static str {
    let at = usize::from(at);
    let nodes = nodes::graph().nodes();
    match nodes.get(at) {
        Some(node) => node.name(),
        None if at == nodes.len() => OUTPUT,
        None => stoa_ports::INPUTS.get(at - nodes.len() - 1).copied().unwrap_or("?"),
    }
}

/// The node that an edge leads to.
pub(super) fn edge_name(node: u16, edge: u16) -> Option<&'static str> {
    nodes::graph().nodes().get(usize::from(node))?.edges().get(usize::from(edge)).copied()
}

/// What the data of packets before a node starts with.
pub(super) fn start_of(node: &str) -> Start {
    const OF_IP: [&str; 7] = ["ip-", "ip4-", "ip6-", "icmp", "nd-", "neighbor-", "bfd-"];
    match node {
        "arp-input" => Start::Type(ethertype::ARP),
        _ if OF_IP.iter().any(|layer| node.starts_with(layer)) => Start::Ip,
        _ => Start::Ethernet,
    }
}

/// Name and description of a drop reason.
pub(super) fn reason(at: u16) -> (&'static str, &'static str) {
    drops::all().nth(at.into()).map_or(("?", "?"), |it| (it.name, it.description))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_a_name_and_a_data_start() {
        let nodes = nodes::graph().nodes();
        assert_eq!(node_name(0), nodes[0].name());
        assert_eq!(node_name(nodes.len() as u16), OUTPUT);
        assert_eq!(node_name(nodes.len() as u16 + 1), stoa_ports::INPUTS[0]);
        assert_eq!(node_name(u16::MAX), "?");
        for (name, start) in [
            ("ethernet-input", Start::Ethernet),
            ("arp-input", Start::Type(ethertype::ARP)),
            ("ip6-lookup", Start::Ip),
            ("ip-demux", Start::Ip),
            ("icmp4-echo", Start::Ip),
            ("nd-input", Start::Ip),
            ("neighbor-resolve", Start::Ip),
            (OUTPUT, Start::Ethernet),
        ] {
            assert_eq!(start_of(name), start, "{name}");
        }
    }
}
