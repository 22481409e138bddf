//! `docs/dev/option.md` lists the files that an option of an interface takes: exactly those that mention its example.

use std::collections::BTreeSet;
use std::path::Path;

use crate::{read, root};

const PAGE: &str = "docs/dev/option.md";
/// Most files that are written by hand.
const BY_HAND: usize = 12;
/// The spellings of the example.
const NAMES: [&str; 3] = ["minimum-ttl", "minimum_ttl", "MinimumTtl"];
/// Top folders with files of the project, and folders that are not searched: pages about the way itself, and what is
/// built, fetched or found by a fuzzer.
const SEARCHED: [&str; 10] = [
    "bench",
    "crates",
    "dashboard",
    "docs",
    "examples",
    "fuzz",
    "packaging",
    "scripts",
    "tests",
    "yang",
];
const OMITTED: [&str; 9] = [
    "docs/dev",
    "tests/guards",
    "yang/standard",
    "dashboard/dist",
    "dashboard/dist-test",
    "dashboard/node_modules",
    "fuzz/corpus",
    "fuzz/target",
    "fuzz/artifacts",
];

/// Collects the files that mention the example.
fn search(path: &Path, into: &mut BTreeSet<String>) {
    let name =
        path.strip_prefix(root()).expect("below the workspace").to_string_lossy().into_owned();
    if path.is_symlink() || OMITTED.contains(&name.as_str()) {
        return;
    }
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap_or_else(|error| panic!("{name}: {error}"));
        entries.for_each(|entry| search(&entry.expect("an entry").path(), into));
        return;
    }
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    // Recorded states have all fields; these are not set.
    let mut lines = text.lines().filter(|line| !line.trim_end_matches(',').ends_with(": null"));
    if lines.any(|line| NAMES.iter().any(|name| line.contains(name))) {
        into.insert(name);
    }
}

#[test]
fn the_page_lists_the_files_of_an_option() {
    let page = read(&root().join(PAGE));
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let rows: Vec<(&str, &str)> = rows.collect();
    let listed: BTreeSet<String> = rows.iter().map(|(file, _)| (*file).to_owned()).collect();
    let mut found = BTreeSet::new();
    SEARCHED.iter().for_each(|folder| search(&root().join(folder), &mut found));
    for entry in std::fs::read_dir(root()).expect("the workspace").flatten() {
        if entry.path().is_file() {
            search(&entry.path(), &mut found);
        }
    }
    assert_eq!(
        listed, found,
        "left: the table of {PAGE}; right: the files that mention the option"
    );
    let by_hand = rows.iter().filter(|(_, what)| !what.starts_with("generated")).count();
    assert!(
        by_hand <= BY_HAND,
        "an option takes {by_hand} files; {BY_HAND} suffice: shorten its way"
    );
}
