//! The text of the modules: the standard ones and our own, which are embedded, and those that a program adds.

use std::sync::OnceLock;

use yang5::context::{EmbeddedModuleKey, EmbeddedModules};

include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// Submodules and the module that they belong to.
pub const SUBMODULES: &[(&str, &str)] =
    &[("ietf-ipv6-router-advertisements", "ietf-ipv6-unicast-routing")];

/// A module that a program adds to the schema.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
    /// Its features.
    pub features: &'static [&'static str],
}

/// The modules that were added in this process.
static ADDED: OnceLock<Vec<Module>> = OnceLock::new();

/// Adds modules: once, before the schema is used.
///
/// # Panics
/// If it is too late: an error of the program.
pub fn add(modules: Vec<Module>) {
    assert!(ADDED.set(modules).is_ok(), "modules are added once, before the schema is used");
}

/// The modules that were added.
pub fn added() -> &'static [Module] {
    ADDED.get_or_init(Vec::new)
}

/// The modules of the schema, each with its text.
pub fn sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    let added = added().iter().map(|module| (module.name, module.text));
    SOURCES.iter().copied().chain(added)
}

/// Those that are not standard modules.
pub fn own_sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_added = |name| added().iter().any(|module| module.name == name);
    sources().filter(move |(name, _)| name.starts_with("stoa-") || is_added(*name))
}

/// The text of a module.
pub fn source(module: &str) -> Option<&'static str> {
    sources().find(|(name, _)| *name == module).map(|(_, text)| text)
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
        sources().map(|(name, text)| (key(name), text)).collect()
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
