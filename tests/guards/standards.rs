//! The table of standards names a test for what is met, which exists, and a reason for what is not.

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

#[test]
fn standards_have_a_test_or_a_reason() {
    let page = read(&root().join("docs/guide/standards.md"));
    let without = rows(&page).filter(|row| {
        let is_met = ["yes", "partly"].iter().any(|word| row.stoa.starts_with(word));
        let has_reason = !["", "no", "other", "partly"].contains(&row.stoa);
        if is_met { !row.tests.contains('`') } else { !has_reason }
    });
    let without: Vec<_> = without.map(|row| format!("{}: {}", row.section, row.stoa)).collect();
    assert!(without.is_empty(), "neither test nor reason: {without:#?}");
}
