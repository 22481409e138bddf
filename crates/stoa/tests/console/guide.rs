//! Commands of the guide, which readers copy.

use std::path::Path;

use crate::testbed::{Router, err, out};

/// The commands of a page that begin with `stoa`: lines of blocks without a language.
fn commands(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let mut language = None;
    let mut commands = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(_) if language.is_some() => language = None,
            Some(of_block) => language = Some(of_block),
            None if language == Some("") && line.starts_with("stoa ") => {
                commands.push(line.to_owned());
            }
            None => {}
        }
    }
    commands
}

#[test]
fn the_commands_about_zones_are_complete() {
    let router = Router::start();
    let (mut sets, mut commits) = (0, 0);
    for line in commands("zones.md") {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        if !["set", "commit", "show"].contains(&words[0]) {
            continue;
        }
        let output = router.call(&words);
        assert!(output.status.success(), "{line}: {}", err(&output));
        sets += usize::from(words[0] == "set");
        if words[0] == "commit" {
            commits += 1;
            // Only of what the first stateful rule means for connections that are open.
            let shown = out(&output) + &err(&output);
            let mut warnings = shown.lines().filter(|line| line.starts_with("Warning: "));
            assert!(warnings.all(|it| it.contains("stateful from now on")), "{line}: {shown}");
        }
    }
    assert!(sets >= 15 && commits == 2, "{sets} {commits}");
    let shown = router.shows("show zones");
    assert!(shown.contains("ping, answers") || shown.contains("IPv4: ping, answers"), "{shown}");
}
