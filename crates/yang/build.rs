//! Embeds the YANG modules: the standard ones of `scripts/fetch-yang` in `yang/standard`, and our own in `yang`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The standard modules of the schema, with submodules.
const STANDARD: &[&str] = &[
    "iana-if-type",
    "ietf-access-control-list",
    "ietf-datastores",
    "ietf-ethertypes",
    "ietf-inet-types",
    "ietf-interfaces",
    "ietf-ip",
    "ietf-ipv4-unicast-routing",
    "ietf-ipv6-router-advertisements",
    "ietf-ipv6-unicast-routing",
    "ietf-nat",
    "ietf-netconf-acm",
    "ietf-packet-fields",
    "ietf-restconf",
    "ietf-restconf-monitoring",
    "ietf-routing",
    "ietf-vrrp",
    "ietf-yang-library",
    "ietf-yang-types",
];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../yang");
    println!("cargo:rerun-if-changed={}", root.display());
    println!("cargo:rerun-if-changed={}", root.join("standard").display());

    let mut files = Vec::new();
    for name in STANDARD {
        let file = root.join("standard").join(format!("{name}.yang"));
        if !file.is_file() {
            eprintln!(
                "the standard YANG module {name} is missing from yang/standard.\n\
                 Run `make build`, or `scripts/fetch-yang` and build again."
            );
            std::process::exit(1);
        }
        files.push(file);
    }
    files.extend(own_modules(&root));

    let mut code =
        String::from("/// Every module, by name.\npub const SOURCES: &[(&str, &str)] = &[\n");
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
        let name = file.file_stem().expect("a module has a name").to_string_lossy();
        writeln!(code, "    ({name:?}, include_str!({file:?})),").expect("a string grows");
    }
    code.push_str("];\n");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("sources.rs"), code).expect("OUT_DIR can be written");
}

/// Every `yang/stoa-*.yang`, sorted.
fn own_modules(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).expect("the folder yang can be read");
    let mut own: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("stoa-") && name.ends_with(".yang")
        })
        .collect();
    own.sort();
    own
}
