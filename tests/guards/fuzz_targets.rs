//! Each fuzz target has a row in `fuzz/README.md`, and seeds to begin from.

use crate::{read, root};

#[test]
fn fuzz_targets_are_described_and_have_seeds() {
    let fuzz = root().join("fuzz");
    let (manifest, page) = (read(&fuzz.join("Cargo.toml")), read(&fuzz.join("README.md")));
    let names = manifest.split("[[bin]]").skip(1).map(|part| {
        let name = part.lines().find_map(|line| line.strip_prefix("name = \""));
        name.and_then(|it| it.strip_suffix('"')).expect("a target has a name")
    });
    let mut missing = Vec::new();
    for name in names {
        if !page.contains(&format!("\n| `{name}` |")) {
            missing.push(format!("a row for {name} in fuzz/README.md"));
        }
        let seeds =
            std::fs::read_dir(fuzz.join("corpus").join(name)).into_iter().flatten().flatten();
        if !seeds.into_iter().any(|file| file.file_name().to_string_lossy().starts_with("seed-")) {
            missing.push(format!("a file fuzz/corpus/{name}/seed-..."));
        }
    }
    assert!(missing.is_empty(), "missing: {}", missing.join("; "));
}
