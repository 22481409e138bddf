//! Comments of source files and prose of pages have lines of at most 120 characters.

use std::path::{Path, PathBuf};

use crate::root;

/// Maximum number of characters of a line.
const WIDTH: usize = 120;

/// Folders of files that are not ours or not sources.
const SKIPPED: [&str; 7] =
    ["target", "node_modules", "dist", "dist-test", "corpus", "artifacts", "standard"];

/// How a file's comments start.
#[derive(Clone, Copy)]
enum Kind {
    /// `//`, `/*` and ` * `.
    Slashes,
    /// `#`, and Python's `"""`.
    Hash,
    /// All prose, but no tables and no code.
    Markdown,
}

fn kind(path: &Path, text: &str) -> Option<Kind> {
    match path.extension().and_then(|end| end.to_str()) {
        Some("rs" | "c" | "h" | "ts" | "tsx" | "mjs" | "css" | "proto") => Some(Kind::Slashes),
        Some("py" | "sh" | "toml" | "yaml" | "yml" | "service") => Some(Kind::Hash),
        Some("md") => Some(Kind::Markdown),
        None if text.starts_with("#") => Some(Kind::Hash),
        _ => None,
    }
}

/// All files below a folder, or of the folder alone.
fn files(folder: &Path, is_deep: bool, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if !path.is_dir() {
            into.push(path);
        } else if is_deep && !SKIPPED.iter().any(|skipped| name == *skipped) {
            files(&path, true, into);
        }
    }
}

/// The numbers of the lines of comments or prose that are too long.
fn long_lines(kind: Kind, text: &str) -> Vec<usize> {
    let (mut found, mut is_code) = (Vec::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim_start();
        let begins = |marks: &[&str]| marks.iter().any(|mark| trimmed.starts_with(mark));
        let is_checked = match kind {
            Kind::Slashes => begins(&["//", "/*", "* "]),
            Kind::Hash => begins(&["#", "\"\"\""]),
            Kind::Markdown if begins(&["```"]) => {
                is_code = !is_code;
                false
            }
            Kind::Markdown => !is_code && !begins(&["|"]),
        };
        // A single word, such as an address, cannot be wrapped.
        let words = trimmed.trim_start_matches(['/', '*', '!', '#', '-', ' ']).trim_end();
        if is_checked && line.chars().count() > WIDTH && words.contains(' ') {
            found.push(number);
        }
    }
    found
}

#[test]
fn comments_and_prose_fit_into_the_width() {
    let mut all = Vec::new();
    files(&root(), false, &mut all);
    for folder in ["crates", "tests", "fuzz", "dashboard", "scripts", "packaging", "docs", "bench"]
    {
        files(&root().join(folder), true, &mut all);
    }
    let (mut faults, mut seen) = (Vec::new(), 0);
    for path in all {
        let Ok(text) = String::from_utf8(std::fs::read(&path).expect("a file")) else { continue };
        let Some(kind) = kind(&path, &text) else { continue };
        seen += 1;
        for line in long_lines(kind, &text) {
            faults.push(format!("{}:{line}: more than {WIDTH} characters", path.display()));
        }
    }
    assert!(seen > 1_000, "{seen} files");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn long_lines_are_found() {
    let long = "word ".repeat(25);
    let text = format!(
        "// {long}\nlet a = \"{long}\";\n   /// {long}\n * {long}\n// {}\n",
        "x".repeat(130)
    );
    assert_eq!(long_lines(Kind::Slashes, &text), [1, 3, 4]);
    assert_eq!(long_lines(Kind::Hash, &format!("#!/bin/sh\n# {long}\necho {long}\n")), [2]);
    let page = format!("{long}\n| {long} |\n```\n{long}\n```\n- {long}\n");
    assert_eq!(long_lines(Kind::Markdown, &page), [1, 6]);
    // Characters, not bytes.
    assert!(long_lines(Kind::Markdown, &"é ".repeat(60)).is_empty());
}
