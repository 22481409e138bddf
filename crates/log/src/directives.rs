//! Log levels, for all of Stoa or for single crates and modules.

use crate::LEVELS;

/// The filter directives of STOA_LOG or the configured level. A level without a name applies to the crates of Stoa;
/// other crates log at "warn" unless they are named.
///
/// # Errors
/// When `setting` is not understood, with the allowed values.
pub(crate) fn of(setting: &str) -> Result<String, String> {
    let (mut all, mut named) = (String::new(), Vec::new());
    for word in setting.split(',').map(str::trim) {
        let (target, level) = word.split_once('=').unwrap_or(("", word));
        let level = level.to_ascii_lowercase();
        let is_name = |target: &str| {
            target.chars().all(|letter| letter.is_ascii_alphanumeric() || "_:-".contains(letter))
        };
        let has_name = word.contains('=');
        if !LEVELS.contains(&level.as_str()) || has_name && target.is_empty() || !is_name(target) {
            return Err(format!(
                "STOA_LOG={setting}: {word:?} is not understood; use {} or, for one crate or \
                 module, NAME=LEVEL as in stoa_forwarder=debug, separated by commas",
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
    fn a_level_applies_to_our_crates_and_others_are_named() {
        let directives = |setting: &str| of(setting).unwrap();
        assert_eq!(directives("debug"), "warn,stoa=debug");
        assert_eq!(directives("ERROR"), "error");
        assert_eq!(directives("h2=trace"), "warn,stoa=info,h2=trace");
        assert_eq!(directives("off, stoa_forwarder=debug"), "off,stoa_forwarder=debug");
    }

    #[test]
    fn unknown_levels_are_refused_with_the_allowed_ones() {
        for wrong in ["nonsense", "info,", "=debug", "stoa=loud", "a b=info"] {
            let error = of(wrong).unwrap_err();
            assert!(error.starts_with(&format!("STOA_LOG={wrong}: ")), "{error}");
            assert!(error.contains("off, error, warn, info, debug, trace"), "{error}");
        }
    }
}
