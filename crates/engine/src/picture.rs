//! A picture of the graph, made from its declaration: Mermaid text and tables that the
//! documentation holds and a test compares.

use std::fmt::Write;

use crate::graph::OUTPUT;
use crate::graph_spec::GraphSpec;

/// The graph as a Mermaid flow chart. `inputs` are the port inputs with the node
/// that each of them feeds.
pub fn mermaid<S>(graph: &GraphSpec<S>, inputs: &[(&str, &str)]) -> String {
    let mut text = String::from("flowchart LR\n");
    // Writing to a `String` cannot fail.
    for (input, node) in inputs {
        let _ = writeln!(text, "  {input}([{input}]) --> {node}");
    }
    for node in graph.nodes() {
        for next in node.next_nodes() {
            let _ = writeln!(text, "  {} --> {next}", node.name());
        }
    }
    let _ = writeln!(text, "  {OUTPUT}([{OUTPUT}])");
    text
}

/// The nodes as a Markdown table.
pub fn table<S>(graph: &GraphSpec<S>) -> String {
    let mut text = String::from("| node | what it does |\n|---|---|\n");
    for node in graph.nodes() {
        let _ = writeln!(text, "| `{}` | {} |", node.name(), node.description());
    }
    text
}

/// The arcs as a Markdown table.
pub fn arcs<S>(graph: &GraphSpec<S>) -> String {
    let mut text =
        String::from("| arc | packets | features in order | then |\n|---|---|---|---|\n");
    for arc in graph.arcs() {
        let features: Vec<_> =
            arc.features.iter().map(|feature| format!("`{}`", feature.node.name)).collect();
        let (features, end) = (features.join(", "), arc.end);
        let _ = writeln!(text, "| `{}` | {} | {features} | `{end}` |", arc.name, arc.description);
    }
    text
}

/// The protocol tables as a Markdown table.
pub fn protocols<S>(graph: &GraphSpec<S>) -> String {
    let mut text = String::from("| table | number | node |\n|---|---|---|\n");
    for table in graph.protocols() {
        for (number, node) in &table.entries {
            let _ = writeln!(text, "| {} | {number} ({number:#06x}) | `{node}` |", table.name);
        }
    }
    text
}
