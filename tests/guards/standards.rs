//! The tests named in the table of standards (`file::test`) exist.

use crate::{read, root};

/// Folders by the prefix of a file.
const FOLDERS: [(&str, &str); 4] = [
    ("forwarder/", "crates/forwarder/src/"),
    ("scenarios/", "crates/forwarder/tests/scenarios/"),
    ("wire/", "crates/wire/src/"),
    ("tests/", "tests/"),
];

#[test]
fn standards_name_existing_tests() {
    let table = read(&root().join("docs/guide/standards.md"));
    let named: Vec<(&str, &str)> = table
        .split('`')
        .filter_map(|word| word.split_once("::"))
        .filter(|(file, _)| file.contains('/'))
        .collect();
    assert!(named.len() > 100, "only {} tests are named", named.len());
    for (file, test) in named {
        let (short, folder) =
            FOLDERS.iter().find(|(short, _)| file.starts_with(short)).expect("a known folder");
        let text = read(&root().join(folder).join(&file[short.len()..]));
        assert!(text.contains(&format!("fn {test}(")), "{file} has no test {test}");
    }
}
