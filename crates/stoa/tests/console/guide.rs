//! Commands of the guide, which readers copy.

use std::path::Path;

use crate::testbed::{Router, err, out};

/// The blocks of commands of a page, each with its lines that begin with `stoa`.
fn blocks(page: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```\n").skip(1).step_by(2);
    let commands = |block: &str| {
        let lines = block.lines().filter(|line| line.starts_with("stoa "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    blocks.map(commands).collect()
}

#[test]
fn the_commands_about_zones_are_complete() {
    let router = Router::start();
    let (mut sets, mut commits) = (0, 0);
    for line in blocks("zones.md").into_iter().flatten() {
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
