//! A source file is short, has a description and a specific name, and is part of a program.

use std::path::PathBuf;

use crate::{read, root, sources};

/// Maximum number of lines of a source file.
const LINES: usize = 400;

fn all_sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["crates", "tests", "fuzz/src", "fuzz/fuzz_targets", "examples/plugin/src"] {
        sources(&root().join(folder), &mut files);
    }
    assert!(files.len() > 20, "the sources are found");
    files
}

#[test]
fn source_files_are_short_and_documented() {
    let mut faults = Vec::new();
    for file in all_sources() {
        let text = read(&file);
        let lines = text.lines().count();
        if lines > LINES {
            faults.push(format!("{} has {lines} lines, {LINES} at most", file.display()));
        }
        if !text.starts_with("//!") {
            faults.push(format!("{} does not begin with a description (//!)", file.display()));
        }
        if text.contains(&format!("allow({})", "dead_code")) {
            faults.push(format!("{} contains unused code", file.display()));
        }
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let words = stem.unwrap_or_default();
        let vague = ["util", "utils", "common", "helper", "helpers", "manager", "misc"];
        if words.split('_').any(|word| vague.contains(&word)) {
            faults.push(format!("{} has an unspecific name", file.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A file without `mod` is not compiled, and its tests do not run.
#[test]
fn every_scenario_is_a_module() {
    let program = read(&root().join("tests/scenarios/main.rs"));
    let mut faults = Vec::new();
    for entry in std::fs::read_dir(root().join("tests/scenarios")).expect("a folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "main") else {
            continue;
        };
        if !program.lines().any(|line| line == format!("mod {module};")) {
            faults.push(format!("tests/scenarios/{name} has no `mod {module};` in main.rs"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
