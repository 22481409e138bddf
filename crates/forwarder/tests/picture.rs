//! The picture of the graph in ARCHITECTURE.md is made from the list of nodes: this test fails when
//! it is stale, and draws it anew when it is told to.

use std::path::{Path, PathBuf};

use stoa_forwarder::nodes::{NODES, picture};

const BEGIN: &str = "<!-- graph -->\n";
const END: &str = "<!-- /graph -->";
const MEND: &str = "draw it anew with: STOA_UPDATE=1 cargo test -p stoa-forwarder --test picture";

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md")
}

/// What stands between the markers.
fn drawn() -> String {
    format!("```mermaid\n{}```\n\n{}", picture(), stoa_engine::picture::table(NODES))
}

#[test]
fn the_picture_of_the_graph_is_true() {
    let path = page();
    let text = std::fs::read_to_string(&path).expect("ARCHITECTURE.md is there");
    let (before, rest) = text.split_once(BEGIN).expect("ARCHITECTURE.md has <!-- graph -->");
    let (found, after) = rest.split_once(END).expect("ARCHITECTURE.md has <!-- /graph -->");
    let drawn = drawn();
    if std::env::var_os("STOA_UPDATE").is_some_and(|update| update == "1") {
        let text = format!("{before}{BEGIN}{drawn}{END}{after}");
        std::fs::write(&path, text).expect("ARCHITECTURE.md can be written");
        return;
    }
    assert!(found == drawn, "the picture of the graph in ARCHITECTURE.md is stale: {MEND}");
}

#[test]
fn every_edge_of_the_picture_leads_to_a_node() {
    for spec in NODES {
        for edge in spec.edges {
            let is_node = NODES.iter().any(|node| node.name == *edge);
            assert!(is_node || *edge == stoa_engine::graph::OUTPUT, "{} -> {edge}", spec.name);
        }
    }
}
