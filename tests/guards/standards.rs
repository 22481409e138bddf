//! The table of standards names a test for what is met, which exists, and a reason for what is not. What is met in part
//! has both.

use crate::{read, root};

/// Folders by the prefix of a file.
const FOLDERS: [(&str, &str); 7] = [
    ("cases/", "crates/controller/tests/cases/"),
    ("controller/", "crates/controller/src/"),
    ("forwarder/", "crates/forwarder/src/"),
    ("northbound/", "crates/northbound/src/"),
    ("scenarios/", "crates/forwarder/tests/scenarios/"),
    ("tests/", "tests/"),
    ("wire/", "crates/wire/src/"),
];

/// A row: the requirement, what Stoa does, and what verifies it.
struct Row<'a> {
    section: &'a str,
    stoa: &'a str,
    tests: &'a str,
}

/// The rows of all tables.
fn rows(page: &str) -> impl Iterator<Item = Row<'_>> {
    page.lines().filter(|line| line.starts_with("| ")).filter_map(|line| {
        let mut cells = line[1..].split('|').map(str::trim);
        let [section, _, stoa, tests] = [(); 4].map(|()| cells.next().expect(line));
        assert_eq!(cells.next(), Some(""), "four cells: {line}");
        (tests != "verified by").then_some(Row { section, stoa, tests })
    })
}

/// What is wrong with the name of a test.
fn fault(name: &str) -> Option<String> {
    let Some((short, folder)) = FOLDERS.iter().find(|(short, _)| name.starts_with(short)) else {
        return Some("has no known folder".to_owned());
    };
    let folder = root().join(folder);
    if *short == "cases/" {
        let is_there = folder.join(&name[short.len()..]).join("config.json").is_file();
        return (!is_there).then(|| "is no recorded case".to_owned());
    }
    let Some((file, test)) = name[short.len()..].split_once("::") else {
        return Some("names no test of the file".to_owned());
    };
    let path = folder.join(file);
    if !path.is_file() {
        return Some("has no such file".to_owned());
    }
    let is_there = read(&path).contains(&format!("fn {test}("));
    (!is_there).then(|| "has no such test".to_owned())
}

#[test]
fn standards_name_tests_that_exist() {
    let page = read(&root().join("docs/guide/standards.md"));
    let names = rows(&page).flat_map(|row| {
        // Between backquotes.
        row.tests.split('`').skip(1).step_by(2).map(move |name| (row.section, name))
    });
    let names: Vec<_> = names.collect();
    assert!(names.len() > 300, "only {} tests are named", names.len());
    let faults: Vec<_> = names
        .into_iter()
        .filter_map(|(section, name)| Some(format!("{section}: {name} {}", fault(name)?)))
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

/// What a row lacks: a test, or a reason behind its word and a colon.
fn lack(row: &Row<'_>) -> Option<&'static str> {
    let word = row.stoa.split([':', ',', ';', ' ']).next().unwrap_or_default();
    let (needs_test, needs_reason) = match word {
        "yes" => (true, false),
        "partly" => (true, true),
        "other" | "no" => (false, true),
        _ => return Some("begins with neither yes, partly, other nor no"),
    };
    let reason = row.stoa.strip_prefix(word).and_then(|rest| rest.strip_prefix(": "));
    if needs_test && !row.tests.contains('`') {
        return Some("has no test");
    }
    (needs_reason && reason.is_none()).then_some("has no reason")
}

#[test]
fn standards_have_a_test_or_a_reason() {
    let page = read(&root().join("docs/guide/standards.md"));
    let found = rows(&page)
        .filter_map(|row| Some(format!("{}: {} {}", row.section, row.stoa, lack(&row)?)));
    let found: Vec<_> = found.collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_word_alone_is_no_reason() {
    let lack = |stoa, tests| lack(&Row { section: "1", stoa, tests });
    for word in ["partly", "partly:", "partly yes"] {
        assert_eq!(lack(word, "`test`"), Some("has no reason"));
    }
    assert_eq!(lack("no", ""), Some("has no reason"));
    assert_eq!(lack("no: it is rarely used", ""), None);
    assert_eq!(lack("partly: only half of it", ""), Some("has no test"));
    assert_eq!(lack("yes, by both kernels", ""), Some("has no test"));
    assert!(lack("off by default", "`test`").is_some());
}
