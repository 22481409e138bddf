//! The text of the embedded modules: the standard ones, and our own.

use std::sync::OnceLock;

use yang5::context::{EmbeddedModuleKey, EmbeddedModules};

include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// Submodules and the module that they belong to.
pub const SUBMODULES: &[(&str, &str)] =
    &[("ietf-ipv6-router-advertisements", "ietf-ipv6-unicast-routing")];

/// The embedded modules, each with its text.
pub fn sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    SOURCES.iter().copied()
}

/// The text of an embedded module.
pub fn source(module: &str) -> Option<&'static str> {
    SOURCES.iter().find(|(name, _)| *name == module).map(|(_, text)| *text)
}

/// The modules, as libyang asks for them.
pub(crate) fn embedded() -> &'static EmbeddedModules {
    static EMBEDDED: OnceLock<EmbeddedModules> = OnceLock::new();
    EMBEDDED.get_or_init(|| {
        let key = |name: &'static str| {
            let revision = source(name).and_then(revision);
            match SUBMODULES.iter().find(|(submodule, _)| *submodule == name) {
                Some((_, module)) => EmbeddedModuleKey::new(module, None, Some(name), revision),
                None => EmbeddedModuleKey::new(name, revision, None, None),
            }
        };
        SOURCES.iter().map(|(name, text)| (key(name), *text)).collect()
    })
}

/// The newest revision of a module, which is its first one.
pub(crate) fn revision(text: &'static str) -> Option<&'static str> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("revision "))?;
    let date = line.split_whitespace().next()?;
    Some(date.trim_matches(|letter| matches!(letter, '"' | '\'' | '{' | ';')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_revision_counts() {
        assert_eq!(source("ietf-ip").and_then(revision), Some("2018-02-22"));
    }
}
