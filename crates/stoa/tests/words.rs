//! Private words stay out of what operators read: help, messages, YANG, the contract, metrics, README and guide.
//!
//! The changelog is left out: it names what was renamed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Words that the field does not use in this sense, and what it says instead.
const PRIVATE: [(&[&str], &str); 19] = [
    (&["door", "doors"], "route source, protocol, client"),
    (&["told", "said", "heard"], "reported, advertised, received"),
    (&["wanted"], "desired"),
    (&["mend", "mends", "mended", "mending"], "fix"),
    (&["finding", "findings"], "validation error, warning, note"),
    (&["books"], "packet accounting"),
    (&["sight"], "trace, capture"),
    (&["steward", "keeper"], "control loop, reconciler"),
    (&["mirror", "mirrors", "twin", "twins"], "host interface"),
    (&["trunk", "trunks"], "fast path"),
    (&["closer"], "slow path"),
    (&["trouble", "verdict", "verdicts"], "ICMP cause, special next hop"),
    (&["crew"], "worker pool"),
    (&["bell", "bells"], "wakeup"),
    (&["shelf", "shelves"], "packet FIFO"),
    (&["lobby", "basket", "baskets"], "listener, batch"),
    (&["story", "stories"], "scenario"),
    (&["overlay", "overlays"], "kernel configuration"),
    (&["anyway"], "force"),
];

/// Pairs of words, also joined by a hyphen or in the plural.
const PHRASES: [(&str, &str); 5] = [
    ("punt budget", "control-plane policer"),
    ("silent gateway", "BFD-down next hop"),
    ("event log", "log, events"),
    ("program log", "log"),
    ("audit trail", "audit log"),
];

/// Files that may contain a private word, and the reason.
const ALLOWED: [(&str, &[&str]); 5] = [
    // Names an old configuration may have, with the new ones.
    ("crates/yang/src/renamed_names.rs", &["mirror", "door", "mend", "anyway", "told", "sight"]),
    // A field in the history of earlier versions.
    ("crates/controller/src/datastore/history.rs", &["door"]),
    // The name of an interface: a VLAN trunk.
    ("docs/guide/interfaces.md", &["trunk"]),
    ("docs/guide/examples.md", &["trunk"]),
    // A device that is a VLAN trunk.
    ("crates/lab/src/vlan.rs", &["trunk"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every file below a folder with that ending.
fn files(folder: &Path, end: &str, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, end, into);
        } else if path.to_string_lossy().ends_with(end) {
            into.push(path);
        }
    }
}

/// The private words of a text, each with its line and what to write instead.
fn private_words(origin: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let plain = line.to_ascii_lowercase().replace(['-', '_'], " ");
        for (phrase, instead) in PHRASES.iter().filter(|(phrase, _)| plain.contains(phrase)) {
            faults
                .push(format!("{origin}:{number}: \"{phrase}\": write {instead}: {}", line.trim()));
        }
        for word in line.split(|letter: char| !letter.is_ascii_alphabetic()) {
            let lower = word.to_ascii_lowercase();
            let is_allowed =
                ALLOWED.iter().any(|(file, words)| *file == origin && words.contains(&&*lower));
            let known = PRIVATE.iter().find(|(words, _)| words.contains(&&*lower));
            if let Some((_, instead)) = known.filter(|_| !is_allowed) {
                faults.push(format!(
                    "{origin}:{number}: \"{word}\": write {instead}: {}",
                    line.trim()
                ));
            }
        }
    }
    faults
}

/// The string literals of a Rust source before its unit tests, without `{variable}`; line numbers stay.
fn literals(source: &str) -> String {
    let mut kept = String::new();
    let is_tests = |(at, mark): &(usize, &str)| {
        let item = source[at + mark.len()..].lines().nth(1);
        item.is_some_and(|item| item.starts_with("mod ") && item.ends_with('{'))
    };
    // `mod tests;` may come first, before code.
    let end =
        source.match_indices("#[cfg(test)]").find(is_tests).map_or(source.len(), |(at, _)| at);
    let source = &source[..end];
    let mut letters = source.chars().peekable();
    let (mut is_literal, mut last) = (false, ' ');
    while let Some(letter) = letters.next() {
        match letter {
            '\n' => kept.push('\n'),
            '/' if !is_literal && letters.peek() == Some(&'/') => {
                while letters.peek().is_some_and(|next| *next != '\n') {
                    letters.next();
                }
            }
            // The character '"' does not start a literal.
            '"' if !is_literal && last == '\'' => {}
            '"' => {
                is_literal = !is_literal;
                kept.push(' ');
            }
            '\\' if is_literal => {
                if letters.next() == Some('\n') {
                    kept.push('\n');
                }
                kept.push(' ');
            }
            // The name of a variable is not part of the message.
            '{' if is_literal => {
                while letters.peek().is_some_and(|next| !"}\"\n".contains(*next)) {
                    letters.next();
                }
            }
            letter if is_literal => kept.push(letter),
            _ => {}
        }
        last = letter;
    }
    kept
}

