//! What of the log is told: levels, for all of Stoa or for one part of it.

use crate::LEVELS;

/// What the filter is told. A level alone is meant for our own crates: those of others are
/// heard from "warn" up, unless they are asked for by name.
///
/// # Errors
/// What was asked is not understood; says what is.
pub(crate) fn of(asked: &str) -> Result<String, String> {
    let (mut all, mut named) = (String::new(), Vec::new());
    for word in asked.split(',').map(str::trim) {
        let (target, level) = word.split_once('=').unwrap_or(("", word));
        let level = level.to_ascii_lowercase();
        let is_name = |target: &str| {
            target.chars().all(|letter| letter.is_ascii_alphanumeric() || "_:-".contains(letter))
        };
        let has_name = word.contains('=');
        if !LEVELS.contains(&level.as_str()) || has_name && target.is_empty() || !is_name(target) {
            return Err(format!(
                "STOA_LOG={asked}: {word:?} is not understood; give {} or, for one crate or \
                 module, NAME=LEVEL as in stoa_forwarder=debug, with commas between",
                LEVELS.join(", ")
            ));
        }
        match (has_name, level.as_str()) {
            (true, _) => named.push(format!("{target}={level}")),
            (false, "info" | "debug" | "trace") => all = format!("warn,stoa={level}"),
            (false, _) => all = level,
        }
    }
    let all = if all.is_empty() { "warn,stoa=info".to_owned() } else { all };
    Ok(std::iter::once(all).chain(named).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_for_our_crates_and_others_are_asked_by_name() {
        let told = |asked: &str| of(asked).unwrap();
        assert_eq!(told("debug"), "warn,stoa=debug");
        assert_eq!(told("ERROR"), "error");
        assert_eq!(told("h2=trace"), "warn,stoa=info,h2=trace");
        assert_eq!(told("off, stoa_forwarder=debug"), "off,stoa_forwarder=debug");
    }

    #[test]
    fn nonsense_is_refused_with_what_is_allowed() {
        for wrong in ["nonsense", "info,", "=debug", "stoa=loud", "a b=info"] {
            let words = of(wrong).unwrap_err();
            assert!(words.starts_with(&format!("STOA_LOG={wrong}: ")), "{words}");
            assert!(words.contains("off, error, warn, info, debug, trace"), "{words}");
        }
    }
}
