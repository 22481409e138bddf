//! A picture of the graph, made from the list of nodes: Mermaid text that the
//! documentation holds and a test compares.

use std::fmt::Write;

use crate::graph::OUTPUT;
use crate::node::NodeSpec;

/// The graph as a Mermaid flow chart. `inputs` are the port inputs with the node
/// that each of them feeds.
pub fn mermaid<S>(specs: &[NodeSpec<S>], inputs: &[(&str, &str)]) -> String {
    let mut text = String::from("flowchart LR\n");
    // Writing to a `String` cannot fail.
    for (input, node) in inputs {
        let _ = writeln!(text, "  {input}([{input}]) --> {node}");
    }
    for spec in specs {
        for edge in spec.edges {
            let _ = writeln!(text, "  {} --> {edge}", spec.name);
        }
    }
    let _ = writeln!(text, "  {OUTPUT}([{OUTPUT}])");
    text
}

/// The nodes as a Markdown table.
pub fn table<S>(specs: &[NodeSpec<S>]) -> String {
    let mut text = String::from("| node | what it does |\n|---|---|\n");
    for spec in specs {
        let _ = writeln!(text, "| `{}` | {} |", spec.name, spec.description);
    }
    text
}
