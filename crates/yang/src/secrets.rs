//! The leaves of our modules that hold secrets: those marked `nacm:default-deny-all`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;

/// The leaf with lines of `set`: hidden from clients, but a file only has a secret if one of its lines sets one.
const KEPT_LINES: &str = "inactive-lines";

/// The names of these leaves, each once.
pub fn names() -> &'static [&'static str] {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names = Vec::new();
        for (_, text) in crate::own_sources() {
            let mut leaf = None;
            for line in text.lines().map(str::trim) {
                if let Some(name) = line.strip_prefix("leaf ") {
                    leaf = name.strip_suffix(" {");
                } else if line == "nacm:default-deny-all;" {
                    names.extend(leaf.take().filter(|name| !names.contains(name)));
                } else if !line.is_empty() {
                    leaf = None;
                }
            }
        }
        names
    })
}

/// Whether a JSON text has a member that is a secret.
pub fn is_in_json(text: &str) -> bool {
    let is_member = |name: &str, at: usize| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let after = after.strip_prefix('"').map(str::trim_start);
        before.ends_with(['"', ':']) && after.is_some_and(|after| after.starts_with(':'))
    };
    let has = |name: &str| text.match_indices(name).any(|(at, _)| is_member(name, at));
    let is_set = |name: &str| {
        let is_word = |at: usize| {
            text[..at].ends_with([' ', ':']) && text[at + name.len()..].starts_with(' ')
        };
        text.match_indices(name).any(|(at, _)| is_word(at))
    };
    names().iter().any(|name| match *name {
        KEPT_LINES => has(name) && names().iter().any(|name| is_set(name)),
        name => has(name),
    })
}

/// A warning if a file with this text contains secrets and others than its owner may access it.
pub fn exposed(file: &Path, text: &str) -> Option<String> {
    let mode = std::fs::metadata(file).ok()?.permissions().mode() & 0o777;
    let is_exposed = mode & 0o077 != 0 && is_in_json(text);
    let file = file.display();
    is_exposed.then(|| {
        format!(
            "{file} contains secrets, and others can read it (mode {mode:04o}): run `chmod 600 {file}`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secrets_of_the_modules_are_known() {
        assert_eq!(
            names(),
            ["inactive-lines", "secret", "key", "iv", "password-hash", "shared-secret"]
        );
    }

    #[test]
    fn secrets_in_a_configuration_are_found() {
        for text in [
            r#"{"memif": {"secret": "x"}}"#,
            r#"{"user": [{"stoa-management:password-hash" : "$argon2id$"}]}"#,
            r#"{"inactive-lines": "set interfaces interface m port memif secret x\n"}"#,
        ] {
            assert!(is_in_json(text), "{text}");
        }
        for text in [
            "{}",
            r#"{"description": "secret"}"#,
            r#"{"no-secret": 1}"#,
            r#"{"description": "the secret: none"}"#,
            r#"{"inactive-lines": "set interfaces interface m ipv4 mtu 9000\n"}"#,
        ] {
            assert!(!is_in_json(text), "{text}");
        }
    }
}
