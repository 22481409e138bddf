//! The floors of the house: a crate sees only what lies below it, and what must not be unsafe cannot be.
//!
//! ```text
//!                 stoa
//!       console
//!       controller  fleet  traffic
//!           ike  bng        forwarder
//!              bgp api      ports
//!                           engine
//!               tables   wire   memif
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The crates of the house and what each may see of it.
const MAY_SEE: [(&str, &[&str]); 16] = [
    ("wire", &[]),
    ("tables", &[]),
    ("api", &[]),
    ("log", &["api"]),
    ("lab", &["memif"]),
    ("memif", &[]),
    ("bgp", &[]),
    ("engine", &["tables", "wire"]),
    ("ports", &["memif", "engine", "tables", "wire"]),
    ("forwarder", &["api", "log", "ports", "engine", "tables", "wire"]),
    ("controller", &["api", "bgp", "log", "tables", "wire"]),
    ("console", &["controller", "api"]),
    ("northbound", &["controller", "api", "wire"]),
    ("traffic", &["forwarder", "api", "ports", "engine", "tables", "wire"]),
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
            "ports",
            "engine",
            "tables",
            "wire",
            "lab",
        ],
    ),
    ("scenarios", &["lab", "api", "wire"]),
];

/// What the lower floors must not pull in: run times, servers, YANG.
const NOT_BELOW: [(&str, &[&str]); 8] = [
    ("memif", &["tokio", "tonic", "prost", "hyper-util", "yang5"]),
    ("bgp", &["tokio", "tonic", "prost", "hyper-util", "yang5", "libc", "nix"]),
    ("wire", &["tokio", "tonic", "prost", "hyper-util", "yang5", "libc", "nix"]),
    ("tables", &["tokio", "tonic", "prost", "hyper-util", "yang5", "libc", "nix"]),
    ("engine", &["tokio", "tonic", "prost", "hyper-util", "yang5"]),
    ("ports", &["tokio", "tonic", "prost", "hyper-util", "yang5"]),
    ("forwarder", &["yang5", "axum"]),
    ("api", &["yang5"]),
];

/// Crates in which `unsafe` is forbidden as a whole.
const FORBID: [&str; 10] = [
    "wire",
    "bgp",
    "api",
    "log",
    "controller",
    "console",
    "northbound",
    "traffic",
    "stoa",
    "scenarios",
];
/// Crates in which it is denied and allowed again in named files only.
const NAMED: [(&str, &[&str]); 3] =
    [("lab", &["bpf.rs"]), ("tables", &["kernel.rs"]), ("forwarder", &["avx2.rs", "avx512.rs"])];

/// Lines of a source file at most.
const LINES: usize = 400;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above").to_owned()
}

/// Packages of the workspace with their direct dependencies, those for tests left out.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo can be called");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo says JSON");
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

/// Every Rust file below a folder.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            into.push(path);
        }
    }
}

fn house() -> Vec<PathBuf> {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    sources(&root().join("tests"), &mut files);
    sources(&root().join("fuzz/src"), &mut files);
    sources(&root().join("fuzz/fuzz_targets"), &mut files);
    assert!(files.len() > 20, "the sources were found");
    files
}

/// The sources of one crate.
fn rooms(name: &str) -> (PathBuf, Vec<PathBuf>) {
    let folder = match name {
        "scenarios" => root().join("tests"),
        name => root().join("crates").join(name).join("src"),
    };
    let mut files = Vec::new();
    sources(&folder, &mut files);
    let first = ["lib.rs", "main.rs", "story/lib.rs"].map(|file| folder.join(file));
    let first = first.into_iter().find(|file| file.exists()).expect("a crate has a first file");
    (first, files)
}