#[track_caller]
fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{} private words:\n{}", faults.len(), faults.join("\n"));
}

/// Checks all files below `folders` (or files themselves) with that ending.
fn check(folders: &[&str], end: &str, least: usize, read: impl Fn(&str) -> String) {
    let mut found = Vec::new();
    for folder in folders {
        let path = root().join(folder);
        if path.is_dir() { files(&path, end, &mut found) } else { found.push(path) }
    }
    // Unit tests in files of their own write no messages for operators.
    found.retain(|path| !path.ends_with("tests.rs") && !path.iter().any(|part| part == "tests"));
    assert!(found.len() >= least, "{} files in {folders:?}", found.len());
    let faults: Vec<String> = found
        .iter()
        .flat_map(|path| {
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            private_words(&name, &read(&std::fs::read_to_string(path).unwrap()))
        })
        .collect();
    assert_none(&faults);
}

#[test]
fn private_words_are_found() {
    assert_eq!(private_words("a", "show doors\nleaf mend-it {").len(), 2);
    assert_eq!(private_words("a", "outdoors, recommend").len(), 0);
    assert_eq!(private_words("a", "Punt budgets, a silent-gateway, a punt").len(), 2);
    assert_eq!(
        literals("say(\"told\"); // heard\nlet a = '\"';\n\"a\\\"door\""),
        " told \n\n a door "
    );
    assert_eq!(literals("say(\"a {told:?} b\")"), " a } b ");
    let tests = "#[cfg(test)]\nmod a;\nsay(\"b\");\n#[cfg(test)]\nmod c {\nsay(\"d\");\n}";
    assert_eq!(literals(tests).trim(), "b");
}

#[test]
fn yang_uses_the_words_of_the_field() {
    let mut modules = Vec::new();
    files(&root().join("yang"), ".yang", &mut modules);
    let ours = modules
        .iter()
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("stoa-"));
    let ours: Vec<String> =
        ours.map(|path| path.strip_prefix(root()).unwrap().display().to_string()).collect();
    let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
    check(&ours, ".yang", 12, str::to_owned);
}

#[test]
fn the_contract_uses_the_words_of_the_field() {
    check(&["crates/api/proto/stoa"], ".proto", 4, str::to_owned);
}

#[test]
fn pages_use_the_words_of_the_field() {
    check(
        &[
            "README.md",
            "ARCHITECTURE.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
            "bench/README.md",
            "fuzz/README.md",
            "docs",
        ],
        ".md",
        120,
        str::to_owned,
    );
}

/// Commands, errors, log lines, metrics, state: all output of the programs.
#[test]
fn messages_use_the_words_of_the_field() {
    let crates = [
        "api",
        "bgp",
        "console",
        "controller",
        "delta",
        "engine",
        "forwarder",
        "lab",
        "log",
        "memif",
        "northbound",
        "ports",
        "stoa",
        "tables",
        "traffic",
        "warm-restart",
        "wire",
        "yang",
    ];
    let folders = crates.map(|name| format!("crates/{name}/src"));
    check(&folders.each_ref().map(String::as_str), ".rs", 400, literals);
}

/// The help of a command and of all below it.
fn help(path: &[&str], faults: &mut Vec<String>, commands: &mut usize) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stoa"));
    let output = command.args(path).arg("--help").output().unwrap();
    assert!(output.status.success(), "{path:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    faults.extend(private_words(&format!("stoa {} --help", path.join(" ")), &text));
    *commands += 1;
    let list = text.split("\nCommands:\n").nth(1).unwrap_or_default();
    let below = list.lines().take_while(|line| line.starts_with("  "));
    for name in below
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
    {
        if name != "help" {
            help(&[path, &[name]].concat(), faults, commands);
        }
    }
}

#[test]
fn help_uses_the_words_of_the_field() {
    let (mut faults, mut commands) = (Vec::new(), 0);
    help(&[], &mut faults, &mut commands);
    assert!(commands > 40, "{commands} commands");
    assert_none(&faults);
}
