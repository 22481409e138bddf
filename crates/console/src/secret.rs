//! Lines with a secret, which the history of the console must not store.

use std::sync::OnceLock;

/// Names of the leaves of our modules and of plugins that are `nacm:default-deny-all`.
fn names() -> &'static [&'static str] {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names = Vec::new();
        for (_, text) in stoa_yang::own_sources() {
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

/// Whether a line names a secret leaf, and so may contain its value. The name may have a module prefix or quotes.
pub fn is_in(line: &str) -> bool {
    let bare = |word: &str| word.trim_matches(['"', '\'']).rsplit(':').next().map(str::to_owned);
    line.split_whitespace().filter_map(bare).any(|word| names().contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_secrets_are_detected() {
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
