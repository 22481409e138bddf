//! The log: what of it is shown, and where to.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// How much is told, least first.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Logs to standard error, for people: from `usual` up, unless STOA_LOG says else.
///
/// # Errors
/// Wrong usage: STOA_LOG is not understood.
pub fn start(usual: &str) -> Result<(), Failure> {
    let asked = std::env::var_os("STOA_LOG").unwrap_or_default();
    let asked = asked.to_string_lossy();
    let directives = directives(if asked.is_empty() { usual } else { &asked });
    let filter = directives.map_err(Failure::Usage)?;
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        // Told by `eprintln!`, which panics: a router must outlive who read its log.
        .log_internal_errors(false)
        .init();
    Ok(())
}

/// What the filter is told. A level alone is meant for our own crates: those of others are
/// heard from "warn" up, unless they are asked for by name.
fn directives(asked: &str) -> Result<String, String> {
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
        let told = |asked: &str| directives(asked).unwrap();
        assert_eq!(told("debug"), "warn,stoa=debug");
        assert_eq!(told("ERROR"), "error");
        assert_eq!(told("h2=trace"), "warn,stoa=info,h2=trace");
        assert_eq!(told("off, stoa_forwarder=debug"), "off,stoa_forwarder=debug");
    }

    #[test]
    fn nonsense_is_refused_with_what_is_allowed() {
        for wrong in ["nonsense", "info,", "=debug", "stoa=loud", "a b=info"] {
            let words = directives(wrong).unwrap_err();
            assert!(words.starts_with(&format!("STOA_LOG={wrong}: ")), "{words}");
            assert!(words.contains("off, error, warn, info, debug, trace"), "{words}");
        }
    }
}
