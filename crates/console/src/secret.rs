//! Lines with a secret, which the history of the console must not store.

use stoa_yang::secrets::names;

use crate::line::split;

/// Whether a line names a secret leaf, and so may contain its value. The name may have a module prefix or quotes, and
/// any beginning of it may be typed. The first word is a command.
pub fn is_in(line: &str) -> bool {
    let by_blanks = || line.split_whitespace().map(|word| word.replace(['"', '\''], "")).collect();
    let words: Vec<String> = split(line).unwrap_or_else(|_| by_blanks());
    let is_secret = |word: &String| {
        let bare = word.rsplit(':').next().unwrap_or_default();
        !bare.is_empty() && names().iter().any(|name| name.starts_with(bare))
    };
    words.iter().skip(1).any(is_secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_secrets_are_detected() {
        for line in [
            "set interfaces interface a port memif secret xyz",
            "set int int a port memif sec xyz",
            "se int int a port memif s xyz",
            "set management user ann password-hash '$argon2id$v=19$m=8'",
            "set management user ann pass '$argon2id$v=19$m=8",
            "  set \"stoa-management:password-hash\" x",
            "  set stoa-management:'pass'word x",
        ] {
            assert!(is_in(line), "{line}");
        }
        for line in [
            "show interfaces",
            "set management user ann admin true",
            "set interfaces interface secretary description \"\"",
            "commit",
            "s",
            "",
        ] {
            assert!(!is_in(line), "{line}");
        }
    }
}
