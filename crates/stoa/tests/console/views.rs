//! What the console and the shell say about commits, the lock and the log.

use crate::testbed::{Router, err, out};

#[test]
fn a_commit_says_which_commit_it_confirms() {
    let router = Router::start();
    let set = |text: &str| format!("set interfaces interface lan description {text}");
    let shown = router.types(&["configure", &set("one"), "commit confirmed 5", "commit"]);
    assert!(shown.contains("Confirmed the commit of ") && shown.contains(", saved as number 2."));
    let lines = [set("two"), "commit confirmed 5".into(), set("three"), "commit".into()];
    let lines: Vec<&str> =
        ["configure"].into_iter().chain(lines.iter().map(String::as_str)).collect();
    let shown = router.types(&lines);
    assert!(shown.contains("This confirmed the commit of "), "{shown}");
    let cancelled =
        router.types(&["configure", &set("four"), "commit confirmed 5", "commit cancel"]);
    assert!(cancelled.contains("Rolled back the commit of "), "{cancelled}");
}

#[test]
fn the_status_names_who_holds_the_lock() {
    let router = Router::start();
    let locked = router.types(&["configure", "run status"]);
    let line = locked.lines().find(|line| line.starts_with("  locked by ")).unwrap_or_default();
    assert!(line.contains(" (console) since 20") && line.contains("Z, for "), "{locked}");
    assert!(!router.shows("status").contains("locked"), "the console has ended");
}

#[test]
fn a_log_that_no_command_can_read_is_shown_from_memory() {
    let router = Router::without_log();
    let output = router.call(&["show", "log"]);
    assert!(output.status.success(), "{}", err(&output));
    let note = "stoa: the log goes to /dev/null: it is not kept";
    assert!(
        err(&output).starts_with(note) && err(&output).contains("in memory"),
        "{}",
        err(&output)
    );
    for program in [" INFO controller: ", " INFO forwarder: "] {
        assert!(out(&output).contains(program), "{program}: {}", out(&output));
    }
    let last = router.shows("show log --lines 1 --json");
    let last: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert_eq!((&last["source"], last["lines"].as_array().unwrap().len()), (&"memory".into(), 1));
}
