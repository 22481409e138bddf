//! Puts the files of the web page, as `scripts/build-dashboard` makes them, into the program.

use std::fmt::Write;
use std::path::Path;

fn main() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboard/dist");
    let list = dist.join("files.txt");
    println!("cargo:rerun-if-changed={}", list.display());
    let Ok(text) = std::fs::read_to_string(&list) else {
        eprintln!(
            "the web page is missing from dashboard/dist.\n\
             Run `make build`, or `scripts/build-dashboard` and build again."
        );
        std::process::exit(1);
    };
    let mut code = String::from("const FILES: &[File] = &[\n");
    for line in text.lines() {
        // Path on the server, file in dist, type, digest.
        let parts: Vec<&str> = line.split('\t').collect();
        let [path, file, kind, digest] = parts[..] else {
            eprintln!("dashboard/dist/files.txt has a line that is not understood: {line:?}");
            std::process::exit(1);
        };
        let file = dist.join(file);
        println!("cargo:rerun-if-changed={}", file.display());
        let tag = format!("\"{digest}\"");
        writeln!(
            code,
            "    File {{ path: {path:?}, kind: {kind:?}, tag: {tag:?}, packed: include_bytes!({file:?}) }},"
        )
        .expect("a string grows");
    }
    code.push_str("];\n");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("files.rs"), code).expect("OUT_DIR can be written");
}
