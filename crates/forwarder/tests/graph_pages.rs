//! The graph in ARCHITECTURE.md and the drop reasons in the guide are generated from the code. These
//! tests fail when a page is stale, and regenerate it with STOA_UPDATE=1.

use std::fmt::Write;
use std::path::Path;

use stoa_forwarder::{drops, nodes};

const FIX: &str =
    "regenerate it with: STOA_UPDATE=1 cargo test -p stoa-forwarder --test graph_pages";

/// Compares the block between `<!-- NAME -->` and `<!-- /NAME -->` of a page with `generated`.
fn compare(page: &str, name: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let parts = text.split_once(&begin).and_then(|(before, rest)| {
        let (found, after) = rest.split_once(&end)?;
        Some((before, found, after))
    });
    let (before, found, after) = parts.unwrap_or_else(|| panic!("{page} lacks {begin}{end}"));
    if std::env::var_os("STOA_UPDATE").is_some_and(|update| update == "1") {
        let text = format!("{before}{begin}{generated}{end}{after}");
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{page}: {error}"));
        return;
    }
    assert!(found == generated, "{page}: the block <!-- {name} --> is stale; {FIX}");
}

#[test]
fn the_graph_is_current() {
    let diagram = nodes::diagram();
    let table = stoa_engine::picture::table(nodes::graph());
    let arcs = stoa_engine::picture::arcs(nodes::graph());
    let protocols = stoa_engine::picture::protocols(nodes::graph());
    let graph = format!("```mermaid\n{diagram}```\n\n{table}\n{arcs}\n{protocols}");
    compare("ARCHITECTURE.md", "graph", &graph);
}

#[test]
fn the_drop_reasons_are_current() {
    let mut table = String::from("| reason | what it means |\n|---|---|\n");
    for reason in drops::all() {
        writeln!(table, "| `{}` | {} |", reason.name, reason.description)
            .expect("a string has room");
    }
    compare("docs/guide/drops.md", "drops", &table);
}
