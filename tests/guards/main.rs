//! Guards: rules for the whole source. They read files and `cargo metadata`, and need no root.

#![forbid(unsafe_code)]

mod capabilities;
mod fuzz_targets;
mod import_circles;
mod kernels;
mod layers;
mod line_width;
mod option_page;
mod source_files;
mod standards;
mod unsafe_code;

use std::path::{Path, PathBuf};

/// The folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above").to_owned()
}

/// A file of the workspace as text.
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Collects every Rust file below a folder.
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
