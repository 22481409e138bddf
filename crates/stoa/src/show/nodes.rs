//! Nodes of the packet graph: packets and cycles.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::v1::{ListNodesRequest, NodeState};

use super::{count, ratio, ratio_cell, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the nodes and prints them; nodes that were never called only with `all`.
pub async fn show(
    client: &mut Client,
    all: bool,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let reply = client.show_nodes(ListNodesRequest {}).await?.into_inner();
    if as_json {
        let list: Vec<Value> = reply.nodes.iter().map(json).collect();
        writeln!(out, "{}", json!({ "tsc_hz": reply.tsc_hz, "nodes": list }))?;
    } else {
        write(&to_table(&reply.nodes, all), out)?;
    }
    Ok(())
}

/// The sums of all workers, in the order of the graph.
fn summed(nodes: &[NodeState]) -> Vec<NodeState> {
    let mut sums: Vec<NodeState> = Vec::new();
    for node in nodes {
        match sums.iter_mut().find(|sum| sum.name == node.name) {
            Some(sum) => {
                sum.calls += node.calls;
                sum.packets += node.packets;
                sum.cycles += node.cycles;
            }
            None => sums.push(node.clone()),
        }
    }
    sums
}

fn to_table(nodes: &[NodeState], all: bool) -> Table {
    let mut table =
        table(&["name", ">calls", ">packets", ">packets/call", ">cycles/packet", "description"]);
    for node in summed(nodes) {
        if node.calls > 0 || all {
            table.add_row(vec![
                Cell::new(&node.name),
                count(node.calls),
                count(node.packets),
                ratio_cell(ratio(node.packets, node.calls)),
                ratio_cell(ratio(node.cycles, node.packets)),
                Cell::new(&node.description),
            ]);
        }
    }
    table
}

fn json(node: &NodeState) -> Value {
    json!({
        "name": node.name,
        "worker": node.worker,
        "calls": node.calls,
        "packets": node.packets,
        "cycles": node.cycles,
        "packets_per_call": ratio(node.packets, node.calls),
        "cycles_per_packet": ratio(node.cycles, node.packets),
        "description": node.description,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, worker: u32, calls: u64) -> NodeState {
        NodeState {
            name: name.into(),
            worker,
            calls,
            packets: calls * 10,
            cycles: calls * 155,
            ..NodeState::default()
        }
    }

    #[test]
    fn workers_are_summed_and_idle_nodes_omitted() {
        let nodes = [node("ip4-lookup", 0, 1), node("drop", 0, 0), node("ip4-lookup", 1, 3)];
        let text = to_table(&nodes, false).to_string();
        assert!(text.contains("15.5") && text.contains("10.0"), "{text}");
        assert!(!text.contains("drop"), "{text}");
        assert!(to_table(&nodes, true).to_string().contains("drop"));
        assert_eq!(summed(&nodes)[0].packets, 40);
        assert!(json(&nodes[1])["cycles_per_packet"].is_null());
    }
}