#[test]
fn a_crate_sees_only_what_lies_below_it() {
    let house: BTreeSet<&str> = MAY_SEE.iter().map(|(name, _)| *name).collect();
    let mut faults = Vec::new();
    for (name, used) in dependencies() {
        let Some((_, may)) = MAY_SEE.iter().find(|(one, _)| *one == name) else {
            faults.push(format!("{name} has no floor yet: say in this test what it may see"));
            continue;
        };
        let ours = used.iter().filter(|one| house.contains(one.as_str()));
        faults.extend(
            ours.filter(|one| !may.contains(&one.as_str()))
                .map(|one| format!("{name} sees {one}, which does not lie below it")),
        );
        let not_below =
            NOT_BELOW.iter().find(|(one, _)| *one == name).map_or(&[][..], |(_, not)| *not);
        let foreign = not_below.iter().filter(|one| used.contains(**one));
        faults.extend(foreign.map(|one| format!("{name} uses {one}, which belongs higher up")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn unsafe_is_where_it_may_be() {
    let mut faults = Vec::new();
    for name in FORBID {
        let (first, _) = rooms(name);
        let text = std::fs::read_to_string(&first).expect("it is there");
        if !text.contains("#![forbid(unsafe_code)]") {
            faults.push(format!("{} lacks #![forbid(unsafe_code)]", first.display()));
        }
    }
    for (name, named) in NAMED {
        let (first, files) = rooms(name);
        let text = std::fs::read_to_string(&first).expect("it is there");
        if !text.contains("#![forbid(unsafe_code)]") && !text.contains("#![deny(unsafe_code)]") {
            faults.push(format!("{} lacks #![deny(unsafe_code)]", first.display()));
        }
        for file in files {
            // By the end of the name: the vector kernels of the trunk are called `NODE_avx512.rs`.
            let known = named.iter().any(|one| file.to_string_lossy().ends_with(one));
            let text = std::fs::read_to_string(&file).expect("it is there");
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let words = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"];
            if !known && code.into_iter().any(|line| words.iter().any(|word| line.contains(word))) {
                faults.push(format!("{} has unsafe code but is not named here", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_file_is_one_idea() {
    let mut faults = Vec::new();
    for file in house() {
        let text = std::fs::read_to_string(&file).expect("it is there");
        let lines = text.lines().count();
        if lines > LINES {
            faults.push(format!("{} has {lines} lines, {LINES} at most", file.display()));
        }
        if !text.starts_with("//!") {
            faults.push(format!("{} does not begin by saying what it is (//!)", file.display()));
        }
        if text.contains(&format!("allow({})", "dead_code")) {
            faults.push(format!("{} keeps what nobody uses", file.display()));
        }
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let words = stem.unwrap_or_default();
        let vague = ["util", "utils", "common", "helper", "helpers", "manager", "misc"];
        if words.split('_').any(|word| vague.contains(&word)) {
            faults.push(format!("{} has a name that says nothing", file.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_story_is_told() {
    let manifest = std::fs::read_to_string(root().join("tests/Cargo.toml")).expect("it is there");
    let mut faults = Vec::new();
    for entry in std::fs::read_dir(root().join("tests")).expect("the folder is there").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let told = manifest.contains(&format!("path = \"{name}\""));
        if name.ends_with(".rs") && !told {
            faults.push(format!("tests/{name} has no [[test]] in tests/Cargo.toml"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// `file::test` in the table of standards, with the folder that its first word stands for.
#[test]
fn the_standards_name_tests_that_exist() {
    const FOLDERS: [(&str, &str); 4] = [
        ("forwarder/", "crates/forwarder/src/"),
        ("stories/", "crates/forwarder/tests/stories/"),
        ("wire/", "crates/wire/src/"),
        ("tests/", "tests/"),
    ];
    let table =
        std::fs::read_to_string(root().join("docs/guide/standards.md")).expect("it is there");
    let named: Vec<(&str, &str)> = table
        .split('`')
        .filter_map(|word| word.split_once("::"))
        .filter(|(file, _)| file.contains('/'))
        .collect();
    assert!(named.len() > 100, "{} tests are named", named.len());
    for (file, test) in named {
        let (short, folder) =
            FOLDERS.iter().find(|(short, _)| file.starts_with(short)).expect("a known folder");
        let path = root().join(folder).join(&file[short.len()..]);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(&format!("fn {test}(")), "{file} has no test {test}");
    }
}
