//! Lines that give a secret: they are not to be remembered.

use std::sync::OnceLock;

use stoa_controller::yang;

/// Names of the leaves of ours that are marked `nacm:default-deny-all`, as the texts of the modules have them.
fn names() -> &'static [&'static str] {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names = Vec::new();
        for (_, text) in yang::sources().filter(|(module, _)| module.starts_with("stoa-")) {
            let mut leaf = None;
            for line in text.lines().map(str::trim) {
                if let Some(name) = line.strip_prefix("leaf ") {
                    leaf = name.strip_suffix(" {");
                } else if line == "nacm:default-deny-all;" {
                    names.extend(leaf.take());
                } else if !line.is_empty() {
                    leaf = None;
                }
            }
        }
        names
    })
}

/// Whether a line of the console names a leaf that is a secret, and so may hold its value. It may be said by its module,
/// too, and in quotes.
pub fn is_in(line: &str) -> bool {
    let bare = |word: &str| word.trim_matches(['"', '\'']).rsplit(':').next().map(str::to_owned);
    line.split_whitespace().filter_map(bare).any(|word| names().contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_secrets_are_known() {
        assert_eq!(names(), ["secret", "shared-secret", "password-hash"]);
        for line in [
            "set interfaces interface a port memif secret xyz",
            "set management user ann password-hash '$argon2id$v=19$m=8'",
            "  set \"stoa-management:password-hash\" x",
        ] {
            assert!(is_in(line), "{line}");
        }
        for line in ["show interfaces", "set management user ann admin true", "commit", ""] {
            assert!(!is_in(line), "{line}");
        }
    }
}
