//! The list of capabilities. Those that are not here yet have their parts in `config`, `state` and `metrics`.

use std::sync::OnceLock;

use stoa_yang::Valid;
use stoa_yang::error::{ValidationError, ValidationErrors};

use super::Capability;
use crate::config::settings::Settings;
use crate::config::{self, Translated};
use crate::{logging, punts};

/// The capabilities of this tree.
const CAPABILITIES: &[&dyn Capability] = &[&logging::Logging, &punts::Punts];

/// Those of plugins.
static ADDED: OnceLock<Vec<Box<dyn Capability>>> = OnceLock::new();

/// Adds the capabilities of plugins: once, before a configuration is read.
///
/// # Panics
/// If it is too late: an error of the program.
pub fn add(capabilities: Vec<Box<dyn Capability>>) {
    assert!(ADDED.set(capabilities).is_ok(), "capabilities are added once, before their use");
}

/// All capabilities.
pub(crate) fn all() -> impl Iterator<Item = &'static dyn Capability> {
    let added = ADDED.get_or_init(Vec::new).iter().map(Box::as_ref);
    CAPABILITIES.iter().copied().chain(added)
}

/// Translates a configuration, and adds what is wrong with it to `errors`.
///
/// # Errors
/// When the model does not fit the YANG modules, which is a bug.
pub(crate) fn translate(
    valid: &Valid<'_>,
    errors: &mut ValidationErrors,
) -> Result<Translated, Vec<ValidationError>> {
    let mut settings = Settings::of(valid)?;
    let mut translated = config::translate(&mut settings, &valid.given, errors);
    all().for_each(|capability| capability.translate(&settings, &mut translated, errors));
    Ok(translated)
}
