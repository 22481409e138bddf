//! Sessions in the console and the same commands of the shell, with a router whose ports are in memory.

mod testbed;

use std::path::Path;

use testbed::{Router, err, out, stoa};

#[test]
fn commands_are_abbreviated_and_have_synonyms() {
    for abbreviated in [&["sh", "int"][..], &["show", "neigh"], &["stat"]] {
        let output = stoa(Path::new("/nowhere"), abbreviated).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        assert!(err(&output).contains("no router runs on /nowhere"), "{}", err(&output));
    }
    for (usual, here) in [(&["show", "vlans"][..], "show interfaces"), (&["tcpdump"], "capture")] {
        let output = stoa(Path::new("/nowhere"), usual).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        assert!(err(&output).contains(&format!("use `stoa {here}`")), "{}", err(&output));
    }
}

#[test]
fn words_are_abbreviated_and_explained_in_the_console() {
    let router = Router::start();
    let shown =
        router.types(&["sh int", "conf", "set int int lan desc office", "sh | comp", "disc", "ex"]);
    assert!(shown.contains("10.1.0.1/24"), "{shown}");
    assert!(shown.contains("+ interfaces interface lan description office"), "{shown}");
    let help = router.types(&["?", "show ?", "configure", "set interfaces interface ?"]);
    assert!(help.contains("  traceroute") && help.contains("  neighbors "), "{help}");
    assert!(help.contains("  lan ") && help.contains("  <name>"), "{help}");
    let ambiguous = router.fails(&["configure", "co"]);
    assert!(ambiguous.contains("it is ambiguous: use commit or compare"), "{ambiguous}");
    let unknown = router.fails(&["configure", "no description"]);
    assert!(unknown.contains("use `delete`"), "{unknown}");
    let unknown = err(&router.console(&["show vlans"]));
    assert!(unknown.contains("use `stoa show interfaces`"), "{unknown}");
    assert!(out(&router.console(&["tcpdump"])).is_empty());
}
