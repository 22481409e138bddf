//! What keeps the core small, the state of capabilities private, and each of them audited.

use std::fs;
use std::path::Path;

/// Most fields of the core: beyond, a field belongs to a capability.
const CORE_FIELDS: usize = 19;

/// All sources below a directory.
fn sources(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: std::path::PathBuf| match path.is_dir() {
        true => sources(&path),
        false => vec![fs::read_to_string(path).unwrap()],
    };
    entries.flat_map(of).collect()
}

/// The fields of a struct, as source lines.
fn fields<'a>(source: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let head = format!("struct {name}");
    let mut at = source.match_indices(&head).map(|(at, _)| &source[at + head.len()..]);
    let body = at.find(|rest| rest.starts_with([' ', '(', ';']))?;
    let body = match body.trim_start().starts_with('{') {
        true => body.split_once('{')?.1.split_once("\n}")?.0,
        false => body.split_once(';')?.0,
    };
    let lines = body.lines().map(str::trim);
    Some(lines.filter(|line| !line.is_empty() && !line.starts_with("//")).collect())
}

#[test]
fn the_core_stays_small() {
    let core = fields(include_str!("../forwarder_state.rs"), "ForwarderState").unwrap();
    assert!(!core.is_empty());
    let advice = "move the new field to a capability, or write a new one (docs/dev/capability.md)";
    assert!(core.len() <= CORE_FIELDS, "{} fields: {advice}", core.len());
}

/// Fields of the core that have methods for what capabilities need. What is open on purpose: docs/dev/capability.md.
const CLOSED: [&str; 17] = [
    "clock",
    "dropped",
    "fib.hop_changes",
    "fib.sets",
    "fib.stale_hops",
    "fib.table_full_counts",
    "index.unpublished",
    "index.unreviewed",
    "interfaces",
    "opener",
    "placement",
    "ports",
    "rx_queues",
    "serviced_ports",
    "slices",
    "worker_pool",
    "workers",
];

/// The modules of all capabilities, each with its code but for that of tests.
fn modules() -> Vec<(&'static str, String)> {
    let list = include_str!("../capability.rs").split_once("\ncapabilities! {\n").unwrap().1;
    let list = list.split_once("\n}").unwrap().0.lines();
    let modules = list.filter_map(|line| line.split("super::").nth(1)?.split("::").next());
    let control = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/control");
    let with_code = |module: &'static str| {
        let file = control.join(module).with_extension("rs");
        let all = match file.exists() {
            true => vec![fs::read_to_string(file).unwrap()],
            false => sources(&control.join(module)),
        };
        let code = all.iter().filter_map(|source| source.split("#[cfg(test)]\nmod").next());
        (module, code.collect())
    };
    modules.map(with_code).collect()
}

#[test]
fn capabilities_reach_the_core_by_methods() {
    let mut reached = Vec::new();
    for (module, code) in modules() {
        // A chain of calls may be on several lines.
        let code: String = code.lines().fold(String::new(), |joined, line| {
            let line = line.trim();
            let space = if line.starts_with('.') { "" } else { " " };
            joined + space + line
        });
        let is_reached = |field: &&str| {
            let names = [format!("self.{field}"), format!("state.{field}")];
            names.iter().any(|name| {
                let mut behind = code.split(name.as_str()).skip(1);
                behind.any(|rest| !rest.starts_with(|it: char| it == '_' || it.is_alphanumeric()))
            })
        };
        reached.extend(CLOSED.iter().filter(|it| is_reached(it)).map(|field| (module, *field)));
    }
    assert_eq!(reached, [], "add a method to the core");
}

/// Capabilities without entries in the audit of the desired state, and why.
const NOT_AUDITED: [(&str, &str); 11] = [
    ("adoption", "keeps flows, and has no settings"),
    ("duplicate_detection", "reads the number of probes from its interface each time it probes"),
    ("learned", "its routes change without a commit, and have an audit of their own"),
    ("mld_reports", "reports the groups of interfaces, of which it configures none"),
    ("output_features", "a feature for benchmarks, which the contract cannot set"),
    ("path_mtu", "learns MTUs from ICMP errors"),
    ("punt_stream", "serves who is subscribed at the moment"),
    ("rows", "tables change without a commit; each has an audit of its own"),
    ("test_sequences", "is for tests of warm restarts"),
    ("trace_capture", "runs on demand"),
    ("worker_load", "measures"),
];

#[test]
fn each_capability_is_audited() {
    let verbs = ["entries: ", "entries_of: ", "in_force: "];
    let mut others = modules();
    others.retain(|(_, code)| {
        let named = code.split_once("const VERBS: Verbs").unwrap().1;
        let named = named.split("Verbs::NONE").next().unwrap();
        !verbs.iter().any(|verb| named.contains(verb))
    });
    let mut others: Vec<_> = others.into_iter().map(|(name, _)| name).collect();
    others.sort_unstable();
    let advice = "a capability with settings adds entries to the audit (docs/dev/capability.md); one without settings \
                  gets a line here";
    assert_eq!(others, NOT_AUDITED.map(|(name, _)| name), "{advice}");
    assert!(NOT_AUDITED.iter().all(|(_, reason)| !reason.is_empty()));
}

#[test]
fn the_state_of_a_capability_is_private() {
    let list = include_str!("../capability.rs").split_once("\ncapabilities! {\n").unwrap().1;
    let list = list.split_once("\n}").unwrap().0.lines();
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/control"));
    let mut number = 0;
    for line in list.map(str::trim).filter(|line| !line.starts_with("//")) {
        let name = line.trim_end_matches(',').rsplit("::").next().unwrap();
        let found = sources.iter().find_map(|source| fields(source, name));
        let found = found.unwrap_or_else(|| panic!("no source has the struct {name}"));
        let public = found.iter().find(|field| field.contains("pub ") || field.contains("pub("));
        assert_eq!(public, None, "a field of {name}: make it private, and add a method");
        number += 1;
    }
    assert_eq!(number, super::CAPABILITIES.len());
}
