//! What the documentation shows of the code is made from the code: the picture of the graph in
//! ARCHITECTURE.md, the drop reasons in the guide. These tests fail when a page is stale, and
//! write it anew when they are told to.

use std::fmt::Write;
use std::path::Path;

use stoa_forwarder::{drops, nodes};

const FIX: &str = "write it anew with: STOA_UPDATE=1 cargo test -p stoa-forwarder --test picture";

/// Compares what stands between `<!-- NAME -->` and `<!-- /NAME -->` of a page with `made`.
fn compare(page: &str, name: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let parts = text.split_once(&begin).and_then(|(before, rest)| {
        let (found, after) = rest.split_once(&end)?;
        Some((before, found, after))
    });
    let (before, found, after) = parts.unwrap_or_else(|| panic!("{page} lacks {begin}{end}"));
    if std::env::var_os("STOA_UPDATE").is_some_and(|update| update == "1") {
        let text = format!("{before}{begin}{made}{end}{after}");
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{page}: {error}"));
        return;
    }
    assert!(found == made, "{page}: what stands in <!-- {name} --> is stale; {FIX}");
}

#[test]
fn the_picture_of_the_graph_is_true() {
    let picture = nodes::picture();
    let table = stoa_engine::picture::table(nodes::NODES);
    compare("ARCHITECTURE.md", "graph", &format!("```mermaid\n{picture}```\n\n{table}"));
}

#[test]
fn the_list_of_drop_reasons_is_true() {
    let mut table = String::from("| reason | what it means |\n|---|---|\n");
    for reason in drops::all() {
        writeln!(table, "| `{}` | {} |", reason.name, reason.description)
            .expect("a string has room");
    }
    compare("docs/guide/drops.md", "drops", &table);
}

#[test]
fn every_edge_of_the_picture_leads_to_a_node() {
    for spec in nodes::NODES {
        for edge in spec.edges {
            let is_node = nodes::NODES.iter().any(|node| node.name == *edge);
            assert!(is_node || *edge == stoa_engine::graph::OUTPUT, "{} -> {edge}", spec.name);
        }
    }
}
