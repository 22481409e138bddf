//! Layers: a crate depends only on crates below it.
//!
//! ```text
//!                          stoa
//!       console   northbound   |     traffic
//!          |      controller   |    forwarder
//!         yang   bgp   log     |      ports
//!              api            lab     engine   tables   wire   crypto
//!             delta   seal   warm-restart  memif
//! ```
//!
//! The table below is exact; the picture omits some users of `api`, `log`, `warm-restart` and `wire`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::root;

/// The crates, and the crates that each may depend on.
const ALLOWED: [(&str, &[&str]); 21] = [
    ("wire", &[]),
    ("tables", &[]),
    ("memif", &[]),
    ("warm-restart", &[]),
    ("bgp", &[]),
    ("delta", &[]),
    ("seal", &[]),
    ("crypto", &[]),
    ("api", &["delta"]),
    ("log", &["api"]),
    ("lab", &["memif"]),
    ("engine", &[]),
    ("ports", &["memif", "engine"]),
    (
        "forwarder",
        &[
            "api",
            "crypto",
            "delta",
            "log",
            "ports",
            "engine",
            "seal",
            "tables",
            "warm-restart",
            "wire",
        ],
    ),
    ("yang", &["api"]),
    (
        "controller",
        &["api", "bgp", "crypto", "delta", "log", "seal", "warm-restart", "wire", "yang"],
    ),
    ("console", &["yang", "api"]),
    ("northbound", &["controller", "yang", "api", "wire"]),
    ("traffic", &["forwarder", "api", "crypto", "ports", "engine", "tables", "wire"]),
    (
        "stoa",
        &[
            "console",
            "northbound",
            "controller",
            "traffic",
            "forwarder",
            "api",
            "log",
            "wire",
            "yang",
            "lab",
        ],
    ),
    ("scenarios", &["lab"]),
];

/// External crates that lower layers must not use: run times, servers, YANG.
const FORBIDDEN: [(&str, &[&str]); 13] = [
    ("crypto", &["tokio", "tonic", "prost", "hyper-util", "yang5", "libc", "nix"]),
    ("seal", &["tokio", "tonic", "prost", "hyper-util", "yang5", "libc", "nix"]),
    ("delta", &["tokio", "tonic", "prost", "hyper-util", "yang5", "libc", "nix"]),
    ("memif", &["tokio", "tonic", "prost", "hyper-util", "yang5"]),
    ("warm-restart", &["tokio", "tonic", "prost", "hyper-util", "yang5"]),
    ("bgp", &["tokio", "tonic", "prost", "hyper-util", "yang5", "libc", "nix"]),
    ("wire", &["tokio", "tonic", "prost", "hyper-util", "yang5", "libc", "nix"]),
    ("tables", &["tokio", "tonic", "prost", "hyper-util", "yang5", "libc", "nix"]),
    ("engine", &["tokio", "tonic", "prost", "hyper-util", "yang5"]),
    ("ports", &["tokio", "tonic", "prost", "hyper-util", "yang5"]),
    ("forwarder", &["yang5", "axum"]),
    ("api", &["yang5"]),
    ("yang", &["tokio", "tonic", "prost", "hyper-util", "axum"]),
];

/// Packages of the workspace with their direct dependencies, except those for tests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let names = packages.iter().map(|package| {
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        let used = dependencies.iter().filter(|one| one["kind"].as_str() != Some("dev"));
        let used = used.map(|one| short(&one["name"])).collect();
        (short(&package["name"]), used)
    });
    names.collect()
}

fn short(name: &Value) -> String {
    let name = name.as_str().expect("a name");
    name.strip_prefix("stoa-").unwrap_or(name).to_owned()
}

#[test]
fn a_crate_depends_only_on_crates_below_it() {
    let packages = dependencies();
    let mut faults = Vec::new();
    for (name, used) in &packages {
        let Some((_, may)) = ALLOWED.iter().find(|(one, _)| one == name) else {
            faults.push(format!(
                "{name} is not in the table of this test: add it with its dependencies"
            ));
            continue;
        };
        let ours = used.iter().filter(|one| packages.contains_key(one.as_str()));
        let above = ours.filter(|one| !may.contains(&one.as_str()));
        faults.extend(above.map(|one| format!("{name} uses {one}, which is not below it")));
        let never = FORBIDDEN.iter().find(|(one, _)| one == name).map_or(&[][..], |(_, not)| *not);
        let foreign = never.iter().filter(|one| used.contains(**one));
        faults.extend(
            foreign.map(|one| format!("{name} uses {one}, which only higher layers may use")),
        );
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_table_has_no_stale_entries() {
    let packages = dependencies();
    let mut faults = Vec::new();
    for (name, may) in ALLOWED {
        let Some(used) = packages.get(name) else {
            faults.push(format!("{name} does not exist"));
            continue;
        };
        let unused = may.iter().filter(|one| !used.contains(**one));
        faults.extend(
            unused.map(|one| format!("{name} does not use {one}: remove it from the table")),
        );
    }
    let never = FORBIDDEN.iter().filter(|(name, _)| !packages.contains_key(*name));
    faults.extend(never.map(|(name, _)| format!("{name} does not exist")));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
