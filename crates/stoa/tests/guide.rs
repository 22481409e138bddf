//! The documents: links have targets, pages are in the book, examples are valid and listed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The names in a folder with that ending.
fn names(folder: &str, end: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(end)).collect()
}

/// The lines of a page outside code blocks.
fn prose(page: &Path) -> String {
    let text = std::fs::read_to_string(page).unwrap();
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// The anchors of the headings of a page, as GitHub and mdBook make them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let prose = prose(page);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    };
    headings.map(anchor).collect()
}

/// All pages.
fn pages() -> Vec<PathBuf> {
    let folders = ["", "docs/guide", "docs/dev", "docs/decisions", "bench", "packaging"];
    let pages = folders.iter().flat_map(|folder| {
        names(folder, ".md").into_iter().map(move |name| root().join(folder).join(name))
    });
    pages.collect()
}

#[test]
fn every_link_has_a_target() {
    let pages = pages();
    assert!(pages.len() > 50, "{} pages", pages.len());
    let mut faults = Vec::new();
    let mut links = 0;
    for page in &pages {
        let prose = prose(page);
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|it| !it.contains("://") && !it.starts_with("mailto:")) {
            links += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            let has_target = to.exists()
                && (anchor.is_empty()
                    || to.extension().is_none_or(|it| it != "md")
                    || anchors(&to).contains(anchor));
            if !has_target {
                faults.push(format!("{}: {target}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(links > 150, "{links} links");
    assert!(faults.is_empty(), "links without a target:\n{}", faults.join("\n"));
}

#[test]
fn every_page_of_the_guide_is_in_the_book() {
    let summary = std::fs::read_to_string(root().join("docs/guide/SUMMARY.md")).unwrap();
    let missing: Vec<String> = names("docs/guide", ".md")
        .into_iter()
        .filter(|name| name != "SUMMARY.md" && !summary.contains(&format!("({name})")))
        .collect();
    assert!(missing.is_empty(), "not in docs/guide/SUMMARY.md: {missing:?}");
    let first = summary.lines().find(|line| line.starts_with("- ")).unwrap();
    assert!(first.contains("(first-hour.md)"), "a new user begins there: {first}");
}

#[test]
fn every_example_is_valid_and_listed_in_the_guide() {
    let guide = std::fs::read_to_string(root().join("docs/guide/examples.md")).unwrap();
    let listed = guide.lines().filter_map(|line| line.strip_prefix("| `examples/"));
    let listed: BTreeSet<String> =
        listed.filter_map(|line| line.split_once('`')).map(|(name, _)| name.to_owned()).collect();
    let examples = names("examples", ".json");
    assert!(examples.len() >= 12, "{examples:?}");
    assert_eq!(examples, listed, "the folder, and the table of docs/guide/examples.md");
    for name in examples {
        let file = format!("examples/{name}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_stoa"));
        let output = command.args(["check", &file]).current_dir(root()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // Passwords of an example would be public.
        let text = std::fs::read_to_string(root().join(&file)).unwrap();
        assert!(!text.contains("argon2"), "{file} has a password");
    }
}
