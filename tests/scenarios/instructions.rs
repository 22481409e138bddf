//! Instructions per packet of each node, counted by callgrind, compared with a committed budget.
//!
//! The program runs single-threaded with the scalar kernel, so the counts are the same on every machine. Only
//! functions that run once a loop count, so that the startup does not. Each profile has its own budget: `make test`
//! checks the `ci` build, `make soak` the release build. `STOA_UPDATE=1` writes a new budget: review the difference
//! before you commit it. Needs `valgrind` (`scripts/setup test`).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// How much a node may exceed its budget, in percent.
const TOLERANCE: f64 = 5.0;
/// Loops of 256 packets.
const LOOPS: u32 = 480;

/// Cases: a name, and options of `stoa bench forward`.
const CASES: [(&str, &[&str]); 10] = [
    ("ip4", &["--routes", "1000", "--destinations", "1000"]),
    ("ip6", &["--family", "ip6", "--routes", "1000", "--destinations", "1000"]),
    ("vlan", &["--vlan"]),
    (
        "imix2",
        &["--mix", "imix2", "--routes", "1000", "--destinations", "1000", "--next-hops", "4"],
    ),
    // Access lists of 600 rules: without state, of a pair of zones, packets of 1,088 flows, and each packet a new flow.
    ("rules", &["--acl", "acl:600", "--routes", "1000", "--destinations", "1000"]),
    ("zones", &["--acl", "acl:600", "--zones", "--routes", "1000", "--destinations", "1000"]),
    ("flows", &["--acl", "acl:600", "--stateful", "--flows", "64", "--destinations", "17"]),
    ("new", &["--acl", "acl:600", "--stateful", "--flows", "131072"]),
    // Packets of one flow, and translated ones of 1,088 flows.
    ("burst", &["--acl", "acl:600", "--stateful"]),
    ("nat44", &["--nat44", "--flows", "64", "--destinations", "17"]),
];

/// Nodes, and substrings of their function's name. Counts include called functions.
const NODES: [(&str, [&str; 2]); 9] = [
    ("ethernet-input", ["EthernetInput", "::process"]),
    ("ip4-input", ["Ip4Input", "::process"]),
    ("ip6-input", ["Ip6Input", "::process"]),
    ("rewrite", ["rewrite::Rewrite", "::process"]),
    // All nodes of access lists and zones together.
    ("acl", ["acl::node::AclNode", "::process"]),
    ("nat44-input", ["nat::input::Input", "::process"]),
    ("nat44-output", ["nat::output::Output", "::process"]),
    ("generator-input", ["GeneratorRx", "::receive"]),
    ("main-loop", ["worker::main_loop::Worker", "Worker::run_once"]),
];

/// Instructions per transmitted packet by case and node.
type Budget = BTreeMap<String, BTreeMap<String, f64>>;

/// The cargo profile of a program, from its folder.
fn profile(program: &Path) -> String {
    let folder = program.parent().and_then(Path::file_name);
    let profile = folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if profile == "ci" { profile } else { "release".to_owned() }
}

#[test]
fn nodes_keep_their_budgets() {
    let stoa = stoa_lab::stoa_binary().unwrap();
    let folder = stoa_lab::Scratch::new().unwrap();
    let mut counted = Budget::new();
    for (case, options) in CASES {
        let (packets, instructions) = count(&stoa, options, folder.path());
        let nodes = counted.entry(case.to_owned()).or_default();
        for (node, instructions) in instructions {
            let each = instructions as f64 / packets as f64;
            nodes.insert(node.to_owned(), (each * 10.0).round() / 10.0);
        }
        assert!(nodes.contains_key("main-loop") && nodes.len() > 3, "{case}: {nodes:?}");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/instructions.json");
    let mut budgets: BTreeMap<String, Budget> =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let profile = profile(&stoa);
    if std::env::var_os("STOA_UPDATE").is_some() {
        budgets.insert(profile, counted);
        let text = serde_json::to_string_pretty(&budgets).unwrap();
        return std::fs::write(path, text + "\n").unwrap();
    }
    let budget = budgets.remove(&profile).unwrap_or_default();
    let mut exceeded = Vec::new();
    for (case, nodes) in &counted {
        for (node, each) in nodes {
            let allowed = budget.get(case).and_then(|nodes| nodes.get(node)).copied();
            println!("{case:>6} {node:>16} {each:>7.1} of {:.1}", allowed.unwrap_or(0.0));
            if allowed.is_none_or(|allowed| *each > allowed * (1.0 + TOLERANCE / 100.0)) {
                exceeded.push(format!("{case}: {node} takes {each}, its budget is {allowed:?}"));
            }
        }
    }
    for (case, nodes) in &budget {
        let missing = |node: &&String| !counted.get(case).is_some_and(|it| it.contains_key(*node));
        exceeded.extend(nodes.keys().filter(missing).map(|node| {
            format!("{case}: {node} has a budget and was not counted: does its symbol match?")
        }));
    }
    assert!(
        exceeded.is_empty(),
        "instructions per packet: {}\nReduce them, or justify the increase in the commit and write a new budget with \
         STOA_UPDATE=1.",
        exceeded.join("; ")
    );
}

/// Packets transmitted, and instructions by node.
fn count(stoa: &Path, options: &[&str], folder: &Path) -> (u64, BTreeMap<&'static str, u64>) {
    let file = folder.join("callgrind.out");
    let done = Command::new("timeout")
        .args(["--kill-after=5", "300", "valgrind", "--tool=callgrind", "--quiet"])
        .args(["--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(stoa)
        .args(["bench", "forward", "--kernel", "scalar", "--json", "--loops"])
        .arg(LOOPS.to_string())
        .args(options)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{printed}\ninstall valgrind with `scripts/setup test`");
    let counts: Value = serde_json::from_slice(&done.stdout).unwrap();
    let profile = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
    (counts["packets"].as_u64().unwrap(), inclusive(&profile))
}

/// Inclusive instructions of each node, from callgrind's file: each `fn=` is followed by lines with its own costs and,
/// after `calls=`, those of calls.
fn inclusive(profile: &str) -> BTreeMap<&'static str, u64> {
    let mut all = BTreeMap::new();
    let mut node = None;
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            let is_node = |words: &[&str; 2]| words.iter().all(|word| name.contains(word));
            node = NODES.iter().find(|(_, words)| is_node(words)).map(|(node, _)| *node);
        } else if let Some(node) = node
            && line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first))
        {
            let cost = line.split_whitespace().nth(1).and_then(|cost| cost.parse::<u64>().ok());
            *all.entry(node).or_insert(0) += cost.unwrap_or(0);
        }
    }
    all
}
